package dev.tandem.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * Runs a fuzz target in a unit test: on every input of its corpus, then on mutations of the inputs. A fuzz target is a
 * class with {@code public static void fuzzerTestOneInput(byte[])}, which throws when it finds a fault. {@code ./tandem
 * fuzz} runs the same class under Jazzer, guided by coverage; inputs that it finds are added to the corpus.
 */
public final class FuzzReplay {
    private static final int MAX_LENGTH = 1 << 16;

    private final List<byte[]> corpus;
    private final long seed;
    private final SplittableRandom random;

    private FuzzReplay(List<byte[]> corpus, long seed) {
        this.corpus = corpus;
        this.seed = seed;
        this.random = new SplittableRandom(seed);
    }

    /**
     * Runs the target on every input of a corpus, then on mutations of the inputs.
     *
     * @param corpus a folder of inputs, one per file
     * @param mutations number of mutated inputs
     * @throws AssertionError with the seed and the input, when the target throws
     */
    public static void run(Path corpus, long mutations, long seed, Consumer<byte[]> target) {
        FuzzReplay replay = new FuzzReplay(read(corpus), seed);
        replay.corpus.forEach(input -> replay.runOne(input, -1, target));
        for (long round = 0; round < mutations; round++) {
            replay.runOne(replay.mutate(), round, target);
        }
    }

    private static List<byte[]> read(Path corpus) {
        try (Stream<Path> files = Files.list(corpus)) {
            List<byte[]> inputs = new ArrayList<>();
            for (Path file : files.sorted().toList()) {
                inputs.add(Files.readAllBytes(file));
            }
            if (inputs.isEmpty()) {
                throw new IllegalArgumentException(corpus + " holds no inputs");
            }
            return inputs;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void runOne(byte[] input, long round, Consumer<byte[]> target) {
        try {
            target.accept(input.clone());
        } catch (Throwable e) {
            throw new AssertionError(
                    "seed " + seed + ", round " + round + ", input in Base64: "
                            + Base64.getEncoder().encodeToString(input),
                    e);
        }
    }

    private byte[] mutate() {
        byte[] input = any().clone();
        int changes = 1 + random.nextInt(4);
        for (int i = 0; i < changes; i++) {
            input = change(input);
        }
        return input.length > MAX_LENGTH ? Arrays.copyOf(input, MAX_LENGTH) : input;
    }

    private byte[] any() {
        return corpus.get(random.nextInt(corpus.size()));
    }

    private byte[] change(byte[] input) {
        if (input.length == 0) {
            return any().clone();
        }
        int at = random.nextInt(input.length);
        int length = 1 + random.nextInt(Math.min(32, input.length - at));
        switch (random.nextInt(6)) {
            case 0 -> input[at] ^= (byte) (1 << random.nextInt(8));
            case 1 -> input[at] = (byte) random.nextInt();
            case 2 -> Arrays.fill(input, at, at + length, (byte) (random.nextBoolean() ? 0 : 0xFF));
            case 3 -> {
                return join(Arrays.copyOf(input, at), Arrays.copyOfRange(input, at + length, input.length));
            }
            case 4 -> {
                byte[] piece = Arrays.copyOfRange(input, at, at + length);
                return join(join(Arrays.copyOf(input, at), piece), Arrays.copyOfRange(input, at, input.length));
            }
            default -> {
                byte[] other = any();
                int from = other.length == 0 ? 0 : random.nextInt(other.length);
                return join(Arrays.copyOf(input, at), Arrays.copyOfRange(other, from, other.length));
            }
        }
        return input;
    }

    private static byte[] join(byte[] a, byte[] b) {
        byte[] joined = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, joined, a.length, b.length);
        return joined;
    }
}
