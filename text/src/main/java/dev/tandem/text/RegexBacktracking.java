package dev.tandem.text;

import java.util.Locale;

/**
 * Bounds how often Oniguruma, the tokenizer library's regex engine, backtracks in one match. After
 * {@value #MAX_RETRIES} retries Oniguruma returns an error, and the library then ends the process. A pattern is
 * therefore accepted only when its retries grow at most linearly with the text, and the text's length is limited.
 *
 * <p>The bound follows from the pattern's structure. Each part has a number of ways to match at one position; a
 * repeated character class, for example, has as many as the text has characters. Each part also has a number of
 * failures while all ways are tried. In a sequence, the rest is tried once per way of the part before it. When nothing
 * after a part can fail, its first success ends the match. Unknown syntax is refused.
 *
 * <p>Owned by: the thread that calls {@link #of}.
 */
final class RegexBacktracking {
    /** Oniguruma's default of {@code retry-limit-in-match}; the library does not change it. */
    static final int MAX_RETRIES = 10_000_000;
    /** Patterns of tokenizers have about 500 characters and nest groups 4 deep. */
    private static final int MAX_PATTERN = 10_000;

    private static final int MAX_DEPTH = 50;
    /** Oniguruma unrolls bounded repetitions such as {@code x{1000}} when it compiles them. */
    private static final int MAX_REPEAT = 1_000;

    /** A number of retries, {@code constant + slope * characters}; an infinite slope means more than linear. */
    record Cost(double constant, double slope) {
        static final Cost ZERO = new Cost(0, 0);
        static final Cost ONE = new Cost(1, 0);

        Cost plus(Cost other) {
            return new Cost(constant + other.constant, slope + other.slope);
        }

        Cost times(Cost other) {
            boolean quadratic = slope > 0 && other.slope > 0;
            double product = slope * other.constant + constant * other.slope; // 0 * infinity is NaN
            return new Cost(
                    constant * other.constant, quadratic || Double.isNaN(product) ? Double.POSITIVE_INFINITY : product);
        }

        /**
         * The max characters of a text that needs at most {@link #MAX_RETRIES}; 0 when the cost is more than linear.
         */
        int maxCharacters() {
            double left = MAX_RETRIES - constant;
            return (int) Math.clamp(left / Math.max(slope, 1e-9), 0, Integer.MAX_VALUE);
        }
    }

    /**
     * A part of the pattern.
     *
     * @param ways to match at one position
     * @param all failures while all ways are tried, without the failures of the parts after it
     * @param none failures until it is clear that no way matches
     * @param first failures until the first way matches, or all have failed
     * @param always whether it matches at every position
     * @param character whether it always matches exactly one character
     */
    private record Part(Cost ways, Cost all, Cost none, Cost first, boolean always, boolean character) {
        static final Part EMPTY = new Part(Cost.ONE, Cost.ZERO, Cost.ZERO, Cost.ZERO, true, false);
        static final Part CHARACTER = new Part(Cost.ONE, Cost.ONE, Cost.ONE, Cost.ONE, false, true);
        static final Part ASSERTION = new Part(Cost.ONE, Cost.ONE, Cost.ONE, Cost.ONE, false, false);

        Part then(Part next) {
            Cost failed = all.plus(ways.times(next.none));
            return new Part(
                    ways.times(next.ways),
                    all.plus(ways.times(next.all)),
                    next.always ? none : failed,
                    next.always ? first.plus(next.first) : failed.plus(next.first),
                    always && next.always,
                    false);
        }

        Part or(Part other) {
            return new Part(
                    ways.plus(other.ways),
                    all.plus(other.all),
                    none.plus(other.none),
                    first.plus(other.first),
                    always || other.always,
                    false);
        }

        /** An atomic group: the first way that matches is kept. */
        Part atomic() {
            return once(always);
        }

        /** A lookahead or lookbehind, which may fail at any position. */
        Part assertion() {
            return once(false);
        }

        private Part once(boolean matchesAnywhere) {
            Cost failures = first.plus(Cost.ONE);
            return new Part(Cost.ONE, failures, failures, failures, matchesAnywhere, false);
        }

        Part optional() {
            return new Part(ways, all, Cost.ZERO, first, true, false);
        }
    }

    private final String pattern;
    private int at;
    private int depth;
    private int parts;
    private boolean ignoresCase;

    private RegexBacktracking(String pattern) {
        this.pattern = pattern;
    }

    /**
     * @throws TokenizerException when backtracking may grow more than linearly with the text, or the syntax is unknown
     */
    static Cost of(String pattern) {
        if (pattern.length() > MAX_PATTERN) {
            throw new TokenizerException(
                    "a pattern has " + pattern.length() + " characters; the limit is " + MAX_PATTERN);
        }
        RegexBacktracking parser = new RegexBacktracking(pattern);
        Part whole = parser.alternatives();
        if (parser.at < pattern.length()) {
            throw parser.refused("a parenthesis is closed that was not opened");
        }
        if (whole.first().maxCharacters() == 0) {
            throw parser.refused("its backtracking can grow faster than the text");
        }
        return whole.first();
    }

    private TokenizerException refused(String reason) {
        return new TokenizerException("the pattern " + pattern + " is refused at character " + at + ": " + reason);
    }

    private Part alternatives() {
        if (++depth > MAX_DEPTH) {
            throw refused("groups are nested more than " + MAX_DEPTH + " deep");
        }
        boolean outer = ignoresCase;
        Part part = sequence();
        while (next('|')) {
            part = part.or(sequence());
        }
        ignoresCase = outer;
        depth--;
        return part;
    }

    /** Combines parts from right to left, because the cost of a part depends on whether a later part can fail. */
    private Part sequence() {
        if (at >= pattern.length() || peek() == '|' || peek() == ')') {
            return Part.EMPTY;
        }
        Part head = repeated(atom());
        Part tail = sequenceAfter();
        return tail == Part.EMPTY ? head : head.then(tail);
    }

    private Part sequenceAfter() {
        // a sequence is parsed by recursion; 1,000 levels are enough for the patterns of tokenizers
        if (++parts > 1_000) {
            throw refused("it has more than 1000 parts in sequence");
        }
        Part tail = sequence();
        parts--;
        return tail;
    }

    private Part repeated(Part atom) {
        Part part = atom;
        while (at < pattern.length()) {
            int from = at;
            int min;
            int max = Integer.MAX_VALUE;
            boolean braces = false;
            if (next('*')) {
                min = 0;
            } else if (next('+')) {
                min = 1;
            } else if (next('?')) {
                min = 0;
                max = 1;
            } else {
                int[] bounds = bounds();
                if (bounds.length == 0) {
                    at = from;
                    return part;
                }
                min = bounds[0];
                max = bounds[1];
                braces = true;
            }
            boolean lazy = next('?');
            if (lazy && braces && min == max) {
                min = 0; // x{3}? is an optional x{3}
            }
            // after braces a plus repeats once more
            boolean possessive = !lazy && !braces && next('+');
            Part repeated = repeat(part, min, max);
            part = possessive ? repeated.atomic() : repeated;
        }
        return part;
    }

    /** The bounds of {@code {n}}, {@code {n,}}, {@code {,m}} or {@code {n,m}}; empty for a literal brace. */
    private int[] bounds() {
        if (!next('{')) {
            return new int[0];
        }
        int end = pattern.indexOf('}', at);
        String[] bounds = end < 0 ? new String[0] : pattern.substring(at, end).split(",", -1);
        boolean numbers = bounds.length == 1 && bounds[0].matches("[0-9]{1,6}")
                || bounds.length == 2
                        && bounds[0].matches("[0-9]{0,6}")
                        && bounds[1].matches("[0-9]{0,6}")
                        && !(bounds[0] + bounds[1]).isEmpty();
        if (!numbers) {
            return new int[0];
        }
        at = end + 1;
        int min = bounds[0].isEmpty() ? 0 : Integer.parseInt(bounds[0]);
        int max = bounds.length == 1 ? min : bounds[1].isEmpty() ? Integer.MAX_VALUE : Integer.parseInt(bounds[1]);
        if (min > MAX_REPEAT || max < Integer.MAX_VALUE && max > MAX_REPEAT || min > max) {
            throw refused("a repetition of {" + String.join(",", bounds) + "}; the limit is " + MAX_REPEAT);
        }
        return new int[] {min, max};
    }

    private Part repeat(Part part, int min, int max) {
        boolean unbounded = max == Integer.MAX_VALUE;
        if (part.character()) {
            if (unbounded && ignoresCase) {
                throw refused("an unbounded repetition that ignores case, in which one letter may match two");
            }
            Cost ways = unbounded ? new Cost(1, 1) : new Cost(max - min + 1, 0);
            Part repeated = new Part(ways, Cost.ONE, Cost.ONE, Cost.ONE, false, false);
            return min == 0 ? repeated.optional() : repeated;
        }
        if (unbounded) {
            if (!part.ways().equals(Cost.ONE) || part.always()) {
                throw refused("an unbounded repetition of a part that matches in several ways");
            }
            Cost rounds = new Cost(1, 1);
            Cost all = part.all().times(rounds);
            Part repeated = new Part(rounds, all, all, all, false, false);
            return min == 0 ? repeated.optional() : repeated;
        }
        Part repeated = Part.EMPTY;
        for (int i = max; i > 0; i--) {
            Part longer = part.then(repeated);
            repeated = i > min ? Part.EMPTY.or(longer) : longer;
        }
        if (repeated.ways().constant() > MAX_RETRIES || repeated.all().constant() > MAX_RETRIES) {
            throw refused("a repetition matches in too many ways");
        }
        return min == 0 ? repeated.optional() : repeated;
    }

    private Part atom() {
        char c = pattern.charAt(at++);
        return switch (c) {
            case '(' -> group();
            case '[' -> {
                characterClass();
                yield Part.CHARACTER;
            }
            case '\\' -> escape();
            case '^', '$' -> Part.ASSERTION;
            case '*', '+', '?' -> throw refused("a repetition of nothing");
            default -> {
                if (Character.isHighSurrogate(c) && at < pattern.length() && Character.isLowSurrogate(peek())) {
                    at++;
                }
                yield Part.CHARACTER;
            }
        };
    }

    private Part group() {
        if (!next('?')) {
            if (at < pattern.length() && peek() == '*') {
                throw refused("callouts are not supported");
            }
            return closed(alternatives());
        }
        if (nextAll("=") || nextAll("!") || nextAll("<=") || nextAll("<!")) {
            return closed(alternatives()).assertion();
        }
        if (nextAll(">")) {
            return closed(alternatives()).atomic();
        }
        if (nextAll("#")) {
            int end = pattern.indexOf(')', at);
            at = end < 0 ? pattern.length() : end;
            return closed(Part.EMPTY);
        }
        if (nextAll("<")) {
            int end = pattern.indexOf('>', at);
            if (end < 0) {
                throw refused("a group's name does not end");
            }
            at = end + 1;
            return closed(alternatives());
        }
        return options();
    }

    /** {@code (?i:…)}, {@code (?:…)}, {@code (?-i:…)}, or {@code (?i)} for the rest of the enclosing group. */
    private Part options() {
        boolean outer = ignoresCase;
        boolean on = true;
        while (at < pattern.length() && "im-".indexOf(peek()) >= 0) {
            char option = pattern.charAt(at++);
            on &= option != '-';
            ignoresCase = option == 'i' ? on : ignoresCase;
        }
        if (next(':')) {
            Part part = closed(alternatives());
            ignoresCase = outer;
            return part;
        }
        if (next(')')) {
            // as in Oniguruma, the option applies to the rest of the group, including its alternatives
            return alternatives();
        }
        throw refused("a group of an unknown kind");
    }

    private Part closed(Part part) {
        if (!next(')')) {
            throw refused("a group is not closed");
        }
        return part;
    }

    private void characterClass() {
        if (++depth > MAX_DEPTH) {
            throw refused("classes are nested more than " + MAX_DEPTH + " deep");
        }
        next('^');
        next(']'); // a leading one is literal
        while (!next(']')) {
            if (at >= pattern.length()) {
                throw refused("a class is not closed");
            }
            char c = pattern.charAt(at++);
            if (c == '\\') {
                if (escape() != Part.CHARACTER) {
                    throw refused("an escape that is not a character");
                }
            } else if (c == '[') {
                int name = pattern.startsWith(":", at) ? pattern.indexOf(":]", at + 1) : -1;
                if (name > 0) {
                    at = name + 2;
                } else {
                    characterClass();
                }
            }
        }
        depth--;
    }

    private Part escape() {
        if (at >= pattern.length()) {
            throw refused("an escape is cut off");
        }
        char c = pattern.charAt(at++);
        switch (c) {
            case 'p', 'P', 'x', 'u' -> {
                boolean braces = at < pattern.length() && peek() == '{';
                if (c == 'p' || c == 'P' || braces) {
                    int end = braces ? pattern.indexOf('}', at) : -1;
                    if (end < 0) {
                        throw refused("\\" + c + " needs braces");
                    }
                    at = end + 1;
                } else {
                    for (int i = 0;
                            i < (c == 'x' ? 2 : 4) && at < pattern.length() && Character.digit(peek(), 16) >= 0;
                            i++) {
                        at++;
                    }
                }
                return Part.CHARACTER;
            }
            case 'R' -> {
                return Part.CHARACTER.or(Part.CHARACTER).atomic();
            }
            case 'b', 'B', 'A', 'z', 'Z', 'G' -> {
                return Part.ASSERTION;
            }
            default -> {
                String kind = String.valueOf(c).toLowerCase(Locale.ROOT);
                boolean letterOrDigit = c < 128 && Character.isLetterOrDigit(c);
                if (letterOrDigit && !"sdwh".contains(kind) && "tnrfvaeON0".indexOf(c) < 0) {
                    throw refused("the escape \\" + c + " is not supported");
                }
                return Part.CHARACTER;
            }
        }
    }

    private char peek() {
        return pattern.charAt(at);
    }

    private boolean next(char c) {
        if (at < pattern.length() && peek() == c) {
            at++;
            return true;
        }
        return false;
    }

    private boolean nextAll(String s) {
        if (pattern.startsWith(s, at)) {
            at += s.length();
            return true;
        }
        return false;
    }
}
