package dev.tandem.server.http;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class PrintableTest {
    @Test
    void escapesControlCharacters() {
        assertThat(Printable.of("a\nb\r\u001b[31mc\u0085d\u2028e\u202ef\u007f"))
                .isEqualTo("a\\nb\\r\\u001b[31mc\\u0085d\\u2028e\\u202ef\\u007f");
    }

    @Test
    void escapesUnpairedSurrogatesAndKeepsPairs() {
        assertThat(Printable.of("x\ud800y🙂東")).isEqualTo("x\\ud800y🙂東");
    }

    @Test
    void shortensLongTextBetweenCharacters() {
        assertThat(Printable.of("🙂".repeat(60))).isEqualTo("🙂".repeat(60));
        assertThat(Printable.of("🙂".repeat(61))).isEqualTo("🙂".repeat(60) + "…");
        assertThat(Printable.of("x".repeat(10_000_000))).hasSize(61);
    }

    @Test
    void oneLineJoinsLinesAndShortensNothing() {
        assertThat(Printable.oneLine(" a \n\r\n  b\tc\u202e\n")).isEqualTo("a b\\tc\\u202e");
        assertThat(Printable.escape("x".repeat(100) + "\n")).isEqualTo("x".repeat(100) + "\\n");
    }
}
