package dev.tandem.server.http;

import dev.tandem.engine.request.TraceParent;
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
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.handler.ssl.SslHandler;
import io.netty.util.NetUtil;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * One HTTP request and its answer. It is answered exactly once: as a whole, or as a stream of events.
 *
 * <p>Owned by: the thread that serves it, a virtual one or the event loop; {@link #onDisconnect} and {@link #onEnd}
 * actions run on the event loop.
 */
public final class Exchange {
    private static final int LINGER_SECONDS = 2;
    /** Status in the access log when the client disconnects before the answer is complete; it is never sent. */
    private static final int CLIENT_GONE = 499;

    private final Channel channel;
    private final RequestHead head;
    private final RequestBody body;
    private final boolean keepAlive;
    private final long startedNanos;
    private final RequestId id;
    private final Map<String, String> responseHeaders = new LinkedHashMap<>();
    private final Object writable = new Object();
    private Runnable disconnectAction = () -> {};
    private Runnable endAction = () -> {};
    private Optional<TraceParent> trace = Optional.empty();
    private boolean disconnected;
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
     * @param startedNanos when the request had arrived completely, by the access log's clock
     */
    Exchange(Channel channel, RequestHead head, RequestBody body, boolean keepAlive, long startedNanos) {
        this.channel = channel;
        this.head = head;
        this.body = body;
        this.keepAlive = keepAlive;
        this.startedNanos = startedNanos;
        this.id = RequestId.of(head);
        responseHeader(RequestId.HEADER, id.shown());
    }

    public String method() {
        return head.method();
    }

    public String path() {
        return head.path();
    }

    /** The value of a header; empty when it is absent. */
    public String header(String lowerCaseName) {
        return head.header(lowerCaseName);
    }

    /** The request body; its memory counts towards the limit for all bodies until {@link #releaseBody}. */
    public InputStream body() {
        return body.stream();
    }

    /** Frees the body's memory. The end of the exchange does so too. */
    public void releaseBody() {
        body.release();
    }

    boolean keepsAlive() {
        return keepAlive && !endsByClosing();
    }

    /** HTTP/1.0 has no chunked encoding: closing the connection marks the end of a stream. */
    private boolean endsByClosing() {
        return head.http10() && streamed;
    }

    /** Sets the token counts that the access log shows. */
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

    /** The status of the answer; 499 when the client disconnected before its end. */
    public int status() {
        return state == State.ENDED ? status : CLIENT_GONE;
    }

    /** The answer's {@code X-Request-Id}: the client's own id, or a new one. */
    public String requestId() {
        return id.shown();
    }

    /** The request's id, which no other request has. */
    public String uniqueId() {
        return id.unique();
    }

    /** The client's IP address; {@code -} when it has none. */
    String client() {
        return channel.remoteAddress() instanceof InetSocketAddress address
                ? NetUtil.toAddressString(address.getAddress())
                : "-";
    }

    /** Adds a header to the answer, before it is sent. */
    public void responseHeader(String name, String value) {
        responseHeaders.put(name, value);
    }

    /** Makes the request part of a trace. */
    public void trace(TraceParent parent) {
        trace = Optional.of(parent);
    }

    /** The span that work for this request is part of; empty when it is not traced. */
    public Optional<TraceParent> trace() {
        return trace;
    }

    /** Sets the action that runs once after the answer, or after the client has disconnected. */
    public void onEnd(Runnable action) {
        endAction = action;
    }

    void ended() {
        endAction.run();
    }

    /** Whether the client has disconnected; work for it can stop. */
    public boolean isGone() {
        synchronized (writable) {
            return disconnected;
        }
    }

    /** Sets the action that runs once when the client disconnects; runs it immediately if it already has. */
    public void onDisconnect(Runnable action) {
        boolean already;
        synchronized (writable) {
            already = disconnected;
            disconnectAction = action;
        }
        if (already) {
            action.run();
        }
    }

    void disconnected() {
        Runnable action;
        synchronized (writable) {
            if (disconnected) {
                return;
            }
            disconnected = true;
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

    /** Sends a whole answer. */
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
        if (answer.status() != 204 && answer.status() != 304) {
            headers.setInt(HttpHeaderNames.CONTENT_LENGTH, answer.content().length);
        }
        addHeaders(headers);
        answer.headers().forEach(headers::set);
        end(response);
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
     * @throws ClientGoneException when the client has disconnected
     */
    public void event(String data) throws InterruptedException {
        send("data: " + data + "\n\n");
    }

    /**
     * Sends one event with a name, as {@link #event(String)} sends one without.
     *
     * @throws ClientGoneException when the client has disconnected
     */
    public void event(String name, String data) throws InterruptedException {
        send("event: " + name + "\ndata: " + data + "\n\n");
    }

    private void send(String text) throws InterruptedException {
        synchronized (writable) {
            while (!disconnected && !channel.isWritable()) {
                writable.wait();
            }
            if (disconnected) {
                throw new ClientGoneException();
            }
        }
        ByteBuf buffer = Unpooled.copiedBuffer(text, StandardCharsets.UTF_8);
        channel.writeAndFlush(new DefaultHttpContent(buffer));
    }

    public void endEvents() {
        state = State.ENDED;
        end(LastHttpContent.EMPTY_LAST_CONTENT);
    }

    /** Ends an answer that its handler did not end, so that the client gets an error and does not wait. */
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

    /** Writes the end of the answer. A client that has it may send its next request, so there must be room for that. */
    private void end(HttpObject last) {
        releaseBody();
        ChannelFuture written = channel.writeAndFlush(last);
        if (!keepsAlive()) {
            written.addListener(future -> closeGently(channel));
        }
    }

    /**
     * Closes the sending side now and the connection later. Closing at once while the client still writes would send a
     * TCP reset, and the client could lose its answer.
     */
    static void closeGently(Channel channel) {
        if (channel instanceof DuplexChannel duplex && channel.isActive()) {
            SslHandler tls = channel.pipeline().get(SslHandler.class);
            if (tls == null) {
                duplex.shutdownOutput();
            } else {
                tls.closeOutbound(); // tells the client that the answer is complete
            }
            channel.eventLoop().schedule((Runnable) channel::close, LINGER_SECONDS, TimeUnit.SECONDS);
        } else {
            channel.close();
        }
    }
}
