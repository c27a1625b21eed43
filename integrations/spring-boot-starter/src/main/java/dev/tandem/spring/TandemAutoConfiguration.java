package dev.tandem.spring;

import dev.tandem.library.Tandem;
import dev.tandem.library.TandemMetrics;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.observation.ObservationRegistry;
import org.springframework.ai.chat.observation.ChatModelObservationConvention;
import org.springframework.ai.chat.observation.DefaultChatModelObservationConvention;
import org.springframework.ai.model.SpringAIModelProperties;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Loads the model of {@code tandem.model}, and makes it Spring AI's chat model unless {@code spring.ai.model.chat}
 * names another provider. A {@link Tandem} of the application's own takes its place.
 */
@AutoConfiguration
@ConditionalOnProperty(
        name = SpringAIModelProperties.CHAT_MODEL,
        havingValue = TandemChatModel.PROVIDER,
        matchIfMissing = true)
@EnableConfigurationProperties(TandemProperties.class)
public class TandemAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Tandem tandem(TandemProperties properties) {
        return Tandem.load(properties.loadOptions());
    }

    @Bean
    TandemShutdown tandemShutdown(Tandem tandem, TandemProperties properties) {
        return new TandemShutdown(tandem, properties.shutdownTimeout());
    }

    @Bean
    @ConditionalOnMissingBean
    TandemChatModel tandemChatModel(
            Tandem tandem,
            TandemProperties properties,
            ObjectProvider<ObservationRegistry> observations,
            ObjectProvider<ChatModelObservationConvention> convention) {
        return new TandemChatModel(
                tandem,
                properties.chat().options(),
                observations.getIfUnique(() -> ObservationRegistry.NOOP),
                convention.getIfUnique(DefaultChatModelObservationConvention::new));
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ConditionalOnEnabledHealthIndicator.class)
    static class HealthConfiguration {
        @Bean
        @ConditionalOnEnabledHealthIndicator("tandem")
        @ConditionalOnMissingBean(name = "tandemHealthIndicator")
        HealthIndicator tandemHealthIndicator(Tandem tandem) {
            return new TandemHealthIndicator(tandem);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class MetricsConfiguration {
        @Bean
        @ConditionalOnMissingBean
        TandemMetrics tandemMetrics(Tandem tandem) {
            return new TandemMetrics(tandem);
        }
    }
}
