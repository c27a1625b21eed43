package dev.tandem.text.jinja;

/**
 * Limits on the time, memory and stack of one rendering. A template comes with a model and its input with a request;
 * neither is trusted. All limits are far above the needs of the longest known context, a million tokens.
 *
 * <p>Owned by: the thread that renders.
 */
final class RenderBudget {
    /** A conversation of 26,000 messages, the max in 131,072 tokens, takes about 5,000,000 steps. */
    static final long MAX_STEPS = 20_000_000;
    /** Max characters of the output, and of any intermediate string. */
    static final int MAX_TEXT = 16 << 20;
    /** Max characters of all values that a rendering makes; in the worst case all are alive together. */
    static final long MAX_TOTAL = 64 << 20;
    /** Characters that a list element counts as: its object and the list's reference to it. */
    static final int ELEMENT = 32;
    /** Max nesting of blocks, expressions and macros together; each takes about 500 bytes of stack. */
    static final int MAX_DEPTH = 500;
    /** Max nesting of lists and mappings; the server accepts JSON that is nested up to 100 deep. */
    static final int MAX_NESTING = 510;
    /** The limit of Jinja's sandbox. */
    static final long MAX_RANGE = 100_000;

    private long steps;
    private long total;
    private int depth;

    /** Counts {@code count} steps; a step takes about as long as one evaluation. */
    void steps(long count) {
        if (count > MAX_STEPS - steps) {
            throw new JinjaException("the template takes more than " + MAX_STEPS + " steps");
        }
        steps += count;
    }

    /** Counts the reading of {@code characters}: one step per 64. */
    void read(long characters) {
        steps(1 + characters / 64);
    }

    /** Checks the length of a string before it is made. */
    void text(long characters) {
        if (characters > MAX_TEXT) {
            throw new JinjaException(
                    "the template makes a text of " + characters + " characters; the limit is " + MAX_TEXT);
        }
        allocate(characters);
        read(characters);
    }

    /** Counts an existing string, whose length was bounded by its input. */
    String made(String text) {
        text(text.length());
        return text;
    }

    /** Checks the number of list elements or mapping entries before they are made. */
    void elements(long count) {
        allocate(count > MAX_TOTAL ? count : count * ELEMENT);
        steps(count);
    }

    private void allocate(long characters) {
        if (characters > MAX_TOTAL - total) {
            throw new JinjaException("the template's values take more than " + MAX_TOTAL
                    + " characters in all; a list element counts as " + ELEMENT);
        }
        total += characters;
    }

    void enter() {
        steps(1);
        if (++depth > MAX_DEPTH) {
            throw new JinjaException(
                    "the template's blocks, expressions and macros are nested more than " + MAX_DEPTH + " deep");
        }
    }

    void leave() {
        depth--;
    }

    /** @param level number of lists and mappings around a value */
    static void nested(int level) {
        if (level > MAX_NESTING) {
            throw new JinjaException("lists and mappings are nested more than " + MAX_NESTING + " deep");
        }
    }
}
