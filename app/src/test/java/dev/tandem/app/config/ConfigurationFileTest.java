package dev.tandem.app.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Configuration files, and what is said about wrong ones. */
class ConfigurationFileTest {
    @TempDir
    Path folder;

    private ConfigurationFile read(String text) throws IOException {
        Path path = Files.writeString(folder.resolve("tandem.yaml"), text);
        return ConfigurationFile.read("--config", path, SampleCommand.known());
    }

    private List<String> problems(String text) throws IOException {
        ConfigurationFile file = read(text);
        return file.problems().stream()
                .map(file::text)
                .map(line -> line.replace(folder + "/", ""))
                .toList();
    }

    @Test
    void linesAreKeptWithTheirValues() throws IOException {
        ConfigurationFile file = read("""
                # comment
                port: 9000
                name: "8 # ${env:HOME}"
                hosts: [a, 'b']

                guard: false
                model: org/model
                """);
        assertThat(file.problems()).isEmpty();
        assertThat(file.entries())
                .containsEntry("port", new ConfigurationFile.Entry("9000", 2))
                .containsEntry("name", new ConfigurationFile.Entry("8 # ${env:HOME}", 3))
                .containsEntry("hosts", new ConfigurationFile.Entry("a,b", 4))
                .containsEntry("guard", new ConfigurationFile.Entry("false", 6))
                .containsEntry("model", new ConfigurationFile.Entry("org/model", 7));
    }

    @Test
    void everyProblemHasItsLineAndRemedy() throws IOException {
        assertThat(problems("""
                prot: 1
                nonsense: 1
                port: many
                eager: yes
                name:
                hosts: [a, [b]]
                colour: blue
                guard: true
                guard: false
                model: [a, b]
                config: other.yaml
                [a]: 1
                """))
                .containsExactly(
                        "tandem.yaml:1: prot is not an option of tandem serve; did you mean port?",
                        "tandem.yaml:2: nonsense is not an option of tandem serve; tandem config show lists them",
                        "tandem.yaml:3: port: 'many' is not an int; tandem serve --help describes it",
                        "tandem.yaml:4: eager: 'yes' is not a boolean; write true or false",
                        "tandem.yaml:5: name needs one value; write it, or remove the line",
                        "tandem.yaml:6: hosts needs a value or a list of values; write it, or remove the line",
                        "tandem.yaml:7: colour: blue is not known; use red or green",
                        "tandem.yaml:9: guard is also set in line 8; remove one of the two",
                        "tandem.yaml:10: model needs one value; write it, or remove the line",
                        "tandem.yaml:11: config is not an option of tandem serve; tandem config show lists them",
                        "tandem.yaml:12: a list or mapping is not an option of tandem serve; tandem config show lists"
                                + " them");
    }

    @Test
    void whatIsNoMappingIsNamed() throws IOException {
        assertThat(problems("- a\n")).containsExactly("tandem.yaml:1: this is no mapping; write lines KEY: VALUE");
        assertThat(problems("port: 1\nname: [a\n"))
                .singleElement()
                .asString()
                .startsWith("tandem.yaml:3: this is not YAML (")
                .endsWith("; write lines KEY: VALUE");
        assertThat(problems("port: 1\n---\nport: 2\n"))
                .singleElement()
                .asString()
                .contains("not YAML");
        assertThat(problems("")).isEmpty();
    }

    @Test
    void aFileThatCannotBeReadIsNamed() throws IOException {
        Path missing = folder.resolve("none.yaml");
        assertThatThrownBy(() -> ConfigurationFile.read("--config", missing, SampleCommand.known()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessage("--config " + missing + " does not exist; check the path");
        Path binary = Files.write(folder.resolve("binary"), new byte[] {(byte) 0xff, (byte) 0xfe, 0});
        assertThatThrownBy(() -> ConfigurationFile.read("--config", binary, SampleCommand.known()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("cannot be read as UTF-8 text");
    }
}
