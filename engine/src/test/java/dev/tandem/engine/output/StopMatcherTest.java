package dev.tandem.engine.output;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class StopMatcherTest {
    @Test
    void holdsBackOnlyWhatMayBecomeAStop() {
        StopMatcher matcher = new StopMatcher(List.of("</end>"), false);
        assertThat(matcher.append("text <")).isEqualTo("text ");
        assertThat(matcher.append("/e")).isEmpty();
        assertThat(matcher.append("x")).isEqualTo("</ex");
        assertThat(matcher.append("</end> more")).isEmpty();
        assertThat(matcher.matched()).isEqualTo("</end>");
        assertThat(matcher.append("after")).isEmpty();
        assertThat(matcher.finish()).isEmpty();
    }

    @Test
    void takesTheEarliestOfSeveral() {
        StopMatcher matcher = new StopMatcher(List.of("later", "b"), true);
        assertThat(matcher.append("a b later")).isEqualTo("a b");
        assertThat(matcher.matched()).isEqualTo("b");
    }

    @Test
    void releasesTheRestWhenNothingMatched() {
        StopMatcher matcher = new StopMatcher(List.of("abc"), false);
        assertThat(matcher.append("xab")).isEqualTo("x");
        assertThat(matcher.finish()).isEqualTo("ab");
    }

    @Test
    void textBeforeTheMinimumDoesNotStopButMayBeginAStop() {
        StopMatcher matcher = new StopMatcher(List.of("ab", "bc"), false);
        assertThat(matcher.append("xab", false)).isEqualTo("xa");
        assertThat(matcher.matched()).isEmpty();
        assertThat(matcher.append("cd", true)).isEmpty();
        assertThat(matcher.matched()).isEqualTo("bc");
        StopMatcher repeated = new StopMatcher(List.of("aa"), true);
        assertThat(repeated.append("aaa", false) + repeated.append("a", true)).isEqualTo("aaaa");
        assertThat(repeated.matched()).isEqualTo("aa");
    }

    @Test
    void ofStringsThatEndTogetherTheLongestCounts() {
        StopMatcher matcher = new StopMatcher(List.of("c", "abc", "bc"), false);
        assertThat(matcher.append("xabcd")).isEqualTo("x");
        assertThat(matcher.matched()).isEqualTo("abc");
    }

    @Test
    void theResultDoesNotDependOnHowTheTextIsCut() {
        for (long seed = 0; seed < 3_000; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            List<String> stops = Stream.generate(() -> text(random, 1 + random.nextInt(5)))
                    .limit(1 + random.nextInt(4))
                    .toList();
            String text = text(random, 40);
            boolean include = random.nextBoolean();
            int from = random.nextInt(10); // characters that may not end a stop
            StopMatcher matcher = new StopMatcher(stops, include);
            StringBuilder released = new StringBuilder();
            for (int at = 0; at < text.length(); ) {
                int end = Math.min(text.length(), at + random.nextInt(8));
                end = at < from ? Math.min(end, from) : end;
                released.append(matcher.append(text.substring(at, end), at >= from));
                at = end;
            }
            released.append(matcher.finish());
            String expected = text;
            for (int end = from + 1; end <= text.length() && expected.equals(text); end++) {
                String before = text.substring(0, end);
                String found = stops.stream()
                        .filter(before::endsWith)
                        .max(Comparator.comparing(String::length))
                        .orElse("");
                if (!found.isEmpty()) {
                    assertThat(matcher.matched()).as("seed %d", seed).isEqualTo(found);
                    expected = include ? before : before.substring(0, end - found.length());
                    break;
                }
            }
            assertThat(released).as("seed %d: %s in %s", seed, stops, text).hasToString(expected);
        }
    }

    private static String text(SplittableRandom random, int length) {
        return random.ints(length, 'a', 'd').mapToObj(Character::toString).collect(Collectors.joining());
    }

    @Test
    void theWorkIsLinearInTheText() {
        List<String> hard = List.of("a".repeat(1000) + "b", "a".repeat(1023) + "z", "aaab".repeat(250) + "c", "c");
        StopMatcher matcher = new StopMatcher(hard, false);
        int characters = 0;
        for (int token = 0; token < 20_000; token++) {
            String text = token % 300 == 299 ? "x" : token % 7 == 0 ? "aaab" : "aaaa";
            matcher.append(text, false);
            characters += text.length();
        }
        assertThat(matcher.comparisons()).isLessThanOrEqualTo(2L * characters * hard.size());
    }
}
