package dev.tandem.app;

import dev.tandem.server.trace.OtlpSettings;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for traces of requests. */
@Section(Section.Heading.SERVER)
final class TraceOptions {
    @Option(
            names = "--otlp-traces-endpoint",
            paramLabel = "URL",
            description = "Collector that gets a trace of each request by OTLP over HTTP in JSON, for example"
                    + " http://127.0.0.1:4318/v1/traces. Default: the variables OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or"
                    + " OTEL_EXPORTER_OTLP_ENDPOINT; without them there are no traces.")
    Optional<String> endpoint = Optional.empty();

    /**
     * Where traces go; empty when they are off.
     *
     * @throws dev.tandem.engine.config.ConfigurationException that names the option or variable and the remedy
     */
    Optional<OtlpSettings> settings(Map<String, String> environment) {
        return OtlpSettings.of(endpoint, environment);
    }
}
