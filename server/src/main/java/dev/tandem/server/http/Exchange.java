package dev.tandem.server.http;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFuture;
import io.netty.channel.socket.DuplexChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One request and its answer. Answers exactly once, whole or as a stream of events.
 *
 * <p>Owned by: the virtual thread that serves it; {@link #onDisconnect} actions run on the event loop.
 */
public final class Exchange {
    private static final int LINGER_SECONDS = 2;

    private final Channel channel;
    private final String method;
    private final String path;
    private final Map<String, String> headers;
    private final byte[] body;
    private final boolean keepAlive;
    private final Map<String, String> responseHeaders = new LinkedHashMap<>();
    private final Object writable = new Object();
    private Runnable disconnectAction = () -> {};
    private boolean gone;
    private boolean answered;

    /** @param headers names in lower case */
    Exchange(Channel channel, String method, String path, Map<String, String> headers, byte[] body, boolean keepAlive) {
        this.channel = channel;
        this.method = method;
        this.path = path;
        this.headers = headers;
        this.body = body;
        this.keepAlive = keepAlive;
    }

    public String method() {
        return method;
    }

    public String path() {
        return path;
    }

    /** A header's value, empty when absent. */
    public String header(String lowerCaseName) {
        return headers.getOrDefault(lowerCaseName, "");
    }

    public byte[] body() {
        return body;
    }

    /** Adds a header to the answer, before it is sent. */
    public void responseHeader(String name, String value) {
        responseHeaders.put(name, value);
    }

    public boolean isAnswered() {
        return answered;
    }

    /** Runs once when the client goes away, at once if it has already. */
    public void onDisconnect(Runnable action) {
        boolean already;
        synchronized (writable) {
            already = gone;
            disconnectAction = action;
        }
        if (already) {
            action.run();
        }
    }

    void disconnected() {
        Runnable action;
        synchronized (writable) {
            if (gone) {
                return;
            }
            gone = true;
            action = disconnectAction;
            writable.notifyAll();
        }
        action.run();
    }

    void writabilityChanged() {
        synchronized (writable) {
            writable.notifyAll();
        }
    }

    /** The whole answer. */
    public void respond(int status, String contentType, byte[] content) {
        answered = true;
        ByteBuf buffer = Unpooled.wrappedBuffer(content);
        DefaultFullHttpResponse response =
                new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(status), buffer);
        response.headers().set(HttpHeaderNames.CONTENT_TYPE, contentType).setInt(HttpHeaderNames.CONTENT_LENGTH, content.length);
        addHeaders(response);
        end(channel.writeAndFlush(response));
    }

    /** Begins a stream of server-sent events. */
    public void beginEvents() {
        answered = true;
        DefaultHttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
        response.headers()
                .set(HttpHeaderNames.CONTENT_TYPE, "text/event-stream; charset=utf-8")
                .set(HttpHeaderNames.CACHE_CONTROL, HttpHeaderValues.NO_CACHE)
                .set(HttpHeaderNames.TRANSFER_ENCODING, HttpHeaderValues.CHUNKED);
        addHeaders(response);
        channel.writeAndFlush(response);
    }

    /**
     * Sends one event, waiting while the client reads too slowly.
     *
     * @throws ClientGoneException when nobody reads any more
     */
    public void event(String data) throws InterruptedException {
        synchronized (writable) {
            while (!gone && !channel.isWritable()) {
                writable.wait();
            }
            if (gone) {
                throw new ClientGoneException();
            }
        }
        ByteBuf buffer = Unpooled.copiedBuffer("data: " + data + "\n\n", StandardCharsets.UTF_8);
        channel.writeAndFlush(new DefaultHttpContent(buffer));
    }

    public void endEvents() {
        end(channel.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT));
    }

    private void addHeaders(HttpResponse response) {
        responseHeaders.forEach((name, value) -> response.headers().set(name, value));
        if (!keepAlive) {
            response.headers().set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
        }
    }

    private void end(ChannelFuture written) {
        if (!keepAlive) {
            written.addListener(future -> closeGently());
        }
    }

    /** A client that is still writing would lose its answer to a reset: what it writes is read for a while. */
    private void closeGently() {
        if (channel instanceof DuplexChannel duplex && channel.isActive()) {
            duplex.shutdownOutput();
            channel.eventLoop().schedule((Runnable) channel::close, LINGER_SECONDS, TimeUnit.SECONDS);
        } else {
            channel.close();
        }
    }
}
