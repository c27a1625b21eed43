package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which profile of the cache is used without measuring. */
class ProfilesTest {
    private static final String NAME = "a GPU; a model; bfloat16; 14 threads";
    private static final int LAYERS = 32;

    private final ByteArrayOutputStream said = new ByteArrayOutputStream();

    @TempDir
    private Path folder;

    private Profiles profiles;

    @BeforeEach
    void open() {
        profiles = new Profiles(folder, new StartLog(new PrintStream(said, true, StandardCharsets.UTF_8), false));
    }

    /** Keeps the profile of a pool of 864 tokens. */
    private Profile keep() throws IOException {
        Profile profile =
                Profile.parse(Files.readString(Path.of("../docs/results/profiles/h200-2req.txt")), "h200-2req");
        Files.writeString(profiles.path(NAME), profile.format());
        return profile;
    }

    private static ExecutorLimits limits(int gpuBlocks, int layers) {
        return ExecutorLimits.builder()
                .vocabulary(1000)
                .contextTokens(1000)
                .maxBatchTokens(1000)
                .kvBytesPerToken(131_072)
                .hostBlockTokens(64)
                .gpuBlocks(gpuBlocks)
                .blockTokens(16)
                .layers(layers)
                .build();
    }

    @Test
    void theCachedOneIsFoundByItsName() throws IOException {
        Profile kept = keep();

        assertThat(profiles.known(Optional.empty(), NAME, limits(54, LAYERS)))
                .hasValueSatisfying(found -> assertThat(found.format()).isEqualTo(kept.format()));
        assertThat(profiles.known(Optional.empty(), NAME + " of another machine", limits(54, LAYERS)))
                .isEmpty();
        assertThat(said.toString(StandardCharsets.UTF_8)).isEmpty();
    }

    @Test
    void oneOfAnotherModelIsNotUsedAndTheNoticeSaysWhy() throws IOException {
        keep();

        assertThat(profiles.known(Optional.empty(), NAME, limits(54, LAYERS + 1)))
                .isEmpty();
        assertThat(said.toString(StandardCharsets.UTF_8))
                .contains("The profile in the cache is not used")
                .contains("is of a model of 32 layers; this one has 33");
    }

    @Test
    void oneOfAFarSmallerPoolIsNotUsedAndTheNoticeSaysWhy() throws IOException {
        keep();

        assertThat(profiles.cached(NAME, LAYERS)).isPresent();
        assertThat(profiles.known(Optional.empty(), NAME, limits(1650, LAYERS))).isEmpty();
        assertThat(said.toString(StandardCharsets.UTF_8)).contains("was measured with a far smaller KV pool");
    }

    @Test
    void aDamagedOneIsNotUsedAndTheNoticeSaysWhy() throws IOException {
        Files.writeString(profiles.path(NAME), "name x\nlayers none\n");

        assertThat(profiles.cached(NAME, LAYERS)).isEmpty();
        assertThat(said.toString(StandardCharsets.UTF_8)).contains("The profile in the cache is not used");
    }
}
