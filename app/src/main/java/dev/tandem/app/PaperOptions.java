package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for research: variants of the strategies as in the papers, and shadow verification. */
@Section(Section.Heading.ADVANCED)
final class PaperOptions {
    @Option(
            names = "--neo-hides-all",
            description = "neo, asymmetric and apex give the CPU only tokens whose attention hides behind the GPU's"
                    + " work, as in the paper. Default: off; they also give it more where that raises throughput"
                    + " although the GPU waits.")
    boolean neoHidesAll;

    @Option(
            names = "--apex-min-cpu-ratio",
            paramLabel = "RATIO",
            defaultValue = "0",
            description = "apex does not use the CPU with fewer CPU requests than this per GPU request; the paper's"
                    + " implementation has 8. Default: ${DEFAULT-VALUE}.")
    double apexMinCpuRatio;

    @Option(
            names = "--apex-cohort",
            description = "apex moves all its host tokens through the layers together, as in the paper."
                    + " Default: off; some move at each layer.")
    boolean apexCohort;

    @Option(
            names = "--stage-overhead",
            paramLabel = "MS",
            description = "Milliseconds that predictions add for each stage of a layer in asymmetric pipelining; the"
                    + " way to the CPU and back counts as two stages. NEO's artifact has 0.8."
                    + " Default: what the profile measured.")
    Optional<Double> stageOverhead = Optional.empty();

    @Option(
            names = "--shadow-verification-rate",
            paramLabel = "SHARE",
            defaultValue = "0",
            description = "Share of requests, from 0 to 1, of which the GPU alone computes again one token that the"
                    + " CPU helped to decode. The metric tandem:shadow_verification_logprob_difference has the"
                    + " difference of log-probabilities. Default: ${DEFAULT-VALUE}.")
    double shadowVerificationRate;

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        stageOverheadSeconds();
        if (!(shadowVerificationRate >= 0 && shadowVerificationRate <= 1)) {
            throw new ConfigurationException("--shadow-verification-rate " + shadowVerificationRate
                    + " is a share of requests; it must lie in [0, 1]");
        }
    }

    Optional<Double> stageOverheadSeconds() {
        return stageOverhead.map(millis -> {
            if (!(millis >= 0) || millis == Double.POSITIVE_INFINITY) {
                throw new ConfigurationException(
                        "--stage-overhead " + millis + " must be a number of milliseconds, 0 or more");
            }
            return millis / 1e3;
        });
    }
}
