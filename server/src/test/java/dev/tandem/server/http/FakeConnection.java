package dev.tandem.server.http;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.http.HttpServerCodec;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** An HTTP connection without a socket, for fuzz targets; the handler runs on the calling thread. */
public final class FakeConnection implements AutoCloseable {
    /** Answers a request. */
    public interface Handler {
        void serve(Exchange exchange) throws InterruptedException;
    }

    private static final HttpLimits LIMITS = new HttpLimits(
            1000,
            1000,
            1500,
            10,
            Duration.ofSeconds(10),
            Duration.ofSeconds(60),
            Duration.ofSeconds(75),
            Duration.ofSeconds(60));

    private final BodyBudget budget = new BodyBudget(LIMITS.maxBufferedBytes());
    private final EmbeddedChannel channel = new EmbeddedChannel();

    public FakeConnection(Handler handler) {
        Router router = new Router() {
            @Override
            public Decision decide(RequestHead head) {
                return new Decision.OnEventLoop();
            }

            @Override
            public void serve(Exchange exchange) throws InterruptedException {
                handler.serve(exchange);
            }
        };
        HttpConnection connection = new HttpConnection(
                LIMITS,
                new OriginPolicy(true, List.of(), List.of()),
                router,
                (status, message) -> message.getBytes(StandardCharsets.UTF_8),
                budget,
                AccessLog.OFF);
        channel.freezeTime();
        channel.pipeline().addLast(connection.new FirstByte(), new HttpServerCodec(), connection);
        channel.pipeline().fireChannelActive();
    }

    public static byte[] bytes(Exchange exchange) {
        try {
            return exchange.body().readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public void send(byte[] bytes) {
        if (channel.isOpen()) {
            channel.writeInbound(Unpooled.copiedBuffer(bytes));
        }
    }

    /** Everything that the client would have received since the last call. */
    public byte[] received() {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (ByteBuf buffer = channel.readOutbound(); buffer != null; buffer = channel.readOutbound()) {
            byte[] bytes = new byte[buffer.readableBytes()];
            buffer.readBytes(bytes);
            buffer.release();
            all.writeBytes(bytes);
        }
        return all.toByteArray();
    }

    /** Closes the connection and checks that the memory of all bodies is free. */
    @Override
    public void close() {
        channel.finishAndReleaseAll();
        if (budget.used() != 0) {
            throw new AssertionError(
                    budget.used() + " bytes of request bodies are still taken after the connection closed");
        }
    }
}
