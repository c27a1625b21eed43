package dev.tandem.server.trace;

import dev.tandem.engine.config.ConfigurationException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Where traces go, and what goes with them.
 *
 * @param endpoint to which spans are posted
 * @param headers of each post, such as a key of the collector
 * @param resource attributes of the process, its name among them
 */
public record OtlpSettings(URI endpoint, Map<String, String> headers, Map<String, String> resource) {
    private static final String OPTION = "--otlp-traces-endpoint";
    private static final String SERVICE = "service.name";

    /**
     * The settings of an option and of OpenTelemetry's environment variables; empty when traces are off.
     *
     * @param option the endpoint with its path; it wins over the variables
     * @throws ConfigurationException that names the option or variable, its value and the remedy
     */
    public static Optional<OtlpSettings> of(Optional<String> option, Map<String, String> environment) {
        if (environment.getOrDefault("OTEL_SDK_DISABLED", "").equalsIgnoreCase("true")) {
            return Optional.empty();
        }
        Optional<URI> endpoint = endpoint(option, environment);
        if (endpoint.isEmpty()) {
            return Optional.empty();
        }
        checkProtocol("OTEL_EXPORTER_OTLP_PROTOCOL", environment);
        checkProtocol("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", environment);
        Map<String, String> headers = pairs("OTEL_EXPORTER_OTLP_HEADERS", environment);
        headers.putAll(pairs("OTEL_EXPORTER_OTLP_TRACES_HEADERS", environment));
        Map<String, String> resource = pairs("OTEL_RESOURCE_ATTRIBUTES", environment);
        resource.putIfAbsent(SERVICE, "tandem");
        set("OTEL_SERVICE_NAME", environment).ifPresent(name -> resource.put(SERVICE, name));
        return Optional.of(new OtlpSettings(endpoint.get(), Map.copyOf(headers), Map.copyOf(resource)));
    }

    private static Optional<URI> endpoint(Optional<String> option, Map<String, String> environment) {
        if (option.isPresent()) {
            return option.map(text -> url(OPTION, text));
        }
        String traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        String all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        return set(traces, environment)
                .map(text -> url(traces, text))
                .or(() -> set(all, environment)
                        .map(text -> url(all, text))
                        .map(base -> URI.create(base + (base.toString().endsWith("/") ? "v1/traces" : "/v1/traces"))));
    }

    private static URI url(String source, String text) {
        try {
            URI url = new URI(text.strip());
            boolean web = "http".equals(url.getScheme()) || "https".equals(url.getScheme());
            if (web && url.getHost() != null) {
                return url;
            }
        } catch (URISyntaxException e) {
            // the message below says what is expected
        }
        throw new ConfigurationException(source + " is '" + text + "'; it must be a URL of OTLP over HTTP, such as"
                + " http://127.0.0.1:4318/v1/traces");
    }

    private static void checkProtocol(String variable, Map<String, String> environment) {
        set(variable, environment).filter(value -> !value.equals("http/json")).ifPresent(value -> {
            throw new ConfigurationException(variable + " is '" + value + "', and Tandem sends OTLP as JSON over HTTP;"
                    + " set http/json and the collector's HTTP endpoint, usually port 4318, or unset it");
        });
    }

    /** Pairs {@code key=value,key=value}, as W3C's baggage has them: values may be percent-encoded. */
    private static Map<String, String> pairs(String variable, Map<String, String> environment) {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (String pair : set(variable, environment).orElse("").split(",")) {
            if (pair.isBlank()) {
                continue;
            }
            int equals = pair.indexOf('=');
            if (equals < 1) { // the value is not shown: it may be a key
                throw new ConfigurationException(
                        variable + " has an entry without a name or '='; write NAME=VALUE,NAME=VALUE");
            }
            String value = pair.substring(equals + 1).strip();
            pairs.put(pair.substring(0, equals).strip(), decoded(variable, value));
        }
        return pairs;
    }

    private static String decoded(String variable, String value) {
        try {
            return URLDecoder.decode(value.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            throw new ConfigurationException(
                    variable + " has a value with a % that begins no percent-encoded byte; write %25 for %");
        }
    }

    /** An empty variable counts as unset, as OpenTelemetry demands. */
    private static Optional<String> set(String variable, Map<String, String> environment) {
        return Optional.ofNullable(environment.get(variable)).filter(value -> !value.isBlank());
    }
}
