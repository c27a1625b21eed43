package dev.tandem.cpu.decode;

import dev.tandem.model.config.SlidingWindow;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;

/** Decode tasks over random KV, in blocks that held NaN before, and the attention expected of them in float64. */
final class RandomDecodeTasks {
    final BlockFormat format;
    final int heads;
    final DecodeTask[] all;
    final MemorySegment out;
    private final int[] contexts;

    /**
     * Makes one task per context. Blocks of which no token is attended to stay NaN.
     *
     * @param window how many tokens a task attends to at most; 0 for all
     * @param appendLast whether each task's last token is left for the task to append
     */
    RandomDecodeTasks(
            BlockFormat format, int heads, int[] contexts, int window, boolean appendLast, long seed, Arena arena) {
        this.format = format;
        this.heads = heads;
        this.contexts = contexts;
        this.all = new DecodeTask[contexts.length];
        SplittableRandom random = new SplittableRandom(seed);
        int headDim = format.headDim();
        long queryBytes = (long) heads * headDim * format.type().bytes();
        this.out = arena.allocate((long) contexts.length * heads * headDim * Float.BYTES, 64);
        for (int i = 0; i < contexts.length; i++) {
            int blocks = (contexts[i] + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
            long[] addresses = new long[blocks];
            for (int b = 0; b < blocks; b++) {
                MemorySegment block = arena.allocate(format.blockBytes(), 64);
                block.fill((byte) 0xFF); // NaN everywhere
                addresses[b] = block.address();
            }
            MemorySegment token = arena.allocate(2 * queryBytes, 64);
            long k = token.address();
            long v = k + queryBytes;
            int visible = SlidingWindow.first(contexts[i] - 1, window);
            int written = appendLast ? contexts[i] - 1 : contexts[i];
            for (int t = 0; t < contexts[i]; t++) {
                fill(k, format.kvHeads() * headDim, 1, random);
                fill(v, format.kvHeads() * headDim, 1, random);
                if (t >= visible / BlockFormat.TOKENS * BlockFormat.TOKENS && t < written) {
                    format.append(addresses[t / BlockFormat.TOKENS], t % BlockFormat.TOKENS, k, v);
                }
            }
            MemorySegment q = arena.allocate(queryBytes, 64);
            fill(q.address(), heads * headDim, 2, random);
            all[i] = new DecodeTask();
            all[i].set(
                    q.address(),
                    appendLast ? k : 0,
                    appendLast ? v : 0,
                    addresses,
                    contexts[i],
                    visible,
                    out.address() + (long) i * heads * headDim * Float.BYTES);
        }
    }

    private void fill(long address, int count, double scale, SplittableRandom random) {
        for (int i = 0; i < count; i++) {
            format.store(address + (long) i * format.type().bytes(), (float) (scale * (2 * random.nextDouble() - 1)));
        }
    }

    /** ‖actual − expected‖ / ‖expected‖ of a task that has been run. */
    double error(int index) {
        double[] expected = expected(index);
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < expected.length; i++) {
            double d = out.getAtIndex(ValueLayout.JAVA_FLOAT, (long) index * expected.length + i) - expected[i];
            difference += d * d;
            norm += expected[i] * expected[i];
        }
        return Math.sqrt(difference / norm);
    }

    private double[] expected(int index) {
        int headDim = format.headDim();
        int context = contexts[index];
        int group = heads / format.kvHeads();
        double[] result = new double[heads * headDim];
        DecodeTask task = all[index];
        for (int head = 0; head < heads; head++) {
            double[] scores = new double[context];
            double max = Double.NEGATIVE_INFINITY;
            for (int t = task.visible; t < context; t++) {
                long block = task.blocks[t / BlockFormat.TOKENS];
                double sum = 0;
                for (int d = 0; d < headDim; d++) {
                    double q = format.load(
                            task.q + ((long) head * headDim + d) * format.type().bytes());
                    sum += q * format.load(block + format.key(head / group, t % BlockFormat.TOKENS, d));
                }
                scores[t] = sum / Math.sqrt(headDim);
                max = Math.max(max, scores[t]);
            }
            double total = 0;
            for (int t = task.visible; t < context; t++) {
                scores[t] = Math.exp(scores[t] - max);
                total += scores[t];
            }
            for (int t = task.visible; t < context; t++) {
                long block = task.blocks[t / BlockFormat.TOKENS];
                for (int d = 0; d < headDim; d++) {
                    result[head * headDim + d] += scores[t]
                            / total
                            * format.load(block + format.value(head / group, t % BlockFormat.TOKENS, d));
                }
            }
        }
        return result;
    }
}
