package dev.tandem.cuda.hostattention;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.weights.HalfFloats;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.StepResult;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The attention workers. The test takes the role of the GPU: it submits tasks and receives results. */
@Timeout(60)
class HostAttentionWorkersTest {
    private static final long SEED = 5;
    private static final int LAYERS = 3;
    private static final int BLOCKS = 40;
    private static final long WATCHDOG = 1_000_000;
    /** A group per layer; that of layer 1 comes last. */
    private static final KvLayout LAYOUT = KvLayout.of(
            IntStream.range(0, LAYERS).mapToObj(Rig::window).toList(), BlockFormat.TOKENS, BlockFormat.TOKENS);

    /** Spins until the test's timeout interrupts it. */
    private static void spinUntil(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            if (Thread.currentThread().isInterrupted()) {
                throw new AssertionError("interrupted while waiting for a worker");
            }
            Thread.yield(); // the workers spin too, and there may be fewer cores
        }
    }

    /** Queues, host KV and workers as in the executor. */
    private static final class Rig implements AutoCloseable {
        final Arena arena = Arena.ofShared();
        final SplittableRandom random = new SplittableRandom(SEED);
        final ModelConfig config;
        final DataType type;
        final BlockFormat format;
        final MemorySegment pool;
        final HostAttentionQueues.Memory memory;
        final HostAttentionQueues queues;
        final UnreliableAttention attention;
        final UnreliableAttention single;
        final UnreliableAttention several;
        final VirtualClock clock = new VirtualClock();
        final Timeline timeline = new Timeline(10_000);
        final HostAttentionWorkers workers;
        /** K of all tokens by (layer, sequence): [tokens][kvHeads * headDim]. */
        final Map<List<Integer>, List<float[]>> keys = new HashMap<>();

        /** V, as {@link #keys}. */
        final Map<List<Integer>, List<float[]>> values = new HashMap<>();

        final Map<Integer, float[]> queries = new HashMap<>();

        Rig(DataType type, int threads, Clock time) {
            this(type, threads, time, 6, 2);
        }

        Rig(DataType type, int threads, Clock time, int heads, int kvHeads) {
            this(type, threads, time, heads, kvHeads, new HostAttentionWorkers.Cores(CpuTopology.find(), true, 0));
        }

        Rig(DataType type, int threads, Clock time, int heads, int kvHeads, HostAttentionWorkers.Cores cores) {
            this.type = type;
            config = GpuRig.shape(heads, kvHeads, 32, 192, 64, 100, type).config();
            format = new BlockFormat(config.kvHeads(), config.headDim(), type);
            pool = arena.allocate(LAYERS * BLOCKS * format.blockBytes(), 64);
            int half = type.bytes();
            memory = new HostAttentionQueues.Memory(
                    arena.allocate(8L * HostAttentionQueues.MAX, 64),
                    arena.allocate(8L * HostAttentionQueues.MAX, 64),
                    arena.allocate((long) HostAttentionQueues.MAX * HostAttentionQueues.sentBytes(config, half), 64),
                    arena.allocate((long) HostAttentionQueues.MAX * HostAttentionQueues.resultBytes(config, half), 64),
                    arena.allocate(8L * HostAttentionQueues.MAX, 64),
                    arena.allocate(8L * (HostAttentionQueues.MAX + 1), 64));
            queues = new HostAttentionQueues(config, half, memory);
            attention = new UnreliableAttention(
                    DecodeImplementations.all(format, config.heads()).getLast());
            int subtasks = HostAttentionQueues.subtasks(config);
            single = unreliable(subtasks);
            several = unreliable(subtasks / HostAttentionQueues.subtasksPerTake(config));
            workers = new HostAttentionWorkers(
                    queues,
                    new HostAttentionWorkers.Attention(attention, single, several),
                    this::block,
                    LAYOUT,
                    Rig::window,
                    time == null ? clock : time,
                    timeline,
                    threads,
                    cores,
                    WATCHDOG);
        }

        /** Layer 1 has a sliding window. */
        private static int window(int layer) {
            return layer == 1 ? 50 : 0;
        }

        /** Attention over the heads of one subtask. */
        private UnreliableAttention unreliable(int subtasks) {
            BlockFormat some = new BlockFormat(config.kvHeads() / subtasks, config.headDim(), type);
            return new UnreliableAttention(
                    DecodeImplementations.all(some, config.heads() / subtasks).getLast());
        }

        /** Address of a subtask's first KV head in a block of layer 1. */
        long subtask(int block, int number) {
            return block(1, page(LAYOUT.groupOf(1), block))
                    + number * single.format().blockBytes();
        }

        long block(int layer, int block) {
            return pool.address() + ((long) layer * BLOCKS + block) * format.blockBytes();
        }

        HostToken admit(int sequence, int position, int... blocks) {
            HostToken hostToken = queues.admit(admission(sequence, position, blocks));
            workers.wake();
            return hostToken;
        }

        HostToken admitSameLayer(int sequence, int position, int... blocks) {
            HostToken hostToken = queues.admitSameLayer(admission(sequence, position, blocks));
            workers.wake();
            return hostToken;
        }

        private static Admission admission(int sequence, int position, int... blocks) {
            TokenSampler sampler =
                    new TokenSampler(SamplingParams.builder().temperature(0).build(), new int[] {0}, Set.of(), 0);
            List<KvView> kv = new ArrayList<>();
            for (KvLayout.Kind kind : LAYOUT.kinds()) {
                int first = kind.window().start(position) / BlockFormat.TOKENS;
                for (int group = kind.first(); group < kind.end(); group++) {
                    int of = group;
                    int[] pages = Arrays.stream(blocks)
                            .skip(first)
                            .map(block -> page(of, block))
                            .toArray();
                    kv.add(new KvView(first, pages));
                }
            }
            return new Admission(sequence, position, 0, kv, sampler);
        }

        /** The page of a block in the layers of a group. */
        private static int page(int group, int block) {
            return (block + 13 * group) % BLOCKS;
        }

        private float[] values(int count) {
            float[] values = new float[count];
            for (int i = 0; i < count; i++) {
                values[i] = HalfFloats.widen(HalfFloats.narrow((float) random.nextDouble(-1, 1), type), type);
            }
            return values;
        }

        private void put(long address, float[] from) {
            MemorySegment target = MemorySegment.ofAddress(address).reinterpret(2L * from.length);
            for (int i = 0; i < from.length; i++) {
                target.setAtIndex(ValueLayout.JAVA_SHORT, i, HalfFloats.narrow(from[i], type));
            }
        }

        /** Writes q, k and v, then the task, as the transfer kernel does. */
        void send(HostToken hostToken, int layer) {
            put(hostToken, layer);
            queues.push(layer, hostToken.index);
        }

        /** Writes q, k and v, then the task, as a step does for a same-layer token. */
        void pushSameLayer(HostToken hostToken, int layer, long number) {
            put(hostToken, layer);
            queues.pushSameLayer(number, layer, hostToken.index);
        }

        void await(HostToken hostToken, long number) {
            spinUntil(() -> queues.completed(hostToken.index) == number + 1);
        }

        private void put(HostToken hostToken, int layer) {
            int width = config.kvHeads() * config.headDim();
            float[] k = values(width);
            float[] v = values(width);
            float[] q = values(config.heads() * config.headDim());
            List<Integer> key = List.of(layer, (int) hostToken.sequence());
            keys.computeIfAbsent(key, absent -> new ArrayList<>()).add(k);
            values.computeIfAbsent(key, absent -> new ArrayList<>()).add(v);
            queries.put((int) hostToken.sequence(), q);
            put(queues.query(hostToken.index), q);
            put(queues.key(hostToken.index), k);
            put(queues.value(hostToken.index), v);
        }

        long receive() {
            long[] task = new long[1];
            spinUntil(() -> (task[0] = queues.nextResult()) >= 0);
            return task[0];
        }

        void check(HostToken hostToken, int layer) {
            int dim = config.headDim();
            List<Integer> key = List.of(layer, (int) hostToken.sequence());
            float[] q = queries.get((int) hostToken.sequence());
            double[] expected = new double[q.length];
            for (int head = 0; head < config.heads(); head++) {
                int kv = head / config.group();
                double[] one = ReferenceOps.attention(
                        Arrays.copyOfRange(q, head * dim, (head + 1) * dim),
                        head(visible(keys.get(key), layer), kv),
                        head(visible(values.get(key), layer), kv));
                System.arraycopy(one, 0, expected, head * dim, dim);
            }
            float[] actual = new float[q.length];
            MemorySegment result =
                    MemorySegment.ofAddress(queues.result(hostToken.index)).reinterpret(2L * q.length);
            for (int i = 0; i < q.length; i++) {
                actual[i] = HalfFloats.widen(result.getAtIndex(ValueLayout.JAVA_SHORT, i), type);
            }
            assertThat(GpuRig.error(actual, expected))
                    .as("seed %d, %d tokens, layer %d", SEED, hostToken.context(), layer)
                    .isLessThan(5e-3);
        }

        private static List<float[]> visible(List<float[]> rows, int layer) {
            int window = window(layer);
            return window == 0 ? rows : rows.subList(Math.max(0, rows.size() - window), rows.size());
        }

        private float[][] head(List<float[]> rows, int kvHead) {
            int dim = config.headDim();
            return rows.stream()
                    .map(row -> Arrays.copyOfRange(row, kvHead * dim, (kvHead + 1) * dim))
                    .toArray(float[][]::new);
        }

        @Override
        public void close() {
            attention.release.countDown();
            workers.close();
            assertThat(workers.ended()).isTrue();
            arena.close();
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DataType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void resultsMatchReferenceAttentionOverAllAppendedTokens(DataType type) throws IOException {
        try (Rig rig = new Rig(type, 3, Clock.system())) {
            int rows = 5;
            // 130 tokens fill three blocks; each sequence passes its layers in order
            for (int position = 0; position < 130; position++) {
                List<HostToken> hostTokens = new ArrayList<>();
                for (int row = 0; row < rows; row++) {
                    hostTokens.add(
                            rig.admit(row, position, 7 * row, 7 * row + 3, 7 * row + 1)); // not in ascending order
                }
                hostTokens.forEach(hostToken -> rig.send(hostToken, 0));
                if (position % 3 == 2) {
                    List.of(3L, 1L).forEach(rig.queues::resume);
                }
                for (int left = rows * LAYERS; left > 0; left--) {
                    long task = rig.receive();
                    HostToken hostToken = rig.queues.hostToken(HostAttentionQueues.tokenIndex(task));
                    int layer = HostAttentionQueues.layer(task);
                    if (position % 10 == 9 || position > 125) {
                        rig.check(hostToken, layer);
                    }
                    if (layer + 1 < LAYERS) {
                        rig.send(hostToken, layer + 1);
                    }
                }
                hostTokens.forEach(rig.queues::end);
                assertThat(rig.queues.hasTokens()).isFalse();
            }
            assertThat(rig.workers.tasks()).isEqualTo(rows * LAYERS * 130L);
            assertThat(rig.workers.tokens())
                    .as("tokens that the layers' windows hold")
                    .isEqualTo(rows
                            * IntStream.range(0, LAYERS)
                                    .map(Rig::window)
                                    .mapToLong(window -> IntStream.rangeClosed(1, 130)
                                            .map(context -> window == 0 ? context : Math.min(context, window))
                                            .sum())
                                    .sum());
            assertThat(rig.workers.busyNanos()).isPositive();
            StringBuilder trace = new StringBuilder();
            rig.timeline.write(trace);
            assertThat(trace.toString().lines().filter(line -> line.contains("cpu attention")))
                    .hasSize(rows * LAYERS * 130);
        }
    }

    @Test
    void threadsArePinnedOnlyIfEnabledAndWithoutACpuQuota() {
        CpuTopology free = new CpuTopology(List.of(0, 1), 2, List.of(0), false);
        CpuTopology limited = new CpuTopology(List.of(0, 1), 2, List.of(0), true);
        assertThat(isPinned(new HostAttentionWorkers.Cores(free, true, 1))).isTrue();
        assertThat(isPinned(new HostAttentionWorkers.Cores(free, true, 2)))
                .as("no free core")
                .isFalse();
        assertThat(isPinned(new HostAttentionWorkers.Cores(free, false, 1)))
                .as("--no-pin-threads")
                .isFalse();
        assertThat(isPinned(new HostAttentionWorkers.Cores(limited, true, 1)))
                .as("a CPU quota")
                .isFalse();
    }

    private static boolean isPinned(HostAttentionWorkers.Cores cores) {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null, 6, 2, cores)) {
            assertThat(rig.workers.placement()).matches(rig.workers.isPinned() ? " pinned" : " not pinned.*");
            return rig.workers.isPinned();
        }
    }

    @Test
    void underACpuQuotaWorkersSleepBetweenTasks() {
        CpuTopology limited = new CpuTopology(List.of(0, 1), 2, List.of(0), true);
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null, 6, 2, new HostAttentionWorkers.Cores(limited, true, 0))) {
            HostToken hostToken = rig.admit(1, 0, 0);
            Thread worker = Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> thread.getName().equals("tandem-attention-0"))
                    .findFirst()
                    .orElseThrow();
            for (int layer = 0; layer < LAYERS; layer++) {
                spinUntil(() -> worker.getState() == Thread.State.TIMED_WAITING);
                rig.send(hostToken, layer);
                assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(hostToken.index);
            }
        }
    }

    @Test
    void aTaskThatThrowsLosesOnlyItsHostToken() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 2, null)) {
            HostToken bad = rig.admit(1, 6, 0);
            HostToken good = rig.admit(2, 0, 1);
            rig.attention.poisoned = 7;
            rig.send(bad, 0);
            HostAttentionQueues.Failure[] failure = new HostAttentionQueues.Failure[1];
            spinUntil(() -> (failure[0] = rig.queues.pollFailure()) != null);
            assertThat(failure[0].hostToken()).isSameAs(bad);
            assertThat(failure[0].cause()).hasMessage("poisoned");
            rig.send(good, 2);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(good.index);
            assertThat(rig.workers.check()).isEmpty();
        }
    }

    /** Tasks of 2, 4, 16, 32 and 1 subtasks. */
    @ParameterizedTest
    @CsvSource({"6, 2, 2", "12, 12, 4", "32, 16, 16", "32, 32, 32", "6, 3, 1"})
    void sameLayerTokensAreComputedAlongWithInFlightTokens(int heads, int kvHeads, int subtasks) {
        try (Rig rig = new Rig(DataType.BFLOAT16, 3, Clock.system(), heads, kvHeads)) {
            assertThat(HostAttentionQueues.subtasks(rig.config)).isEqualTo(subtasks);
            int rows = 6;
            HostToken inFlight = rig.admit(100, 0, 39);
            long began = System.nanoTime();
            for (int position = 0; position < 70; position++) {
                List<HostToken> hostTokens = new ArrayList<>();
                rig.queues.beginSubBatch();
                long spanBefore = rig.queues.spanNanos();
                for (int row = 0; row < rows; row++) {
                    hostTokens.add(rig.admitSameLayer(row, position, 6 * row, 6 * row + 3));
                }
                long base = rig.queues.reserveTasks((long) rows * LAYERS);
                assertThat(base).isEqualTo((long) position * rows * LAYERS);
                if (position == 30) {
                    rig.send(inFlight, 0);
                }
                for (int layer = 0; layer < LAYERS; layer++) {
                    for (int row = 0; row < rows; row++) {
                        rig.pushSameLayer(hostTokens.get(row), layer, base + layer * rows + row);
                    }
                    for (int row = 0; row < rows; row++) {
                        rig.await(hostTokens.get(row), base + layer * rows + row);
                        if (position % 10 == 9) {
                            rig.check(hostTokens.get(row), layer);
                        }
                    }
                }
                assertThat(rig.queues.spanNanos())
                        .as("all tokens ended in each layer")
                        .isGreaterThan(spanBefore);
                hostTokens.forEach(rig.queues::end);
            }
            assertThat(rig.queues.spanNanos()).isLessThan(System.nanoTime() - began);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(inFlight.index);
            rig.check(inFlight, 0);
        }
    }

    @Test
    void aWorkerPrefetchesTheSubtaskItComputesNext() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null, 12, 12)) {
            Queue<Long> nexts = new ConcurrentLinkedQueue<>();
            rig.single.next = nexts::add;
            submitTwo(rig);
            List<Long> expected = new ArrayList<>();
            IntStream.range(0, 4).forEach(subtask -> expected.add(rig.subtask(3, subtask)));
            IntStream.range(0, 4).forEach(subtask -> expected.add(rig.subtask(5, subtask)));
            expected.add(0L);
            assertThat(nexts).containsExactlyElementsOf(expected.subList(1, expected.size()));
        }
    }

    @Test
    void workersTakeSeveralSubtasksWhileAnotherTaskWaits() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null, 32, 32)) {
            Queue<Long> pairs = new ConcurrentLinkedQueue<>();
            Queue<Long> singles = new ConcurrentLinkedQueue<>();
            rig.several.next = pairs::add;
            rig.single.next = singles::add;
            submitTwo(rig);
            List<Long> first = IntStream.range(1, 16)
                    .mapToObj(pair -> rig.subtask(3, 2 * pair))
                    .toList();
            assertThat(pairs)
                    .startsWith(first.toArray(Long[]::new))
                    .endsWith(rig.subtask(5, 0))
                    .hasSize(16);
            List<Long> last = new ArrayList<>();
            IntStream.range(1, 32).forEach(subtask -> last.add(rig.subtask(5, subtask)));
            last.add(0L);
            assertThat(singles).containsExactlyElementsOf(last);
        }
    }

    @Test
    void aSubBatchLastsFromItsFirstTasksStartToTheLastOnesEnd() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null, 12, 12)) {
            rig.single.next = block -> rig.clock.advance(5); // each of a task's four parts
            HostToken alone = rig.admitSameLayer(1, 0, 3);
            rig.queues.beginSubBatch();
            HostToken first = rig.admitSameLayer(2, 0, 5);
            HostToken second = rig.admitSameLayer(3, 0, 6);
            rig.pushSameLayer(alone, 0, 0);
            rig.await(alone, 0);
            assertThat(rig.queues.spanNanos()).isEqualTo(4 * 5);
            rig.pushSameLayer(first, 0, 1);
            rig.await(first, 1);
            assertThat(rig.queues.spanNanos()).as("the second token is missing").isEqualTo(4 * 5);
            rig.clock.advance(100);
            rig.pushSameLayer(second, 0, 2);
            rig.await(second, 2);
            assertThat(rig.queues.spanNanos()).isEqualTo(4 * 5 + 4 * 5 + 100 + 4 * 5);
            rig.pushSameLayer(alone, 1, 3);
            rig.await(alone, 3);
            assertThat(rig.queues.spanNanos()).as("the next layer").isEqualTo(160 + 4 * 5);
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            assertThat(tracker.times(7).subBatchAttention()).isEqualTo(180);
            assertThat(tracker.times(7).subBatchAttention())
                    .as("since the last call")
                    .isZero();
        }
    }

    /**
     * Submits tasks 1 and 0 of layer 1, whose host tokens are in blocks 5 and 3. A worker begins with task 0, so both
     * tasks exist by then.
     */
    private static void submitTwo(Rig rig) {
        HostToken first = rig.admitSameLayer(1, 0, 3);
        HostToken second = rig.admitSameLayer(2, 0, 5);
        rig.pushSameLayer(second, 1, 1);
        rig.pushSameLayer(first, 1, 0);
        rig.await(first, 0);
        rig.await(second, 1);
        rig.check(first, 1);
        rig.check(second, 1);
    }

    @Test
    void aFailedSameLayerTokenIsStillCompleted() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            rig.admitSameLayer(2, 0, 1); // workers sleep if there is no host token
            HostToken bad = rig.admitSameLayer(1, 6, 0);
            rig.single.poisoned = 7;
            rig.pushSameLayer(bad, 0, rig.queues.reserveTasks(1));
            rig.await(bad, 0);
            assertThat(rig.queues.pollFailure().hostToken()).isSameAs(bad);
            rig.queues.end(bad);
            rig.pushSameLayer(bad, 0, rig.queues.reserveTasks(1));
            rig.await(bad, 1); // its host token has ended
            for (int number = 1; number < HostAttentionQueues.subtasks(rig.config); number++) {
                assertThat(rig.queues.pollFailure().hostToken()).isSameAs(bad);
            }
            assertThat(rig.queues.pollFailure()).isNull();
        }
    }

    @Test
    void aPausedInFlightTokenIsReleased() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostToken hostToken = rig.admit(1, 0, 0);
            rig.queues.pause(1);
            rig.queues.pause(99); // ignored: not in flight
            rig.send(hostToken, 1);
            HostToken[] released = new HostToken[1];
            spinUntil(() -> (released[0] = rig.queues.pollReleased()) != null);
            assertThat(released[0]).isSameAs(hostToken);
            rig.queues.end(hostToken);
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    /** Its sequence may move to the GPU, where the token is begun anew. */
    @ParameterizedTest
    @CsvSource({"false", "true"})
    void aPausedTokenLeavesItsRandomNumberToTheNextDraw(boolean afterTheLastLayer) {
        SamplingParams params = SamplingParams.builder().seed(SEED).build();
        double expected = new TokenSampler(params, new int[] {0}, Set.of(), 0)
                .draw(0)
                .orElseThrow()
                .uniform();
        TokenSampler sampler = new TokenSampler(params, new int[] {0}, Set.of(), 0);
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken hostToken = tracker.admit(List.of(new Admission(1, 0, 0, new int[] {0}, sampler)))
                    .getFirst();
            assertThat(hostToken.draw.orElseThrow().uniform()).isEqualTo(expected);
            rig.queues.pause(1);
            List<Long> paused = new ArrayList<>();
            if (afterTheLastLayer) {
                MemorySegment returned = MemorySegment.ofArray(new int[] {hostToken.index});
                tracker.finishLastLayer(returned, 1, 0, (sequence, chosen, draw, row) -> {}, paused);
            } else {
                rig.send(hostToken, 1);
                spinUntil(() -> {
                    tracker.collectReleased(List.of(), paused, new ArrayList<>());
                    return !paused.isEmpty();
                });
            }
            assertThat(paused).containsExactly(1L);
            assertThat(sampler.draw(0).orElseThrow().uniform())
                    .as("seed %d", SEED)
                    .isEqualTo(expected);
        }
    }

    @Test
    void aResumedTokenIsNoLongerPaused() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken first = rig.admit(1, 0, 0);
            HostToken second = rig.admit(2, 0, 1);
            rig.queues.pause(2);
            assertThat(tracker.resume(List.of(1L, 2L, 99L)))
                    .as("2 is paused, and 99 is not in flight")
                    .containsExactly(new HostTokenTracker.Resumed(first, 0));
            rig.queues.pause(1);
            rig.send(first, 0);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(first.index);
            assertThat(rig.queues.pollReleased()).isNull();
            assertThat(tracker.resume(List.of(1L)))
                    .as("a step waits for it already")
                    .isEmpty();
            rig.queues.end(first);
            rig.queues.end(second);
        }
    }

    @Test
    void resumedTokensWithMostLayersLeftComeFirst() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            assertThat(tracker.returning(6)).containsOnly(0);
            List<HostToken> hostTokens = List.of(rig.admit(1, 0, 0), rig.admit(2, 0, 1), rig.admit(3, 0, 2));
            for (int token = 0; token < 3; token++) {
                int layers = List.of(3, 1, 2).get(token);
                for (int layer = 0; layer < layers; layer++) {
                    rig.send(hostTokens.get(token), layer);
                    rig.receive();
                }
            }
            assertThat(tracker.returning(6))
                    .as("a token may be two layers beyond the last that a worker has seen: 0, 1 or 2")
                    .containsExactly(1, 2, 3, 2, 1, 0);
            assertThat(tracker.returning(4)).as("of four layers").containsExactly(1, 2, 3, 2);
            assertThat(tracker.resume(List.of(1L, 2L, 3L)))
                    .containsExactly(
                            new HostTokenTracker.Resumed(hostTokens.get(1), 0),
                            new HostTokenTracker.Resumed(hostTokens.get(2), 1),
                            new HostTokenTracker.Resumed(hostTokens.get(0), 2));
        }
    }

    /** The test takes the tasks itself, in place of workers. */
    @Test
    void tasksAreTakenInTheOrderInWhichStepsNeedTheirResults() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 0, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            List<HostToken> hostTokens = IntStream.range(0, 6)
                    .mapToObj(token -> rig.admit(token, 0, token))
                    .toList();
            // a step sends the tokens that leave its batch layer by layer, and the next one does so again
            push(rig, hostTokens, "1@0", "0@1", "3@2");
            push(rig, hostTokens, "2@0", "4@1", "5@2");
            assertThat(take(rig, 1)).as("the next step reaches layer 0 first").containsExactly("1@0");
            tracker.resume(List.of(4L, 3L));
            assertThat(take(rig, 2))
                    .as("a step waits for resumed tokens, at layer 1 before layer 2")
                    .containsExactly("4@1", "3@2");
            push(rig, hostTokens, "1@1", "4@2");
            assertThat(take(rig, 2))
                    .as("a resumed token's later task passes those of earlier layers and steps")
                    .containsExactly("4@2", "0@1");
            push(rig, hostTokens, "0@2");
            rig.queues.end(hostTokens.get(4));
            rig.queues.end(hostTokens.get(3));
            assertThat(take(rig, 5))
                    .as("the others keep the order of steps and layers")
                    .containsExactly("2@0", "5@2", "1@1", "0@2", "none");
        }
    }

    /** @param tasks token@layer */
    private static void push(Rig rig, List<HostToken> hostTokens, String... tasks) {
        for (String task : tasks) {
            rig.queues.push(task.charAt(2) - '0', hostTokens.get(task.charAt(0) - '0').index);
        }
    }

    private static List<String> take(Rig rig, int count) {
        return IntStream.range(0, count)
                .mapToLong(task -> rig.queues.take())
                .mapToObj(task -> task < 0
                        ? "none"
                        : rig.queues
                                        .hostToken(HostAttentionQueues.tokenIndex(task))
                                        .sequence() + "@" + HostAttentionQueues.layer(task))
                .toList();
    }

    /** A step that waits for the token must not wait for a result that never comes. */
    @Test
    void aResumedTokenWhoseTaskThrowsStillReturnsAndIsLost() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken bad = rig.admit(1, 6, 0);
            HostToken good = rig.admit(2, 0, 1);
            tracker.resume(List.of(1L, 2L));
            rig.attention.poisoned = 7;
            rig.send(bad, 0);
            rig.send(good, 0);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(bad.index);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(good.index);
            rig.send(bad, 1); // the step takes it through all layers
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(bad.index);
            MemorySegment returned = MemorySegment.ofArray(new int[] {bad.index, good.index});
            List<Long> chosen = new ArrayList<>();
            List<Long> paused = new ArrayList<>();
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.finishLastLayer(returned, 2, 0, (sequence, sampler, draw, row) -> chosen.add(sequence), paused);
            tracker.collectReleased(List.of(), paused, lost);
            assertThat(chosen).containsExactly(2L);
            assertThat(paused).isEmpty();
            assertThat(lost).extracting(StepResult.Lost::sequence).containsExactly(1L);
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    @Test
    void aTokenWhoseTaskHasThrownIsNotResumed() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken bad = rig.admit(1, 6, 0);
            HostToken good = rig.admit(2, 0, 1);
            rig.attention.poisoned = 7;
            rig.send(bad, 0);
            rig.send(good, 0);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive()))
                    .as("the failed token does not return")
                    .isEqualTo(good.index);
            assertThat(tracker.resume(List.of(1L, 2L))).containsExactly(new HostTokenTracker.Resumed(good, 0));
            rig.queues.end(good);
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(List.of(), new ArrayList<>(), lost);
            assertThat(lost).extracting(StepResult.Lost::sequence).containsExactly(1L);
        }
    }

    @Test
    void aTaskOfALostHostTokenIsDropped() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 2, null)) {
            HostToken lost = rig.admit(1, 0, 0);
            HostToken kept = rig.admit(2, 0, 1);
            rig.queues.end(lost);
            rig.send(lost, 0);
            rig.send(kept, 0);
            assertThat(HostAttentionQueues.tokenIndex(rig.receive())).isEqualTo(kept.index);
            assertThat(rig.queues.nextResult()).as("results of the lost token").isNegative();
        }
    }

    @Test
    void theWatchdogReportsAStalledWorkerAndItsHostToken() throws InterruptedException {
        try (Rig rig = new Rig(DataType.BFLOAT16, 2, null)) {
            HostToken hostToken = rig.admit(1, 0, 0);
            rig.clock.advance(1);
            rig.attention.stalls = true;
            rig.send(hostToken, 0);
            rig.attention.stuck.await();
            assertThat(rig.workers.check()).isEmpty();
            rig.clock.advance(2 * WATCHDOG);
            assertThat(rig.workers.check().orElseThrow())
                    .contains("tandem-attention-")
                    .contains("1 ms");
            rig.queues.end(hostToken);
            assertThat(rig.workers.held()).containsExactly(hostToken);
        }
    }

    @Test
    void aStepThatTimesOutLosesItsHostTokens() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken hostToken = tracker.admitSameLayer(Rig.admission(1, 0, 0));
            tracker.watch();
            assertThat(rig.queues.isAborted()).isFalse();
            // receive_host_tokens writes this after its timeout
            rig.memory.completed().setAtIndex(ValueLayout.JAVA_INT, 2L * HostAttentionQueues.MAX, 1);
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(List.of(hostToken), new ArrayList<>(), lost);
            assertThat(lost)
                    .containsExactly(new StepResult.Lost(
                            hostToken.sequence(),
                            StepResult.Cause.HOST_ATTENTION,
                            HostTokenTracker.RESULT_TIMEOUT,
                            false));
            tracker.endSameLayer(List.of(hostToken));
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    @Test
    void aHungStepInTheTransferKernelLosesTheInFlightTokens() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken hostToken = tracker.admit(List.of(Rig.admission(1, 0, 0))).getFirst();
            // the transfer kernel writes this after its timeout
            rig.memory.completed().setAtIndex(ValueLayout.JAVA_INT, 2L * HostAttentionQueues.MAX, 2);
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(List.of(), new ArrayList<>(), lost);
            assertThat(lost)
                    .containsExactly(new StepResult.Lost(
                            hostToken.sequence(), StepResult.Cause.HOST_ATTENTION, HostTokenTracker.STEP_HANGS, false));
        }
    }

    @Test
    void hostTokensPlannedBeforeAFailureAreAlsoLost() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            List<HostToken> first = List.of(tracker.admitSameLayer(Rig.admission(1, 0, 0)));
            rig.memory.completed().setAtIndex(ValueLayout.JAVA_INT, 2L * HostAttentionQueues.MAX, 1);
            tracker.collectReleased(first, new ArrayList<>(), new ArrayList<>());
            tracker.endSameLayer(first);
            HostToken sameLayer = tracker.admitSameLayer(Rig.admission(2, 0, 1));
            HostToken inFlight = tracker.admit(List.of(Rig.admission(3, 0, 2))).getFirst();
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(List.of(sameLayer), new ArrayList<>(), lost);
            tracker.endSameLayer(List.of(sameLayer));
            assertThat(lost)
                    .extracting(StepResult.Lost::sequence, StepResult.Lost::message)
                    .containsExactlyInAnyOrder(
                            tuple(sameLayer.sequence(), HostTokenTracker.RESULT_TIMEOUT),
                            tuple(inFlight.sequence(), HostTokenTracker.RESULT_TIMEOUT));
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    /** The second step was submitted while the first ran. */
    @Test
    void twoStepsHaveTokensOfOneSequence() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            HostToken first = tracker.admitSameLayer(Rig.admission(1, 0, 0));
            HostToken second = tracker.admitSameLayer(Rig.admission(1, 1, 0));
            rig.pushSameLayer(first, 0, rig.queues.reserveTasks(1));
            rig.await(first, 0);
            tracker.endSameLayer(List.of(first));
            assertThat(rig.queues.hasTokens()).isTrue();
            rig.pushSameLayer(second, 0, rig.queues.reserveTasks(1));
            rig.await(second, 1);
            tracker.endSameLayer(List.of(second));
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    @Test
    void aFailureIsReportedWithTheStepOfItsToken() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            List<HostToken> running = List.of(tracker.admitSameLayer(Rig.admission(2, 0, 1)));
            List<HostToken> next = List.of(tracker.admitSameLayer(Rig.admission(1, 6, 0)));
            rig.single.poisoned = 7;
            rig.pushSameLayer(next.getFirst(), 0, rig.queues.reserveTasks(1));
            rig.await(next.getFirst(), 0);
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(running, new ArrayList<>(), lost);
            tracker.endSameLayer(running);
            assertThat(lost).isEmpty();
            assertThat(rig.queues.hasTokens())
                    .as("its step still uses its index")
                    .isTrue();
            tracker.collectReleased(next, new ArrayList<>(), lost);
            assertThat(lost).extracting(StepResult.Lost::sequence).containsExactly(1L);
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }

    @Test
    void aSequenceWithTokensInTwoStepsIsLostOnce() {
        try (Rig rig = new Rig(DataType.BFLOAT16, 1, null)) {
            HostTokenTracker tracker = new HostTokenTracker(rig.queues, rig.workers);
            List<HostToken> first = List.of(tracker.admitSameLayer(Rig.admission(1, 0, 0)));
            tracker.admitSameLayer(Rig.admission(1, 1, 0));
            rig.memory.completed().setAtIndex(ValueLayout.JAVA_INT, 2L * HostAttentionQueues.MAX, 1);
            List<StepResult.Lost> lost = new ArrayList<>();
            tracker.collectReleased(first, new ArrayList<>(), lost);
            assertThat(lost).extracting(StepResult.Lost::sequence).containsExactly(1L);
            assertThat(rig.queues.hasTokens()).isFalse();
        }
    }
}
