package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class HonouredFieldsTest {
    @Test
    void aHandlerCannotReadWhatTheTableDoesNotHonour() {
        RequestFields fields = RequestFields.parse("{}".getBytes(), ApiFields.Endpoint.CHAT);
        assertThatThrownBy(() -> fields.field("user")).hasMessageContaining("user is read and is not honoured");
        assertThatThrownBy(() -> fields.field("no_such")).hasMessageContaining("no_such is read and is not honoured");
    }
}
