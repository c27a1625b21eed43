package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/** What tools/man_pages.py makes of the help of all commands. */
@EnabledOnOs(OS.LINUX)
class ManPagesTest {
    private static void collect(String name, CommandLine command, Map<String, CommandLine> into) {
        into.put(name, command);
        command.getSubcommands().forEach((part, below) -> {
            if (!part.equals("help")) {
                collect(name + "-" + part, below, into);
            }
        });
    }

    /** A script that prints the help of each command as Tandem does, without its start. */
    private static Path helpOf(Map<String, CommandLine> commands, Path folder) throws IOException {
        for (Map.Entry<String, CommandLine> one : commands.entrySet()) {
            Files.writeString(folder.resolve(one.getKey()), one.getValue().getUsageMessage());
        }
        Path script = folder.resolve("program");
        Files.writeString(
                script,
                "#!/bin/sh\nname=tandem\nfor word; do [ $word = --help ] || name=$name-$word; done\ncat '" + folder
                        + "'/$name\n");
        assertThat(script.toFile().setExecutable(true)).isTrue();
        return script;
    }

    @Test
    void everyCommandHasAPageWithItsOptions(@TempDir Path folder) throws IOException, InterruptedException {
        Map<String, CommandLine> commands = new LinkedHashMap<>();
        collect("tandem", Main.command(), commands);
        Path program = helpOf(commands, folder);
        Process python = new ProcessBuilder(
                        "python3", "../tools/man_pages.py", program.toString(), "1.0", folder.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(python.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(python.waitFor()).as(said).isZero();
        for (Map.Entry<String, CommandLine> one : commands.entrySet()) {
            String page = Files.readString(folder.resolve("man1").resolve(one.getKey() + ".1"));
            assertThat(page).startsWith(".TH ").contains(".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION");
            for (OptionSpec option : one.getValue().getCommandSpec().options()) {
                String name = option.longestName().substring(2).replace("-", "\\-");
                assertThat(page.lines().filter(line -> line.startsWith(".B ") && line.contains(name)))
                        .as(one.getKey() + " " + option.longestName())
                        .isNotEmpty();
            }
        }
        assertThat(Files.readString(folder.resolve("man1/tandem.1"))).contains("tandem\\-bench\\-serve(1)");
    }
}
