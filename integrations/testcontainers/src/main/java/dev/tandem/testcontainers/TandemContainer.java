package dev.tandem.testcontainers;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A server of Tandem in a container, which is ready once its model is loaded.
 *
 * <pre>{@code
 * try (var tandem = new TandemContainer("tandem").withModel("smollm2")) {
 *     tandem.start();
 *     var client = OpenAIOkHttpClient.builder().baseUrl(tandem.openAiBaseUrl()).apiKey("unused").build();
 * }
 * }</pre>
 *
 * <p>A model of the hub is downloaded at the start, unless a volume at {@code /var/cache/tandem} has it. Where that
 * takes longer than a minute, {@code withStartupTimeout} allows more.
 *
 * <p>Owned by: the test's thread.
 */
public final class TandemContainer extends GenericContainer<TandemContainer> {
    /** The port of the image. */
    static final int PORT = 8000;

    private Optional<String> model = Optional.empty();
    private List<String> options = List.of();

    /** @param image an image of {@code deploy/container} */
    public TandemContainer(String image) {
        this(DockerImageName.parse(image));
    }

    /** @param image an image of {@code deploy/container} */
    public TandemContainer(DockerImageName image) {
        super(image);
        addExposedPort(PORT);
        // while the model loads, the server answers 503
        setWaitStrategy(Wait.forHttp("/health").forPort(PORT).forStatusCode(200));
    }

    /** The model, as {@code tandem serve} takes it; without one, a small model. */
    public TandemContainer withModel(String value) {
        model = Optional.of(value);
        return this;
    }

    /** Options of {@code tandem serve}, such as {@code --max-model-len}, {@code 2048}. */
    public TandemContainer withOptions(String... values) {
        options = List.of(values);
        return this;
    }

    @Override
    protected void configure() {
        List<String> command = new ArrayList<>(List.of("serve", "--host", "0.0.0.0", "--port", Integer.toString(PORT)));
        command.addAll(options);
        model.ifPresent(name -> command.addAll(List.of("--", name)));
        setCommand(command.toArray(String[]::new));
    }

    /** The address of the started server: {@code http://HOST:PORT}. */
    public String url() {
        return "http://" + getHost() + ":" + getMappedPort(PORT);
    }

    /** The base address that clients of OpenAI's API take. */
    public String openAiBaseUrl() {
        return url() + "/v1";
    }
}
