package dev.tandem.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.app.DummyModel;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.library.Answer;
import dev.tandem.library.Device;
import dev.tandem.library.LoadOptions;
import dev.tandem.library.ScriptedTandem;
import dev.tandem.library.Tandem;
import dev.tandem.server.ScriptedServer;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.model.chat.client.autoconfigure.ChatClientAutoConfiguration;
import org.springframework.ai.model.tool.autoconfigure.ToolCallingAutoConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.util.unit.DataSize;

/** What an application gets from its properties and its class path. */
class TandemAutoConfigurationTest {
    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    TandemAutoConfiguration.class,
                    ChatClientAutoConfiguration.class,
                    ToolCallingAutoConfiguration.class));

    private static String[] ofSmallModel(Path folder) {
        return new String[] {
            "tandem.model=" + DummyModel.write(folder),
            "tandem.device=cpu",
            "tandem.threads=1",
            "tandem.max-model-len=256",
            "tandem.kv-cache-memory=4MB",
            "tandem.host-kv=0B",
            "tandem.further=--load-format,dummy,--max-num-seqs,3",
            "tandem.chat.temperature=0",
            "tandem.chat.max-tokens=5",
        };
    }

    @Test
    void propertiesLoadTheModelThatTheClientAsks(@TempDir Path folder) {
        application.withPropertyValues(ofSmallModel(folder)).run(context -> {
            assertThat(context).hasNotFailed().hasSingleBean(ChatModel.class);
            assertThat(context.getBean(Tandem.class).contextTokens()).isEqualTo(256);
            assertThat(context.getBean(ChatClient.Builder.class)
                            .build()
                            .prompt("w3")
                            .call()
                            .content())
                    .isNotBlank();
            assertThat(context.getBean(TandemChatModel.class).getOptions().getMaxTokens())
                    .isEqualTo(5);
            assertThat(context.getBean(HealthIndicator.class).health().getStatus())
                    .isEqualTo(Status.UP);
        });
    }

    @Test
    void eachPropertyIsAnOptionOfTheLibrary() {
        TandemProperties.Chat chat = new TandemProperties.Chat(null, null, null, null, null, null, null);
        List<String> further = List.of("--max-num-seqs", "3");
        TandemProperties set =
                new TandemProperties("m", Device.CPU, 9, dataSize(5), dataSize(6), 7, further, Duration.ZERO, chat);
        assertThat(set.loadOptions())
                .isEqualTo(LoadOptions.of("m")
                        .withDevice(Device.CPU)
                        .withContextTokens(9)
                        .withKvBytes(5)
                        .withHostKvBytes(6)
                        .withThreads(7)
                        .withFurther("--max-num-seqs", "3"));
        TandemProperties unset =
                new TandemProperties(null, Device.AUTO, null, null, null, null, List.of(), Duration.ZERO, chat);
        assertThat(unset.loadOptions()).isEqualTo(LoadOptions.defaults());
        assertThat(chat.options()).isEqualTo(TandemChatOptions.builder().build());
        assertThat(new TandemProperties.Chat(1.0, 0.5, 2, 0.25, 0.75, 3L, 4).options())
                .isEqualTo(TandemChatOptions.builder()
                        .temperature(1.0)
                        .topP(0.5)
                        .topK(2)
                        .presencePenalty(0.25)
                        .frequencyPenalty(0.75)
                        .seed(3L)
                        .maxTokens(4)
                        .build());
    }

    private static DataSize dataSize(long bytes) {
        return DataSize.ofBytes(bytes);
    }

    @Test
    void anotherProviderLoadsNoModel() {
        application
                .withConfiguration(AutoConfigurations.of(TandemAutoConfiguration.class))
                .withPropertyValues("spring.ai.model.chat=openai", "spring.ai.chat.client.enabled=false")
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .doesNotHaveBean(Tandem.class)
                        .doesNotHaveBean(ChatModel.class));
    }

    @Test
    void healthAndMetricsAreOptional() {
        try (ScriptedServer server = ScriptedServer.ofClients()) {
            application
                    .withBean(Tandem.class, () -> ScriptedTandem.of(server.model()))
                    .withClassLoader(new FilteredClassLoader("org.springframework.boot.health", "io.micrometer.core"))
                    .run(context -> {
                        assertThat(context).hasNotFailed().hasSingleBean(TandemChatModel.class);
                        assertThat(context.getBeanNamesForType(MeterBinder.class))
                                .isEmpty();
                        assertThat(context).doesNotHaveBean("tandemHealthIndicator");
                    });
        }
    }

    @Test
    void aRegistryGetsTheMetersOfTheServer() {
        try (ScriptedServer server = ScriptedServer.ofClients()) {
            Tandem tandem = ScriptedTandem.of(server.model());
            application.withBean(Tandem.class, () -> tandem).run(context -> {
                MeterRegistry registry = new SimpleMeterRegistry();
                context.getBean(MeterBinder.class).bindTo(registry);
                Semaphore mayStep = new Semaphore(3);
                server.beforeStep(mayStep::acquireUninterruptibly);
                Answer answer = tandem.chat("Say hello");
                assertThat(answer.iterator().next()).isNotEmpty();
                assertThat(registry.get("vllm:num_requests_running").gauge().value())
                        .isEqualTo(1);
                mayStep.release(1000);
                answer.result();
            });
        }
    }

    @Test
    void closingTheApplicationLetsAnswersEnd() {
        try (ScriptedServer server = ScriptedServer.ofClients()) {
            Semaphore mayStep = new Semaphore(3);
            server.beforeStep(mayStep::acquireUninterruptibly);
            Tandem tandem = ScriptedTandem.of(server.model());
            Answer[] answer = new Answer[1];
            application.withBean(Tandem.class, () -> tandem).run(context -> {
                HealthIndicator health = context.getBean(HealthIndicator.class);
                answer[0] = tandem.chat("Say hello");
                assertThat(answer[0].iterator().next()).isNotEmpty();
                Thread closing = Thread.ofPlatform().start(context::close);
                while (!(tandem.health() instanceof Engine.Health.Draining)) {
                    Thread.onSpinWait();
                }
                assertThat(health.health().getStatus()).isEqualTo(Status.OUT_OF_SERVICE);
                assertThat(closing.isAlive()).isTrue(); // it waits for the answer
                mayStep.release(1000);
                closing.join();
                assertThat(health.health().getStatus()).isEqualTo(Status.DOWN);
            });
            assertThat(answer[0].result().text()).isEqualTo("Hello.");
        }
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void aWrongOptionIsExplainedWithoutAStackTrace(CapturedOutput output) {
        SpringApplication wrong = new SpringApplication(TandemAutoConfiguration.class);
        wrong.setWebApplicationType(WebApplicationType.NONE);
        assertThatThrownBy(() -> wrong.run("--tandem.device=cpu", "--tandem.threads=0"))
                .hasRootCauseInstanceOf(ConfigurationException.class);
        assertThat(output)
                .contains("APPLICATION FAILED TO START", "--threads 0 is too small", "tandem.NAME")
                .doesNotContain("\tat ");
    }
}
