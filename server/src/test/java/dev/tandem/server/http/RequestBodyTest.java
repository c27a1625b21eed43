package dev.tandem.server.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import org.junit.jupiter.api.Test;

/** The memory that request bodies take from their common limit. */
class RequestBodyTest {
    private final BodyBudget budget = new BodyBudget(100);

    private static ByteBuf bytes(int count) {
        return Unpooled.wrappedBuffer(new byte[count]);
    }

    @Test
    void ofTwoBodiesThatAreTooLargeTogetherOneIsRefused() {
        RequestBody first = new RequestBody(budget);
        RequestBody second = new RequestBody(budget);
        assertThat(first.add(bytes(60))).isTrue();
        assertThat(second.add(bytes(40))).isTrue();
        assertThat(second.add(bytes(1))).isFalse();
        assertThat(budget.used()).as("what the refused body held is free").isEqualTo(60);
        assertThat(first.add(bytes(40))).isTrue();
        second.release();
        assertThat(budget.used()).as("it is given back once").isEqualTo(100);
        first.release();
        assertThat(budget.used()).isZero();
    }
}
