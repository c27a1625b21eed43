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
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.util.NetUtil;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One request and its answer. Answers exactly once, whole or as a stream of events.
 *
 * <p>Owned by: the thread that serves it, a virtual one or the event loop; {@link #onDisconnect} actions run on the
 * event loop.
 */
public final class Exchange {
    private static final int LINGER_SECONDS = 2;
    /** Of a client which goes before it has its answer; nothing is sent then. */
    private static final int CLIENT_GONE = 499;

    private final Channel channel;
    private final RequestHead head;
    private final RequestBody body;
    private final boolean keepAlive;
    private final long startedNanos;
    private final Map<String, String> responseHeaders = new LinkedHashMap<>();
    private final Object writable = new Object();
    private Runnable disconnectAction = () -> {};
    private boolean gone;
    private State state = State.OPEN;
    private boolean streamed;
    private int status = CLIENT_GONE;
    private int promptTokens;
    private int outputTokens;

    private enum State {
        OPEN,
        STREAMING,
        ENDED
    }

    /**
     * @param keepAlive whether the connection serves further requests after this one
     * @param startedNanos when the request was complete, by the access log's clock
     */
    Exchange(Channel channel, RequestHead head, RequestBody body, boolean keepAlive, long startedNanos) {
        this.channel = channel;
        this.head = head;
        this.body = body;
        this.keepAlive = keepAlive;
        this.startedNanos = startedNanos;
    }

    public String method() {
        return head.method();
    }

    public String path() {
        return head.path();
    }

    /** A header's value, empty when absent. */
    public String header(String lowerCaseName) {
        return head.header(lowerCaseName);
    }

    /** The body; its memory counts against the limit of all bodies until {@link #releaseBody}. */
    public InputStream body() {
        return body.stream();
    }

    /** The body is not needed any more. The end of the exchange releases it too. */
    public void releaseBody() {
        body.release();
    }

    boolean keepsAlive() {
        return keepAlive && !endsByClosing();
    }

    /** A stream to a client which does not know the chunked encoding ends where the connection does. */
    private boolean endsByClosing() {
        return head.http10() && streamed;
    }

    /** Tells the access log how much was computed. */
    public void tokens(int prompt, int output) {
        promptTokens = prompt;
        outputTokens = output;
    }

    int promptTokens() {
        return promptTokens;
    }

    int outputTokens() {
        return outputTokens;
    }

    long startedNanos() {
        return startedNanos;
    }

    /** The status of the answer; 499 where the client went before the end of its answer. */
    int status() {
        return state == State.ENDED ? status : CLIENT_GONE;
    }

    /** The answer's {@code X-Request-Id}; empty where it has none. */
    String requestId() {
        return responseHeaders.getOrDefault("X-Request-Id", "");
    }

    /** The client's address, or what stands for one. */
    String client() {
        return channel.remoteAddress() instanceof InetSocketAddress address
                ? NetUtil.toAddressString(address.getAddress())
                : "-";
    }

    /** Adds a header to the answer, before it is sent. */
    public void responseHeader(String name, String value) {
        responseHeaders.put(name, value);
    }

    /** Whether the client has gone: what is still computed for it is of no use. */
    public boolean isGone() {
        synchronized (writable) {
            return gone;
        }
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
        respond(new Response(status, contentType, content, Map.of()));
    }

    void respond(Response answer) {
        state = State.ENDED;
        status = answer.status();
        ByteBuf buffer = Unpooled.wrappedBuffer(answer.content());
        DefaultFullHttpResponse response =
                new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(answer.status()), buffer);
        HttpHeaders headers = response.headers();
        if (!answer.contentType().isEmpty()) {
            headers.set(HttpHeaderNames.CONTENT_TYPE, answer.contentType());
        }
        if (answer.status() != 204) {
            headers.setInt(HttpHeaderNames.CONTENT_LENGTH, answer.content().length);
        }
        addHeaders(headers);
        answer.headers().forEach(headers::set);
        end(channel.writeAndFlush(response));
    }

    /** Begins a stream of server-sent events. */
    public void beginEvents() {
        state = State.STREAMING;
        streamed = true;
        status = HttpResponseStatus.OK.code();
        DefaultHttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
        HttpHeaders headers = response.headers();
        headers.set(HttpHeaderNames.CONTENT_TYPE, "text/event-stream; charset=utf-8");
        headers.set(HttpHeaderNames.CACHE_CONTROL, HttpHeaderValues.NO_CACHE);
        if (!head.http10()) {
            headers.set(HttpHeaderNames.TRANSFER_ENCODING, HttpHeaderValues.CHUNKED);
        }
        addHeaders(headers);
        channel.writeAndFlush(response);
    }

    /**
     * Sends one event, waiting while the client reads too slowly.
     *
     * @throws ClientGoneException when the client has gone
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
        state = State.ENDED;
        end(channel.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT));
    }

    /** Ends an answer which its handler did not end: the client learns of the failure and does not wait. */
    void fail(byte[] error) throws InterruptedException {
        switch (state) {
            case OPEN -> respond(Response.json(500, error));
            case STREAMING -> {
                event(new String(error, StandardCharsets.UTF_8));
                event("[DONE]");
                endEvents();
            }
            case ENDED -> {}
        }
    }

    private void addHeaders(HttpHeaders headers) {
        responseHeaders.forEach(headers::set);
        if (!keepsAlive()) {
            headers.set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
        } else if (head.http10()) {
            headers.set(HttpHeaderNames.CONNECTION, HttpHeaderValues.KEEP_ALIVE);
        }
    }

    private void end(ChannelFuture written) {
        releaseBody();
        if (!keepsAlive()) {
            written.addListener(future -> closeGently(channel));
        }
    }

    /** A client which is still writing would lose its answer to a reset: what it writes is read for a while. */
    static void closeGently(Channel channel) {
        if (channel instanceof DuplexChannel duplex && channel.isActive()) {
            duplex.shutdownOutput();
            channel.eventLoop().schedule((Runnable) channel::close, LINGER_SECONDS, TimeUnit.SECONDS);
        } else {
            channel.close();
        }
    }
}
