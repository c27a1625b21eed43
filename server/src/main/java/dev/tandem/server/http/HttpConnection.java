package dev.tandem.server.http;

import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelOutboundBuffer;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.handler.codec.http.TooLongHttpHeaderException;
import io.netty.handler.codec.http.TooLongHttpLineException;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.Future;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * One client connection. The router decides on a request by its head; only then the connection reads the body. Requests
 * are answered one after another, in their order of arrival. A few more may wait (pipelining); when those are too many,
 * the connection stops reading. Otherwise it reads while a request is served, so that it notices a disconnect at once.
 *
 * <table>
 * <caption>Time limits, one at a time</caption>
 * <tr><th>waits for</th><th>limit</th><th>then</th></tr>
 * <tr><td>the first byte of a request, with none in progress</td><td>idleTimeout</td><td>closes</td></tr>
 * <tr><td>the end of the headers</td><td>headerTimeout</td><td>answers 408 and closes</td></tr>
 * <tr><td>the end of the body</td><td>bodyTimeout</td><td>answers 408 and closes</td></tr>
 * <tr><td>the client to read; runs besides the others</td><td>writeTimeout</td><td>closes</td></tr>
 * </table>
 *
 * <p>Owned by: its event loop.
 */
final class HttpConnection extends ChannelInboundHandlerAdapter {
    private static final Logger LOG = System.getLogger(HttpConnection.class.getName());
    /** Common clients do not pipeline; a load generator that pipelines more is slowed down, not refused. */
    private static final int MAX_PIPELINED = 8;

    private static final byte[] CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n".getBytes(StandardCharsets.US_ASCII);

    /** What the connection waits for the client to send. */
    private enum Awaited {
        NOTHING,
        REQUEST,
        HEADERS,
        BODY
    }

    /** A request that is complete, or refused by its head. */
    private record Pending(Exchange exchange, Router.Decision decision) {}

    /** A request whose body is arriving. */
    private record Arriving(RequestHead head, Router.Decision decision, RequestBody body) {}

    private final HttpLimits limits;
    private final OriginPolicy origins;
    private final Router router;
    private final ErrorBody errors;
    private final BodyBudget budget;
    private final AccessLog log;
    private final Queue<Pending> pending = new ArrayDeque<>();
    private Optional<Exchange> current = Optional.empty();
    private Optional<Arriving> arriving = Optional.empty();
    private boolean discardingBody;
    private boolean continueDue;
    private boolean closing;
    private boolean serving;
    private Awaited awaited = Awaited.NOTHING;
    private Optional<Future<?>> readDeadline = Optional.empty();
    private Optional<Future<?>> writeDeadline = Optional.empty();

    HttpConnection(
            HttpLimits limits,
            OriginPolicy origins,
            Router router,
            ErrorBody errors,
            BodyBudget budget,
            AccessLog log) {
        this.limits = limits;
        this.origins = origins;
        this.router = router;
        this.errors = errors;
        this.budget = budget;
        this.log = log;
    }

    /** Runs before the codec and notices the first byte of a request. */
    final class FirstByte extends ChannelInboundHandlerAdapter {
        @Override
        public void channelRead(ChannelHandlerContext context, Object bytes) {
            boolean between = awaited == Awaited.NOTHING && arriving.isEmpty() && !discardingBody && !closing;
            if (awaited == Awaited.REQUEST || between) {
                await(context, Awaited.HEADERS);
            }
            context.fireChannelRead(bytes);
        }
    }

    @Override
    public void channelActive(ChannelHandlerContext context) {
        await(context, Awaited.REQUEST);
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        try {
            if (closing) {
                return;
            }
            if (message instanceof HttpObject part && part.decoderResult().isFailure()) {
                refuseMalformed(context, part.decoderResult().cause());
                return;
            }
            if (message instanceof HttpRequest request) {
                head(context, request);
            }
            if (message instanceof HttpContent content && !closing) {
                content(context, content);
            }
        } finally {
            ReferenceCountUtil.release(message);
        }
    }

    private void head(ChannelHandlerContext context, HttpRequest request) {
        RequestHead head = read(request);
        long length = HttpUtil.getContentLength(request, 0L);
        boolean expects = head.has("expect");
        Router.Decision decision = decide(head, length, expects);
        if (decision instanceof Router.Decision.Answer) {
            // a body that is announced and small is read and dropped, so that the connection can be kept
            boolean keep = head.keepAlive()
                    && !expects
                    && !HttpUtil.isTransferEncodingChunked(request)
                    && length <= limits.maxBodyBytes();
            discardingBody = true;
            await(context, Awaited.BODY);
            add(context, head, new RequestBody(budget), decision, keep);
        } else {
            arriving = Optional.of(new Arriving(head, decision, new RequestBody(budget)));
            continueDue = expects;
            await(context, Awaited.BODY);
            sendContinue(context);
        }
    }

    private static RequestHead read(HttpRequest request) {
        Map<String, String> headers = new HashMap<>();
        request.headers().forEach(header -> headers.put(header.getKey().toLowerCase(Locale.ROOT), header.getValue()));
        String uri = request.uri();
        int query = uri.indexOf('?');
        return new RequestHead(
                request.method().name(),
                query < 0 ? uri : uri.substring(0, query),
                headers,
                request.protocolVersion().equals(HttpVersion.HTTP_1_0),
                HttpUtil.isKeepAlive(request));
    }

    private Router.Decision decide(RequestHead head, long length, boolean expects) {
        Optional<String> refusal = origins.refusal(head);
        if (refusal.isPresent()) {
            return refuse(403, refusal.get());
        }
        Optional<Response> preflight = origins.preflight(head);
        if (preflight.isPresent()) {
            return new Router.Decision.Answer(preflight.get());
        }
        Router.Decision decision = router.decide(head);
        if (decision instanceof Router.Decision.Answer) {
            return decision;
        }
        if (expects && !head.header("expect").equalsIgnoreCase("100-continue")) {
            return refuse(417, "the Expect header is not 100-continue; leave it out");
        }
        return length > limits.maxBodyBytes() ? tooLarge() : decision;
    }

    private Router.Decision refuse(int status, String message) {
        return new Router.Decision.Answer(Response.json(status, errors.of(status, message)));
    }

    private Router.Decision tooLarge() {
        return refuse(
                413,
                "the body is larger than the limit of " + limits.maxBodyBytes()
                        + " bytes; shorten it or raise --max-body-size");
    }

    private void refuseMalformed(ChannelHandlerContext context, Throwable cause) {
        RequestHead unknown = new RequestHead("", "", Map.of(), false, false);
        refuseAndClose(
                context,
                unknown,
                switch (cause) {
                    case TooLongHttpLineException line ->
                        refuse(
                                414,
                                "the request line is longer than the limit of " + limits.maxHeaderBytes() + " bytes");
                    case TooLongHttpHeaderException header ->
                        refuse(431, "the headers are larger than the limit of " + limits.maxHeaderBytes() + " bytes");
                    default -> refuse(400, "the request is not valid HTTP/1.1");
                });
    }

    /** Answers after the requests that arrived before, and reads nothing more. */
    private void refuseAndClose(ChannelHandlerContext context, RequestHead head, Router.Decision answer) {
        arriving.ifPresent(request -> request.body().release());
        arriving = Optional.empty();
        discardingBody = true;
        await(context, Awaited.NOTHING);
        add(context, head, new RequestBody(budget), answer, false);
    }

    private void content(ChannelHandlerContext context, HttpContent content) {
        if (arriving.isPresent()) {
            Arriving request = arriving.get();
            if ((long) request.body().size() + content.content().readableBytes() > limits.maxBodyBytes()) {
                refuseAndClose(context, request.head(), tooLarge());
                return;
            }
            if (!request.body().add(content.content())) {
                refuseAndClose(
                        context,
                        request.head(),
                        new Router.Decision.Answer(new Response(
                                503,
                                "application/json",
                                errors.of(
                                        503,
                                        "the requests in progress have used up the " + budget.limit()
                                                + " bytes for request bodies; try again later"),
                                Map.of("Retry-After", "1"))));
                return;
            }
        }
        if (content instanceof LastHttpContent) {
            Optional<Arriving> complete = arriving;
            arriving = Optional.empty();
            discardingBody = false;
            continueDue = false;
            await(context, Awaited.NOTHING);
            complete.ifPresent(request -> {
                add(
                        context,
                        request.head(),
                        request.body(),
                        request.decision(),
                        request.head().keepAlive());
            });
            awaitRequestWhenIdle(context);
        }
    }

    private void add(
            ChannelHandlerContext context,
            RequestHead head,
            RequestBody body,
            Router.Decision decision,
            boolean keepAlive) {
        Exchange exchange = new Exchange(context.channel(), head, body, keepAlive, log.now());
        if (origins.refusal(head).isEmpty()) {
            origins.headers(head).forEach(exchange::responseHeader);
        }
        pending.add(new Pending(exchange, decision));
        serveNext(context);
    }

    private void serveNext(ChannelHandlerContext context) {
        if (serving) {
            return; // an answer given on the event loop comes back here through ended()
        }
        serving = true;
        while (current.isEmpty() && !pending.isEmpty() && !closing) {
            Pending next = pending.remove();
            current = Optional.of(next.exchange());
            switch (next.decision()) {
                case Router.Decision.Answer answer -> {
                    next.exchange().respond(answer.response());
                    ended(context, next.exchange());
                }
                case Router.Decision.OnEventLoop here -> {
                    serve(next.exchange());
                    ended(context, next.exchange());
                }
                case Router.Decision.OnVirtualThread thread ->
                    Thread.ofVirtual().name("request").start(() -> {
                        try {
                            serve(next.exchange());
                        } finally {
                            deliverEnd(context, next.exchange());
                        }
                    });
            }
        }
        serving = false;
        sendContinue(context);
        boolean reading = pending.size() < MAX_PIPELINED;
        if (context.channel().config().isAutoRead() != reading) {
            context.channel().config().setAutoRead(reading);
        }
        awaitRequestWhenIdle(context);
    }

    private void serve(Exchange exchange) {
        try {
            router.serve(exchange);
            exchange.fail(errors.of(500, "the server gave no answer")); // does nothing when it is answered
        } catch (ClientGoneException e) {
            LOG.log(Level.DEBUG, "{0} {1}: the client disconnected", exchange.method(), Printable.of(exchange.path()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, Printable.of(exchange.method() + " " + exchange.path()) + " failed", e);
            writeFailure(exchange);
        }
    }

    private void writeFailure(Exchange exchange) {
        try {
            exchange.fail(errors.of(500, "the server failed; its log has the reason"));
        } catch (ClientGoneException e) {
            LOG.log(Level.DEBUG, "the client disconnected before its error answer", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void deliverEnd(ChannelHandlerContext context, Exchange exchange) {
        try {
            context.executor().execute(() -> ended(context, exchange));
        } catch (RejectedExecutionException e) {
            LOG.log(Level.DEBUG, "the server closed while a request was served", e); // and every connection with it
        }
    }

    private void ended(ChannelHandlerContext context, Exchange exchange) {
        exchange.releaseBody();
        log.ended(exchange);
        exchange.ended();
        current = Optional.empty();
        if (!exchange.keepsAlive()) {
            closing = true;
            await(context, Awaited.NOTHING);
            dropPending();
        }
        serveNext(context);
    }

    /** Asks for the body of the arriving request, once the answers to earlier requests are written. */
    private void sendContinue(ChannelHandlerContext context) {
        if (continueDue && current.isEmpty() && pending.isEmpty() && !closing) {
            continueDue = false;
            // bypasses the codec, which would treat it as the answer to the request
            context.pipeline().context(HttpServerCodec.class).writeAndFlush(Unpooled.wrappedBuffer(CONTINUE));
        }
    }

    private void awaitRequestWhenIdle(ChannelHandlerContext context) {
        if (awaited == Awaited.NOTHING && current.isEmpty() && pending.isEmpty() && !closing && !discardingBody) {
            await(context, Awaited.REQUEST);
        }
    }

    private void await(ChannelHandlerContext context, Awaited next) {
        awaited = next;
        readDeadline.ifPresent(deadline -> deadline.cancel(false));
        readDeadline = switch (next) {
            case NOTHING -> Optional.empty();
            case REQUEST -> deadline(context, limits.idleTimeout(), () -> close(context, "no request came"));
            case HEADERS ->
                deadline(context, limits.headerTimeout(), () -> tooSlow(context, "headers", limits.headerTimeout()));
            case BODY -> deadline(context, limits.bodyTimeout(), () -> tooSlow(context, "body", limits.bodyTimeout()));
        };
    }

    private static Optional<Future<?>> deadline(ChannelHandlerContext context, Duration limit, Runnable action) {
        return Optional.of(context.executor().schedule(action, limit.toNanos(), TimeUnit.NANOSECONDS));
    }

    private void tooSlow(ChannelHandlerContext context, String what, Duration limit) {
        RequestHead unknown = new RequestHead("", "", Map.of(), false, false);
        if (discardingBody) {
            close(context, "a refused request's body is too slow");
        } else {
            refuseAndClose(
                    context,
                    unknown,
                    refuse(408, "the " + what + " of the request did not arrive within " + limit.toMillis() + " ms"));
        }
    }

    private void close(ChannelHandlerContext context, String reason) {
        LOG.log(Level.DEBUG, "connection closed: {0}", reason);
        context.close();
    }

    @Override
    public void channelWritabilityChanged(ChannelHandlerContext context) {
        current.ifPresent(Exchange::writabilityChanged);
        writeDeadline.ifPresent(deadline -> deadline.cancel(false));
        writeDeadline = Optional.empty();
        if (!context.channel().isWritable()) {
            watchWriting(context, unwritten(context.channel()));
        }
        context.fireChannelWritabilityChanged();
    }

    /** Closes the connection when the client reads nothing for the whole write timeout. */
    private void watchWriting(ChannelHandlerContext context, long before) {
        writeDeadline = deadline(context, limits.writeTimeout(), () -> {
            long now = unwritten(context.channel());
            if (now >= before) {
                close(context, "the client reads nothing");
            } else {
                watchWriting(context, now);
            }
        });
    }

    /** Bytes that the socket has not accepted yet. */
    private static long unwritten(Channel channel) {
        ChannelOutboundBuffer buffer = channel.unsafe().outboundBuffer();
        return buffer == null ? 0 : buffer.totalPendingWriteBytes() - buffer.currentProgress();
    }

    private void dropPending() {
        pending.forEach(request -> request.exchange().releaseBody());
        pending.clear();
        arriving.ifPresent(request -> request.body().release());
        arriving = Optional.empty();
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
        closing = true;
        await(context, Awaited.NOTHING);
        writeDeadline.ifPresent(deadline -> deadline.cancel(false));
        dropPending();
        current.ifPresent(exchange -> {
            exchange.releaseBody();
            exchange.disconnected();
        });
        context.fireChannelInactive();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        LOG.log(Level.DEBUG, "connection closed: {0}", cause.toString());
        context.close();
    }
}
