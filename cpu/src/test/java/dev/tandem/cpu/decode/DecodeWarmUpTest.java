package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class DecodeWarmUpTest {
    /** Computes nothing and keeps what it was given; {@link DecodeAllocationTest} runs real implementations. */
    private record Recorded(
            BlockFormat format,
            int heads,
            List<Integer> contexts,
            List<Integer> segments,
            Set<Boolean> knowNext,
            Set<Boolean> haveWindows)
            implements PagedDecodeAttention {
        Recorded(BlockFormat format, int heads) {
            this(format, heads, new ArrayList<>(), new ArrayList<>(), new HashSet<>(), new HashSet<>());
        }

        @Override
        public String name() {
            return "recorded";
        }

        @Override
        public Scratch scratch(Arena arena) {
            return new Scratch() {};
        }

        @Override
        public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
            segments.add(last - first);
            if (last == task.blockCount()) {
                contexts.add(task.context());
                knowNext.add(next != 0);
                haveWindows.add(task.visible > 0);
            }
            assertThat(task.isFinite(format, heads)).isTrue();
            assertThat(task.block(last - 1)).isNotZero();
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DataType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void everyImplementationGetsEveryKindOfTask(DataType type) {
        List<Recorded> implementations =
                List.of(new Recorded(new BlockFormat(2, 48, type), 6), new Recorded(new BlockFormat(1, 48, type), 3));
        DecodeWarmUp.run(List.copyOf(implementations), 4);
        for (Recorded recorded : implementations) {
            assertThat(recorded.contexts)
                    .as("a new block, a full one, partial ones, more than a segment")
                    .hasSize(20)
                    .contains(1, BlockFormat.TOKENS)
                    .anyMatch(context -> context > BlockFormat.TOKENS && context % BlockFormat.TOKENS != 0)
                    .anyMatch(context -> PagedDecodeAttention.segments(context) == 2);
            assertThat(recorded.segments).contains(1, PagedDecodeAttention.SEGMENT_BLOCKS);
            assertThat(recorded.knowNext).containsExactlyInAnyOrder(true, false);
            assertThat(recorded.haveWindows).containsExactlyInAnyOrder(true, false);
        }
    }
}
