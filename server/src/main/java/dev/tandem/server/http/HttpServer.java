package dev.tandem.server.http;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.WriteBufferWaterMark;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpDecoderConfig;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Listens for HTTP connections; closing it closes them all.
 *
 * <p>Owned by: the thread that made it; its connections belong to event loops.
 */
public final class HttpServer implements AutoCloseable {
    /** Number of connections beyond the limit that are answered with 503; further ones are closed unanswered. */
    private static final int MAX_REFUSALS = 128;

    /** A handler waits when this much of its answer is unread by the client. */
    private static final WriteBufferWaterMark WATER_MARK = new WriteBufferWaterMark(32 << 10, 128 << 10);

    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(2, NioIoHandler.newFactory());
    private final AtomicInteger open = new AtomicInteger();
    private final ChannelGroup connections = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
    private final Channel listener;

    /**
     * @param port 0 takes a free one
     * @param tls empty for plain HTTP
     * @param log is called for every request when it ends
     * @throws ListenException when it cannot listen on this address and port
     */
    public HttpServer(
            String host,
            int port,
            HttpLimits limits,
            OriginPolicy origins,
            Optional<Tls> tls,
            Router router,
            ErrorBody errors,
            AccessLog log) {
        try {
            listener = new ServerBootstrap()
                    .group(loops)
                    .channel(NioServerSocketChannel.class)
                    .option(ChannelOption.SO_BACKLOG, 1024)
                    .childOption(ChannelOption.TCP_NODELAY, true)
                    .childOption(ChannelOption.SO_KEEPALIVE, true) // cancels the requests of a peer that vanished
                    .childOption(ChannelOption.WRITE_BUFFER_WATER_MARK, WATER_MARK)
                    .childHandler(new Initializer(limits, origins, tls, router, errors, log))
                    .bind(host, port)
                    .syncUninterruptibly()
                    .channel();
        } catch (Exception e) { // Netty throws the system's checked exceptions undeclared
            loops.shutdownGracefully(0, 1, TimeUnit.SECONDS);
            throw ListenException.of(host, port, e);
        }
    }

    private final class Initializer extends ChannelInitializer<SocketChannel> {
        private final HttpLimits limits;
        private final OriginPolicy origins;
        private final Optional<Tls> tls;
        private final Router router;
        private final ErrorBody errors;
        private final BodyBudget budget;
        private final AccessLog log;

        Initializer(
                HttpLimits limits,
                OriginPolicy origins,
                Optional<Tls> tls,
                Router router,
                ErrorBody errors,
                AccessLog log) {
            this.limits = limits;
            this.origins = origins;
            this.tls = tls;
            this.router = router;
            this.errors = errors;
            this.log = log;
            this.budget = new BodyBudget(limits.maxBufferedBytes());
        }

        @Override
        protected void initChannel(SocketChannel channel) {
            connections.add(channel);
            int number = open.incrementAndGet();
            channel.closeFuture().addListener(closed -> open.decrementAndGet());
            if (number > limits.maxConnections() + MAX_REFUSALS) {
                channel.close();
                return;
            }
            tls.ifPresent(certificate -> certificate.encrypt(channel.pipeline()));
            if (number > limits.maxConnections()) {
                channel.pipeline()
                        .addLast(new Refusal(errors.of(
                                503,
                                limits.maxConnections()
                                        + " connections are open, which is the limit; try again later, or raise"
                                        + " --max-connections")));
            } else {
                HttpDecoderConfig decoder = new HttpDecoderConfig()
                        .setMaxInitialLineLength(limits.maxHeaderBytes())
                        .setMaxHeaderSize(limits.maxHeaderBytes());
                HttpConnection connection = new HttpConnection(limits, origins, router, errors, budget, log);
                channel.pipeline()
                        .addLast(connection.new FirstByte())
                        .addLast(new HttpServerCodec(decoder))
                        .addLast(connection);
            }
        }
    }

    /** Answers a connection beyond the limit without reading its request. */
    private static final class Refusal extends ChannelInboundHandlerAdapter {
        private final byte[] error;

        Refusal(byte[] error) {
            this.error = error;
        }

        @Override
        public void channelActive(ChannelHandlerContext context) {
            String head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: "
                    + error.length
                    + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
            ByteBuf answer = Unpooled.wrappedBuffer(head.getBytes(StandardCharsets.US_ASCII), error);
            context.writeAndFlush(answer).addListener(written -> Exchange.closeGently(context.channel()));
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object bytes) {
            ReferenceCountUtil.release(bytes);
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            context.close();
        }
    }

    /** The port in use. */
    public int port() {
        return ((InetSocketAddress) listener.localAddress()).getPort();
    }

    /** Stops accepting connections. */
    public void stopListening() {
        listener.close().syncUninterruptibly();
    }

    @Override
    public void close() {
        stopListening();
        connections.close().awaitUninterruptibly(5, TimeUnit.SECONDS);
        loops.shutdownGracefully(0, 2, TimeUnit.SECONDS).awaitUninterruptibly(5, TimeUnit.SECONDS);
    }
}
