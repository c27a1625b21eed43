package dev.tandem.engine;

import dev.tandem.engine.batch.Admission;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.StepResult;
import dev.tandem.engine.batch.StepResult.RowProgress;
import dev.tandem.engine.batch.StepResult.Sampled;
import dev.tandem.engine.batch.StepTimes;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.engine.execute.Executor;
import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.engine.execute.ExecutorLimits;
import dev.tandem.engine.execute.Readiness;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.sample.Choice;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import java.util.stream.Stream;

/**
 * An executor without a model: each KV slot of each layer holds the name of the token that was written there, and each
 * attention checks that it reads exactly its own sequence's tokens. The next token is a function of the sequence and
 * the position alone, so a skipped, repeated or misplaced row is seen at once.
 */
public final class ContentExecutor implements Executor {
    private static final int BLOCK = 4;
    private final int hostBlock;

    private record Written(long sequence, int position) {}

    private static final class Flight {
        final Admission admission;
        int layer;

        Flight(Admission admission) {
            this.admission = admission;
        }
    }

    private final ExecutorLimits limits;
    private final Readiness readiness;
    private final EnumMap<Place, Written[][]> slots = new EnumMap<>(Place.class);
    private final Map<Long, Flight> flights = new LinkedHashMap<>();
    private final Queue<StepResult> results = new ArrayDeque<>();
    public final List<StepPlan> plans = new ArrayList<>();
    /** Rows in flight that are lost at the end of a step, with or without their blocks. */
    public LongPredicate losing = key -> false;
    public boolean losingForGood;
    public final List<StepResult> history = new ArrayList<>();
    /** Whether plans that touch GPU blocks alone let the next come before their result. */
    public boolean runsAhead;
    /** Told of each plan while it is computed: time may pass. */
    public Consumer<StepPlan> computing = plan -> {};
    /** Whether plans resume rows in flight. */
    public boolean resumes = true;

    public ContentExecutor(int layers, int gpuBlocks, int hostBlocks, int maxBatchTokens, int context, Readiness readiness) {
        this(layers, gpuBlocks, BLOCK, hostBlocks, maxBatchTokens, context, readiness);
    }

    /** @param hostBlock tokens a host block; GPU blocks have 4 */
    public ContentExecutor(
            int layers, int gpuBlocks, int hostBlock, int hostBlocks, int maxBatchTokens, int context, Readiness readiness) {
        this.hostBlock = hostBlock;
        this.limits = new ExecutorLimits(
                1000, context, BLOCK, hostBlock, gpuBlocks, hostBlocks, maxBatchTokens, layers, 8, true, 256, Integer.MAX_VALUE, true, 0);
        this.readiness = readiness;
        slots.put(Place.GPU, new Written[layers][gpuBlocks * BLOCK]);
        slots.put(Place.HOST, new Written[layers][hostBlocks * hostBlock]);
    }

    /** What follows {@code position} in a sequence that arrived as number {@code sequence}. */
    public static int token(long sequence, int position) {
        return Math.floorMod(sequence * 131 + position * 17L, 997);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    @Override
    public boolean runsAhead() {
        StepPlan last = plans.getLast();
        return runsAhead && (!resumes || last.slotsPerLayer() + last.resume().size() == 0) && last.swaps().isEmpty() && chunks(last).allMatch(chunk -> chunk.reader() == KvReader.GPU_FROM_GPU);
    }

    private static Stream<Chunk> chunks(StepPlan plan) {
        return plan.subBatches().stream().flatMap(batch -> batch.chunks().stream());
    }

    @Override
    public void submit(StepPlan plan) {
        fail(results.size() == MAX_OUTSTANDING, "a plan too many is outstanding");
        plans.add(plan);
        computing.accept(plan);
        chunks(plan).filter(chunk -> chunk.sampler().isPresent()).forEach(chunk -> known(chunk.sequence(), chunk.start() + chunk.rows() - 1, chunk.tokens()[chunk.rows() - 1]));
        plan.admissions().forEach(admission -> known(admission.sequence(), admission.position(), admission.token()));
        check(plan);
        plan.swaps().forEach(this::swap);
        List<Long> parked = new ArrayList<>();
        for (long key : plan.park()) {
            if (flights.remove(key) != null) {
                parked.add(key);
            }
        }
        List<RowProgress> trace = new ArrayList<>();
        List<Sampled> sampled = new ArrayList<>();
        plan.admissions().forEach(admission -> enter(plan.step(), new Flight(admission)));
        for (int layer = 0; layer < limits.layers(); layer++) {
            for (SubBatch batch : plan.subBatches()) {
                for (Chunk chunk : batch.chunks()) {
                    compute(chunk, layer);
                }
            }
            advance(plan, layer, trace, sampled);
        }
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sampler().isPresent()) {
                    sampled.add(sample(chunk.sequence(), chunk.start() + chunk.rows() - 1));
                }
            }
        }
        List<StepResult.Lost> lost = new ArrayList<>();
        flights.keySet().removeIf(key -> losing.test(key)
                && lost.add(new StepResult.Lost(key, StepResult.Cause.HOST_ATTENTION, "the worker is gone", losingForGood)));
        StepResult result = new StepResult(plan.step(), sampled, trace, parked, lost, StepTimes.NONE);
        results.add(result);
        history.add(result);
    }

    /** A token is awaited if, and only if, the step that samples it has not been polled. */
    private void known(long sequence, int position, int token) {
        boolean sampling = results.stream().flatMap(result -> result.sampled().stream()).anyMatch(s -> s.sequence() == sequence);
        fail(sampling != (token == Chunk.AWAITED), "sequence " + sequence + " has token " + token + " at " + position);
    }

    private static Sampled sample(long sequence, int position) {
        return new Sampled(sequence, new Choice(token(sequence, position), Optional.empty()));
    }

    private void enter(long step, Flight flight) {
        flights.put(flight.admission.sequence(), flight);
        issue(step, flight);
    }

    /** The row's q, k and v of its layer leave: the CPU appends K and V and reads everything before. */
    private void issue(long step, Flight flight) {
        Admission a = flight.admission;
        write(Place.HOST, flight.layer, a.blocks(), a.sequence(), a.position());
        read(Place.HOST, flight.layer, a.blocks(), a.sequence(), a.position());
        readiness.issued(step, flight.layer, a.sequence());
    }

    private void advance(StepPlan plan, int layer, List<RowProgress> trace, List<Sampled> sampled) {
        List<Flight> going = new ArrayList<>();
        List<Long> standing = new ArrayList<>();
        for (Flight flight : flights.values()) {
            if (flight.layer == layer) {
                if (plan.resume().contains(flight.admission.sequence())) {
                    going.add(flight);
                } else {
                    standing.add(flight.admission.sequence());
                }
            }
        }
        int most = going.size() + plan.slotsPerLayer();
        for (long key : readiness.ready(plan.step(), layer, standing)) {
            if (going.size() < most) {
                going.add(flights.get(key));
            }
        }
        for (Flight flight : going) {
            long key = flight.admission.sequence();
            trace.add(new RowProgress(layer, key));
            flights.remove(key);
            // the attention's result is taken here: what it was computed from must still be there
            read(Place.HOST, layer, flight.admission.blocks(), key, flight.admission.position());
            flight.layer++;
            if (flight.layer == limits.layers()) {
                sampled.add(sample(key, flight.admission.position()));
            } else {
                enter(plan.step(), flight);
            }
        }
    }

    private void compute(Chunk chunk, int layer) {
        Place place = chunk.reader().place();
        for (int i = 0; i < chunk.rows(); i++) {
            write(place, layer, chunk.blocks(), chunk.sequence(), chunk.start() + i);
        }
        read(place, layer, chunk.blocks(), chunk.sequence(), chunk.start() + chunk.rows() - 1);
    }

    private void write(Place place, int layer, int[] blocks, long sequence, int position) {
        slots.get(place)[layer][slot(place, blocks, position)] = new Written(sequence, position);
    }

    private int slot(Place place, int[] blocks, int position) {
        int tokens = place == Place.GPU ? BLOCK : hostBlock;
        return blocks[position / tokens] * tokens + position % tokens;
    }

    private void read(Place place, int layer, int[] blocks, long sequence, int last) {
        for (int position = 0; position <= last; position++) {
            Written found = slots.get(place)[layer][slot(place, blocks, position)];
            if (found == null || found.sequence() != sequence || found.position() != position) {
                throw new ExecutorException("sequence " + sequence + " reads position " + position + " of layer " + layer
                        + " on " + place + " and finds " + found);
            }
        }
    }

    private void swap(Swap swap) {
        for (int layer = 0; layer < limits.layers(); layer++) {
            Written[] from = slots.get(swap.from())[layer];
            Written[] to = slots.get(swap.to())[layer];
            for (int position = 0; position < swap.tokens(); position++) {
                to[slot(swap.to(), swap.toBlocks(), position)] = from[slot(swap.from(), swap.fromBlocks(), position)];
            }
        }
    }

    /** What every plan must keep. */
    private void check(StepPlan plan) {
        Set<Long> seen = new HashSet<>();
        Map<Place, Map<Integer, Long>> owners = new HashMap<>(Map.of(Place.GPU, new HashMap<>(), Place.HOST, new HashMap<>()));
        int rows = plan.admissions().size();
        int landing = 0;
        for (Flight flight : flights.values()) {
            claim(owners, Place.HOST, flight.admission.blocks(), flight.admission.sequence());
        }
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                rows += chunk.rows();
                fail(!seen.add(chunk.sequence()), "sequence " + chunk.sequence() + " has two chunks");
                fail(flights.containsKey(chunk.sequence()), "sequence " + chunk.sequence() + " is in flight and in a batch");
                landing += chunk.reader() == KvReader.GPU_WHILE_LANDING ? chunk.start() + chunk.rows() : 0;
                fail(
                        chunk.reader() == KvReader.CPU_FROM_HOST && chunk.rows() > 1,
                        "the CPU decodes, it does not prefill");
                claim(owners, chunk.reader().place(), chunk.blocks(), chunk.sequence());
            }
        }
        for (Admission admission : plan.admissions()) {
            fail(!seen.add(admission.sequence()), "sequence " + admission.sequence() + " is admitted twice");
            fail(flights.containsKey(admission.sequence()), "sequence " + admission.sequence() + " flies already");
            claim(owners, Place.HOST, admission.blocks(), admission.sequence());
        }
        for (Swap swap : plan.swaps()) {
            fail(flights.containsKey(swap.sequence()), "sequence " + swap.sequence() + " is swapped in flight");
        }
        for (long key : plan.resume()) {
            fail(!flights.containsKey(key), "sequence " + key + " resumes and does not fly");
        }
        fail(landing > limits.maxBatchTokens(), landing + " tokens of staging of at most " + limits.maxBatchTokens());
        fail(rows > limits.maxBatchTokens(), rows + " rows of at most " + limits.maxBatchTokens());
    }

    private static void claim(Map<Place, Map<Integer, Long>> owners, Place place, int[] blocks, long sequence) {
        for (int block : blocks) {
            Long other = owners.get(place).put(block, sequence);
            fail(other != null, place + " block " + block + " belongs to " + other + " and " + sequence);
        }
    }

    private static void fail(boolean broken, String what) {
        if (broken) {
            throw new ExecutorException(what);
        }
    }

    @Override
    public StepResult poll() {
        return results.remove();
    }

    @Override
    public void close() {}
}
