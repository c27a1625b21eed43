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
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The prefix cache by itself. GPU blocks have 4 tokens, host blocks 8. */
class PrefixCacheTest {
    private static final int BLOCK = 4;
    private static final int HOST_BLOCK = 8;
    private static final int OPERATIONS = Integer.getInteger("tandem.cache.operations", 8_000);

    private long keys;
    private KvCache cache;

    @BeforeEach
    void makeACache() {
        cache = cache(30, -1, Long.MAX_VALUE);
    }

    private static KvCache cache(int blocks, long hashMask, long maxShared) {
        return cache(blocks, hashMask, maxShared, KvLayout.of(KvWindow.NONE));
    }

    private static KvCache cache(int blocks, long hashMask, long maxShared, KvLayout layout) {
        PrefixCacheOptions options = new PrefixCacheOptions(true, 1, hashMask).withEvents(true);
        return new KvCache(
                BLOCK,
                HOST_BLOCK,
                blocks * layout.groups(),
                20 * layout.groups(),
                PrefillStaging.NONE,
                options,
                maxShared,
                layout,
                AttentionSpan.WHOLE);
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

    private Sequence salted(String salt, int... prompt) {
        return sequence(PrefixCaching.salted(salt), prompt);
    }

    private int[] hit(Sequence sequence) {
        return cache.hit(sequence, KvTier.GPU);
    }

    private int[] hostHit(Sequence sequence) {
        return cache.hit(sequence, KvTier.HOST);
    }

    private PrefixUse sharing(Sequence sequence, KvTier tier) {
        int[] hit = cache.hit(sequence, tier);
        int blocks = hit.length / cache.layout().groups();
        int tokens = blocks * cache.blockTokens(tier);
        return PrefixUse.sharing(tier, hit, cache.firstHeld(tier, tokens), blocks, tokens);
    }

    /** Copies as much as the other tier has, if that is more than a use has. */
    private PrefixUse copying(Sequence sequence, PrefixUse use) {
        KvTier tier = use.tier();
        int[] other = cache.hit(sequence, tier.other());
        int each = cache.blockTokens(tier);
        int otherEach = cache.blockTokens(tier.other());
        int otherTokens = other.length / cache.layout().groups() * otherEach;
        int tokens = Math.min(otherTokens, sequence.length() - 2) / HOST_BLOCK * HOST_BLOCK;
        if (tokens <= use.tokens()) {
            return use;
        }
        int whole = tier == KvTier.GPU ? use.shared() / 2 * 2 : use.shared();
        int[] first = cache.firstHeld(tier, tokens);
        int[] copyFrom = Arrays.stream(first)
                .map(begin -> Math.max(begin, whole) * each / otherEach)
                .toArray();
        PrefixUse copying = PrefixUse.sharing(tier, use.found(), first, whole, whole * each)
                .copying(other, copyFrom, tokens / otherEach, tokens);
        return copying.hasCopied() ? copying : use;
    }

    private Sequence start(Sequence sequence) {
        return start(sequence, KvTier.GPU);
    }

    private Sequence start(Sequence sequence, KvTier tier) {
        PrefixUse use = sharing(sequence, tier);
        cache.claim(sequence, use);
        cache.start(sequence, use);
        return sequence;
    }

    /** Moves a sequence; whole host blocks of it that the tier has are shared. */
    private List<Swap> move(Sequence sequence, KvTier tier) {
        int[] hit = cache.hit(sequence, tier);
        int blocks = hit.length / cache.layout().groups();
        int shared = tier == KvTier.HOST ? blocks : blocks / 2 * 2;
        int[] first = cache.firstHeld(tier, sequence.computed());
        PrefixUse use = shared > first[first.length - 1]
                ? PrefixUse.sharing(tier, hit, first, shared, shared * cache.blockTokens(tier))
                : PrefixUse.nothing(tier);
        if (sequence.table().tier() == tier
                || sequence.computed() == 0
                || cache.blocksFor(tier, sequence.computed()) * first.length
                        > cache.pool(tier).free()) {
            return List.of();
        }
        cache.claim(sequence, use);
        return cache.move(sequence, use);
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
        assertThat(hit(waiting(tokens(0, 8)))).hasSize(1);
        assertThat(hit(waiting(tokens(0, 9)))).hasSize(2);
    }

    @Test
    void aHitEndsWhereTokensDiffer() {
        cache.release(computed(tokens(0, 20)));
        int[] other = tokens(0, 20);
        other[9] = 77;
        assertThat(hit(waiting(other))).hasSize(2);
        other[0] = 77;
        assertThat(hit(waiting(other))).isEmpty();
    }

    /**
     * Every salt has a prefix of its own in the tree, so its root is there when it asks for another's.
     *
     * @param hashMask 0: all hashes are equal
     */
    @ParameterizedTest
    @ValueSource(longs = {-1, 0})
    void otherSaltsNeverMeet(long hashMask) {
        cache = cache(30, hashMask, Long.MAX_VALUE);
        List<String> salts = List.of("", "a", "b");
        for (int i = 0; i < salts.size(); i++) {
            cache.release(compute(start(salted(salts.get(i), tokens(100 * i, 100 * i + 9)))));
        }
        for (int i = 0; i < salts.size(); i++) {
            for (String asking : salts) {
                assertThat(hit(salted(asking, tokens(100 * i, 100 * i + 9))))
                        .as("'%s' asks for the prefix of '%s'", asking, salts.get(i))
                        .hasSize(asking.equals(salts.get(i)) ? 2 : 0);
            }
        }
    }

    @Test
    void aRequestWithoutCachingNeitherHitsNorIsHit() {
        cache.release(compute(start(sequence(PrefixCaching.OFF, tokens(0, 9)))));
        assertThat(hit(waiting(tokens(0, 9)))).isEmpty();
        cache.release(computed(tokens(0, 9)));
        assertThat(hit(sequence(PrefixCaching.OFF, tokens(0, 9)))).isEmpty();
    }

    @Test
    void equalBlocksAreAdopted() {
        Sequence first = start(waiting(tokens(0, 10)));
        Sequence second = start(waiting(tokens(0, 10)));
        compute(first);
        compute(second);
        assertThat(Arrays.copyOf(second.table().group(0).view().blocks(), 2))
                .isEqualTo(Arrays.copyOf(first.table().group(0).view().blocks(), 2));
        assertThat(used()).isEqualTo(4);
        cache.checkIntegrity(List.of(first, second));
        cache.release(first);
        assertThat(used()).isEqualTo(3);
        assertThat(hit(waiting(tokens(0, 10)))).hasSize(2);
    }

    @Test
    void aBlockOfOutputIsHitOnceItsLastTokenIsComputed() {
        Sequence sequence = computed(tokens(0, 9));
        for (int token = 9; token < 12; token++) {
            assertThat(hit(waiting(tokens(0, 13)))).hasSize(2);
            sequence.append(token, 0);
            compute(sequence);
        }
        assertThat(hit(waiting(tokens(0, 13)))).hasSize(3);
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
        assertThat(hit(waiting(tokens(0, 41)))).hasSize(10);
        assertThat(hit(waiting(tokens(100, 141))))
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
        assertThat(hit(waiting(tokens(0, 25)))).as("what it hit is left").hasSize(2);
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
        assertThat(hit(waiting(tokens(0, 25)))).isEmpty();
        assertThat(cache.pool(KvTier.GPU).free()).isEqualTo(30);
    }

    @Test
    void aResetForgetsRunningSequencesToo() {
        Sequence running = computed(tokens(0, 8));
        cache.resetPrefixes(List.of(running));
        assertThat(hit(waiting(tokens(0, 9)))).isEmpty();
        cache.register(running, running.computed());
        cache.release(running);
        assertThat(hit(waiting(tokens(0, 9)))).isEmpty();
        assertThat(cache.pool(KvTier.GPU).cached()).isZero();
    }

    @Test
    void aLostWriterQuarantinesItsTailAlone() {
        Sequence lost = computed(tokens(0, 10));
        cache.quarantine(lost);
        assertThat(hit(waiting(tokens(0, 10)))).hasSize(2);
        assertThat(cache.pool(KvTier.GPU).free()).isEqualTo(29);
        cache.checkIntegrity(List.of());
    }

    @Test
    void hostBlocksAreHitInPlace() {
        Sequence first = compute(start(waiting(tokens(0, 20)), KvTier.HOST));
        assertThat(hit(waiting(tokens(0, 20)))).isEmpty();
        Sequence second = start(waiting(tokens(0, 30)), KvTier.HOST);
        assertThat(second.computed()).isEqualTo(16);
        compute(second);
        assertThat(cache.pool(KvTier.HOST).used()).as("two blocks are shared").isEqualTo(5);
        cache.checkIntegrity(List.of(first, second));
        cache.release(first);
        cache.release(second);
        assertThat(cache.pool(KvTier.HOST).cached()).isEqualTo(3);
    }

    /** One token would look like a decode, which the GPU does not compute from host blocks. */
    @Test
    void aHitOnTheHostLeavesTwoTokens() {
        cache.release(compute(start(waiting(tokens(0, 20)), KvTier.HOST)));
        assertThat(hostHit(waiting(tokens(0, 17)))).hasSize(1);
        assertThat(hostHit(waiting(tokens(0, 18)))).hasSize(2);
    }

    @Test
    void aMoveCopiesOnlyWhatTheHostLacks() {
        Sequence other = compute(start(waiting(tokens(0, 17)), KvTier.HOST));
        Sequence sequence = computed(tokens(0, 29));
        Swap swap = move(sequence, KvTier.HOST).getFirst();
        assertThat(swap.tokens()).isEqualTo(13);
        assertThat(swap.fromBlocks()).hasSize(4);
        assertThat(swap.toBlocks()).hasSize(2);
        assertThat(Arrays.copyOf(sequence.table().group(0).view().blocks(), 2))
                .isEqualTo(Arrays.copyOf(other.table().group(0).view().blocks(), 2));
        cache.checkIntegrity(List.of(other, sequence));
    }

    @Test
    void whatASwapLeavesBehindIsHit() {
        Sequence sequence = computed(tokens(0, 19));
        assertThat(move(sequence, KvTier.HOST)).hasSize(1);
        assertThat(hit(waiting(tokens(0, 19)))).hasSize(4);
        Swap back = move(sequence, KvTier.GPU).getFirst();
        assertThat(back.tokens()).as("only the tail comes back").isEqualTo(3);
        assertThat(used()).isEqualTo(5);
        cache.checkIntegrity(List.of(sequence));
    }

    @Test
    void aCopyBackHoldsItsSourceUntilThePlanIsMade() {
        cache.release(compute(start(waiting(tokens(0, 20)), KvTier.HOST)));
        Sequence sequence = waiting(tokens(0, 20));
        PrefixUse use = copying(sequence, sharing(sequence, KvTier.GPU));
        cache.claim(sequence, use);
        assertThat(cache.pool(KvTier.HOST).cached()).isZero();
        cache.start(sequence, use);
        Swap copy = cache.copy(sequence, use).getFirst();
        cache.endCopy(sequence, use);
        assertThat(copy.tokens()).isEqualTo(16);
        assertThat(copy.toBlocks()).hasSize(4);
        compute(sequence);
        cache.checkIntegrity(List.of(sequence));
        assertThat(cache.pool(KvTier.HOST).cached()).isEqualTo(2);
        assertThat(hit(waiting(tokens(0, 20))))
                .as("copied blocks are registered")
                .hasSize(4);
        assertThat(cache.prefixCacheUse().copiedHits()).isEqualTo(16);
    }

    @Test
    void prefixesAreDemotedOnceARequestComesBackForAnEvictedOne() {
        cache.release(computed(tokens(0, 41)));
        cache.release(computed(tokens(100, 172)));
        cache.release(computed(tokens(200, 272)));
        assertThat(cache.demote(8)).as("nobody has come back").isEmpty();
        cache.release(computed(tokens(0, 41)));
        List<Swap> copies = cache.demote(3);
        assertThat(copies).hasSize(3).allMatch(copy -> copy.tokens() == HOST_BLOCK && copy.to() == KvTier.HOST);
        cache.checkIntegrity(List.of());
        assertThat(cache.pool(KvTier.HOST).cached()).isEqualTo(3);
        while (!cache.demote(3).isEmpty()) {
            cache.checkIntegrity(List.of());
        }
        assertThat(hostHit(waiting(tokens(0, 42)))).hasSize(5);
    }

    /** Prefixes leave the GPU in the order of their last use, whether or not they are copied to the host before. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void demotionKeepsTheOrderOfEviction(long seed) {
        List<Integer> hits = hits(seed, 0);
        assertThat(cache.prefixCacheUse().demotions()).isZero();
        assertThat(hits(seed, 3)).as("seed %d", seed).isEqualTo(hits);
        assertThat(cache.prefixCacheUse().demotions()).as("seed %d", seed).isPositive();
    }

    /** Computes random prompts, and says after each what is hit of all; max host blocks are demoted in between. */
    private List<Integer> hits(long seed, int maxDemotions) {
        makeACache();
        SplittableRandom random = new SplittableRandom(seed);
        List<Integer> hits = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            int first = 100 * random.nextInt(6);
            cache.release(computed(tokens(first, first + 9 + random.nextInt(40))));
            cache.demote(maxDemotions);
            for (int other = 0; other < 600; other += 100) {
                hits.add(hit(waiting(tokens(other, other + 50))).length);
            }
        }
        return hits;
    }

    /** A prompt takes many blocks at once, so more than the coldest few are to have copies. */
    @Test
    void demotionGoesOnBehindBlocksThatHaveCopies() {
        PrefixCacheOptions options = PrefixCacheOptions.on(1);
        cache = new KvCache(BLOCK, HOST_BLOCK, 130, 60, PrefillStaging.NONE, options, Long.MAX_VALUE);
        for (int i = 0; i < 50; i++) {
            cache.release(computed(tokens(100 * i, 100 * i + 12)));
        }
        cache.release(computed(tokens(0, 12))); // comes back, and was evicted
        while (!cache.demote(3).isEmpty()) {
            cache.checkIntegrity(List.of());
        }
        for (int i = 20; i < 50; i++) {
            assertThat(hostHit(waiting(tokens(100 * i, 100 * i + 12))))
                    .as("prefix %d", i)
                    .hasSize(1);
        }
    }

    /** Three of four prefixes have room on the host: none is copied there at the expense of a colder one. */
    @Test
    void demotionEndsWhereTheHostHoldsLessThanIsCold() {
        cache = new KvCache(BLOCK, HOST_BLOCK, 12, 3, PrefillStaging.NONE, PrefixCacheOptions.on(1), 100);
        for (int i : new int[] {0, 1, 2, 3, 4, 0}) { // the first one is evicted, and comes back
            cache.release(computed(tokens(100 * i, 100 * i + 12)));
        }
        for (int calls = 0; !cache.demote(3).isEmpty(); calls++) {
            assertThat(calls).as("calls that copy").isLessThan(4);
            cache.checkIntegrity(List.of());
        }
        assertThat(IntStream.range(0, 5).filter(i -> hostHit(waiting(tokens(100 * i, 100 * i + 12))).length > 0))
                .as("the coldest on the GPU")
                .containsExactly(2, 3, 4);
    }

    /** A sequence that leaves at the submit is registered before its result is known, and may be demoted by then. */
    @Test
    void aPurgeReachesDemotedCopies() {
        cache.release(computed(tokens(0, 41)));
        cache.release(computed(tokens(100, 220)));
        Sequence poisoned = computed(tokens(0, 41));
        cache.release(poisoned);
        while (!cache.demote(3).isEmpty()) {}
        assertThat(hostHit(waiting(tokens(0, 41)))).isNotEmpty();
        cache.purge(poisoned);
        assertThat(hit(waiting(tokens(0, 41)))).isEmpty();
        assertThat(hostHit(waiting(tokens(0, 41)))).isEmpty();
        cache.checkIntegrity(List.of());
    }

    @Test
    void aSequenceIsPendingUntilItsPromptIsRegistered() {
        Sequence first = start(waiting(tokens(0, 20)));
        Sequence same = waiting(tokens(0, 30));
        assertThat(cache.pending()).containsExactly(first);
        assertThat(cache.willRegister(first, KvTier.GPU, same, 20)).isTrue();
        assertThat(cache.willRegister(first, KvTier.GPU, same, 24)).isFalse();
        assertThat(cache.willRegister(first, KvTier.GPU, waiting(tokens(1, 30)), 4))
                .isFalse();
        assertThat(cache.willRegister(first, KvTier.GPU, sequence(PrefixCaching.salted("a"), tokens(0, 20)), 4))
                .isFalse();
        compute(first);
        assertThat(cache.pending()).isEmpty();
        Sequence second = start(waiting(tokens(50, 70)));
        assertThat(cache.pending()).containsExactly(second);
        cache.release(second);
        assertThat(cache.pending()).isEmpty();
    }

    @Test
    void blocksThatFollowEachOtherAreOneEvent() {
        computed(tokens(0, 13));
        assertThat(cache.takeEvents()).singleElement().satisfies(event -> {
            KvEvent.Stored stored = (KvEvent.Stored) event;
            assertThat(stored.hashes()).hasSize(3);
            assertThat(stored.parent()).isEmpty();
            assertThat(stored.tokens()).isEqualTo(tokens(0, 12));
        });
        assertThat(cache.takeEvents()).isEmpty();
        computed(tokens(0, 17));
        assertThat(cache.takeEvents()).singleElement().satisfies(event -> {
            KvEvent.Stored stored = (KvEvent.Stored) event;
            assertThat(stored.parent()).isPresent();
            assertThat(stored.tokens()).isEqualTo(tokens(12, 16));
        });
    }

    /** Two host blocks begin with the same GPU block's tokens: it enters once, and leaves with the second. */
    @Test
    void whatTwoHostBlocksBeginWithLeavesWithTheLast() {
        int[] other = tokens(0, 10);
        other[6] = 77;
        cache = new KvCache(
                BLOCK,
                HOST_BLOCK,
                30,
                2,
                PrefillStaging.NONE,
                PrefixCacheOptions.on(1).withEvents(true),
                0);
        cache.release(compute(start(waiting(tokens(0, 8)), KvTier.HOST)));
        cache.release(compute(start(waiting(Arrays.copyOf(other, 8)), KvTier.HOST)));
        KvEventFollower follower = new KvEventFollower();
        List<KvEvent> events = cache.takeEvents();
        follower.offer(events);
        assertThat(events).hasSize(2);
        assertThat(follower.prefixes(KvTier.HOST, 0)).hasSize(3);
        cache.release(compute(start(waiting(tokens(50, 57)), KvTier.HOST)));
        events = cache.takeEvents();
        follower.offer(events);
        assertThat(follower.prefixes(KvTier.HOST, 0))
                .as("the first block is left")
                .hasSize(2);
    }

    @Test
    void aResetIsOneEvent() {
        computed(tokens(0, 9));
        cache.resetPrefixes(List.of());
        assertThat(cache.takeEvents()).containsExactly(new KvEvent.Cleared());
    }

    @Test
    void withoutEventsNothingIsRecorded() {
        cache = new KvCache(BLOCK, HOST_BLOCK, 30, 20, PrefillStaging.NONE, PrefixCacheOptions.on(1), 0);
        computed(tokens(0, 13));
        assertThat(cache.takeEvents()).isEmpty();
    }

    /**
     * Short hashes collide often: they must cost hits, and never bring KV of other tokens or another salt. The asking
     * salt has prefixes of its own on both tiers, whose tokens no other prompt has.
     */
    @Test
    void aHashOfFourBitsCostsHitsNeverContent() {
        cache = cache(300, 15, Long.MAX_VALUE);
        SplittableRandom random = new SplittableRandom(11);
        int[] own = tokens(100, 117);
        for (int i = 0; i < 200; i++) {
            int[] prompt = random.ints(9, 0, 3).toArray();
            KvTier tier = i % 3 == 0 ? KvTier.HOST : KvTier.GPU;
            cache.release(compute(start(salted(i % 2 == 0 ? "a" : "b", prompt), tier)));
            cache.release(compute(start(salted("asking", own), tier)));
            assertThat(cache.hit(salted("asking", own), tier)).isNotEmpty();
            assertThat(cache.hit(salted("asking", prompt), tier))
                    .as("seed 11, sequence %d", i)
                    .isEmpty();
            prompt[random.nextInt(4)] = 3;
            assertThat(cache.hit(salted(i % 2 == 0 ? "a" : "b", prompt), tier))
                    .as("other tokens, seed 11, sequence %d", i)
                    .isEmpty();
            cache.checkIntegrity(List.of());
        }
        assertThat(cache.prefixCacheUse().hits()).isPositive();
    }

    /** A prefix that is hit again and again outlives others, although its first blocks are behind the window. */
    @ParameterizedTest
    @CsvSource({"9", "0 9"})
    void aHitKeepsWhatLiesBehindItsWindow(String windows) {
        cache = cache(30, -1, Long.MAX_VALUE, layout(windows));
        int[] prefix = tokens(0, 40);
        for (int i = 0; i < 20; i++) {
            finish(Arrays.copyOf(prefix, 41 + i));
            finish(tokens(100 * i + 100, 100 * i + 130));
            assertThat(hit(waiting(Arrays.copyOf(prefix, 42))).length
                            / cache.layout().groups())
                    .as("blocks that are hit after %d other prompts", i + 1)
                    .isEqualTo(10);
        }
        assertThat(cache.prefixCacheUse().gpu().evictions()).isPositive();
    }

    /** A prefix on the host lacks the blocks behind its window, and another one on the GPU begins with the same. */
    @Test
    void aDemotionEndsWhereTheHostLacksBlocks() {
        PrefixCacheOptions options = PrefixCacheOptions.on(1);
        KvLayout oneWindow = layout("9");
        cache = new KvCache(
                BLOCK, HOST_BLOCK, 24, 2, PrefillStaging.NONE, options, 100, oneWindow, AttentionSpan.WHOLE);
        finish(tokens(0, 41));
        Sequence onHost = waiting(tokens(0, 48));
        PrefixUse use = copying(onHost, sharing(onHost, KvTier.HOST));
        cache.claim(onHost, use);
        cache.start(onHost, use);
        assertThat(cache.copy(onHost, use)).hasSize(1);
        cache.endCopy(onHost, use);
        compute(onHost);
        cache.slide(onHost);
        cache.release(onHost);
        int[] other = tokens(0, 41);
        Arrays.fill(other, 24, 41, 77);
        finish(other);
        List<Sequence> running = List.of(
                start(sequence(PrefixCaching.OFF, tokens(0, 28))), start(sequence(PrefixCaching.OFF, tokens(0, 28))));
        assertThat(running).allMatch(sequence -> cache.grow(sequence, 28));
        assertThat(hit(waiting(tokens(0, 42)))).as("the end was evicted").hasSize(6);
        assertThat(cache.demote(1)).isEmpty();
        cache.checkIntegrity(running);
        assertThat(hostHit(waiting(tokens(0, 50)))).hasSize(6);
    }

    /** Computes a prompt and ends. */
    private void finish(int... prompt) {
        Sequence sequence = start(waiting(prompt));
        while (sequence.remaining() > 0) {
            assertThat(cache.grow(sequence, sequence.length())).isTrue();
            sequence.advance(Math.min(12, sequence.remaining()));
            cache.register(sequence, sequence.computed());
            cache.slide(sequence);
        }
        cache.release(sequence);
        cache.checkIntegrity(List.of());
    }

    private static KvLayout layout(String windows) {
        List<Integer> ofLayers =
                Stream.of(windows.split(" ")).map(Integer::valueOf).toList();
        return KvLayout.of(ofLayers, HOST_BLOCK, 12);
    }

    /**
     * Random operations against a naive map: what each token slot of each block holds, as a hash of the salt and of all
     * tokens up to there. {@code -Dtandem.cache.operations} sets their number.
     */
    @ParameterizedTest
    @CsvSource({
        "-1, 9223372036854775807, 0",
        "15, 9223372036854775807, 0",
        "-1, 6, 0",
        "0, 20, 0",
        "-1, 9223372036854775807, 21",
        "15, 20, 9",
        "-1, 9223372036854775807, 0 9",
        "-1, 9223372036854775807, 21 9",
        "15, 50, 0 21 21 21"
    })
    void randomOperationsKeepAllInvariants(long hashMask, long maxShared, String windows) {
        new RandomOperations(7 + hashMask + maxShared, hashMask, maxShared, layout(windows)).run();
    }

    private final class RandomOperations {
        final long seed;
        final SplittableRandom random;
        final long maxShared;
        /** [tier][slot] what the token slots hold. */
        final long[][] contents;

        final List<Sequence> live = new ArrayList<>();
        final List<Sequence> waiting = new ArrayList<>();
        final KvEventFollower follower = new KvEventFollower();

        final KvLayout layout;
        /** How often a sequence held no first block. */
        int slid;

        RandomOperations(long seed, long hashMask, long maxShared, KvLayout layout) {
            this.layout = layout;
            this.contents =
                    new long[][] {new long[30 * BLOCK * layout.groups()], new long[20 * HOST_BLOCK * layout.groups()]};
            this.seed = seed;
            this.random = new SplittableRandom(seed);
            this.maxShared = maxShared;
            cache = cache(30, hashMask, maxShared, layout);
        }

        void run() {
            for (int i = 0; i < OPERATIONS; i++) {
                switch (random.nextInt(10)) {
                    case 0, 1 -> {
                        if (waiting.size() < 6) {
                            waiting.add(random());
                        }
                    }
                    case 2, 3, 4 -> {
                        if (!waiting.isEmpty()) {
                            start(waiting.remove(random.nextInt(waiting.size())));
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
                            move(sequence, random.nextBoolean() ? KvTier.GPU : KvTier.HOST)
                                    .forEach(this::copy);
                            cache.register(sequence, sequence.computed());
                        }
                    }
                    case 7 -> cache.demote(1 + random.nextInt(3)).forEach(this::copy);
                    default -> {
                        if (!live.isEmpty()) {
                            operate(live.get(random.nextInt(live.size())));
                        }
                    }
                }
                cache.checkIntegrity(live);
                checkEvents();
                if (i % 8 == 0) {
                    live.forEach(this::checkContents);
                    for (KvTier tier : KvTier.values()) {
                        waiting.forEach(sequence -> checkHit(sequence, tier));
                    }
                }
            }
            live.forEach(cache::release);
            PrefixCacheUse use = cache.prefixCacheUse();
            assertThat(used() + cache.pool(KvTier.HOST).used())
                    .as("seed %d", seed)
                    .isZero();
            assertThat(List.of(
                            use.gpuHits(),
                            use.hostHits(),
                            use.copiedHits(),
                            use.demotions(),
                            use.gpu().evictions(),
                            use.host().evictions()))
                    .as("seed %d: %s", seed, use)
                    .allMatch(count -> count > 0);
            assertThat(slid > 0).as("seed %d", seed).isEqualTo(layout.slides());
        }

        /** Whoever follows the events knows what both trees hold, after each operation. */
        void checkEvents() {
            try {
                follower.offer(cache.takeEvents());
            } catch (AssertionError e) {
                throw new AssertionError("seed " + seed, e);
            }
            for (KvTier tier : KvTier.values()) {
                for (KvLayout.Kind kind : layout.kinds()) {
                    assertThat(follower.prefixes(tier, kind.first()))
                            .as("seed %d, %s, %s", seed, tier, kind)
                            .isEqualTo(held(tier, kind));
                }
            }
        }

        /** Whoever follows the events knows what a request would hit. */
        void checkHit(Sequence sequence, KvTier tier) {
            int each = cache.blockTokens(tier);
            int hit = cache.hit(sequence, tier).length / layout.groups() * each;
            int max = sequence.request().caching().enabled() ? sequence.length() - (tier == KvTier.GPU ? 1 : 2) : 0;
            List<Integer> tokens =
                    Arrays.stream(sequence.tokens(0, sequence.length())).boxed().toList();
            int expected = follower.hit(tier, sequence.request().caching().salt(), tokens, max, BLOCK, each);
            assertThat(oneWindow() ? Math.max(expected, hit) : expected)
                    .as("seed %d, %s of %s", seed, sequence, tier)
                    .isEqualTo(hit);
        }

        /** Whether events have no groups: they then tell of prefixes alone that lack no block. */
        boolean oneWindow() {
            return layout.kinds().size() == 1;
        }

        /** The prefixes of all nodes with blocks of a kind of layers, in blocks of the GPU's size. */
        Set<KvEventFollower.Prefix> held(KvTier tier, KvLayout.Kind kind) {
            Set<KvEventFollower.Prefix> prefixes = new HashSet<>();
            BlockPool pool = cache.pool(tier);
            for (int block = 0; block < pool.size(); block++) {
                PrefixNode node = pool.node(block);
                if (node != null && node.has(kind.first()) && !(oneWindow() && node.lacksBlocks)) {
                    List<Integer> tokens = tokens(node);
                    int each = cache.blockTokens(tier);
                    for (int end = tokens.size() - each + BLOCK; end <= tokens.size(); end += BLOCK) {
                        prefixes.add(new KvEventFollower.Prefix(node.salt(), tokens.subList(0, end)));
                    }
                }
            }
            return prefixes;
        }

        List<Integer> tokens(PrefixNode last) {
            List<Integer> tokens = new ArrayList<>();
            for (PrefixNode node = last; node != null; node = node.previous()) {
                tokens.addAll(0, Arrays.stream(node.tokens).boxed().toList());
            }
            return tokens;
        }

        /** Few tokens and salts, so that prefixes meet. */
        Sequence random() {
            String salt = random.nextInt(3) == 0 ? "salt" : "";
            int[] prompt = random.ints(1 + random.nextInt(40), 0, 100)
                    .map(value -> value == 0 ? 1 : 0)
                    .toArray();
            return sequence(new PrefixCaching(random.nextInt(10) > 0, salt), prompt);
        }

        void start(Sequence sequence) {
            KvTier tier = random.nextInt(3) == 0 ? KvTier.HOST : KvTier.GPU;
            PrefixUse use = sharing(sequence, tier);
            if (tier == KvTier.GPU && cache.pool(tier).shared() + use.listed() > maxShared) {
                use = PrefixUse.nothing(tier);
            } else if (random.nextBoolean()) {
                use = copying(sequence, use);
            }
            assertThat(use.tokens()).as("seed %d", seed).isLessThan(sequence.length());
            assertThat(use.tokens() == 0 || sequence.request().caching().enabled())
                    .as("seed %d", seed)
                    .isTrue();
            int end = cache.blocksFor(tier, use.tokens());
            int shared = use.shared();
            int needed = IntStream.of(use.first())
                    .map(first -> end - Math.max(first, shared))
                    .sum();
            cache.claim(sequence, use);
            if (needed > cache.pool(tier).free()) { // a draft would not have started it
                cache.endCopy(sequence, use);
                for (int group = 0; group < use.first().length; group++) {
                    for (int i = use.shared() - 1; i >= use.first()[group]; i--) {
                        cache.pool(tier).give(use.block(group, i), sequence.key());
                    }
                }
                return;
            }
            cache.start(sequence, use);
            if (use.copies()) {
                cache.copy(sequence, use).forEach(this::copy);
                cache.endCopy(sequence, use);
            }
            if (!cache.grow(sequence, sequence.length())) {
                cache.release(sequence);
                return;
            }
            live.add(sequence);
            checkContents(sequence);
        }

        void operate(Sequence sequence) {
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
                    }
                }
                default -> {
                    if (sequence.remaining() == 0) {
                        sequence.append(random.nextInt(100) == 0 ? 1 : 0, 0);
                    }
                    int rows = 1 + random.nextInt(Math.min(sequence.remaining(), layout.slides() ? 12 : 60));
                    if (sequence.length() < 60 && cache.grow(sequence, sequence.length())) {
                        int before = sequence.computed();
                        sequence.advance(rows);
                        for (int at = before; at < sequence.computed(); at++) {
                            write(sequence, at);
                        }
                        boolean async = layout.slides() && random.nextInt(3) == 0;
                        if (async) { // the result of the step is known after its submit, or that of the next one
                            cache.slide(sequence);
                        }
                        cache.register(sequence, async && random.nextBoolean() ? before : sequence.computed());
                        cache.slide(sequence);
                        slid += sequence.table().group(layout.groups() - 1).first() > 0 ? 1 : 0;
                    }
                }
            }
        }

        void write(Sequence sequence, int at) {
            for (int group = 0; group < layout.groups(); group++) {
                contents[sequence.table().tier().ordinal()][slot(sequence, group, at)] = content(sequence, group, at);
            }
        }

        int slot(Sequence sequence, int group, int at) {
            int each = cache.blockTokens(sequence.table().tier());
            return sequence.table().group(group).block(at / each) * each + at % each;
        }

        long content(Sequence sequence, int group, int at) {
            return group
                    + 31L * sequence.request().caching().salt().hashCode()
                    + Arrays.hashCode(sequence.tokens(0, at + 1));
        }

        void checkContents(Sequence sequence) {
            for (KvLayout.Kind kind : layout.kinds()) {
                for (int group = kind.first(); group < kind.end(); group++) {
                    checkContents(sequence, group, kind.window().start(sequence.computed()));
                }
            }
        }

        private void checkContents(Sequence sequence, int group, int from) {
            for (int at = from; at < sequence.computed(); at++) {
                if (contents[sequence.table().tier().ordinal()][slot(sequence, group, at)]
                        != content(sequence, group, at)) {
                    throw new AssertionError("seed " + seed + ": " + sequence + " reads other KV at " + at + " on "
                            + sequence.table().tier());
                }
            }
        }

        void copy(Swap swap) {
            int fromEach = cache.blockTokens(swap.from());
            int toEach = cache.blockTokens(swap.to());
            for (int at = 0; at < swap.tokens(); at++) {
                contents[swap.to().ordinal()][swap.toBlocks()[at / toEach] * toEach + at % toEach] =
                        contents[swap.from().ordinal()][swap.fromBlocks()[at / fromEach] * fromEach + at % fromEach];
            }
        }
    }
}
