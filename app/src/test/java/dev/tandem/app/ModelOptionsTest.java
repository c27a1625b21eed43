package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** The model as an argument and as {@code --model}. */
class ModelOptionsTest {
    @TempDir
    Path folder;

    private static ModelOptions parse(String... arguments) {
        ServeCommand serve = new ServeCommand();
        ServeCommand.parser(serve).parseArgs(arguments);
        return serve.options;
    }

    @Test
    void bothFormsNameTheSameModel() {
        assertThat(parse("--model", "gemma3:270m").reference())
                .isInstanceOf(ModelReference.InWheels.class)
                .isEqualTo(parse("gemma3:270m").reference())
                .isEqualTo(parse("gemma3:270m", "--model=gemma3:270m").reference());
        assertThat(parse().reference()).isEqualTo(DefaultModel.REFERENCE);
    }

    @Test
    void generateTakesTheModelAsAnOption() {
        String model = DummyModel.write(folder).toString();
        List<String> dummy = List.of("--load-format", "dummy", "--device", "cpu", "--max-tokens", "4", "-p", "w5 w6");
        List<String> option = new ArrayList<>(List.of("generate", "--model", model));
        List<String> argument = new ArrayList<>(List.of("generate", model));
        option.addAll(dummy);
        argument.addAll(dummy);
        CommandRun run = CommandRun.of(option.toArray(String[]::new));
        assertThat(run.status()).as(run.errors()).isZero();
        assertThat(run.out())
                .isNotBlank()
                .isEqualTo(CommandRun.of(argument.toArray(String[]::new)).out());
    }

    @Test
    void theCommandLineWinsOverTheEnvironmentInBothForms() {
        Map<String, String> environment = Map.of("TANDEM_MODEL", "org/of-environment");
        for (String[] form : new String[][] {{"config", "show", "--model", "org/m"}, {"config", "show", "org/m"}}) {
            assertThat(CommandRun.of(environment, form).out().lines().filter(line -> line.startsWith("model:")))
                    .singleElement()
                    .asString()
                    .matches("model: org/m +# command line");
        }
        assertThat(CommandRun.of(environment, "config", "show").out())
                .containsPattern("model: org/of-environment +# TANDEM_MODEL");
    }

    @Test
    void everyCommandThatLoadsAModelTakesBothForms() {
        List<CommandLine> commands = new ArrayList<>(List.of(Main.command()));
        List<String> loading = new ArrayList<>();
        for (int i = 0; i < commands.size(); i++) {
            CommandLine command = commands.get(i);
            commands.addAll(command.getSubcommands().values());
            boolean loads = command.getCommandSpec().positionalParameters().stream()
                    .anyMatch(argument -> argument.paramLabel().equals("MODEL")
                            && argument.arity().max() == 1);
            if (loads) {
                loading.add(command.getCommandName());
                assertThat(command.getCommandSpec().findOption("--model"))
                        .as(command.getCommandName())
                        .isNotNull();
            }
        }
        assertThat(loading)
                .contains("serve", "generate", "chat", "doctor", "profile", "latency", "throughput", "simulate");
    }
}
