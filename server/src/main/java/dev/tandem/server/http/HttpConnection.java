package dev.tandem.server.http;

import io.netty.buffer.ByteBufUtil;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpUtil;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;

/**
 * One client connection. Requests are served one after another; a few more may wait (pipelining). The connection keeps
 * reading while a request is served, so that the client's leaving is noticed at once.
 *
 * <p>Owned by: its event loop.
 */
final class HttpConnection extends SimpleChannelInboundHandler<FullHttpRequest> {
    private static final Logger LOG = System.getLogger(HttpConnection.class.getName());
    private static final int MOST_PIPELINED = 8;

    private final Router router;
    private final ErrorBody errors;
    private final Queue<Exchange> pending = new ArrayDeque<>();
    private Optional<Exchange> current = Optional.empty();

    HttpConnection(Router router, ErrorBody errors) {
        this.router = router;
        this.errors = errors;
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
        boolean keepAlive = HttpUtil.isKeepAlive(request);
        Exchange exchange = exchange(context, request, keepAlive);
        if (request.decoderResult().isFailure()) {
            String reason = request.decoderResult().cause().getMessage();
            new Exchange(context.channel(), "", "", Map.of(), new byte[0], false)
                    .respond(400, "application/json", errors.of(400, "the HTTP request cannot be read: " + reason));
        } else if (pending.size() == MOST_PIPELINED) {
            context.close();
        } else {
            pending.add(exchange);
            serveNext(context);
        }
    }

    private static Exchange exchange(ChannelHandlerContext context, FullHttpRequest request, boolean keepAlive) {
        Map<String, String> headers = new HashMap<>();
        request.headers().forEach(header -> headers.put(header.getKey().toLowerCase(Locale.ROOT), header.getValue()));
        String uri = request.uri();
        int query = uri.indexOf('?');
        return new Exchange(
                context.channel(),
                request.method().name(),
                query < 0 ? uri : uri.substring(0, query),
                headers,
                ByteBufUtil.getBytes(request.content()),
                keepAlive);
    }

    private void serveNext(ChannelHandlerContext context) {
        if (current.isPresent() || pending.isEmpty()) {
            return;
        }
        Exchange exchange = pending.remove();
        current = Optional.of(exchange);
        Thread.ofVirtual().name("request").start(() -> {
            try {
                serve(exchange);
            } finally {
                context.executor().execute(() -> {
                    current = Optional.empty();
                    serveNext(context);
                });
            }
        });
    }

    private void serve(Exchange exchange) {
        try {
            router.serve(exchange);
        } catch (ClientGoneException e) {
            LOG.log(Level.DEBUG, "{0} {1}: the client has gone", exchange.method(), exchange.path());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, exchange.method() + " " + exchange.path() + " failed", e);
            if (!exchange.isAnswered()) {
                exchange.respond(500, "application/json", errors.of(500, "the server failed; its log has the reason"));
            }
        }
    }

    @Override
    public void channelWritabilityChanged(ChannelHandlerContext context) {
        current.ifPresent(Exchange::writabilityChanged);
        context.fireChannelWritabilityChanged();
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
        pending.clear();
        current.ifPresent(Exchange::disconnected);
        context.fireChannelInactive();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        LOG.log(Level.DEBUG, "connection closed: {0}", cause.toString());
        context.close();
    }
}
