package dev.tandem.text.jinja;

/** A lexical element; {@code text} is the literal's value or the symbol itself. */
record Token(Kind kind, String text, int line) {
    enum Kind {
        TEXT,
        OUTPUT_START,
        OUTPUT_END,
        BLOCK_START,
        BLOCK_END,
        NAME,
        STRING,
        INTEGER,
        REAL,
        SYMBOL,
        END
    }

    boolean is(Kind wanted, String wantedText) {
        return kind == wanted && text.equals(wantedText);
    }
}
