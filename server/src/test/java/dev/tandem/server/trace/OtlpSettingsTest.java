package dev.tandem.server.trace;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class OtlpSettingsTest {
    private static final String URL = "http://collector:4318/v1/traces";

    private static Optional<OtlpSettings> of(String option, Map<String, String> environment) {
        return OtlpSettings.of(Optional.of(option).filter(text -> !text.isEmpty()), environment);
    }

    private static String endpoint(String option, Map<String, String> environment) {
        return of(option, environment).orElseThrow().endpoint().toString();
    }

    @Test
    void tracesAreOffByDefault() {
        assertThat(of("", Map.of())).isEmpty();
        assertThat(of("", Map.of("OTEL_EXPORTER_OTLP_ENDPOINT", "", "OTEL_SERVICE_NAME", "x")))
                .isEmpty();
    }

    @Test
    void theOptionWinsOverTheVariablesAndTheOneForTracesOverTheGeneralOne() {
        Map<String, String> both = Map.of(
                "OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/own");
        assertThat(endpoint(URL, both)).isEqualTo(URL);
        assertThat(endpoint("", both)).isEqualTo("http://traces:4318/own");
        assertThat(endpoint("", Map.of("OTEL_EXPORTER_OTLP_ENDPOINT", "https://general:4318/")))
                .isEqualTo("https://general:4318/v1/traces");
    }

    @Test
    void theSwitchOfOpenTelemetryTurnsThemOff() {
        assertThat(of(URL, Map.of("OTEL_SDK_DISABLED", "True"))).isEmpty();
    }

    @Test
    void nameAttributesAndHeadersComeFromTheVariables() {
        OtlpSettings settings = of(
                        URL,
                        Map.of(
                                "OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored, zone=a%2Cb",
                                "OTEL_SERVICE_NAME", "chat",
                                "OTEL_EXPORTER_OTLP_HEADERS", "api-key=a+b=c,other=1",
                                "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "other=2"))
                .orElseThrow();
        assertThat(settings.resource()).containsOnly(Map.entry("service.name", "chat"), Map.entry("zone", "a,b"));
        assertThat(settings.headers()).containsOnly(Map.entry("api-key", "a+b=c"), Map.entry("other", "2"));
        assertThat(of(URL, Map.of()).orElseThrow().resource()).containsOnly(Map.entry("service.name", "tandem"));
    }

    @Test
    void aWrongEndpointIsNamedWithARemedy() {
        assertThatThrownBy(() -> of("collector:4318", Map.of()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessage("--otlp-traces-endpoint is 'collector:4318'; it must be a URL of OTLP over HTTP, such as"
                        + " http://127.0.0.1:4318/v1/traces");
        assertThatThrownBy(() -> of("", Map.of("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://c:4317")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("OTEL_EXPORTER_OTLP_ENDPOINT is 'grpc://c:4317'");
    }

    @Test
    void aProtocolThatIsNotSpokenIsAnErrorAndNotIgnored() {
        assertThatThrownBy(() -> of(URL, Map.of("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("set http/json");
        assertThat(of(URL, Map.of("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"))).isPresent();
    }

    @Test
    void anErrorInTheHeadersDoesNotShowTheirValues() {
        assertThatThrownBy(() -> of(URL, Map.of("OTEL_EXPORTER_OTLP_HEADERS", "secret")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageNotContaining("secret");
        assertThatThrownBy(() -> of(URL, Map.of("OTEL_EXPORTER_OTLP_HEADERS", "key=%zzsecret")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageNotContaining("secret");
    }
}
