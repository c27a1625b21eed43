package dev.tandem.bench;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Component;
import dev.tandem.engine.cost.Profile;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * How a simulated machine differs from the profile that the scheduler predicts from. Without errors a strategy may gain
 * only because its cost model is exact, which no hardware offers.
 *
 * @param gpu factors of the GPU's times
 * @param hostAttention factors of CPU attention
 * @param link factor of transfers
 * @param noise of single steps and tasks
 * @param seed of the noise
 */
public record TimingErrors(Gpu gpu, HostAttention hostAttention, double link, Noise noise, long seed) {
    /** The machine is as profiled. */
    public static final TimingErrors NONE =
            new TimingErrors(new Gpu(1, 1, 1), new HostAttention(1, 1), 1, new Noise(0, 0), 0);

    /**
     * Standard deviation of the logarithm of each factor that is drawn: the tolerance of throughput that recorded runs
     * are held against (tools/check_simulator.py).
     */
    private static final double DRAWN_BIAS = 0.1;
    /** Noise of steps and tasks that goes with drawn factors. Assumed: no recorded run has times of single steps. */
    private static final Noise DRAWN_NOISE = new Noise(0.05, 0.002);

    /** What {@link #parse} knows. */
    private static final Set<String> PARTS =
            Set.of("gemm", "gpu-attention", "launch", "host-attention", "busy-host", "link", "noise", "late", "seed");

    /**
     * Factors of the GPU's times; 1.1 takes a tenth longer than profiled.
     *
     * @param gemm of GEMMs, the output head included
     * @param attention of prefill and decode attention
     * @param launch of fixed times: per step, per stage, per trip to the CPU
     */
    public record Gpu(double gemm, double attention, double launch) {}

    /**
     * Factors of CPU attention.
     *
     * @param always at any time
     * @param busy besides, while another program reads the host's memory: in the last five of every fifteen minutes. On
     *     an H200's host such a slower time lasted six minutes (docs/results/busy-host.jsonl)
     */
    public record HostAttention(double always, double busy) {
        private static final double PERIOD_SECONDS = 900;
        private static final double BUSY_SECONDS = 300;

        /** The factor besides {@link #always}, at a time in seconds since the run began. */
        double at(double seconds) {
            return seconds % PERIOD_SECONDS < PERIOD_SECONDS - BUSY_SECONDS ? 1 : busy;
        }
    }

    /**
     * Noise of single steps and CPU tasks.
     *
     * @param deviation standard deviation of the logarithm of a step's or a task's time; its mean stays
     * @param lateProbability of a CPU task whose worker is late: preempted, or on a busy core
     */
    public record Noise(double deviation, double lateProbability) {}

    /** @throws ConfigurationException that names the factor, its value and the limit */
    public TimingErrors {
        check("gemm", gpu.gemm(), 0.1, 10);
        check("gpu-attention", gpu.attention(), 0.1, 10);
        check("launch", gpu.launch(), 0.1, 10);
        check("host-attention", hostAttention.always(), 0.1, 10);
        check("busy-host", hostAttention.busy(), 0.1, 10);
        check("link", link, 0.1, 10);
        check("noise", noise.deviation(), 0, 1);
        check("late", noise.lateProbability(), 0, 1);
    }

    private static void check(String name, double value, double min, double max) {
        if (!(value >= min && value <= max)) {
            throw new ConfigurationException(
                    "--error " + name + "=" + value + " must lie between " + min + " and " + max);
        }
    }

    /** Factors that are drawn from a seed, each lognormal and independent of the others; noise and late workers. */
    public static TimingErrors drawn(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Gpu gpu = new Gpu(factor(random), factor(random), factor(random));
        return new TimingErrors(gpu, new HostAttention(factor(random), 1), factor(random), DRAWN_NOISE, seed);
    }

    private static double factor(SplittableRandom random) {
        return Math.exp(DRAWN_BIAS * random.nextGaussian());
    }

    /**
     * Parses {@code none}, a seed, or parts such as {@code gemm=1.1,host-attention=1.3,noise=0.05,late=0.01,seed=7}.
     * The parts are gemm, gpu-attention, launch, host-attention, busy-host, link, noise, late and seed.
     *
     * @throws ConfigurationException that names the part that is wrong
     */
    public static TimingErrors parse(String text) {
        if (text.equals("none")) {
            return NONE;
        }
        if (text.matches("\\d{1,18}")) {
            return drawn(Long.parseLong(text));
        }
        Map<String, Double> parts = new HashMap<>();
        for (String part : text.split(",")) {
            String[] words = part.split("=", 2);
            if (words.length != 2 || !PARTS.contains(words[0]) || !words[1].matches("\\d+(\\.\\d+)?")) {
                throw new ConfigurationException("--error '" + part + "' is not known; use none, a seed, or"
                        + " PART=NUMBER with gemm, gpu-attention, launch, host-attention, busy-host, link,"
                        + " noise, late or seed");
            }
            parts.put(words[0], Double.parseDouble(words[1]));
        }
        return new TimingErrors(
                new Gpu(
                        parts.getOrDefault("gemm", 1.0),
                        parts.getOrDefault("gpu-attention", 1.0),
                        parts.getOrDefault("launch", 1.0)),
                new HostAttention(parts.getOrDefault("host-attention", 1.0), parts.getOrDefault("busy-host", 1.0)),
                parts.getOrDefault("link", 1.0),
                new Noise(parts.getOrDefault("noise", 0.0), parts.getOrDefault("late", 0.0)),
                parts.getOrDefault("seed", 0.0).longValue());
    }

    /** The profile of the machine that is simulated, where {@code predicted} is what the scheduler has. */
    public Profile machine(Profile predicted) {
        return predicted.scaled(this::factor, gpu.launch());
    }

    private double factor(Component component) {
        return switch (component) {
            case LINEAR, PRE_LAYER, POST_LAYER -> gpu.gemm();
            case PREFILL_ATTENTION, GPU_ATTENTION -> gpu.attention();
            case CPU_ATTENTION, IN_FLIGHT_ATTENTION -> hostAttention.always();
            case TRANSFER -> link;
        };
    }

    /**
     * Draws the noise of one run.
     *
     * <p>Owned by: the thread that simulates.
     */
    static final class Draws {
        /** A late worker's task takes this many times as long: a time slice of a busy core, some milliseconds. */
        private static final double LATE = 10;

        private final HostAttention hostAttention;
        private final Noise noise;
        private final SplittableRandom random;

        Draws(TimingErrors errors) {
            hostAttention = errors.hostAttention();
            noise = errors.noise();
            random = new SplittableRandom(errors.seed());
        }

        /** Factor of CPU attention's time that changes, at a time in seconds since the run began. */
        double hostAttention(double seconds) {
            return hostAttention.at(seconds);
        }

        /** Factor of a GPU step's time. */
        double step() {
            double deviation = noise.deviation();
            return deviation == 0 ? 1 : Math.exp(deviation * random.nextGaussian() - deviation * deviation / 2);
        }

        /** Factor of a CPU attention task's time. */
        double task() {
            boolean late = noise.lateProbability() > 0 && random.nextDouble() < noise.lateProbability();
            return step() * (late ? LATE : 1);
        }
    }
}
