package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Unpack;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Computes small tasks of decode attention while the model is being loaded, so that the JIT compiler has compiled the
 * implementations when the first host token arrives. Without this the GPU waits for 0.3 to 0.4 s in the first step with
 * a host token (ADR 115).
 *
 * <p>Owned by: a thread of its own, which ends when the rounds are done.
 */
public final class DecodeWarmUp {
    /**
     * Tokens of the tasks: a new block, a full one, blocks with a partial last one, and more than a segment. A task
     * that takes a branch which none took before makes compiled code be compiled again, which takes 0.1 s.
     */
    private static final int[] CONTEXTS = {
        1,
        BlockFormat.TOKENS,
        BlockFormat.TOKENS + 36,
        3 * BlockFormat.TOKENS + 8,
        (PagedDecodeAttention.SEGMENT_BLOCKS + 1) * BlockFormat.TOKENS - 10
    };
    /** After 100 rounds the next tasks take 1.7 times as long, and after 500 no shorter (ADR 115). */
    static final int ROUNDS = 250;

    private DecodeWarmUp() {}

    /**
     * Starts the warm-up on a daemon thread and returns at once.
     *
     * @param implementations for KV of 16-bit types, which a GPU has
     */
    public static void start(List<PagedDecodeAttention> implementations) {
        Thread.ofPlatform().daemon().name("tandem-decode-warm-up").start(() -> run(implementations, ROUNDS));
    }

    /** @param rounds tasks of each length and implementation */
    static void run(List<PagedDecodeAttention> implementations, int rounds) {
        try (Arena arena = Arena.ofConfined()) {
            SplittableRandom random = new SplittableRandom(1);
            List<Runner> runners = new ArrayList<>();
            for (PagedDecodeAttention implementation : implementations) {
                runners.add(new Runner(implementation, arena, random));
            }
            for (int round = 0; round < rounds; round++) {
                for (Runner runner : runners) {
                    for (int context : CONTEXTS) {
                        runner.run(context, round);
                    }
                }
            }
        }
    }

    /** One implementation and the memory that it works on; every block of a sequence is the same one. */
    private static final class Runner {
        private final PagedDecodeAttention attention;
        private final PagedDecodeAttention.Scratch scratch;
        private final Partial partial;
        private final Partial sum;
        private final DecodeTask task = new DecodeTask();
        private final long[] blocks = new long[PagedDecodeAttention.SEGMENT_BLOCKS + 1];
        private final long query;
        private final long key;
        private final long value;
        private final long out;
        private final long result;

        Runner(PagedDecodeAttention attention, Arena arena, SplittableRandom random) {
            BlockFormat format = attention.format();
            this.attention = attention;
            this.scratch = attention.scratch(arena);
            this.partial = new Partial(attention.heads(), format.headDim());
            this.sum = new Partial(attention.heads(), format.headDim());
            int bytes = format.type().bytes();
            Arrays.fill(blocks, random(format, Math.toIntExact(format.blockBytes() / bytes), arena, random));
            this.query = random(format, attention.heads() * format.headDim(), arena, random);
            this.key = random(format, format.kvHeads() * format.headDim(), arena, random);
            this.value = random(format, format.kvHeads() * format.headDim(), arena, random);
            this.out = arena.allocate((long) attention.heads() * format.headDim() * Float.BYTES, 64)
                    .address();
            this.result = random(format, attention.heads() * format.headDim(), arena, random);
        }

        /** Half of the tasks do not know the block that is read next, and half have a sliding window. */
        void run(int context, int round) {
            task.set(query, key, value, blocks, context, round % 4 < 2 ? 0 : context / 2, out);
            attention.run(task, round % 2 == 0 ? blocks[0] : 0, scratch, partial, sum);
            // workers return the result in the model's type
            Unpack.fromFloats(
                    attention.format().type(),
                    out,
                    attention.heads() * attention.format().headDim(),
                    result);
        }

        /** Address of random values of the format's type. */
        private static long random(BlockFormat format, int count, Arena arena, SplittableRandom random) {
            int bytes = format.type().bytes();
            long address = arena.allocate((long) count * bytes, 64).address();
            for (int i = 0; i < count; i++) {
                format.store(address + (long) i * bytes, (float) (2 * random.nextDouble() - 1));
            }
            return address;
        }
    }
}
