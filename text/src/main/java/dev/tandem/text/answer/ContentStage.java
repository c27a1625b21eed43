package dev.tandem.text.answer;

/**
 * Takes all text as content.
 *
 * <p>Owned by: one parser.
 */
record ContentStage(PartBuffer parts) implements Stage {
    @Override
    public void next(char c) {
        parts.content(c);
    }

    @Override
    public void finish() {}
}
