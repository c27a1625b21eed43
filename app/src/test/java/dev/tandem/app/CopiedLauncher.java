package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A copy of ./tandem in a folder, which sees only the programs and the installed JDKs that a test gives it. */
final class CopiedLauncher {
    /** What a script that says which version it is has to print; for java and javac. */
    static final String JAVA = """
            #!/bin/sh
            echo "    java.specification.version = 25" >&2
            """;

    record Run(int status, String out, String errors) {}

    private final Path folder;
    private final Path bin;

    /** @param programs of /usr/bin; those that the machine lacks are left out */
    CopiedLauncher(Path folder, String programs) throws IOException {
        this.folder = folder;
        this.bin = Files.createDirectories(folder.resolve("bin"));
        for (String name : programs.split(" ")) {
            Path program = Path.of("/usr/bin", name);
            if (Files.exists(program)) {
                program(name, "#!/bin/sh\nexec " + program + " \"$@\"\n");
            }
        }
        String script = Files.readString(Path.of("../tandem"));
        assertThat(script).contains("/usr/lib/jvm");
        // it looks for installed JDKs in the test's folder
        write(root().resolve("tandem"), script.replace("/usr/lib/jvm", folder + "/jvm"));
        copy("tools/jdk.sh");
    }

    Path root() {
        return folder.resolve("root");
    }

    Path cache() {
        return folder.resolve("home/.cache/tandem");
    }

    /** Copies a file of the repository. */
    void copy(String file) throws IOException {
        write(root().resolve(file), Files.readString(Path.of("..", file)));
    }

    /** Puts a program on the path. */
    void program(String name, String script) throws IOException {
        write(bin.resolve(name), script);
    }

    /** Writes an executable file. */
    static void write(Path file, String text) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
        assertThat(file.toFile().setExecutable(true)).isTrue();
    }

    Run run(List<String> command, Map<String, String> environment) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectInput(new File("/dev/null"));
        builder.environment().clear();
        builder.environment().put("HOME", folder.resolve("home").toString());
        builder.environment().put("PATH", bin.toString());
        builder.environment().putAll(environment);
        Path out = Files.createTempFile(folder, "out", "");
        Path errors = Files.createTempFile(folder, "errors", "");
        Process process = builder.redirectOutput(out.toFile())
                .redirectError(errors.toFile())
                .start();
        assertThat(process.waitFor(5, TimeUnit.MINUTES)).isTrue();
        return new Run(process.exitValue(), Files.readString(out).strip(), Files.readString(errors));
    }

    /** Runs the copy. */
    Run tandem(Map<String, String> environment, String... arguments) throws IOException, InterruptedException {
        List<String> command =
                new ArrayList<>(List.of(bin + "/bash", root().resolve("tandem").toString()));
        command.addAll(List.of(arguments));
        return run(command, environment);
    }
}
