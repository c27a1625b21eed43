package dev.tandem.server.fuzz;

import dev.tandem.server.http.FakeConnection;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpResponseDecoder;
import io.netty.util.ReferenceCountUtil;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;

/** Fuzz target: whatever arrives, in two parts, answers are valid HTTP and the memory of all bodies is freed. */
public final class HttpFuzz {
    private HttpFuzz() {}

    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        AtomicInteger served = new AtomicInteger();
        byte[] received;
        try (FakeConnection connection = new FakeConnection(exchange -> {
            if (served.incrementAndGet() % 2 == 0) {
                exchange.beginEvents();
                exchange.event("data");
                exchange.endEvents();
            } else {
                exchange.respond(200, "text/plain", FakeConnection.bytes(exchange));
            }
        })) {
            int cut = 1 + (data[0] & 0xFF) * (data.length - 1) / 256;
            connection.send(Arrays.copyOfRange(data, 1, cut));
            connection.send(Arrays.copyOfRange(data, cut, data.length));
            received = connection.received();
        }
        // answers to HEAD have a Content-Length and no body; the decoder cannot tell, so these inputs are skipped
        if (!new String(data, StandardCharsets.ISO_8859_1).contains("HEAD ")) {
            check(received);
        }
    }

    private static void check(byte[] received) {
        EmbeddedChannel client = new EmbeddedChannel(new HttpResponseDecoder());
        try {
            client.writeInbound(Unpooled.copiedBuffer(received));
            for (HttpObject part = client.readInbound(); part != null; part = client.readInbound()) {
                if (part.decoderResult().isFailure()) {
                    throw new AssertionError("not HTTP", part.decoderResult().cause());
                }
                ReferenceCountUtil.release(part);
            }
        } finally {
            client.finishAndReleaseAll();
        }
    }
}
