package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Option;

/** How the two tiers are used. */
final class StrategyOptions {
    private static final String AUTO = "auto";
    /** Below these, what the engine and the server leave for attention is not worth a host tier. */
    private static final int MIN_CORES = 4;

    @Option(
            names = "--strategy",
            defaultValue = AUTO,
            description =
                    "auto, gpu-only, simple-offload, symmetric, fastdecode-plus, asymmetric, async-overlap, neo or apex"
                            + " (${DEFAULT-VALUE}). auto: apex with its guard when serving on a GPU beside enough cores, else gpu-only.")
    String strategy = AUTO;

    /** What {@link #AUTO} stands for. */
    private Strategy settled = Strategy.GPU_ONLY;

    @Option(
            names = "--guard",
            negatable = true,
            description =
                    "Offload only where it is predicted and measured to gain. Default: on when serving, off in bench.")
    Optional<Boolean> guard = Optional.empty();

    @Option(
            names = "--chunked-prefill",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description =
                    "Cut prompts to fill steps (${DEFAULT-VALUE}). --no-chunked-prefill: whole prompts, as in the papers;"
                            + " gpu-only and simple-offload always cut.")
    boolean chunkedPrefill = true;

    @Option(
            names = "--neo-hides-all",
            description =
                    "neo, asymmetric and apex give the CPU only rows whose attention hides behind the GPU's work, as in the paper,"
                            + " rather than more where a step's rate rises though the GPU waits for them.")
    boolean neoHidesAll;

    @Option(
            names = "--max-queue-bypass",
            defaultValue = "8",
            description =
                    "gpu-only: a request whose prompt does not fit into the KV pool lets so many later ones of its priority"
                            + " start before it, 0 for the order of arrival (${DEFAULT-VALUE}).")
    int maxQueueBypass = 8;

    @Option(
            names = "--apex-min-cpu-ratio",
            defaultValue = "0",
            description = "apex leaves the CPU alone below this many CPU requests for each GPU request; the paper's"
                    + " implementation has 8 (${DEFAULT-VALUE}).")
    double apexMinCpuRatio;

    @Option(
            names = "--apex-cohort",
            description =
                    "apex moves its host tokens through the layers together, as in the paper, rather than some at each layer.")
    boolean apexCohort;

    @Option(
            names = "--rotate-after",
            defaultValue = "256",
            description = "Tokens after which a request on the host may change places with one on the GPU, 0 for never"
                    + " (${DEFAULT-VALUE}).")
    int rotateAfter = 256;

    @Option(
            names = "--max-host-slowdown",
            defaultValue = "0",
            description =
                    "A request on the host whose time per token is this many times the GPU's is due to change places at"
                            + " once, 0 for never (${DEFAULT-VALUE}).")
    double maxHostSlowdown;

    @Option(
            names = "--ttft-target",
            defaultValue = "0",
            description = "Milliseconds to the first token that placement aims at, 0 for none (${DEFAULT-VALUE})."
                    + " A request's own ttft_target goes before.")
    double firstTokenTarget;

    @Option(
            names = "--tpot-target",
            defaultValue = "0",
            description = "Milliseconds between tokens that placement aims at, 0 for none (${DEFAULT-VALUE})."
                    + " A request's own tpot_target goes before.")
    double perTokenTarget;

    @Option(
            names = "--stage-overhead",
            paramLabel = "MS",
            description =
                    "What predictions add for each stage of a layer while sub-batches take turns, instead of what was"
                            + " measured; the way to the CPU and back counts as two. NEO's artifact: 0.8.")
    Optional<Double> stageOverhead = Optional.empty();

    @Option(
            names = "--profile",
            paramLabel = "FILE",
            description =
                    "A profile written by tandem profile. Default: this machine's, measured once and kept in the cache.")
    Optional<Path> profile = Optional.empty();

    @Option(
            names = "--shadow-verification-rate",
            paramLabel = "SHARE",
            defaultValue = "0",
            description =
                    "Of this share of requests one token that the CPU helped to decode is computed again by the GPU alone; how"
                            + " far log-probabilities are apart is exported as tandem:shadow_verification_logprob_difference (${DEFAULT-VALUE}).")
    double shadowVerificationRate;

    /** Says so where nothing will be compared. */
    double shadowVerificationRate(Strategy strategy, PrintStream log) {
        if (shadowVerificationRate > 0 && strategy == Strategy.GPU_ONLY) {
            log.println("given up: --shadow-verification-rate " + shadowVerificationRate
                    + ", with --strategy gpu-only no token is decoded from host KV");
            return 0;
        }
        return shadowVerificationRate;
    }

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check(Budget budget, Preemption preemption) {
        chosen();
        decide(budget, preemption, InFlightLimits.UNLIMITED, 0);
        stageOverheadSeconds();
        if (maxQueueBypass < 0) {
            throw new ConfigurationException("--max-queue-bypass " + maxQueueBypass + " must be 0 or more");
        }
        if (!(shadowVerificationRate >= 0 && shadowVerificationRate <= 1)) {
            throw new ConfigurationException("--shadow-verification-rate " + shadowVerificationRate
                    + " is a share of requests; it must lie in [0, 1]");
        }
        if (profile.isPresent() && !Files.isReadable(profile.get())) {
            throw new ConfigurationException(
                    "--profile " + profile.get() + " cannot be read; tandem profile --output writes such a file");
        }
    }

    /** @throws ConfigurationException that lists what there is */
    Strategy chosen() {
        if (strategy.equals(AUTO)) {
            return settled;
        }
        try {
            return Strategy.of(strategy);
        } catch (ConfigurationException e) {
            throw new ConfigurationException(e.getMessage() + " and " + AUTO, e);
        }
    }

    /**
     * Settles what {@code auto} stands for on a server with a GPU, and says why where it is not a strategy with a host
     * tier.
     *
     * @param obstacle what stands in the way of host attention for this model; empty when nothing does
     */
    void settle(int cores, Optional<ByteSize> hostKv, Optional<String> obstacle, PrintStream log) {
        if (!strategy.equals(AUTO)) {
            return;
        }
        Optional<String> reason = obstacle;
        if (cores < MIN_CORES) {
            reason = Optional.of("this machine has " + cores + " cores of the " + MIN_CORES + " that are worth it");
        } else if (hostKv.isPresent() && hostKv.get().bytes() == 0) {
            reason = Optional.of("--host-kv is 0");
        } else if (!guard.orElse(true)) {
            reason = Optional.of("--no-guard; name a --strategy to have it without");
        }
        settled = reason.isEmpty() ? Strategy.APEX : Strategy.GPU_ONLY;
        reason.ifPresent(why -> log.println("given up: offloading (--strategy auto), for " + why));
    }

    Strategy.Options decide(Budget budget, Preemption preemption, InFlightLimits inFlight, int piggybackedTokens) {
        return Strategy.Options.builder(budget)
                .preemption(preemption)
                .rules(new TierRules(
                        new LatencyTargets(
                                nanos("--ttft-target", firstTokenTarget), nanos("--tpot-target", perTokenTarget)),
                        rotateAfter,
                        maxHostSlowdown))
                .chunkedPrefill(chunkedPrefill)
                .hidesAll(neoHidesAll)
                .apexMinCpuRatio(apexMinCpuRatio)
                .apexCohort(apexCohort)
                .queueBypasses(maxQueueBypass)
                .inFlight(inFlight)
                .piggybackedTokens(piggybackedTokens)
                .build();
    }

    /** The profile that decides. */
    Profile decidedBy(Profile measured) {
        return stageOverheadSeconds().map(measured::withStageOverhead).orElse(measured);
    }

    private Optional<Double> stageOverheadSeconds() {
        return stageOverhead.map(millis -> {
            if (!(millis >= 0) || millis == Double.POSITIVE_INFINITY) {
                throw new ConfigurationException(
                        "--stage-overhead " + millis + " must be a number of milliseconds, 0 or more");
            }
            return millis / 1e3;
        });
    }

    private static long nanos(String flag, double millis) {
        if (!(millis >= 0) || millis == Double.POSITIVE_INFINITY) {
            throw new ConfigurationException(flag + " " + millis + " must be a number of milliseconds, 0 for none");
        }
        return (long) (millis * 1e6);
    }
}
