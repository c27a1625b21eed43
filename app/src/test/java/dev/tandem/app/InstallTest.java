package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Runs deploy/install.sh on packages that hold a script in the place of Tandem. */
@EnabledOnOs(OS.LINUX)
class InstallTest {
    @TempDir
    Path folder;

    private Path home;
    private Path packages;
    private String platform;

    record Run(int status, String output) {}

    @BeforeEach
    void makePackages() throws IOException, InterruptedException {
        home = Files.createDirectories(folder.resolve("home"));
        packages = Files.createDirectories(folder.resolve("packages"));
        platform = "linux-" + sh("uname -m").output().strip();
        makePackage("0.9.0");
        makePackage("0.10.0");
        sh("cd '" + packages + "' && sha256sum *.tar.gz >SHA256SUMS");
    }

    private void makePackage(String version) throws IOException, InterruptedException {
        String name = "tandem-" + version + "-" + platform;
        Path made = Files.createDirectories(folder.resolve("made").resolve(name));
        Files.writeString(made.resolve("tandem"), "#!/bin/sh\necho tandem " + version + "\n");
        sh("chmod +x '" + made + "/tandem' && tar -czf '" + packages + "/" + name + ".tar.gz' -C '" + made.getParent()
                + "' '" + name + "'");
    }

    private Run sh(String line) throws IOException, InterruptedException {
        return run(List.of("sh", "-c", line));
    }

    private Run install(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("sh", "../deploy/install.sh"));
        command.addAll(List.of(arguments));
        return run(command);
    }

    private Run run(List<String> command) throws IOException, InterruptedException {
        ProcessBuilder builder =
                new ProcessBuilder(command).redirectInput(new File("/dev/null")).redirectErrorStream(true);
        builder.environment().put("HOME", home.toString());
        Path output = Files.createTempFile(folder, "output", "");
        Process process = builder.redirectOutput(output.toFile()).start();
        assertThat(process.waitFor(5, TimeUnit.MINUTES)).isTrue();
        return new Run(process.exitValue(), Files.readString(output));
    }

    private String installed() throws IOException, InterruptedException {
        return sh("'" + home + "/.local/bin/tandem' --version").output().strip();
    }

    @Test
    void theNewestPackageOfAFolderIsInstalledIntoTheHome() throws IOException, InterruptedException {
        Run run = install("--from", packages.toString());
        assertThat(run.status()).as(run.output()).isZero();
        assertThat(run.output()).contains("tandem 0.10.0 is installed").contains("is not on the path");
        assertThat(installed()).isEqualTo("tandem 0.10.0");
    }

    @Test
    void aVersionCanBeChosenAndReplacesTheOneBefore() throws IOException, InterruptedException {
        install("--from", packages.toString());
        Run run = install("--from", "file://" + packages, "--version", "0.9.0");
        assertThat(run.status()).as(run.output()).isZero();
        assertThat(installed()).isEqualTo("tandem 0.9.0");
        try (var left = Files.list(home.resolve(".local/lib/tandem"))) {
            assertThat(left).hasSize(1);
        }
    }

    @Test
    void aServerServesPackages() throws IOException, InterruptedException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            byte[] bytes = Files.readAllBytes(
                    packages.resolve(exchange.getRequestURI().getPath().substring(1)));
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
        try {
            Run run =
                    install("--from", "http://127.0.0.1:" + server.getAddress().getPort() + "/");
            assertThat(run.status()).as(run.output()).isZero();
            assertThat(installed()).isEqualTo("tandem 0.10.0");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void aPackageWithAnotherHashIsRefusedAndTheInstalledOneStays() throws IOException, InterruptedException {
        install("--from", packages.toString(), "--version", "0.9.0");
        sh("echo more >>'" + packages + "/tandem-0.10.0-" + platform + ".tar.gz'");
        Run run = install("--from", packages.toString());
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.output()).contains("another SHA-256");
        assertThat(installed()).isEqualTo("tandem 0.9.0");
        try (var left = Files.list(home.resolve(".local/lib/tandem"))) {
            assertThat(left).hasSize(1);
        }
    }

    @Test
    void aProgramOfSomebodyElseIsNotReplaced() throws IOException, InterruptedException {
        Path bin = Files.createDirectories(home.resolve(".local/bin"));
        Files.writeString(bin.resolve("tandem"), "mine");
        Run run = install("--from", packages.toString());
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.output()).contains("was not made by install.sh");
        assertThat(bin.resolve("tandem")).hasContent("mine");
    }

    @Test
    void anUnknownVersionIsRefusedWithThoseThatThereAre() throws IOException, InterruptedException {
        Run run = install("--from", packages.toString(), "--version", "7");
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.output()).contains("no package of version 7").contains("tandem-0.9.0-" + platform);
    }

    @Test
    void uninstallingRemovesTandemAndNothingElse() throws IOException, InterruptedException {
        install("--from", packages.toString());
        Path other = Files.writeString(home.resolve(".local/bin/other"), "x");
        Run run = install("--uninstall");
        assertThat(run.status()).as(run.output()).isZero();
        assertThat(home.resolve(".local/bin/tandem")).doesNotExist();
        assertThat(home.resolve(".local/lib/tandem")).doesNotExist();
        assertThat(other).exists();
    }
}
