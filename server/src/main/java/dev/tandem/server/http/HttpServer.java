package dev.tandem.server.http;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
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
import io.netty.handler.codec.http.HttpMessage;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Listens, and closes every connection when it closes. */
public final class HttpServer implements AutoCloseable {
    /** A client that does not read makes its handler wait from here on. */
    private static final WriteBufferWaterMark WATER_MARK = new WriteBufferWaterMark(32 << 10, 128 << 10);

    private final EventLoopGroup loops = new MultiThreadIoEventLoopGroup(2, NioIoHandler.newFactory());
    private final ChannelGroup connections = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
    private final Channel listener;

    /**
     * @param port 0 takes a free one
     * @throws ListenException when it cannot listen there
     */
    public HttpServer(String host, int port, HttpLimits limits, Router router, ErrorBody errors) {
        try {
            listener = new ServerBootstrap()
                    .group(loops)
                    .channel(NioServerSocketChannel.class)
                    .option(ChannelOption.SO_BACKLOG, 1024)
                    .childOption(ChannelOption.TCP_NODELAY, true)
                    .childOption(ChannelOption.WRITE_BUFFER_WATER_MARK, WATER_MARK)
                    .childHandler(new Initializer(limits, router, errors))
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
        private final Router router;
        private final ErrorBody errors;

        Initializer(HttpLimits limits, Router router, ErrorBody errors) {
            this.limits = limits;
            this.router = router;
            this.errors = errors;
        }

        @Override
        protected void initChannel(SocketChannel channel) {
            connections.add(channel);
            HttpDecoderConfig decoder = new HttpDecoderConfig()
                    .setMaxInitialLineLength(limits.maxHeaderBytes())
                    .setMaxHeaderSize(limits.maxHeaderBytes());
            channel.pipeline()
                    .addLast(new HttpServerCodec(decoder))
                    .addLast(new BodyCollector(limits.maxBodyBytes(), errors))
                    .addLast(new HttpConnection(router, errors));
        }
    }

    /** Collects bodies; one that is too large is answered with an error in our own form. */
    private static final class BodyCollector extends HttpObjectAggregator {
        private final int limit;
        private final ErrorBody errors;

        BodyCollector(int limit, ErrorBody errors) {
            super(limit);
            this.limit = limit;
            this.errors = errors;
        }

        @Override
        protected void handleOversizedMessage(ChannelHandlerContext context, HttpMessage oversized) {
            String message = "the body is larger than the limit of " + limit + " bytes; shorten it or raise --max-body-size";
            new Exchange(context.channel(), "", "", Map.of(), new byte[0], false)
                    .respond(413, "application/json", errors.of(413, message));
        }
    }

    /** The port in use. */
    public int port() {
        return ((InetSocketAddress) listener.localAddress()).getPort();
    }

    /** Takes no new connections. */
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
