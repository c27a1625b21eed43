package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class KvCacheTest {
    private static Sequence sequence(long key) {
        SamplingParams params = SamplingParams.builder().build();
        int[] prompt = {1};
        Request request = new Request("r" + key, prompt, params, 0, TextDecoder.none(), event -> {});
        return new Sequence(key, request, 0, 1000, new TokenSampler(params, prompt, Set.of(), 1));
    }

    @Test
    void randomOperationsConserveBlocks() {
        long seed = 3;
        SplittableRandom random = new SplittableRandom(seed);
        KvCache cache = new KvCache(16, 30, 20);
        List<Sequence> live = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            if (live.size() < 8 && random.nextInt(4) == 0) {
                Sequence sequence = sequence(i);
                cache.start(sequence, PrefixUse.nothing(random.nextBoolean() ? KvTier.GPU : KvTier.HOST));
                live.add(sequence);
            } else if (!live.isEmpty()) {
                Sequence sequence = live.get(random.nextInt(live.size()));
                switch (random.nextInt(4)) {
                    case 0 -> {
                        cache.release(sequence);
                        live.remove(sequence);
                    }
                    case 1 -> cache.move(sequence, PrefixUse.nothing(random.nextBoolean() ? KvTier.GPU : KvTier.HOST));
                    default -> {
                        int tokens = sequence.computed() + 1 + random.nextInt(30);
                        if (cache.grow(sequence, tokens)) {
                            sequence.advance(tokens - sequence.computed());
                        }
                    }
                }
            }
            cache.checkIntegrity(live);
        }
        live.forEach(cache::release);
        assertThat(cache.pool(KvTier.GPU).used() + cache.pool(KvTier.HOST).used())
                .as("seed %d", seed)
                .isZero();
    }

    static Stream<List<Integer>> windows() {
        return Stream.of(List.of(21), List.of(0, 21, 21, 21), List.of(0, 0, 9, 9, 9, 9, 0, 0, 21, 21));
    }

    /** Host blocks of 8 tokens, GPU blocks of 4, and chunks of 10. */
    @ParameterizedTest
    @MethodSource("windows")
    void randomOperationsWithWindowsConserveBlocks(List<Integer> windows) {
        long seed = 5;
        SplittableRandom random = new SplittableRandom(seed);
        KvLayout layout = KvLayout.of(windows, 8, 10);
        int groups = layout.groups();
        KvCache cache = new KvCache(
                4,
                8,
                40 * groups,
                20 * groups,
                PrefillStaging.NONE,
                PrefixCacheOptions.OFF,
                0,
                layout,
                AttentionSpan.WHOLE);
        List<Sequence> live = new ArrayList<>();
        int slid = 0;
        for (int i = 0; i < 20_000; i++) {
            if (live.size() < 8 && random.nextInt(8) == 0) {
                Sequence sequence = sequence(i);
                cache.start(sequence, PrefixUse.nothing(random.nextBoolean() ? KvTier.GPU : KvTier.HOST));
                live.add(sequence);
            } else if (!live.isEmpty()) {
                Sequence sequence = live.get(random.nextInt(live.size()));
                switch (random.nextInt(12)) {
                    case 0 -> {
                        cache.release(sequence);
                        live.remove(sequence);
                    }
                    case 1 -> cache.move(sequence, PrefixUse.nothing(random.nextBoolean() ? KvTier.GPU : KvTier.HOST));
                    default -> {
                        int tokens = sequence.computed() + 1 + random.nextInt(10);
                        if (cache.grow(sequence, tokens)) {
                            sequence.advance(tokens - sequence.computed());
                            cache.slide(sequence);
                            slid += sequence.table().group(groups - 1).first() > 0 ? 1 : 0;
                        }
                    }
                }
                assertThat(sequence.table().pages())
                        .isLessThanOrEqualTo(cache.maxHeld(sequence.table().tier(), sequence.computed() + 10));
            }
            cache.checkIntegrity(live);
        }
        live.forEach(cache::release);
        assertThat(cache.pool(KvTier.GPU).used() + cache.pool(KvTier.HOST).used())
                .as("seed %d", seed)
                .isZero();
        assertThat(slid).as("sequences longer than the window").isGreaterThan(1000);
    }

    /** Adjacent blocks are copied in one transfer, so adjacent blocks should stay adjacent. */
    @Test
    void freedBlocksAreGrantedInAscendingOrder() {
        KvCache cache = new KvCache(16, 8, 8);
        Sequence first = sequence(1);
        cache.grow(first, 70);
        int[] blocks = first.table().group(0).view().blocks();
        assertThat(blocks).isEqualTo(new int[] {0, 1, 2, 3, 4});
        cache.release(first);
        Sequence second = sequence(2);
        cache.grow(second, 70);
        assertThat(second.table().group(0).view().blocks()).isEqualTo(blocks);
    }

    @Test
    void integrityNoticesALostSequence() {
        KvCache cache = new KvCache(16, 4, 4);
        Sequence sequence = sequence(1);
        cache.grow(sequence, 20);
        assertThatThrownBy(() -> cache.checkIntegrity(List.of()))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("GPU block 0 with 1 references is listed by 0 tables");
    }
}
