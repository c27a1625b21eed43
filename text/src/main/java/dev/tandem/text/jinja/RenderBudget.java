package dev.tandem.text.jinja;

/**
 * What one rendering may use. A template comes with a model and its input with a request; neither is trusted to end, or
 * to fit into memory. Every limit lies far above what the longest context known (a million tokens) asks for.
 *
 * <p>Owned by: the thread that renders.
 */
final class RenderBudget {
    /** A conversation of 26,000 messages, the most that 131,072 tokens hold, takes some 5,000,000 steps. */
    static final long MAX_STEPS = 20_000_000;
    /** Of the output, and of any string on the way. */
    static final int MAX_TEXT = 16 << 20;
    /** Of all values that a rendering makes; they are alive together at worst. */
    static final long MAX_TOTAL = 64 << 20;
    /** What a list element is counted as: its object and the list's reference to it. */
    static final int ELEMENT = 32;
    /** Nested evaluations: blocks, expressions and macros together. Some 500 bytes of stack each. */
    static final int MAX_DEPTH = 500;
    /** Lists and mappings inside each other; JSON that arrives is nested at most 500 deep. */
    static final int MAX_NESTING = 510;
    /** Jinja's sandbox has the same. */
    static final long MAX_RANGE = 100_000;

    private long steps;
    private long total;
    private int depth;

    /** Counts work that takes about as long as one evaluation, {@code count} times. */
    void steps(long count) {
        if (count > MAX_STEPS - steps) {
            throw new JinjaException("the template takes more than " + MAX_STEPS + " steps");
        }
        steps += count;
    }

    /** Counts reading {@code characters}: a step for every 64. */
    void read(long characters) {
        steps(1 + characters / 64);
    }

    /** Allows a string of this length, before it is made. */
    void text(long characters) {
        if (characters > MAX_TEXT) {
            throw new JinjaException(
                    "the template makes a text of " + characters + " characters; the limit is " + MAX_TEXT);
        }
        allocate(characters);
        read(characters);
    }

    /** Counts a string that is there already and could not have been much longer than what it was made of. */
    String made(String text) {
        text(text.length());
        return text;
    }

    /** Allows this many list elements or entries of mappings, before they are made. */
    void elements(long count) {
        allocate(count > MAX_TOTAL ? count : count * ELEMENT);
        steps(count);
    }

    private void allocate(long characters) {
        if (characters > MAX_TOTAL - total) {
            throw new JinjaException("the template's values take more than " + MAX_TOTAL
                    + " characters in all, a list element counted as " + ELEMENT);
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

    /** @param level how many lists and mappings are around a value */
    static void nested(int level) {
        if (level > MAX_NESTING) {
            throw new JinjaException("lists and mappings are nested more than " + MAX_NESTING + " deep");
        }
    }
}
