package dev.tandem.fetch.hub;

import dev.tandem.fetch.FetchException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * The hub's address, its cache on this machine and the user's token, by the variables of the hub's Python client.
 *
 * @param endpoint {@code HF_ENDPOINT}, without a slash at the end
 * @param cache {@code HF_HUB_CACHE}, else {@code HF_HOME/hub}, else {@code XDG_CACHE_HOME/huggingface/hub}
 * @param token {@code HF_TOKEN}, else the content of {@code HF_TOKEN_PATH} or {@code HF_HOME/token}
 * @param offline {@code HF_HUB_OFFLINE}: whether only the cache may be used
 */
public record HubLocation(URI endpoint, Path cache, Optional<String> token, boolean offline) {
    private static final String DEFAULT_ENDPOINT = "https://huggingface.co";

    /**
     * The location that the environment names.
     *
     * @throws FetchException when the endpoint is not an address, or the token's file cannot be read
     */
    public static HubLocation of(Map<String, String> environment, Path home) {
        String endpoint =
                variable(environment, "HF_ENDPOINT").orElse(DEFAULT_ENDPOINT).replaceAll("/+$", "");
        Path base = variable(environment, "HF_HOME")
                .map(value -> path(value, home))
                .orElseGet(() -> variable(environment, "XDG_CACHE_HOME")
                        .map(value -> path(value, home))
                        .orElse(home.resolve(".cache"))
                        .resolve("huggingface"));
        Path cache = variable(environment, "HF_HUB_CACHE")
                .or(() -> variable(environment, "HUGGINGFACE_HUB_CACHE"))
                .map(value -> path(value, home))
                .orElse(base.resolve("hub"));
        Path tokenFile = variable(environment, "HF_TOKEN_PATH")
                .map(value -> path(value, home))
                .orElse(base.resolve("token"));
        boolean offline = variable(environment, "HF_HUB_OFFLINE")
                .or(() -> variable(environment, "TRANSFORMERS_OFFLINE"))
                .filter(value -> List.of("1", "on", "yes", "true").contains(value.toLowerCase(Locale.ROOT)))
                .isPresent();
        return new HubLocation(
                address(endpoint), cache, variable(environment, "HF_TOKEN").or(() -> read(tokenFile)), offline);
    }

    private static Optional<String> variable(Map<String, String> environment, String name) {
        return Optional.ofNullable(environment.get(name)).map(String::strip).filter(value -> !value.isEmpty());
    }

    private static Path path(String value, Path home) {
        return value.startsWith("~/") ? home.resolve(value.substring(2)) : Path.of(value);
    }

    private static URI address(String text) {
        try {
            URI address = new URI(text);
            if (List.of("http", "https").contains(String.valueOf(address.getScheme())) && address.getHost() != null) {
                return address;
            }
        } catch (java.net.URISyntaxException e) {
            throw new FetchException("HF_ENDPOINT is '" + text + "', which is not an address", e);
        }
        throw new FetchException("HF_ENDPOINT is '" + text + "'; it must begin with http:// or https://");
    }

    private static Optional<String> read(Path file) {
        if (!Files.isRegularFile(file)) {
            return Optional.empty();
        }
        try {
            return Optional.of(Files.readString(file).strip()).filter(token -> !token.isEmpty());
        } catch (IOException e) {
            throw new FetchException("the hub's token file " + file + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** Does not print the token. */
    @Override
    public String toString() {
        return endpoint + ", cache " + cache;
    }
}
