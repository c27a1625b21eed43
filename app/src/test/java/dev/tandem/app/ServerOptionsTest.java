package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.app.config.Secret;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.text.answer.ToolCallFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** API keys from the command line and from a file. */
class ServerOptionsTest {
    @TempDir
    Path folder;

    private List<String> keys(String file) throws IOException {
        ServerOptions options = new ServerOptions();
        options.apiKey = Optional.of(new Secret("option"));
        options.apiKeyFile = Optional.of(Files.writeString(folder.resolve("keys"), file));
        return options.keys();
    }

    @Test
    void keysOfTheFileAreAddedToTheOption() throws IOException {
        assertThat(keys("# ours\nfirst\n\n  second  \r\nthird")).containsExactly("option", "first", "second", "third");
    }

    @Test
    void errorsNameTheLineAndShowNoKey() {
        assertThatThrownBy(() -> keys("fine\nsec ret\n"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("line 2")
                .hasMessageNotContaining("sec ret");
        assertThatThrownBy(() -> keys("# nothing\n"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("has no key");
        ServerOptions missing = new ServerOptions();
        missing.apiKeyFile = Optional.of(folder.resolve("none"));
        assertThatThrownBy(missing::keys)
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--api-key-file")
                .hasMessageContaining("cannot be read");
    }

    private static CommandLine parser(ServerOptions options) {
        return new CommandLine(options).setCaseInsensitiveEnumValuesAllowed(true);
    }

    @Test
    void theSpellingsOfTheHelpNameFormatsOfCalls() {
        for (ToolCallFormat format : ToolCallFormat.values()) {
            ServerOptions options = new ServerOptions();
            parser(options).parseArgs("--tool-call-parser", format.name().toLowerCase(Locale.ROOT));
            assertThat(options.toolCallParser).contains(format);
        }
    }

    @Test
    void theSpellingsOfTheHelpSeparateClients() {
        ServerOptions options = new ServerOptions();
        parser(options).parseArgs("--cache-salt-from", "api-key");
        assertThat(options.cacheSaltFrom).isEqualTo(CacheSaltFrom.API_KEY);
        parser(options).parseArgs("--cache-salt-from", "none");
        assertThat(options.cacheSaltFrom).isEqualTo(CacheSaltFrom.NONE);
        assertThatThrownBy(() -> parser(options).parseArgs("--cache-salt-from", "api_key"))
                .hasMessageContaining("use none or api-key");
    }

    @Test
    void withoutKeysNoneIsNeeded() {
        assertThat(new ServerOptions().keys()).isEmpty();
    }

    @Test
    void tlsNeedsBothFiles() {
        HttpOptions options = new HttpOptions();
        options.keyFile = Optional.of(folder);
        assertThatThrownBy(options::check)
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--ssl-certfile and --ssl-keyfile");
        assertThat(new HttpOptions().tls()).isEmpty();
    }
}
