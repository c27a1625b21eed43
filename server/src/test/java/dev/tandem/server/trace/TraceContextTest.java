package dev.tandem.server.trace;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TraceContextTest {
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String SPAN = "00f067aa0ba902b7";

    @Test
    void readsTheHeadersOfAClient() {
        assertThat(TraceContext.of("00-" + TRACE + "-" + SPAN + "-01", "a=1,b=2"))
                .contains(new TraceContext(TRACE, SPAN, true, "a=1,b=2"));
        assertThat(TraceContext.of("00-" + TRACE + "-" + SPAN + "-02", ""))
                .contains(new TraceContext(TRACE, SPAN, false, ""));
    }

    @Test
    void readsALaterVersionThatHasMoreFields() {
        assertThat(TraceContext.of("01-" + TRACE + "-" + SPAN + "-03-more", ""))
                .contains(new TraceContext(TRACE, SPAN, true, ""));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "nonsense",
                "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01"
            })
    void anInvalidHeaderStartsANewTrace(String header) {
        assertThat(TraceContext.of(header, "a=1")).isEmpty();
    }

    @Test
    void aStateThatIsTooLongOrNotPrintableIsDropped() {
        String parent = "00-" + TRACE + "-" + SPAN + "-01";
        assertThat(TraceContext.of(parent, "a=" + "x".repeat(511)).orElseThrow().state())
                .isEmpty();
        assertThat(TraceContext.of(parent, "a=\u00e4").orElseThrow().state()).isEmpty();
    }
}
