package dev.tandem.text.jinja;

/**
 * A string builder that checks the render budget as it grows.
 *
 * <p>Owned by: the thread that renders.
 */
final class TextBuilder {
    private final RenderBudget budget;
    private final StringBuilder text = new StringBuilder();

    TextBuilder(RenderBudget budget) {
        this.budget = budget;
    }

    TextBuilder append(String part) {
        return append(part, 0, part.length());
    }

    TextBuilder append(String source, int from, int to) {
        grow(to - from);
        text.append(source, from, to);
        return this;
    }

    TextBuilder append(char c) {
        grow(1);
        text.append(c);
        return this;
    }

    TextBuilder appendCodePoint(int c) {
        grow(2);
        text.appendCodePoint(c);
        return this;
    }

    TextBuilder repeat(String part, long times) {
        grow(part.isEmpty() ? 0 : times > RenderBudget.MAX_TEXT ? times : part.length() * times);
        text.repeat(part, (int) times);
        return this;
    }

    private void grow(long characters) {
        if (text.length() + characters > RenderBudget.MAX_TEXT) {
            throw new JinjaException("the template makes a text of " + (text.length() + characters)
                    + " characters; the limit is " + RenderBudget.MAX_TEXT);
        }
        budget.text(characters);
    }

    boolean isEmpty() {
        return text.isEmpty();
    }

    @Override
    public String toString() {
        return text.toString();
    }
}
