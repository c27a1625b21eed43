package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** A copy of tools/package.sh, whose launcher, layout and documents are fakes, and the real install.sh. */
@EnabledOnOs(OS.LINUX)
class PackageTest {
    private static final String PROGRAMS = "bash sh uname tr sed cut grep mkdir mv rm cp ls touch find dirname basename"
            + " readlink cat tail sort mktemp tar gzip sha256sum chmod ln";
    private static final Map<String, String> TIME = Map.of("SOURCE_DATE_EPOCH", "1700000000");

    @TempDir
    Path folder;

    private CopiedLauncher files;
    private Path out;
    private String machine;

    @BeforeEach
    void layOut() throws IOException, InterruptedException {
        files = new CopiedLauncher(folder, PROGRAMS);
        for (String file : List.of("tools/package.sh", "deploy/install.sh", "deploy/systemd/tandem.service")) {
            files.copy(file);
        }
        for (String file : List.of("LICENSE", "NOTICE")) {
            files.copy(file);
        }
        String tandem = "#!/bin/sh\ncase \"$1\" in --version) echo 'tandem 0.1.0-rc1 (commit 1234567-dirty)' ;; esac\n";
        CopiedLauncher.write(files.root().resolve("tandem"), tandem);
        // it tells its arguments, and lays out a program that keeps its classes when it generates
        CopiedLauncher.write(files.root().resolve("tools/layout.sh"), """
                #!/bin/sh
                mkdir "$1"
                echo "$2 $3" >"$1/arguments"
                cp "${0%tools/layout.sh}tandem" "$1/tandem"
                echo 'case "$TANDEM_JAVA_OPTIONS" in ?*) echo classes >"${TANDEM_JAVA_OPTIONS#*=}" ;; esac' \\
                  >>"$1/tandem"
                """);
        files.program("python3", "#!/bin/sh\n");
        out = folder.resolve("out");
        machine = files.run(List.of(folder + "/bin/uname", "-m"), Map.of()).out();
    }

    private CopiedLauncher.Run makePackage(String... more) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                folder + "/bin/bash", files.root().resolve("tools/package.sh").toString(), out.toString()));
        command.addAll(List.of(more));
        return files.run(command, TIME);
    }

    /** Unpacks a package and gives its folder. */
    private Path unpack(String name) throws IOException, InterruptedException {
        Path archive = out.resolve(name + ".tar.gz");
        CopiedLauncher.Run run =
                files.run(List.of(folder + "/bin/tar", "-xzf", archive.toString(), "-C", folder.toString()), Map.of());
        assertThat(run.status()).as(run.errors()).isZero();
        return folder.resolve(name);
    }

    @Test
    void aPackageForThisMachineInstallsByItsOwnScript() throws IOException, InterruptedException {
        CopiedLauncher.Run run = makePackage();
        assertThat(run.status()).as(run.errors()).isZero();
        assertThat(run.out()).contains("tandem 0.1.0-rc1 (commit 1234567-dirty) is installed");
        Path made = unpack("tandem-0.1.0-rc1-linux-" + machine);
        assertThat(made.resolve("start.aot")).hasContent("classes");
        assertThat(made.resolve("UNTESTED")).doesNotExist();
        assertThat(made.resolve("arguments")).content().isBlank();
        try (Stream<String> sums = Files.lines(out.resolve("SHA256SUMS"))) {
            assertThat(sums).singleElement().asString().endsWith("  tandem-0.1.0-rc1-linux-" + machine + ".tar.gz");
        }
    }

    @Test
    void aPackageForAnotherMachineIsNotStartedAndSaysSo() throws IOException, InterruptedException {
        CopiedLauncher.Run run = makePackage("pdp11", "/jmods");
        assertThat(run.status()).as(run.errors()).isZero();
        assertThat(run.out()).doesNotContain("is installed");
        Path made = unpack("tandem-0.1.0-rc1-linux-pdp11");
        assertThat(made.resolve("UNTESTED"))
                .content()
                .contains("assembled on " + machine)
                .contains("on pdp11");
        assertThat(made.resolve("start.aot")).doesNotExist();
        assertThat(made.resolve("arguments")).hasContent("pdp11 /jmods");
    }

    @Test
    void anUntestedPackageSaysSoWhenItIsInstalled() throws IOException, InterruptedException {
        // as if this were the other machine
        CopiedLauncher.write(folder.resolve("bin/uname"), """
                #!/bin/sh
                case "$1" in -s) echo Linux ;; *) [ -f "%1$s" ] && echo pdp11 || echo %2$s ;; esac
                """.formatted(folder.resolve("there"), machine));
        assertThat(makePackage("pdp11", "/jmods").status()).isZero();
        Files.createFile(folder.resolve("there"));
        CopiedLauncher.Run run = files.run(
                List.of(folder + "/bin/sh", out.resolve("install.sh").toString(), "--from", out.toString()), Map.of());
        assertThat(run.status()).as(run.errors()).isZero();
        assertThat(run.out()).contains("nobody has started it on pdp11");
    }

    @Test
    void modulesOfTheWrongPlatformAreNamed() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        "../tools/layout.sh", folder.resolve("laid").toString(), "pdp11", folder.toString())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        assertThat(process.waitFor()).as(output).isEqualTo(2);
        assertThat(output)
                .contains(folder + " has no java.base.jmod of linux-pdp11", "jmods of a JDK of this version: 25");
    }
}
