package dev.tandem.spring;

import dev.tandem.engine.config.ConfigurationException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** Says without a stack trace why the model could not be loaded. */
final class ConfigurationFailureAnalyzer extends AbstractFailureAnalyzer<ConfigurationException> {
    @Override
    protected FailureAnalysis analyze(Throwable rootFailure, ConfigurationException cause) {
        return new FailureAnalysis(
                String.valueOf(cause.getMessage()),
                "An option --NAME of the message is the property tandem.NAME, or an entry of tandem.further.",
                cause);
    }
}
