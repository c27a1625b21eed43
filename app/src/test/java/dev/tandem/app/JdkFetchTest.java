package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Runs a copy of ./tandem on a machine without a JDK, whose pinned JDK lies on a server of the loopback address. */
@EnabledOnOs(OS.LINUX)
class JdkFetchTest {
    private static final String JAVA = """
            #!/bin/sh
            echo "    java.specification.version = 25" >&2
            """;

    private static final List<String> PROGRAMS = List.of(
            ("bash sh uname tr sed cut grep tar gzip curl sha256sum mktemp mkdir mv rm dirname basename readlink cat"
                            + " script")
                    .split(" "));

    @TempDir
    Path folder;

    private final AtomicInteger downloads = new AtomicInteger();
    private HttpServer server;
    private Path archive;

    record Run(int status, String out, String errors) {}

    @BeforeEach
    void layOut() throws Exception {
        // the copy looks for installed JDKs in the test's folder
        Path root = Files.createDirectories(folder.resolve("root/tools"));
        String script = Files.readString(Path.of("../tandem"));
        assertThat(script).contains("/usr/lib/jvm");
        write(root.resolveSibling("tandem"), script.replace("/usr/lib/jvm", folder + "/jvm"));
        write(root.resolve("jdk.sh"), Files.readString(Path.of("../tools/jdk.sh")));
        Path bin = Files.createDirectories(folder.resolve("jdk/jdk-25/bin"));
        write(bin.resolve("java"), JAVA);
        write(bin.resolve("javac"), JAVA);
        archive = folder.resolve("jdk.tar.gz");
        assertThat(run(List.of("tar", "-czf", archive.toString(), "-C", folder + "/jdk", "jdk-25"), Map.of())
                        .status())
                .isZero();
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/jdk.tar.gz", exchange -> {
            downloads.incrementAndGet();
            byte[] bytes = Files.readAllBytes(archive);
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
        String hash =
                HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(archive)));
        String url = "http://127.0.0.1:" + server.getAddress().getPort() + "/jdk.tar.gz";
        Files.writeString(
                root.resolve("jdk.txt"),
                "# a comment\nlinux-x86_64 " + hash + " " + url + "\nlinux-aarch64 " + hash + " " + url + "\n");
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    private static void write(Path file, String text) throws IOException {
        Files.writeString(file, text);
        assertThat(file.toFile().setExecutable(true)).isTrue();
    }

    /** Runs a command without a JDK on the path. */
    private Run run(List<String> command, Map<String, String> environment) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectInput(new java.io.File("/dev/null"));
        builder.environment().clear();
        builder.environment().put("HOME", folder.resolve("home").toString());
        builder.environment().put("PATH", pathWithoutJava());
        builder.environment().putAll(environment);
        Path out = Files.createTempFile(folder, "out", "");
        Path errors = Files.createTempFile(folder, "errors", "");
        Process process = builder.redirectOutput(out.toFile())
                .redirectError(errors.toFile())
                .start();
        assertThat(process.waitFor(5, TimeUnit.MINUTES)).isTrue();
        return new Run(process.exitValue(), Files.readString(out).strip(), Files.readString(errors));
    }

    /** A folder of scripts that run the programs which ./tandem needs. */
    private String pathWithoutJava() throws IOException {
        Path bin = folder.resolve("bin");
        if (!Files.exists(bin)) {
            Files.createDirectories(bin);
            for (String name : PROGRAMS) {
                Path program = Path.of("/usr/bin", name);
                if (Files.exists(program)) {
                    write(bin.resolve(name), "#!/bin/sh\nexec " + program + " \"$@\"\n");
                }
            }
        }
        return bin.toString();
    }

    private Run javaHome(Map<String, String> environment) throws IOException, InterruptedException {
        return run(List.of(folder + "/bin/bash", folder + "/root/tandem", "java-home"), environment);
    }

    private Path cache() {
        return folder.resolve("home/.cache/tandem");
    }

    @Test
    void withAYesTheJdkIsFetchedOnceAndFoundLater() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/curl")), "the copy's path has no curl");
        Run first = javaHome(Map.of("TANDEM_FETCH_JDK", "yes"));
        assertThat(first.status()).as(first.errors()).isZero();
        assertThat(Path.of(first.out())).startsWith(cache()).isDirectoryContaining("glob:**/bin");
        Run second = javaHome(Map.of());
        assertThat(second.status()).isZero();
        assertThat(second.out()).isEqualTo(first.out());
        assertThat(downloads).hasValue(1);
        try (var left = Files.list(cache())) {
            assertThat(left).hasSize(1); // no part of the download is left
        }
    }

    @Test
    void withoutAYesNothingIsFetchedAndTheErrorSaysHow() throws IOException, InterruptedException {
        Run run = javaHome(Map.of());
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.errors()).contains("TANDEM_FETCH_JDK=yes");
        assertThat(javaHome(Map.of("TANDEM_FETCH_JDK", "no")).status()).isEqualTo(2);
        assertThat(downloads).hasValue(0);
    }

    @Test
    void aTerminalIsAskedOnce() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/script")), "a terminal needs the program script");
        assumeTrue(Files.exists(Path.of("/usr/bin/curl")), "the copy's path has no curl");
        String command = folder + "/bin/bash " + folder + "/root/tandem java-home";
        String typed = "printf 'y\\n' | script -qec '" + command + "' /dev/null";
        Run run = run(List.of(folder + "/bin/bash", "-c", typed), Map.of());
        assertThat(run.status()).as(run.out()).isZero();
        assertThat(run.out()).contains("Fetch jdk.tar.gz into " + cache()).contains(cache() + "/jdk-");
        assertThat(downloads).hasValue(1);
    }

    @Test
    void anArchiveWithAnotherHashIsRefusedAndRemoved() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/curl")), "the copy's path has no curl");
        Files.write(archive, "changed".getBytes(StandardCharsets.UTF_8));
        Run run = javaHome(Map.of("TANDEM_FETCH_JDK", "yes"));
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.errors()).contains("has the SHA-256").contains("Do not use it");
        try (var left = Files.list(cache())) {
            assertThat(left).isEmpty();
        }
    }
}
