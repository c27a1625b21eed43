package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Two copies of ./tandem that build in one folder at the same time. Java and Maven are fakes. */
@EnabledOnOs(OS.LINUX)
// a thread of its own: one that opens a pipe which nobody writes cannot be interrupted
@Timeout(value = 1, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BuildLockTest {
    private static final String PROGRAMS =
            "bash sh uname tr sed cut grep mkdir mv rm ls touch find dirname basename readlink cat mkfifo";

    @TempDir
    Path folder;

    private CopiedLauncher launcher;

    @BeforeEach
    void layOut() throws IOException, InterruptedException {
        assumeTrue(Files.exists(Path.of("/usr/bin/flock")), "flock is not installed");
        launcher = new CopiedLauncher(folder, PROGRAMS);
        CopiedLauncher.write(folder.resolve("jdk/bin/java"), CopiedLauncher.JAVA);
        CopiedLauncher.write(folder.resolve("jdk/bin/javac"), CopiedLauncher.JAVA);
        for (String pipe : List.of("started", "waits", "status")) {
            List<String> make = List.of("mkfifo", folder.resolve(pipe).toString());
            assertThat(launcher.run(make, Map.of()).status()).isZero();
        }
        // the first build says that it runs, and ends with the status that the test writes; later ones end at once
        launcher.program("mvn", """
                #!/bin/sh
                echo "$*" >>FOLDER/builds
                if [ ! -f FOLDER/holder ]; then
                  cat FOLDER/root/app/target/build.lock >FOLDER/holder
                  echo >FOLDER/started
                  exit "$(cat FOLDER/status)"
                fi
                """.replace("FOLDER", folder.toString()));
        launcher.program("flock", """
                #!/bin/sh
                [ "$1" = -n ] || echo >FOLDER/waits
                exec /usr/bin/flock "$@"
                """.replace("FOLDER", folder.toString()));
    }

    private FutureTask<CopiedLauncher.Run> start(String... command) {
        FutureTask<CopiedLauncher.Run> run =
                new FutureTask<>(() -> launcher.tandem(Map.of("JAVA_HOME", folder + "/jdk"), command));
        Thread.ofVirtual().start(run);
        return run;
    }

    /** Returns once a program has written to the pipe. */
    private void await(String pipe) throws IOException {
        Files.readString(folder.resolve(pipe));
    }

    private List<String> builds() throws IOException {
        return Files.readAllLines(folder.resolve("builds"));
    }

    /** Runs both at the same time, the first to this status. */
    private List<CopiedLauncher.Run> both(int status, String first, String second) throws Exception {
        FutureTask<CopiedLauncher.Run> building = start(first);
        await("started");
        FutureTask<CopiedLauncher.Run> waiting = start(second);
        await("waits");
        assertThat(builds()).hasSize(1);
        long holder = Long.parseLong(Files.readString(folder.resolve("holder")).strip());
        assertThat(ProcessHandle.of(holder)).isPresent();
        Files.writeString(folder.resolve("status"), Integer.toString(status));
        CopiedLauncher.Run waited = waiting.get();
        assertThat(building.get().status()).isEqualTo(status);
        assertThat(waited.status()).as(waited.errors()).isZero();
        assertThat(waited.errors())
                .contains("Another build runs in this folder, process " + holder + "; waiting for its end");
        return List.of(building.get(), waited);
    }

    @Test
    void theSecondBuildWaitsAndFindsNothingLeftToDo() throws Exception {
        List<CopiedLauncher.Run> runs = both(0, "build", "build");
        assertThat(builds()).hasSize(1);
        assertThat(runs.getFirst().errors())
                .contains("building Tandem and its tests")
                .doesNotContain("waiting");
        assertThat(runs.getLast().errors()).doesNotContain("building Tandem");
        assertThat(start("build").get().errors()).isEmpty();
    }

    @Test
    void theSecondBuildTriesAgainWhatHasFailed() throws Exception {
        assertThat(both(1, "build", "build").getLast().errors()).contains("building Tandem and its tests");
        assertThat(builds()).hasSize(2);
        assertThat(start("build").get().errors()).isEmpty();
    }

    @Test
    void testsAndCommandsWaitToo() throws Exception {
        List<CopiedLauncher.Run> runs = both(0, "test", "doctor");
        assertThat(builds().getFirst()).contains("verify");
        assertThat(builds().getLast()).contains("package");
        assertThat(runs.getLast().errors()).contains("building Tandem (only when sources have changed)");
    }
}
