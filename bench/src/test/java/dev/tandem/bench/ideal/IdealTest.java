package dev.tandem.bench.ideal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.Workload;
import dev.tandem.bench.hardware.Gpu;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class IdealTest {
    static final ModelShape LLAMA_8B =
            new ModelShape(32, 4096, new ModelShape.Attention(32, 8, 128), 14_336, 128_256, 2, false);
    static final ModelShape LLAMA_7B =
            new ModelShape(32, 4096, new ModelShape.Attention(32, 32, 128), 11_008, 32_000, 2, false);
    private static final ModelShape QWEN_4B =
            new ModelShape(36, 2560, new ModelShape.Attention(32, 8, 128), 9_728, 151_936, 2, true);
    private static final ModelShape QWEN_32B =
            new ModelShape(64, 5120, new ModelShape.Attention(64, 8, 128), 25_600, 151_936, 2, false);

    private static final Set<Placement> ALL =
            EnumSet.of(Placement.IN_FLIGHT, Placement.SAME_LAYER, Placement.TWO_SUB_BATCHES, Placement.LINK);

    /** The grids of step shapes of the programs whose figures are compared. */
    private static final Grid EARLIER = new Grid(0.02, 1.35, 42, 2, false);

    private static final Grid FIRST = new Grid(0.25, 1.25, 36, 2, false);

    private static ModelShape model(String name) {
        return switch (name) {
            case "8B" -> LLAMA_8B;
            case "8B fp8 KV" -> LLAMA_8B.withKvValueBytes(1);
            case "Qwen3-4B" -> QWEN_4B;
            case "Qwen3-32B" -> QWEN_32B;
            case "Qwen3-32B fp8 KV" -> QWEN_32B.withKvValueBytes(1);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Lengths lengths(String work) {
        return switch (work) {
            case "chat" -> Lengths.divisible(1155, 211, 0);
            case "code" -> Lengths.divisible(2048, 28, 0);
            case "agent" -> Lengths.divisible(8192, 300, 0.9);
            case "reason" -> Lengths.divisible(350, 2500, 0);
            case "32k" -> Lengths.divisible(32_000, 500, 0);
            case "1000/400" -> Lengths.divisible(1000, 400, 0);
            default -> throw new IllegalArgumentException(work);
        };
    }

    /** 0.95 of the GPU's memory is used; weights and 1 GB come off, and two layers of a chunk and 96 MB are staged. */
    private static IdealCase on(String machine, ModelShape model, Lengths lengths) {
        return on(Hardware.named(machine), model, lengths);
    }

    /** The machine as the earlier program took it: that knew no measurement of a T4, and took half of its peak. */
    private static Hardware earlier(String machine) {
        Hardware now = Hardware.named(machine);
        if (!machine.startsWith("t4-")) {
            return now;
        }
        Gpu gpu = now.gpu();
        double flops = 0.5 * gpu.flops() / now.efficiency().gpuFlops();
        return now.withGpu(new Gpu(gpu.name(), gpu.memoryBytes(), gpu.bandwidth(), flops, gpu.linkBandwidth()));
    }

    private static IdealCase on(Hardware hardware, ModelShape model, Lengths lengths) {
        double gpuBytes = 0.95 * hardware.gpuMemoryBytes() - model.weightBytes() - 1e9;
        double computed = (1 - lengths.cached()) * lengths.prompt();
        double staging = 96e6 + 2 * Math.min(computed, 2048) * model.kvBytesPerToken() / model.layers();
        return new IdealCase(
                MachineSeconds.of(hardware, model, lengths.context()),
                new KvMemory(gpuBytes, staging, hardware.host().kvBytes(), model.kvBytesPerToken()),
                hardware.linkBandwidth(),
                hardware.hostReadBandwidth(),
                lengths,
                Bounds.WIDE,
                ALL);
    }

    /**
     * Gains that a program of step shapes gave before: the best one, and the best where no host sequence waits longer
     * than 250 ms for a token. Machines, models and lengths are those of that program. So is the grid of step shapes
     * here.
     */
    @ParameterizedTest
    @CsvSource({
        "t4-g4dn.4xlarge, Qwen3-4B, chat, 1.14, 1.11",
        "t4-g4dn.4xlarge, Qwen3-4B, agent, 1.21, 1.20",
        "t4-g4dn.4xlarge, Qwen3-4B, reason, 1.21, 1.21",
        "t4-g4dn.4xlarge, Qwen3-4B, 32k, 1.23, 1.22",
        "a10g-g5.4xlarge, 8B, chat, 1.08, 1.03",
        "a10g-g5.4xlarge, 8B, code, 1.02, 1.00",
        "a10g-g5.4xlarge, 8B, agent, 1.32, 1.16",
        "a10g-g5.4xlarge, 8B, reason, 1.29, 1.18",
        "a10g-g5.16xlarge, 8B, chat, 1.21, 1.18",
        "a10g-g5.16xlarge, 8B, agent, 1.85, 1.60",
        "a10g-g5.16xlarge, 8B, reason, 2.02, 1.71",
        "a10g-g5.16xlarge, 8B, 32k, 1.43, 1.26",
        "rtx4090-threadripper-pro, 8B, chat, 1.32, 1.27",
        "rtx4090-threadripper-pro, 8B, agent, 1.67, 1.44",
        "rtx4090-threadripper-pro, 8B, reason, 1.81, 1.50",
        "h100-16vcpu, 8B, agent, 1.03, 1.03",
        "h100-16vcpu, Qwen3-32B, agent, 1.13, 1.09",
        "h100-16vcpu, Qwen3-32B, reason, 1.15, 1.09"
    })
    void gainsAreThoseOfTheEarlierProgram(String machine, String model, String work, double gain, double within250ms) {
        IdealCase any = on(earlier(machine), model(model), lengths(work));
        IdealCase quick = any.withBounds(Bounds.WIDE.withMaxTokenSeconds(0.25));

        double got = Ideal.of(any, EARLIER).ratio().orElseThrow();
        double ofGpuOnly = Ideal.of(any, EARLIER).gpuOnly().orElseThrow().tokensPerSecond();
        double gotQuick = Ideal.of(quick, EARLIER).best().tokensPerSecond() / ofGpuOnly;

        assertThat(got).isCloseTo(gain, within(0.02 * gain));
        assertThat(Math.max(1, gotQuick)).isCloseTo(within250ms, within(0.02 * within250ms));
    }

    /** Rates of the GPU alone and with a host tier, without the link. */
    @ParameterizedTest
    @CsvSource({
        "a10g-g5.16xlarge, 8B, reason, 681, 1331",
        "a10g-g5.16xlarge, 8B fp8 KV, reason, 1342, 2243",
        "h100-sapphire-rapids, Qwen3-32B, agent, 243, 323",
        "h100-sapphire-rapids, Qwen3-32B fp8 KV, agent, 474, 611"
    })
    void ratesAreThoseOfTheEarlierProgram(String machine, String model, String work, double gpuOnly, double best) {
        Ideal ideal = Ideal.of(on(machine, model(model), lengths(work)).withPlacements(IdealCase.IMPLEMENTED), EARLIER);

        assertThat(ideal.gpuOnly().orElseThrow().tokensPerSecond()).isCloseTo(gpuOnly, within(0.02 * gpuOnly));
        assertThat(ideal.best().tokensPerSecond()).isCloseTo(best, within(0.02 * best));
    }

    /** NEO Fig. 10a's pool of 26,400 tokens: where NEO publishes 1.12, 1.13, 1.30 and 1.79. */
    @ParameterizedTest
    @CsvSource({"a10g-g5.2xlarge, 1.13", "a10g-g5.4xlarge, 1.23", "a10g-g5.8xlarge, 1.45", "a10g-g5.16xlarge, 1.77"})
    void gainsByHostAreThoseOfTheEarlierProgram(String machine, double gain) {
        IdealCase whole = on(machine, LLAMA_8B, lengths("1000/400")).withPlacements(IdealCase.IMPLEMENTED);
        KvMemory memory = whole.memory();
        IdealCase of = whole.withMemory(
                new KvMemory(26_400 * 131_072.0, memory.stagingBytes(), memory.hostBytes(), memory.bytesPerToken()));

        assertThat(Ideal.of(of, EARLIER).ratio().orElseThrow()).isCloseTo(gain, within(0.02 * gain));
    }

    /**
     * Times of the first program: no cost of waiting, no output head's arithmetic, CPU attention at a fixed rate.
     *
     * @param model bytes of weights, parameters of the layers, KV bytes per token
     * @param gpu bytes per second of GEMMs, FLOP/s, bytes per second of attention
     */
    private record FirstProgram(double[] model, double[] gpu, double hostAttentionBandwidth) implements MachineSeconds {
        private static final double[] EIGHT_B = {15.0e9, 6.98e9, 131_072};
        private static final double[] SEVEN_B = {13.2e9, 6.48e9, 524_288};

        @Override
        public int layers() {
            return 32;
        }

        @Override
        public double pass(double prompt, double sampled) {
            double memory = model[0] / gpu[0];
            double arithmetic = (prompt + sampled) * 2 * model[1] / gpu[1];
            return prompt + sampled <= 0 ? 0 : Math.pow(Math.pow(memory, 4) + Math.pow(arithmetic, 4), 0.25) + 0.25e-3;
        }

        @Override
        public double prefillAttention(double pairs) {
            return pairs * 32 * 4 * 4096 / gpu[1];
        }

        @Override
        public double gpuAttention(double contextTokens) {
            return contextTokens * model[2] / gpu[2];
        }

        @Override
        public double trip() {
            return 0;
        }

        @Override
        public double hostLoad() {
            return 1;
        }
    }

    private static double[] gpu(String machine) {
        return switch (machine) {
            case "h200" -> new double[] {4300e9, 780e12, 4300e9};
            case "h200-16sm" -> new double[] {1850e9, 105e12, 2400e9};
            case "h200-8sm" -> new double[] {879e9, 52e12, 1250e9};
            case "a10g" -> new double[] {560e9, 100e12, 560e9};
            case "t4" -> new double[] {290e9, 45e12, 290e9};
            default -> throw new IllegalArgumentException(machine);
        };
    }

    /**
     * The gains of the first program, with its simpler times, whole requests and no staging: by two sub-batches, by
     * in-flight tokens, by both.
     */
    @ParameterizedTest
    @CsvSource({
        "h200, 8B, 900000, 1000, 200, 115, 90, 6998, 1.02, 1.00, 1.02",
        "h200, 8B, 26400, 1000, 200, 115, 90, 4961, 1.00, 1.12, 1.12",
        "h200, 8B, 26400, 1000, 400, 115, 90, 4797, 1.00, 1.15, 1.15",
        "h200, 8B, 26400, 1000, 800, 115, 90, 3986, 1.00, 1.16, 1.16",
        "h200, 8B, 26400, 350, 2500, 115, 90, 3541, 1.00, 1.15, 1.15",
        "h200-16sm, 8B, 26400, 1000, 200, 115, 90, 1125, 1.03, 1.04, 1.06",
        "h200-16sm, 8B, 26400, 1000, 400, 115, 90, 1680, 1.00, 1.13, 1.13",
        "h200-16sm, 8B, 26400, 1000, 800, 115, 90, 1760, 1.00, 1.29, 1.29",
        "h200-16sm, 8B, 26400, 350, 2500, 115, 90, 1635, 1.00, 1.33, 1.33",
        "h200-8sm, 7B, 864, 372, 45, 115, 90, 106, 4.04, 3.90, 4.04",
        "h200, 7B, 864, 372, 45, 115, 90, 485, 1.62, 2.15, 2.15",
        "a10g, 8B, 26400, 1000, 200, 150, 120, 674, 1.57, 1.41, 1.57",
        "a10g, 8B, 26400, 1000, 400, 150, 120, 656, 1.81, 1.84, 1.86",
        "a10g, 8B, 26400, 1000, 800, 150, 120, 545, 1.83, 1.95, 1.95",
        "t4, 7B, 864, 372, 45, 55, 45, 35, 7.14, 4.39, 7.14"
    })
    void gainsAreThoseOfTheFirstProgram(
            String machine,
            String model,
            int pool,
            int prompt,
            int output,
            double hostGbps,
            double hostGb,
            double gpuOnly,
            double subBatches,
            double inFlight,
            double both) {
        double[] sizes = model.equals("8B") ? FirstProgram.EIGHT_B : FirstProgram.SEVEN_B;
        // 864 tokens hold 1.65 requests of that workload on average
        Lengths lengths = new Lengths(
                prompt, output, 0, tokens -> pool == 864 ? 1.65 : Math.floor(tokens / (prompt + output / 2.0)));
        IdealCase of = new IdealCase(
                new FirstProgram(sizes, gpu(machine), hostGbps * 1e9),
                new KvMemory(pool * sizes[2], 0, hostGb * 1e9, sizes[2]),
                1e15,
                1e15,
                lengths,
                new Bounds(Double.POSITIVE_INFINITY, pool == 864 ? 832 : 20_480, 1024),
                IdealCase.IMPLEMENTED);

        double got = Ideal.of(of, FIRST).gpuOnly().orElseThrow().tokensPerSecond();
        assertThat(got).isCloseTo(gpuOnly, within(0.02 * gpuOnly));
        assertGain(of, EnumSet.of(Placement.TWO_SUB_BATCHES), subBatches);
        assertGain(of, EnumSet.of(Placement.IN_FLIGHT), inFlight);
        assertGain(of, EnumSet.of(Placement.IN_FLIGHT, Placement.TWO_SUB_BATCHES), both);
    }

    private static void assertGain(IdealCase of, Set<Placement> placements, double gain) {
        assertThat(Ideal.of(of.withPlacements(placements), FIRST).ratio().orElseThrow())
                .as("gain by %s", placements)
                .isCloseTo(gain, within(0.02 * gain));
    }

    @Test
    void aSlowHostLimitsByItsAttentionAndASmallOneByItsMemory() {
        IdealCase of = on("h100-16vcpu", QWEN_32B, lengths("reason")).withPlacements(IdealCase.IMPLEMENTED);
        KvMemory memory = of.memory();
        KvMemory small = new KvMemory(memory.gpuBytes(), memory.stagingBytes(), 40e9, memory.bytesPerToken());
        KvMemory large = new KvMemory(memory.gpuBytes(), memory.stagingBytes(), 1e13, memory.bytesPerToken());

        assertThat(Ideal.of(of.withMemory(small)).best().limits()).contains("host KV of 40.0 GB");
        assertThat(Ideal.of(of.withMemory(large)).best().limits()).contains("CPU attention, 135 GB/s");
    }

    /** 219 sequences take 66 ms per step on this GPU; fewer of them meet 60 ms. */
    @Test
    void fewerSequencesRunWhereATokenHasAMaxTime() {
        IdealCase any = on("a10g-g5.16xlarge", LLAMA_8B, Lengths.divisible(128, 128, 0));
        double free = Ideal.of(any).gpuOnly().orElseThrow().tokensPerSecond();
        IdealCase quick = any.withBounds(Bounds.WIDE.withMaxTokenSeconds(0.06));

        assertThat(Ideal.of(quick).gpuOnly().orElseThrow().tokensPerSecond()).isBetween(free * 0.5, free);
    }

    /** The grid of step shapes hardly matters once the largest shapes are tried, and it did before. */
    @Test
    void theLargestStepShapesAreTried() {
        IdealCase of =
                on("a10g-g5.16xlarge", LLAMA_8B, lengths("agent")).withBounds(Bounds.WIDE.withMaxTokenSeconds(0.25));
        double ideal = Ideal.of(of).best().tokensPerSecond();

        assertThat(Ideal.of(of, new Grid(0.02, 1.1, 130, 1.2, true)).best().tokensPerSecond())
                .isBetween(ideal * 0.995, ideal * 1.01);
        assertThat(Ideal.of(of, EARLIER).best().tokensPerSecond()).isLessThan(ideal * 0.95);
    }

    /** A request of 8,342 tokens fits neither a GPU pool nor a host pool of 1 GB; the host alone is enough. */
    @Test
    void aRequestThatFitsOnlyTheHostHasNoRatio() {
        IdealCase of = on("h100-16vcpu", QWEN_32B, lengths("agent"));
        KvMemory gpuTooSmall = new KvMemory(1.5e9, 0.6e9, 90e9, of.memory().bytesPerToken());
        Ideal ideal = Ideal.of(of.withMemory(gpuTooSmall));

        assertThat(ideal.gpuOnly()).isEmpty();
        assertThat(ideal.ratio()).isEmpty();
        assertThat(ideal.best().tokensPerSecond()).isPositive();
    }

    /** First come, first served, 864 tokens hold 1.65 requests of osc; here each starts as soon as it surely fits. */
    @Test
    void wholeRequestsPackWorseThanTheirQuotient() {
        Workload osc = Workload.parse("osc", 0);

        assertThat(Packing.meanRequests(osc, 864)).isBetween(1.5, 1.9);
        assertThat(Packing.meanRequests(osc, 864)).isLessThan(864 / osc.meanTokensHeld());
        assertThat(Packing.meanRequests(Workload.parse("synthetic:1000/400", 0), 26_400))
                .isCloseTo(22, within(0.1));
    }

    /** A measured profile gives what its curves have: 26,400 tokens of an H200 with 16 multiprocessors. */
    @Test
    void aMeasuredMachineHasTheGainOfItsProfile() {
        Lengths lengths = Lengths.of(Workload.parse("synthetic:1000/800", 0));
        Hardware hardware = Hardware.named("h200-16sm-26k");
        IdealCase of = new IdealCase(
                MachineSeconds.of(hardware, LLAMA_8B, lengths.context()),
                new KvMemory(26_400 * 131_072.0, 0, 72e9, 131_072),
                hardware.linkBandwidth(),
                hardware.hostReadBandwidth(),
                lengths,
                new Bounds(Double.POSITIVE_INFINITY, 20_480, 256),
                IdealCase.IMPLEMENTED);

        assertThat(of.seconds().hostAttentionBandwidth()).isBetween(110e9, 140e9);
        assertThat(Ideal.of(of).ratio().orElseThrow()).isBetween(1.2, 1.45);
    }

    /** An A10G takes 28 ms to read 15 GB of weights. */
    @Test
    void aTimeThatNoScheduleReachesHasNoIdeal() {
        IdealCase any = on("a10g-g5.16xlarge", LLAMA_8B, lengths("chat"));

        assertThat(Ideal.find(any.withBounds(Bounds.WIDE.withMaxTokenSeconds(0.02))))
                .isEmpty();
        assertThat(Ideal.find(any.withBounds(Bounds.WIDE.withMaxTokenSeconds(0.04))))
                .isPresent();
    }
}
