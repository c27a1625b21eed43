package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/** What {@code --help} prints. */
class HelpTest {
    private static final CommandLine TANDEM = Main.command();

    private static Stream<CommandLine> commands() {
        List<CommandLine> all = new ArrayList<>(List.of(TANDEM));
        for (int i = 0; i < all.size(); i++) {
            all.addAll(all.get(i).getSubcommands().values());
        }
        return all.stream().filter(command -> !command.getCommandName().equals("help"));
    }

    private static List<String> headings(String help) {
        return help.lines().filter(line -> line.matches("\\S[^:]*:")).toList();
    }

    @Test
    void serveHasTheTenFirstThenTheSections() {
        String help = TANDEM.getSubcommands().get("serve").getUsageMessage();
        assertThat(headings(help))
                .containsExactly(
                        "Most used:",
                        "Model:",
                        "Memory:",
                        "Scheduling:",
                        "Hybrid execution:",
                        "Server:",
                        "Advanced:",
                        "Help:",
                        "Examples:");
        String first = help.substring(help.indexOf("Most used:"), help.indexOf("Model:"));
        assertThat(first.lines().filter(line -> line.strip().startsWith("--"))).hasSize(10);
        assertThat(help.indexOf("--fidelity")).isGreaterThan(help.indexOf("Advanced:"));
        assertThat(help.indexOf("--log-requests")).isBetween(help.indexOf("Server:"), help.indexOf("Advanced:"));
    }

    @ParameterizedTest
    @MethodSource("commands")
    void everyOptionIsListedOnce(CommandLine command) {
        String help = command.getUsageMessage();
        for (OptionSpec option : command.getCommandSpec().options()) {
            String name = option.negatable() ? "--[no-]" + option.longestName().substring(2) : option.longestName();
            assertThat(help.lines().filter(line -> line.matches("( {6}|  -\\w, )" + quoted(name) + "([ =,].*)?")))
                    .as(name)
                    .hasSize(1);
        }
    }

    private static String quoted(String name) {
        return name.replace("[", "\\[").replace("]", "\\]");
    }

    @ParameterizedTest
    @MethodSource("commands")
    void everyDescriptionIsWholeSentencesWithTheDefault(CommandLine command) {
        assertThat(command.getCommandSpec().usageMessage().footer())
                .as(command.getCommandName())
                .isNotEmpty();
        for (OptionSpec option : command.getCommandSpec().options()) {
            String text = String.join(" ", option.description());
            assertThat(text).as(option.longestName()).endsWith(".");
            if (SectionedHelp.heading(option) != Section.Heading.HELP && !text.endsWith("Required.")) {
                assertThat(text).as(option.longestName()).contains("Default: ");
            }
            assertThat(text.toLowerCase(Locale.ROOT))
                    .as(option.longestName())
                    .doesNotContain("given up", " rows", " so many ", "at most the", "nobody", "whoever");
        }
    }

    @ParameterizedTest
    @MethodSource("commands")
    void noLineIsWiderThanTheTerminal(CommandLine command) {
        assertThat(command.getUsageMessage().lines()).allMatch(line -> line.length() <= 100);
    }
}
