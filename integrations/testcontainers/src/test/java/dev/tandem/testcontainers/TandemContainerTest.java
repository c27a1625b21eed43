package dev.tandem.testcontainers;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;
import org.testcontainers.DockerClientFactory;

/** What a container is made of, which needs no daemon, and a container where there is one. */
class TandemContainerTest {
    /** An image of {@code deploy/container}; empty where there is none. */
    private static final String IMAGE = System.getProperty("tandem.image", "");

    @Test
    void theServerListensOnThePortOfTheImage() {
        try (TandemContainer container = new TandemContainer("tandem:1")) {
            container.configure();
            assertThat(container.getExposedPorts()).containsExactly(8000);
            assertThat(container.getCommandParts()).containsExactly("serve", "--host", "0.0.0.0", "--port", "8000");
        }
    }

    @Test
    void modelAndOptionsAreArgumentsOfServe() {
        try (TandemContainer container =
                new TandemContainer("tandem").withModel("smollm2").withOptions("--max-model-len", "512")) {
            container.configure();
            assertThat(container.getCommandParts())
                    .containsExactly(
                            "serve", "--host", "0.0.0.0", "--port", "8000", "--max-model-len", "512", "--", "smollm2");
        }
    }

    @Test
    void aStartedServerAnswersUnderItsAddress() throws Exception {
        assumeTrue(!IMAGE.isEmpty(), "no image was named; -Dtandem.image=NAME names one of deploy/container");
        assumeTrue(DockerClientFactory.instance().isDockerAvailable(), "this machine has no container daemon");
        try (TandemContainer container = new TandemContainer(IMAGE);
                HttpClient client = HttpClient.newHttpClient()) {
            container.start();
            HttpResponse<String> models = client.send(
                    HttpRequest.newBuilder(URI.create(container.openAiBaseUrl() + "/models"))
                            .build(),
                    HttpResponse.BodyHandlers.ofString());
            assertThat(models.statusCode()).isEqualTo(200);
            assertThat(models.body()).contains("\"object\"");
        }
    }
}
