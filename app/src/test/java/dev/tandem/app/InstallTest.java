package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.LinkOption;
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
        Path pages = Files.createDirectories(made.resolve("share/man/man1"));
        Files.writeString(pages.resolve("tandem.1"), "of " + version);
        Files.writeString(pages.resolve("tandem-serve.1"), "of " + version);
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

    /** Serves the folder of packages; files of these names break off in their middle. */
    private HttpServer serve(String... broken) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            String name = exchange.getRequestURI().getPath().substring(1);
            if (!Files.exists(packages.resolve(name))) {
                exchange.sendResponseHeaders(404, -1);
            } else {
                byte[] bytes = Files.readAllBytes(packages.resolve(name));
                exchange.sendResponseHeaders(200, bytes.length);
                boolean whole = !List.of(broken).contains(name);
                exchange.getResponseBody().write(bytes, 0, whole ? bytes.length : bytes.length / 2);
            }
            exchange.close();
        });
        server.start();
        return server;
    }

    private static String address(HttpServer server) {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/";
    }

    @Test
    void aServerServesPackages() throws IOException, InterruptedException {
        HttpServer server = serve();
        try {
            Run run = install("--from", address(server));
            assertThat(run.status()).as(run.output()).isZero();
            assertThat(installed()).isEqualTo("tandem 0.10.0");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void aReleasesScriptInstallsFromItsAddress() throws IOException, InterruptedException {
        HttpServer server = serve();
        try {
            Path script = folder.resolve("install.sh");
            Files.writeString(
                    script,
                    Files.readString(Path.of("../deploy/install.sh"))
                            .replace("\nreleases=''\n", "\nreleases='" + address(server) + "'\n"));
            Run run = run(List.of("sh", script.toString()));
            assertThat(run.status()).as(run.output()).isZero();
            assertThat(installed()).isEqualTo("tandem 0.10.0");
            Run other = sh("TANDEM_PACKAGES=/nowhere sh '" + script + "'");
            assertThat(other.status()).isEqualTo(2);
            assertThat(other.output()).contains("/nowhere/SHA256SUMS cannot be read");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void withoutAnAddressTheRemedyIsNamed() throws IOException, InterruptedException {
        Run run = install();
        assertThat(run.status()).isEqualTo(2);
        assertThat(run.output()).contains("--from").contains("TANDEM_PACKAGES");
    }

    @Test
    void aDownloadThatBreaksOffIsNotInstalled() throws IOException, InterruptedException {
        install("--from", packages.toString(), "--version", "0.9.0");
        HttpServer server = serve("tandem-0.10.0-" + platform + ".tar.gz");
        try {
            Run run = install("--from", address(server));
            assertThat(run.status()).isEqualTo(2);
            assertThat(run.output()).contains("tandem-0.10.0-" + platform + ".tar.gz cannot be read");
            assertThat(installed()).isEqualTo("tandem 0.9.0");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void anAddressWithoutPackagesIsNamed() throws IOException, InterruptedException {
        HttpServer server = serve();
        try {
            Run run = install("--from", address(server) + "no-such-folder");
            assertThat(run.status()).isEqualTo(2);
            assertThat(run.output()).contains("no-such-folder/SHA256SUMS cannot be read");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void aReleaseIsNewerThanItsCandidates() throws IOException, InterruptedException {
        makePackage("0.10.0-rc1");
        sh("cd '" + packages + "' && sha256sum *.tar.gz >SHA256SUMS");
        Run run = install("--from", packages.toString());
        assertThat(run.status()).as(run.output()).isZero();
        assertThat(installed()).isEqualTo("tandem 0.10.0");
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
    void manPagesAreLinkedAndThoseOfSomebodyElseStay() throws IOException, InterruptedException {
        Path man = Files.createDirectories(home.resolve(".local/share/man/man1"));
        Files.writeString(man.resolve("tandem-serve.1"), "mine");
        install("--from", packages.toString(), "--version", "0.9.0");
        Run run = install("--from", packages.toString());
        assertThat(run.status()).as(run.output()).isZero();
        assertThat(man.resolve("tandem.1")).hasContent("of 0.10.0");
        assertThat(man.resolve("tandem-serve.1")).hasContent("mine");
        install("--uninstall");
        assertThat(Files.exists(man.resolve("tandem.1"), LinkOption.NOFOLLOW_LINKS))
                .isFalse();
        assertThat(man.resolve("tandem-serve.1")).hasContent("mine");
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
