package dev.tandem.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.StopMatcher;
import java.util.List;
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
}
