package dev.tandem.app.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Which of command line, environment, file and default wins, and what is said about them. */
class OptionValuesTest {
    @TempDir
    Path folder;

    private final SampleCommand command = new SampleCommand();
    private String file = "";

    @BeforeEach
    void writeFile() throws IOException {
        file = Files.writeString(folder.resolve("tandem.yaml"), """
                port: 9000
                colour: green
                name: of ${env:HOME}
                key: the ${sys:secret}
                hosts: [a, b]
                guard: false
                ui: false
                eager: true
                model: org/model
                """).toString();
    }

    private Configuration parse(Map<String, String> environment, String... args) {
        CommandLine parser = SampleCommand.parser(command, environment);
        parser.parseArgs(args);
        return Configuration.of(parser);
    }

    @Test
    void theFileWinsOverDefaults() {
        Configuration configuration = parse(Map.of(), "--config", file);
        assertThat(command.port).isEqualTo(9000);
        assertThat(command.colour).isEqualTo(SampleCommand.Colour.GREEN);
        assertThat(command.name).contains("of ${env:HOME}");
        assertThat(command.key).contains(new Secret("the ${sys:secret}"));
        assertThat(command.hosts).containsExactly("a", "b");
        assertThat(command.guard).contains(false);
        assertThat(command.ui).isFalse();
        assertThat(command.eager).isTrue();
        assertThat(command.model).contains("org/model");
        assertThat(configuration.line())
                .isEqualTo("model org/model (F:9), port 9000 (F:1), colour green (F:2), name of ${env:HOME} (F:3), "
                                .replace("F", file)
                        + "key not shown (F:4), hosts a,b (F:5), guard false (F:6), ui false (F:7), eager true (F:8)"
                                .replace("F", file));
    }

    @Test
    void theEnvironmentWinsOverTheFile() {
        Configuration configuration =
                parse(Map.of("TANDEM_CONFIG", file, "TANDEM_PORT", "9001", "TANDEM_GUARD", "true", "TANDEM_NAME", ""));
        assertThat(command.port).isEqualTo(9001);
        assertThat(command.guard).contains(true);
        assertThat(command.name).as("an empty variable sets nothing").contains("of ${env:HOME}");
        assertThat(configuration.line()).contains("port 9001 (TANDEM_PORT), ").contains("guard true (TANDEM_GUARD), ");
    }

    @Test
    void theCommandLineWinsOverAll() {
        Configuration configuration = parse(
                Map.of("TANDEM_PORT", "9001", "TANDEM_UI", "false"),
                "other",
                "--config=" + file,
                "--port",
                "9002",
                "--guard",
                "--ui",
                "--hosts=c,d");
        assertThat(command.port).isEqualTo(9002);
        assertThat(command.guard).contains(true);
        assertThat(command.ui).isTrue();
        assertThat(command.model).contains("other");
        assertThat(configuration.line())
                .contains("model other (command line), port 9002 (command line), ")
                .contains("hosts c,d (command line), guard true (command line), ui true (command line), ");
        parse(Map.of("TANDEM_GUARD", "true", "TANDEM_EAGER", "true"), "--no-guard", "--eager");
        assertThat(command.guard).contains(false);
        assertThat(command.eager).isTrue();
    }

    @Test
    void withoutThemTheDefaultsHold() {
        Configuration configuration = parse(Map.of());
        assertThat(command.port).isEqualTo(8000);
        assertThat(command.ui).isTrue();
        assertThat(configuration.line()).isEqualTo("all defaults");
        assertThat(configuration.yaml())
                .startsWith(
                        "# model:                                # not set",
                        "port: 8000                              # default")
                .contains("eager: false                            # default");
    }

    @Test
    void secretsAreNeverPrinted() {
        Configuration configuration = parse(Map.of("TANDEM_KEY", "hush"), "--name=it's");
        assertThat(command.key).contains(new Secret("hush"));
        assertThat(command.key.toString()).doesNotContain("hush");
        assertThat(configuration.toString()).doesNotContain("hush");
        assertThat(configuration.yaml())
                .contains(
                        "# key:                                  # not shown, TANDEM_KEY",
                        "name: 'it''s'                           # command line");
    }

    @Test
    void wrongValuesNameTheirSource() throws IOException {
        assertThatThrownBy(() -> parse(Map.of("TANDEM_PORT", "x")))
                .isInstanceOf(ParameterException.class)
                .hasMessage("the variable TANDEM_PORT: port: 'x' is not an int; tandem serve --help describes it");
        Path wrong = Files.writeString(folder.resolve("wrong.yaml"), "ui: no\nprot: 1\n");
        assertThatThrownBy(() -> parse(Map.of("TANDEM_CONFIG", wrong.toString())))
                .isInstanceOf(ParameterException.class)
                .hasMessage(wrong + ":1: ui: 'no' is not a boolean; write true or false (and 1 more; tandem config"
                        + " check " + wrong + " names all)");
        assertThatThrownBy(() -> parse(Map.of("TANDEM_CONFIG", "none")))
                .hasMessage("the variable TANDEM_CONFIG none does not exist; check the path");
        assertThat(parse(Map.of("TANDEM_PORT", "70000"), "--colour", "red")
                        .withSources("--port 70000 is too large and --colour red is not"))
                .isEqualTo("--port 70000 is too large and --colour red is not (--port is set by TANDEM_PORT)");
    }

    @Test
    void unknownVariablesAreNamed() {
        OptionValues values = new OptionValues(
                SampleCommand::known,
                Map.of(
                        "TANDEM_PROT",
                        "1",
                        "TANDEM_PORT",
                        "1",
                        "TANDEM_CONFIG",
                        "",
                        "TANDEM_NOTHING_LIKE_IT",
                        "1",
                        "TANDEM_CACHE",
                        "c",
                        "PATH",
                        "p"));
        assertThat(values.unknownVariables())
                .containsExactly(
                        "The variable TANDEM_NOTHING_LIKE_IT sets no option; tandem config show lists the options.",
                        "The variable TANDEM_PROT sets no option; did you mean TANDEM_PORT?");
    }

    @CommandLine.Command(name = "other")
    private static final class OtherCommand {
        @CommandLine.Option(names = "--port", defaultValue = "1")
        int port;
    }

    @Test
    void aCommandWithoutTheOptionReadsNothing() {
        OtherCommand other = new OtherCommand();
        CommandLine parser = new CommandLine(other)
                .setDefaultValueProvider(new OptionValues(SampleCommand::known, Map.of("TANDEM_PORT", "9")));
        parser.parseArgs();
        assertThat(other.port).isEqualTo(1);
        assertThat(Configuration.of(parser).settings()).isEmpty();
    }
}
