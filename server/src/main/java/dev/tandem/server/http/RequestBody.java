package dev.tandem.server.http;

import io.netty.buffer.ByteBuf;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A request body that grows as it arrives. It allocates by bytes received, never by Content-Length. It consists of
 * small pieces: large arrays lengthen garbage collection pauses, which delay every stream.
 *
 * <p>Owned by: the event loop until the body is complete, then the thread that serves the request; any thread may
 * release it.
 */
final class RequestBody {
    private static final int MIN_PIECE = 1 << 10;
    private static final int MAX_PIECE = 64 << 10;

    private final BodyBudget budget;
    private final AtomicInteger taken = new AtomicInteger();
    private volatile List<byte[]> pieces = new ArrayList<>();
    private int size;
    /** Unused bytes of the last piece. */
    private int left;

    RequestBody(BodyBudget budget) {
        this.budget = budget;
    }

    int size() {
        return size;
    }

    /** Appends the content. When the memory for bodies is used up, it gives back the body's own and returns false. */
    boolean add(ByteBuf content) {
        int length = content.readableBytes();
        int held = taken.getAndSet(0);
        if (!budget.take(length, held)) {
            return false;
        }
        taken.set(held + length);
        while (content.isReadable()) {
            if (left == 0) {
                left = Math.clamp(size, MIN_PIECE, MAX_PIECE);
                pieces.add(new byte[left]);
            }
            byte[] last = pieces.getLast();
            int count = Math.min(left, content.readableBytes());
            content.readBytes(last, last.length - left, count);
            left -= count;
            size += count;
        }
        return true;
    }

    InputStream stream() {
        List<byte[]> all = pieces;
        List<InputStream> streams = new ArrayList<>(all.size());
        for (int i = 0; i < all.size(); i++) {
            byte[] piece = all.get(i);
            streams.add(new ByteArrayInputStream(piece, 0, i < all.size() - 1 ? piece.length : piece.length - left));
        }
        return new SequenceInputStream(Collections.enumeration(streams));
    }

    /** Returns the memory to the budget; later calls do nothing. */
    void release() {
        pieces = List.of();
        budget.release(taken.getAndSet(0));
    }
}
