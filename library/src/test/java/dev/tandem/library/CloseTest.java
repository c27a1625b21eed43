package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is left of a model after it was closed. */
class CloseTest {
    /** Loads and closes; {@code -Dtandem.cycles=1000} runs more. */
    private static final int CYCLES = Integer.getInteger("tandem.cycles", 20);

    /** The part of the cycles after which the JVM has what it keeps: compiled code, and threads of its own. */
    private static final int FIRST = 4;
    /** Max collections until finalizers have run. */
    private static final int COLLECTIONS = 20;

    private static final Logger LOG = Logger.getLogger(Tandem.class.getPackageName());

    private static Set<Thread> threads() {
        return Thread.getAllStackTraces().keySet();
    }

    @Test
    void noThreadIsLeft(@TempDir Path folder) {
        Set<Thread> before = threads();
        try (Tandem tandem = Tandem.load(TandemTest.options(folder))) {
            tandem.chat(TandemTest.request("w1", 4)).result();
            assertThat(threads().stream().map(Thread::getName)).contains("tandem-engine");
        }
        List<String> left = threads().stream()
                .filter(thread -> !before.contains(thread))
                .filter(thread -> !thread.isDaemon() || thread.getName().startsWith("tandem"))
                .map(Thread::getName)
                .toList();
        assertThat(left).isEmpty();
    }

    @Test
    void anAnswerThatIsBeingWrittenFailsAndNoFurtherOneBegins(@TempDir Path folder) {
        Tandem tandem = Tandem.load(TandemTest.options(folder));
        Answer answer = tandem.chat(TandemTest.request("w1", 500));
        tandem.close();
        assertThatThrownBy(answer::result).isInstanceOf(AnswerException.class).hasMessageContaining("shut down");
        assertThatThrownBy(() -> tandem.chat("w1"))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("closed");
        assertThatThrownBy(() -> tandem.countTokens("w1")).isInstanceOf(RequestException.class);
        tandem.close(); // again, without effect
    }

    @Test
    void twoModelsAreIndependent(@TempDir Path one, @TempDir Path other) {
        try (Tandem first = Tandem.load(TandemTest.options(one))) {
            String alone = first.chat(TandemTest.request("w7", 8)).result().text();
            try (Tandem second = Tandem.load(TandemTest.options(other))) {
                assertThat(second.chat(TandemTest.request("w7", 8)).result().text())
                        .isEqualTo(alone);
            }
            assertThat(first.chat(TandemTest.request("w7", 8)).result().text()).isEqualTo(alone);
        }
    }

    /**
     * What the process holds.
     *
     * @param objects reachable ones of the classes that a model is made of, by class
     */
    private record Held(int threads, long files, long mappings, long residentKib, Map<String, Long> objects) {
        private static final Pattern ROW = Pattern.compile("\\s*\\d+:\\s+(\\d+)\\s+\\d+\\s+(\\S+).*");
        /** The first line of a mapping in smaps. */
        private static final Pattern MAPPING = Pattern.compile("([0-9a-f]+)-[0-9a-f]+ ");
        /** Tandem's own classes, native memory, and the tokenizer. */
        private static final Pattern COUNTED =
                Pattern.compile("\\[*L?(dev\\.tandem|jdk\\.internal\\.foreign|ai\\.djl)\\..*");

        static Held now() throws IOException {
            try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
                    Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
                return new Held(
                        CloseTest.threads().size(), files.count(), maps.count(), residentOutsideTheHeap(), reachable());
            }
        }

        /** The Java heap, which grows with garbage, lies below 32 GiB so that references have 32 bits. */
        private static long residentOutsideTheHeap() throws IOException {
            long sum = 0;
            boolean counts = false;
            for (String line : Files.readAllLines(Path.of("/proc/self/smaps"))) {
                Matcher mapping = MAPPING.matcher(line);
                if (mapping.lookingAt()) {
                    counts = Long.parseUnsignedLong(mapping.group(1), 16) >= 32L << 30;
                } else if (counts && line.startsWith("Rss:")) {
                    sum += Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
            return sum;
        }

        /** Collects garbage, and counts what is left. */
        private static Map<String, Long> reachable() {
            try {
                ObjectName commands = new ObjectName("com.sun.management:type=DiagnosticCommand");
                MBeanServer server = ManagementFactory.getPlatformMBeanServer();
                server.invoke(commands, "gcRunFinalization", new Object[0], new String[0]);
                Object histogram =
                        server.invoke(commands, "gcClassHistogram", new Object[] {new String[0]}, new String[] {
                            String[].class.getName()
                        });
                return String.valueOf(histogram)
                        .lines()
                        .map(ROW::matcher)
                        .filter(row ->
                                row.matches() && COUNTED.matcher(row.group(2)).matches())
                        .collect(Collectors.toMap(row -> row.group(2), row -> Long.valueOf(row.group(1)), Long::sum));
            } catch (JMException e) {
                throw new AssertionError("the JVM gives no histogram of its classes", e);
            }
        }

        /** Classes with at least so many objects more than before. */
        List<String> grown(Held before, int count) {
            return objects.entrySet().stream()
                    .filter(now -> now.getValue() - before.objects.getOrDefault(now.getKey(), 0L) >= count)
                    .map(Map.Entry::toString)
                    .sorted()
                    .toList();
        }

        @Override
        public String toString() {
            return threads + " threads, " + files + " files, " + mappings + " mappings, " + residentKib
                    + " KiB resident, "
                    + objects.values().stream().mapToLong(Long::longValue).sum() + " objects";
        }
    }

    @Test
    void loadingAndClosingManyTimesLeaksNothing(@TempDir Path folder) throws IOException {
        // the KV pool alone has 4 MiB
        cycle(TandemTest.options(folder), CYCLES, 1 << 10);
    }

    /** The default model has 93 MB of weights. */
    @Test
    @Tag("slow")
    void loadingAndClosingTheDefaultModelLeaksNothing() throws IOException {
        cycle(
                LoadOptions.defaults()
                        .withDevice(Device.CPU)
                        .withKvBytes(64 << 20)
                        .withHostKvBytes(0),
                20,
                8 << 10);
    }

    /**
     * @param kibibytes of resident memory outside the heap that a cycle may add, far less than it takes while it is
     *     open
     */
    private static void cycle(LoadOptions options, int cycles, long kibibytes) throws IOException {
        LOG.setLevel(Level.WARNING); // not every cycle's summary
        int firstCycles = cycles / FIRST;
        List<Held> held = new ArrayList<>();
        for (int cycle = 1; cycle <= cycles; cycle++) {
            try (Tandem tandem = Tandem.load(options)) {
                tandem.chat(TandemTest.request("w1", 4)).result();
            }
            if (cycle == firstCycles || cycle == cycles) {
                held.add(Held.now());
            }
        }
        Held first = held.getFirst();
        Held last = held.getLast();
        int added = cycles - firstCycles;
        // the tokenizer has a finalizer: it goes with a collection after the one that finds it unreachable
        for (int more = 0; more < COLLECTIONS && !last.grown(first, added / 2).isEmpty(); more++) {
            last = Held.now();
        }
        String both = held.stream().map(Held::toString).collect(Collectors.joining(", "));
        System.out.println("after " + firstCycles + " and " + cycles + " cycles: " + both);
        assertThat(first.objects()).as(both).isNotEmpty();
        assertThat(last.grown(first, added / 2)).as("objects of closed models").isEmpty();
        assertThat(last.threads()).as(both).isLessThan(first.threads() + added / 2);
        assertThat(last.files()).as(both).isLessThan(first.files() + added / 2);
        assertThat(last.mappings()).as(both).isLessThan(first.mappings() + added);
        assertThat(last.residentKib()).as(both).isLessThan(first.residentKib() + added * kibibytes);
    }
}
