package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Options for how the GPU and the host share the work. */
@Section(Section.Heading.HYBRID)
final class StrategyOptions {
    private static final String AUTO = "auto";
    /** Milliseconds per token that people who read along accept: four tokens a second. */
    private static final double INTERACTIVE_TARGET = 250;

    /** With fewer cores, the engine and the server leave too few for host attention to be faster. */
    private static final int MIN_CORES = 4;
    /** Not chosen by an experiment: one exchange per 256 tokens costs two copies of a sequence's KV. */
    private static final int ROTATE_AFTER = 256;
    /** One day in seconds; a longer limit would protect nothing. */
    private static final int MAX_WATCHDOG = 86_400;

    @Option(
            names = "--strategy",
            paramLabel = "NAME",
            defaultValue = AUTO,
            description = "How the CPU shares the work: auto, gpu-only, asymmetric, async-overlap,"
                    + " adaptive-pipelining or adaptive, and the papers' swiftllm, simple-offload, symmetric,"
                    + " fastdecode-plus, neo and apex. auto is adaptive with its guard where a server has a GPU and at"
                    + " least " + MIN_CORES + " cores, else gpu-only. bench throughput and bench simulate also take a"
                    + " list, for example gpu-only,neo,apex, and compare. Default: ${DEFAULT-VALUE}.")
    String strategy = AUTO;

    /** The strategy that {@link #AUTO} resolves to. */
    private Strategy settled = Strategy.GPU_ONLY;

    @Option(
            names = "--guard",
            negatable = true,
            fallbackValue = "true",
            description = "Offload only where a gain is predicted and measured."
                    + " Default: on in serve and generate, off in bench.")
    Optional<Boolean> guard = Optional.empty();

    @Option(
            names = "--attention-threads",
            paramLabel = "NUMBER",
            description = "CPU threads that compute attention over host KV. Default: beside a GPU all cores but two,"
                    + " none with gpu-only; on the CPU executor --threads.")
    Optional<Integer> attentionThreads = Optional.empty();

    @Option(
            names = "--ttft-target",
            paramLabel = "MS",
            defaultValue = "0",
            description = "Time to first token that placement aims at, in milliseconds; 0 for none. ttft_target of a"
                    + " request wins. Default: ${DEFAULT-VALUE}.")
    double firstTokenTarget;

    @Option(
            names = "--tpot-target",
            paramLabel = "MS",
            description = "Max mean time per output token of a request, on whichever tier it is, in milliseconds; 0"
                    + " for none, where only throughput counts. tpot_target of a request wins. Default: "
                    + INTERACTIVE_TARGET + ", or 0 with a paper's strategy.")
    Optional<Double> perTokenTarget = Optional.empty();

    @Option(
            names = "--rotate-after",
            paramLabel = "TOKENS",
            description = "Output tokens after which a request on the host may change places with one on the GPU; 0"
                    + " for never. Default: " + ROTATE_AFTER + ", or 0 where the fidelity has no rotation.")
    Optional<Integer> rotateAfter = Optional.empty();

    @Option(
            names = "--max-host-slowdown",
            paramLabel = "FACTOR",
            defaultValue = "0",
            description = "A request on the host may change places at once when its time per token is this many times"
                    + " the GPU's; 0 for never. Default: ${DEFAULT-VALUE}.")
    double maxHostSlowdown;

    @Option(
            names = "--host-watchdog",
            paramLabel = "SECONDS",
            defaultValue = "10",
            description = "Seconds after which an attention thread that has not finished one token counts as stalled:"
                    + " its requests fail, and the GPU goes on alone. A step waits at most twice as long for its host"
                    + " tokens. Default: ${DEFAULT-VALUE}.")
    double hostWatchdog = 10;

    @Option(
            names = "--profile",
            paramLabel = "FILE",
            description = "Profile that predictions use, as tandem profile writes it. Default: this machine's own,"
                    + " measured once and kept in the cache.")
    Optional<Path> profile = Optional.empty();

    @Mixin
    PaperOptions paper = new PaperOptions();

    /** The rate of the option; 0, with a notice, when no token is decoded from host KV. */
    double shadowVerificationRate(Strategy strategy, StartLog log) {
        if (paper.shadowVerificationRate > 0 && !strategy.offloads()) {
            log.notice("Shadow verification is off: with --strategy " + strategy.flag()
                    + " no token is decoded from host KV."
                    + " Leave --shadow-verification-rate out, or use another strategy.");
            return 0;
        }
        return paper.shadowVerificationRate;
    }

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check(Budget budget, SchedulingOptions scheduling) {
        chosen();
        decide(budget, scheduling, InFlightLimits.UNLIMITED, PiggybackedPrefill.NONE);
        paper.check();
        AdvancedOptions.checkThreads("--attention-threads", attentionThreads);
        if (!(hostWatchdog > 0 && hostWatchdog <= MAX_WATCHDOG)) {
            throw new ConfigurationException("--host-watchdog " + hostWatchdog
                    + " must be a number of seconds above 0 and at most " + MAX_WATCHDOG);
        }
        if (profile.isPresent() && !Files.isReadable(profile.get())) {
            throw new ConfigurationException(
                    "--profile " + profile.get() + " cannot be read; tandem profile --output writes such a file");
        }
    }

    /** @throws ConfigurationException that lists the known names */
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
     * Resolves {@code auto} on a server with a GPU, and gives the reason when it is not a strategy with a host tier.
     *
     * @param obstacle the reason why host attention cannot run for this model; empty when it can
     */
    void settle(int cores, Optional<ByteSize> hostKv, Optional<String> obstacle, StartLog log) {
        if (!strategy.equals(AUTO)) {
            return;
        }
        Optional<String> reason = obstacle;
        if (cores < MIN_CORES) {
            reason = Optional.of("this machine has " + cores + " cores, and offloading pays from " + MIN_CORES + " on");
        } else if (hostKv.isPresent() && hostKv.get().bytes() == 0) {
            reason = Optional.of("--host-kv is 0");
        } else if (!guard.orElse(true)) {
            reason = Optional.of("--no-guard is set, and auto offloads only with the guard");
        }
        settled = reason.isEmpty() ? Strategy.ADAPTIVE : Strategy.GPU_ONLY;
        reason.ifPresent(why -> log.notice(
                "The GPU works alone: " + why + ". Name a --strategy to offload all the same, or gpu-only to say so."));
    }

    /** @throws ConfigurationException that names the option, its value and the remedy */
    Deviations deviations() {
        Strategy chosen = chosen();
        Deviations deviations =
                chosen.deviations(paper.fidelity.map(Fidelity::of).orElse(chosen.fidelity()));
        for (String assignment : paper.deviations) {
            deviations = chosen.with(deviations, assignment);
        }
        return deviations;
    }

    /** Adds the strategy, its fidelity and the rules that were changed by hand to a result. */
    void describe(Map<String, Object> result) {
        Deviations deviations = deviations();
        result.put("strategy", chosen().flag());
        result.put("fidelity", deviations.fidelity().flag());
        if (!deviations.changed().isEmpty()) {
            result.put("deviations", deviations.changed());
        }
    }

    Strategy.Options decide(
            Budget budget, SchedulingOptions scheduling, InFlightLimits inFlight, PiggybackedPrefill piggybacking) {
        Deviations deviations = deviations();
        return Strategy.Options.builder(budget)
                .preemption(scheduling.preemption)
                .rules(new TierRules(
                        new LatencyTargets(
                                nanos("--ttft-target", firstTokenTarget), nanos("--tpot-target", tpotTarget())),
                        rotateAfter.orElse(deviations.has(Deviation.ROTATION) ? ROTATE_AFTER : 0),
                        maxHostSlowdown))
                .deviations(deviations)
                .queueBypasses(scheduling.maxQueueBypass)
                .inFlight(inFlight)
                .piggybacking(piggybacking)
                .build();
    }

    /** The target of {@code --tpot-target} in milliseconds, or its default; 0 for none. */
    double tpotTarget() {
        return perTokenTarget.orElseGet(() -> deviations().fidelity() == Fidelity.TANDEM ? INTERACTIVE_TARGET : 0.0);
    }

    /** The profile from which the strategy predicts: the measured one, with the stage overhead of the deviations. */
    Profile decidedBy(Profile measured) {
        OptionalDouble millis = deviations().number(Deviation.STAGE_OVERHEAD);
        return millis.isPresent() ? measured.withStageOverhead(millis.getAsDouble() / 1e3) : measured;
    }

    private static long nanos(String flag, double millis) {
        if (!(millis >= 0) || millis == Double.POSITIVE_INFINITY) {
            throw new ConfigurationException(flag + " " + millis + " must be a number of milliseconds, 0 for none");
        }
        return (long) (millis * 1e6);
    }
}
