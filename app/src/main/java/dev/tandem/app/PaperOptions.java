package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for research: variants of the strategies as in the papers, and shadow verification. */
@Section(Section.Heading.ADVANCED)
final class PaperOptions {
    @Option(
            names = "--fidelity",
            paramLabel = "NAME",
            description = "How close the strategy stays to its paper: printed, artifact (as NEO's public artifact) or"
                    + " tandem. Default: printed for the papers' strategies, tandem for the others.")
    Optional<String> fidelity = Optional.empty();

    @Option(
            names = "--deviation",
            split = ",",
            paramLabel = "NAME=VALUE",
            description = "Change one rule of the fidelity, for example room-to-grow=false; may be repeated. The"
                    + " documents list the rules on the page Deviations. Default: none.")
    List<String> deviations = new ArrayList<>();

    @Option(
            names = "--shadow-verification-rate",
            paramLabel = "FRACTION",
            defaultValue = "0",
            description = "Fraction of requests, from 0 to 1, of which the GPU alone computes again one token that the"
                    + " CPU helped to decode. The metric tandem:shadow_verification_logprob_difference has the"
                    + " difference of log-probabilities. Default: ${DEFAULT-VALUE}.")
    double shadowVerificationRate;

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (!(shadowVerificationRate >= 0 && shadowVerificationRate <= 1)) {
            throw new ConfigurationException("--shadow-verification-rate " + shadowVerificationRate
                    + " is a fraction of requests; it must lie in [0, 1]");
        }
    }
}
