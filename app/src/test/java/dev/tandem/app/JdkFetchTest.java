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
    private static final String PROGRAMS =
            "bash sh uname tr sed cut grep tar gzip curl sha256sum mktemp mkdir mv rm dirname basename readlink cat"
                    + " script";

    @TempDir
    Path folder;

    private final AtomicInteger downloads = new AtomicInteger();
    private CopiedLauncher launcher;
    private HttpServer server;
    private Path archive;

    @BeforeEach
    void layOut() throws Exception {
        launcher = new CopiedLauncher(folder, PROGRAMS);
        Path bin = folder.resolve("jdk/jdk-25/bin");
        CopiedLauncher.write(bin.resolve("java"), CopiedLauncher.JAVA);
        CopiedLauncher.write(bin.resolve("javac"), CopiedLauncher.JAVA);
        archive = folder.resolve("jdk.tar.gz");
        List<String> pack = List.of("tar", "-czf", archive.toString(), "-C", folder + "/jdk", "jdk-25");
        assertThat(launcher.run(pack, Map.of()).status()).isZero();
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
                launcher.root().resolve("tools/jdk.txt"),
                "# a comment\nlinux-x86_64 " + hash + " " + url + "\nlinux-aarch64 " + hash + " " + url + "\n");
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    private CopiedLauncher.Run javaHome(Map<String, String> environment) throws IOException, InterruptedException {
        return launcher.tandem(environment, "java-home");
    }

    @Test
    void withAYesTheJdkIsFetchedOnceAndFoundLater() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/curl")), "the copy's path has no curl");
        CopiedLauncher.Run first = javaHome(Map.of("TANDEM_FETCH_JDK", "yes"));
        assertThat(first.status()).as(first.errors()).isZero();
        assertThat(Path.of(first.out())).startsWith(launcher.cache()).isDirectoryContaining("glob:**/bin");
        CopiedLauncher.Run second = javaHome(Map.of());
        assertThat(second.status()).isZero();
        assertThat(second.out()).isEqualTo(first.out());
        assertThat(downloads).hasValue(1);
        try (var left = Files.list(launcher.cache())) {
            assertThat(left).hasSize(1); // no part of the download is left
        }
    }

    @Test
    void withoutAYesNothingIsFetchedAndTheErrorSaysHow() throws IOException, InterruptedException {
        CopiedLauncher.Run run = javaHome(Map.of());
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
        CopiedLauncher.Run run = launcher.run(List.of(folder + "/bin/bash", "-c", typed), Map.of());
        assertThat(run.status()).as(run.out()).isZero();
        assertThat(run.out())
                .contains("Fetch jdk.tar.gz into " + launcher.cache())
                .contains(launcher.cache() + "/jdk-");
        assertThat(downloads).hasValue(1);
    }

    @Test
    void anArchiveWithAnotherHashIsRefusedAndRemoved() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/curl")), "the copy's path has no curl");
        Files.write(archive, "changed".getBytes(StandardCharsets.UTF_8));
        CopiedLauncher.Run run = javaHome(Map.of("TANDEM_FETCH_JDK", "yes"));
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.errors()).contains("has the SHA-256").contains("Do not use it");
        try (var left = Files.list(launcher.cache())) {
            assertThat(left).isEmpty();
        }
    }
}
