package dev.tandem.server.http;

import io.netty.buffer.ByteBuf;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A body as it arrives. It grows with what was received, never with what was announced.
 *
 * <p>Owned by: the event loop until the body is complete, then the thread that serves the request; any thread may release.
 */
final class RequestBody {
    private final BodyBudget budget;
    private final AtomicInteger taken = new AtomicInteger();
    private ByteArrayOutputStream received = new ByteArrayOutputStream();
    private volatile byte[] bytes = new byte[0];

    RequestBody(BodyBudget budget) {
        this.budget = budget;
    }

    int size() {
        return received.size();
    }

    /** False when the memory for bodies is used up. */
    boolean add(ByteBuf content) {
        int length = content.readableBytes();
        if (!budget.take(length)) {
            return false;
        }
        taken.addAndGet(length);
        try {
            content.readBytes(received, length);
        } catch (IOException e) {
            throw new UncheckedIOException(e); // a stream into memory throws none
        }
        return true;
    }

    void complete() {
        bytes = received.toByteArray();
        received = new ByteArrayOutputStream(0);
    }

    byte[] bytes() {
        return bytes;
    }

    /** Its memory is free for others; later calls do nothing. */
    void release() {
        bytes = new byte[0];
        budget.release(taken.getAndSet(0));
    }
}
