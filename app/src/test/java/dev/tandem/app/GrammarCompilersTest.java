package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.LlguidanceFinder;
import dev.tandem.model.Checkpoint;
import dev.tandem.text.Tokenizer;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** Grammars while llguidance is being built, and after. */
class GrammarCompilersTest {
    private static final GrammarSource SOURCE = GrammarSource.choice(List.of("w5"));

    @TempDir
    Path folder;

    private Tokenizer tokenizer;
    private LlguidanceFinder.Result llguidance = new LlguidanceFinder.BeingBuilt();

    @BeforeEach
    void open() {
        ModelOptions options = new ModelOptions();
        new CommandLine(options)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .parseArgs(DummyModel.write(folder).toString(), "--load-format", "dummy");
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            tokenizer = EngineAssembly.tokenizer(checkpoint, true).orElseThrow();
        }
    }

    @AfterEach
    void close() {
        tokenizer.close();
    }

    private static void assertRefused(GrammarCompiler compiler, RequestException.Category category, String words) {
        assertThatThrownBy(() -> compiler.compile(SOURCE))
                .hasMessageContaining(words)
                .isInstanceOfSatisfying(
                        RequestException.class, e -> assertThat(e.category()).isEqualTo(category));
    }

    @Test
    void grammarsWaitForTheBuildAndAreServedWithoutARestart() {
        try (GrammarCompilers compilers =
                new GrammarCompilers(Optional.of(tokenizer), Set.of(2), () -> llguidance, 0)) {
            assertRefused(compilers, RequestException.Category.UNAVAILABLE, "try again");
            assertRefused(compilers, RequestException.Category.UNAVAILABLE, "try again");
            llguidance = new LlguidanceFinder.Found(ModelGrammar.library());
            try (GrammarCompiler.Compiled grammar = compilers.compile(SOURCE)) {
                assertThat(grammar.matcher()).isNotNull();
            }
        }
    }

    @Test
    void aBuildThatFailsIsSaidWithTheRemedy() {
        try (GrammarCompilers compilers =
                new GrammarCompilers(Optional.of(tokenizer), Set.of(2), () -> llguidance, 0)) {
            assertRefused(compilers, RequestException.Category.UNAVAILABLE, "try again");
            llguidance = new LlguidanceFinder.Missing("there is no library");
            assertRefused(compilers, RequestException.Category.NOT_IMPLEMENTED, "there is no library; install cargo");
        }
    }
}
