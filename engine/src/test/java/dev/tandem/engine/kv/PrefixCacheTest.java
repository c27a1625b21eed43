package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The prefix cache by itself. Blocks have 4 tokens. */
class PrefixCacheTest {
    private static final int BLOCK = 4;
    private static final int OPERATIONS = Integer.getInteger("tandem.cache.operations", 8_000);

    private long keys;
    private KvCache cache;

    @BeforeEach
    void makeACache() {
        cache = cache(30, -1, Long.MAX_VALUE);
    }

    private static KvCache cache(int blocks, long hashMask, long maxShared) {
        PrefixCacheOptions options = new PrefixCacheOptions(true, 1, hashMask);
        return new KvCache(BLOCK, BLOCK, blocks, 20, PrefillStaging.NONE, options, maxShared);
    }

    private Sequence sequence(PrefixCaching caching, int... prompt) {
        SamplingParams params = SamplingParams.builder().build();
        long key = keys++;
        Request request = new Request("r" + key, prompt, params, 0, TextDecoder.none(), event -> {});
        return new Sequence(key, request.withCaching(caching), 0, 1000, new TokenSampler(params, prompt, Set.of(), 1));
    }

    private Sequence waiting(int... prompt) {
        return sequence(PrefixCaching.SHARED, prompt);
    }

    private Sequence start(Sequence sequence) {
        cache.start(sequence, KvTier.GPU, cache.hit(sequence).length);
        return sequence;
    }

    /** Starts a sequence and computes its prompt. */
    private Sequence computed(int... prompt) {
        return compute(start(waiting(prompt)));
    }

    private Sequence compute(Sequence sequence) {
        assertThat(cache.grow(sequence, sequence.length())).isTrue();
        sequence.advance(sequence.remaining());
        cache.register(sequence, sequence.computed());
        return sequence;
    }

    private int used() {
        return cache.pool(KvTier.GPU).used();
    }

    private static int[] tokens(int from, int to) {
        return IntStream.range(from, to).toArray();
    }

    @Test
    void theLastTokenIsAlwaysComputed() {
        cache.release(computed(tokens(0, 8)));
        assertThat(cache.hit(waiting(tokens(0, 8)))).hasSize(1);
        assertThat(cache.hit(waiting(tokens(0, 9)))).hasSize(2);
    }

    @Test
    void aHitEndsWhereTokensDiffer() {
        cache.release(computed(tokens(0, 20)));
        int[] other = tokens(0, 20);
        other[9] = 77;
        assertThat(cache.hit(waiting(other))).hasSize(2);
        other[0] = 77;
        assertThat(cache.hit(waiting(other))).isEmpty();
    }

    @Test
    void otherSaltsNeverMeet() {
        cache.release(compute(start(sequence(PrefixCaching.salted("a"), tokens(0, 9)))));
        assertThat(cache.hit(sequence(PrefixCaching.salted("a"), tokens(0, 9)))).hasSize(2);
        assertThat(cache.hit(sequence(PrefixCaching.salted("b"), tokens(0, 9)))).isEmpty();
        assertThat(cache.hit(waiting(tokens(0, 9)))).isEmpty();
    }

    @Test
    void aRequestWithoutCachingNeitherHitsNorIsHit() {
        cache.release(compute(start(sequence(PrefixCaching.OFF, tokens(0, 9)))));
        assertThat(cache.hit(waiting(tokens(0, 9)))).isEmpty();
        cache.release(computed(tokens(0, 9)));
        assertThat(cache.hit(sequence(PrefixCaching.OFF, tokens(0, 9)))).isEmpty();
    }

    @Test
    void equalBlocksAreAdopted() {
        Sequence first = start(waiting(tokens(0, 10)));
        Sequence second = start(waiting(tokens(0, 10)));
        compute(first);
        compute(second);
        assertThat(Arrays.copyOf(second.table().toArray(), 2))
                .isEqualTo(Arrays.copyOf(first.table().toArray(), 2));
        assertThat(used()).isEqualTo(4);
        cache.checkIntegrity(List.of(first, second));
        cache.release(first);
        assertThat(used()).isEqualTo(3);
        assertThat(cache.hit(waiting(tokens(0, 10)))).hasSize(2);
    }

    @Test
    void blocksAreNotAdoptedBeyondTheMaxOfSharedOnes() {
        cache = cache(30, -1, 1);
        Sequence first = start(waiting(tokens(0, 10)));
        Sequence second = start(waiting(tokens(0, 10)));
        compute(first);
        compute(second);
        assertThat(cache.pool(KvTier.GPU).shared()).isEqualTo(1);
        cache.checkIntegrity(List.of(first, second));
        cache.release(first);
        cache.register(second, second.computed());
        assertThat(used()).as("the node's block is cached now, and is adopted").isEqualTo(3);
    }

    @Test
    void evictionTakesTheLeastRecentlyUsedAndLeavesFirst() {
        cache.release(computed(tokens(0, 41))); // 10 blocks
        cache.release(computed(tokens(100, 141))); // 10 blocks
        cache.release(computed(tokens(0, 41))); // used again
        assertThat(cache.pool(KvTier.GPU).cached()).isEqualTo(20);
        Sequence large = computed(tokens(200, 272)); // 18 blocks of 30, so 8 are evicted
        assertThat(cache.hit(waiting(tokens(0, 41)))).hasSize(10);
        assertThat(cache.hit(waiting(tokens(100, 141))))
                .as("its first blocks are left")
                .hasSize(2);
        cache.checkIntegrity(List.of(large));
    }

    @Test
    void aPoisonedSequenceIsNotCachedNorIsWhatFollows() {
        Sequence healthy = computed(tokens(0, 8));
        Sequence poisoned = computed(tokens(0, 16));
        Sequence follower = computed(tokens(0, 24));
        cache.purge(poisoned);
        List.of(healthy, poisoned, follower).forEach(cache::release);
        assertThat(cache.hit(waiting(tokens(0, 25)))).as("what it hit is left").hasSize(2);
        cache.checkIntegrity(List.of());
    }

    @Test
    void aSequenceThatHitAPoisonedOneRegistersNoMore() {
        Sequence poisoned = computed(tokens(0, 8));
        Sequence follower = start(waiting(tokens(0, 24)));
        assertThat(follower.computed()).isEqualTo(8);
        cache.purge(poisoned);
        compute(follower);
        cache.release(poisoned);
        cache.release(follower);
        assertThat(cache.hit(waiting(tokens(0, 25)))).isEmpty();
        assertThat(cache.pool(KvTier.GPU).free()).isEqualTo(30);
    }

    @Test
    void aResetForgetsRunningSequencesToo() {
        Sequence running = computed(tokens(0, 8));
        cache.resetPrefixes(List.of(running));
        assertThat(cache.hit(waiting(tokens(0, 9)))).isEmpty();
        cache.register(running, running.computed());
        cache.release(running);
        assertThat(cache.hit(waiting(tokens(0, 9)))).isEmpty();
        assertThat(cache.pool(KvTier.GPU).cached()).isZero();
    }

    @Test
    void aLostWriterQuarantinesItsTailAlone() {
        Sequence lost = computed(tokens(0, 10));
        cache.quarantine(lost);
        assertThat(cache.hit(waiting(tokens(0, 10)))).hasSize(2);
        assertThat(cache.pool(KvTier.GPU).free()).isEqualTo(29);
        cache.checkIntegrity(List.of());
    }

    @Test
    void hostBlocksAreNotCached() {
        Sequence sequence = start(waiting(tokens(0, 8)));
        cache.release(sequence);
        cache.start(sequence, KvTier.HOST, 0);
        compute(sequence);
        cache.release(sequence);
        assertThat(cache.hit(waiting(tokens(0, 9)))).isEmpty();
    }

    @Test
    void whatASwapLeavesBehindIsHit() {
        Sequence sequence = computed(tokens(0, 9));
        cache.move(sequence, KvTier.HOST).orElseThrow();
        assertThat(cache.hit(waiting(tokens(0, 9)))).hasSize(2);
        cache.move(sequence, KvTier.GPU).orElseThrow();
        cache.register(sequence, sequence.computed());
        assertThat(used()).isEqualTo(3);
        cache.checkIntegrity(List.of(sequence));
        assertThat(cache.pool(KvTier.GPU).free())
                .as("it has adopted what it left behind")
                .isEqualTo(27);
    }

    /**
     * Random operations against a map from salt and prefix to what has been computed: {@code -Dtandem.cache.operations}
     * sets their number.
     */
    @ParameterizedTest
    @CsvSource({"-1, 9223372036854775807", "15, 9223372036854775807", "-1, 6", "0, 20"})
    void randomOperationsKeepAllInvariants(long hashMask, long maxShared) {
        long seed = 7 + hashMask + maxShared;
        SplittableRandom random = new SplittableRandom(seed);
        cache = cache(30, hashMask, maxShared);
        Map<String, Set<List<Integer>>> known = new HashMap<>();
        List<Sequence> live = new ArrayList<>();
        List<Sequence> waiting = new ArrayList<>();
        int hits = 0;
        for (int i = 0; i < OPERATIONS; i++) {
            switch (random.nextInt(10)) {
                case 0, 1 -> {
                    if (waiting.size() < 6) {
                        waiting.add(random(random));
                    }
                }
                case 2, 3, 4 -> {
                    if (!waiting.isEmpty()) {
                        Sequence sequence = waiting.remove(random.nextInt(waiting.size()));
                        int[] hit = cache.hit(sequence);
                        checkHit(sequence, hit.length, known, seed);
                        if (random.nextInt(6) == 0) {
                            cache.start(sequence, KvTier.HOST, 0);
                        } else {
                            boolean takes = cache.pool(KvTier.GPU).shared() + hit.length <= maxShared;
                            cache.start(sequence, KvTier.GPU, takes ? hit.length : 0);
                            hits += takes ? hit.length : 0;
                        }
                        live.add(sequence);
                    }
                }
                case 5 -> {
                    if (!live.isEmpty()) {
                        cache.release(live.remove(random.nextInt(live.size())));
                    }
                }
                case 6 -> {
                    if (!live.isEmpty()) {
                        Sequence sequence = live.get(random.nextInt(live.size()));
                        cache.move(sequence, random.nextBoolean() ? KvTier.GPU : KvTier.HOST);
                    }
                }
                default -> {
                    if (!live.isEmpty()) {
                        Sequence sequence = live.get(random.nextInt(live.size()));
                        operate(sequence, live, waiting, known, random);
                    }
                }
            }
            cache.checkIntegrity(live);
        }
        live.forEach(cache::release);
        assertThat(used()).as("seed %d", seed).isZero();
        assertThat(hits).as("seed %d", seed).isPositive();
        assertThat(cache.prefixCacheUse().evictions()).as("seed %d", seed).isPositive();
    }

    /** Few tokens and salts, so that prefixes meet. */
    private Sequence random(SplittableRandom random) {
        String salt = random.nextInt(3) == 0 ? "salt" : "";
        int[] prompt = random.ints(1 + random.nextInt(30), 0, 2).toArray();
        return sequence(new PrefixCaching(random.nextInt(10) > 0, salt), prompt);
    }

    private void operate(
            Sequence sequence,
            List<Sequence> live,
            List<Sequence> waiting,
            Map<String, Set<List<Integer>>> known,
            SplittableRandom random) {
        switch (random.nextInt(20)) {
            case 0 -> { // preempted
                cache.release(sequence);
                sequence.restart();
                live.remove(sequence);
                waiting.add(sequence);
            }
            case 1 -> {
                cache.purge(sequence);
                cache.release(sequence);
                live.remove(sequence);
            }
            case 2 -> {
                if (random.nextInt(20) == 0) {
                    cache.resetPrefixes(live);
                    known.clear();
                }
            }
            default -> {
                if (sequence.remaining() == 0) {
                    sequence.append(random.nextInt(2), 0);
                }
                int rows = 1 + random.nextInt(sequence.remaining());
                if (sequence.length() < 60 && cache.grow(sequence, sequence.length())) {
                    int before = sequence.computed();
                    sequence.advance(rows);
                    note(sequence, before, known);
                    cache.register(sequence, sequence.computed());
                }
            }
        }
    }

    private static List<Integer> prefix(Sequence sequence, int tokens) {
        return Arrays.stream(sequence.tokens(0, tokens)).boxed().toList();
    }

    private static void note(Sequence sequence, int before, Map<String, Set<List<Integer>>> known) {
        PrefixCaching caching = sequence.request().caching();
        for (int end = before / BLOCK * BLOCK + BLOCK; end <= sequence.computed() && caching.enabled(); end += BLOCK) {
            known.computeIfAbsent(caching.salt(), salt -> new HashSet<>()).add(prefix(sequence, end));
        }
    }

    private static void checkHit(Sequence sequence, int blocks, Map<String, Set<List<Integer>>> known, long seed) {
        assertThat(blocks * BLOCK).as("seed %d", seed).isLessThan(sequence.length());
        if (blocks > 0) {
            PrefixCaching caching = sequence.request().caching();
            assertThat(caching.enabled()).as("seed %d", seed).isTrue();
            assertThat(known.getOrDefault(caching.salt(), Set.of()))
                    .as("seed %d", seed)
                    .contains(prefix(sequence, blocks * BLOCK));
        }
    }
}
