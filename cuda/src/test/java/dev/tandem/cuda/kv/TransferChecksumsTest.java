package dev.tandem.cuda.kv;

import static java.lang.foreign.ValueLayout.JAVA_SHORT;
import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Checksums on the CPU. {@code KernelTest} compares those of the GPU with them. */
class TransferChecksumsTest {
    private static final BlockFormat FORMAT = new BlockFormat(3, 48, DataType.BFLOAT16);
    private static final int TOKENS = 19;

    private static MemorySegment block(Arena arena, long seed) {
        MemorySegment block = arena.allocate(FORMAT.blockBytes(), 64);
        SplittableRandom random = new SplittableRandom(seed);
        for (long at = 0; at < block.byteSize(); at += Short.BYTES) {
            block.set(JAVA_SHORT, at, (short) random.nextInt());
        }
        return block;
    }

    private static long sum(MemorySegment block) {
        return TransferChecksums.sum(FORMAT, block.address(), TOKENS);
    }

    @Test
    void theChecksumCoversEveryBitOfTheTokensAndNothingElse() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment block = block(arena, 1);
            long before = sum(block);
            for (int head = 0; head < FORMAT.kvHeads(); head++) {
                for (int token = 0; token < BlockFormat.TOKENS; token++) {
                    for (long at : new long[] {FORMAT.key(head, token, 47), FORMAT.value(head, token, 0)}) {
                        short value = block.get(JAVA_SHORT, at);
                        block.set(JAVA_SHORT, at, (short) (value ^ 1 << token % 16));
                        assertThat(sum(block) != before)
                                .as("head %d, token %d", head, token)
                                .isEqualTo(token < TOKENS);
                        block.set(JAVA_SHORT, at, value);
                    }
                }
            }
        }
    }

    @Test
    void theChecksumDetectsExchangedValues() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment block = block(arena, 2);
            long before = sum(block);
            long one = FORMAT.key(0, 3, 7);
            long other = FORMAT.value(2, 18, 7);
            short value = block.get(JAVA_SHORT, one);
            block.set(JAVA_SHORT, one, block.get(JAVA_SHORT, other));
            block.set(JAVA_SHORT, other, value);
            assertThat(sum(block)).isNotEqualTo(before);
        }
    }
}
