package dev.tandem.bench;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.AttentionSpan;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A repeating list of requests' prompt and output lengths.
 *
 * @param name the name on the command line and in results
 * @param sharedPrompt tokens with which all prompts begin
 * @param turns requests per conversation: each but the first begins with the prompt and the answer of the one before,
 *     and adds as many tokens as the first has of its own
 */
public record Workload(String name, List<Lengths> lengths, int sharedPrompt, int turns) {
    /** A workload whose prompts have nothing in common. */
    public Workload(String name, List<Lengths> lengths) {
        this(name, lengths, 0, 1);
    }

    /** Prompt and output tokens of one request. */
    public record Lengths(int prompt, int output) {}

    private static final int SAMPLES = 4096;
    private static final Pattern SYNTHETIC = Pattern.compile("synthetic:(\\d{1,7})/(\\d{1,7})");
    private static final Pattern PREFIX = Pattern.compile("prefix:(\\d{1,7})/(\\d{1,7})/(\\d{1,7})(?:/(\\d{1,3}))?");
    private static final Pattern OSC = Pattern.compile("osc(?::(\\d{1,7}))?");
    /** Synthetic lengths are within this fraction of their mean. */
    private static final double SPREAD = 0.1;

    /**
     * Makes the workload of a name: {@code synthetic:IN/OUT} (uniform within 10 %), {@code prefix:SHARED/OWN/OUT} and
     * {@code prefix:SHARED/OWN/OUT/TURNS} (fixed lengths), {@code osc} or {@code osc:MEAN_OUT}, {@code azure-code},
     * {@code azure-conv} or {@code reasoning}.
     *
     * @param seed of the random lengths
     * @throws ConfigurationException if the name is not known; the message lists all names
     */
    public static Workload parse(String name, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Matcher synthetic = SYNTHETIC.matcher(name);
        if (synthetic.matches()) {
            return new Workload(
                    name,
                    synthetic(Integer.parseInt(synthetic.group(1)), Integer.parseInt(synthetic.group(2)), random));
        }
        Matcher prefix = PREFIX.matcher(name);
        if (prefix.matches()) {
            return prefix(
                    name,
                    Integer.parseInt(prefix.group(1)),
                    Integer.parseInt(prefix.group(2)),
                    Integer.parseInt(prefix.group(3)),
                    prefix.group(4) == null ? 1 : Integer.parseInt(prefix.group(4)));
        }
        Matcher osc = OSC.matcher(name);
        if (osc.matches()) {
            List<Lengths> lengths = read("osc-lengths.csv", 0);
            return new Workload(name, osc.group(1) == null ? lengths : scaled(lengths, Integer.parseInt(osc.group(1))));
        }
        return switch (name) {
            case "azure-code" -> new Workload(name, read("AzureLLMInferenceTrace_code.csv", 1));
            case "azure-conv" -> new Workload(name, read("AzureLLMInferenceTrace_conv.csv", 1));
            case "reasoning" -> new Workload(name, reasoning(random));
            default ->
                throw new ConfigurationException("--workload " + name
                        + " is not known; use synthetic:IN/OUT, prefix:SHARED/OWN/OUT[/TURNS], osc,"
                        + " osc:MEAN_OUT, azure-code, azure-conv or reasoning");
        };
    }

    /** The lengths of the request at {@code index}; the list repeats. */
    public Lengths request(int index) {
        return lengths.get(index % lengths.size());
    }

    /** The lengths of a turn of the conversation that begins with the request at {@code index}; turns count from 0. */
    public Lengths turn(int index, int turn) {
        Lengths first = request(index);
        int grown = turn * (first.prompt() - sharedPrompt + first.output());
        return new Lengths(first.prompt() + grown, first.output());
    }

    /**
     * This workload, for a benchmark that keeps requests in progress and so has no time between turns.
     *
     * @throws ConfigurationException when conversations have several turns
     */
    public Workload ofSingleRequests(String remedy) {
        if (turns > 1) {
            throw new ConfigurationException("--workload " + name + " has conversations of " + turns
                    + " turns, which need requests that arrive at a rate; " + remedy);
        }
        return this;
    }

    /**
     * Draws requests as they stand in the middle of a closed loop, each with what it still has to do: a prompt of
     * {@code prompt + done} tokens and {@code output - done} of output. Each draw is a uniformly random output token of
     * the whole list: its request, at its place. So a request is drawn in proportion to its output, and its progress is
     * uniform in {@code [0, output)}. That is the stationary distribution of a loop in which each request that ends is
     * replaced and all tokens take equally long, because a request is in progress for as many steps as it has output.
     * Without that weight too few requests would be long, and too many would end early in the window.
     *
     * @param seed of the draws; equal seeds give equal requests
     */
    public List<Lengths> inProgress(int count, long seed) {
        long[] ends = new long[lengths.size()];
        long total = 0;
        for (int i = 0; i < ends.length; i++) {
            total += lengths.get(i).output();
            ends[i] = total;
        }
        SplittableRandom random = new SplittableRandom(seed);
        List<Lengths> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long token = random.nextLong(total);
            int found = Arrays.binarySearch(ends, token + 1);
            int at = found >= 0 ? found : -found - 1; // of the first end beyond the token
            Lengths whole = lengths.get(at);
            int left = (int) (ends[at] - token);
            requests.add(new Lengths(whole.prompt() + whole.output() - left, left));
        }
        return requests;
    }

    /** Mean tokens of KV that a request holds while it runs: its prompt and half of its output. */
    public double meanTokensHeld() {
        return meanTokensHeld(AttentionSpan.WHOLE);
    }

    /** The same for a model whose layers have sliding windows; a mean over the layers. */
    public double meanTokensHeld(AttentionSpan span) {
        return lengths.stream()
                .mapToDouble(l -> span.meanTokens(l.prompt(), l.prompt() + l.output()))
                .average()
                .orElseThrow();
    }

    /** Mean tokens of a prompt. */
    public double meanPrompt() {
        return lengths.stream().mapToInt(Lengths::prompt).average().orElseThrow();
    }

    /** Prompt tokens per output token, on average. */
    public double promptFraction() {
        long prompt = lengths.stream().mapToLong(Lengths::prompt).sum();
        long output = lengths.stream().mapToLong(Lengths::output).sum();
        return (double) prompt / output;
    }

    private static Workload prefix(String name, int shared, int own, int out, int turns) {
        if (own < 1 || out < 1 || turns < 1) {
            throw new ConfigurationException("--workload " + name + ": each request needs at least 1 token of its own"
                    + " prompt, and 1 of output; a conversation needs at least 1 turn");
        }
        return new Workload(name, List.of(new Lengths(shared + own, out)), shared, turns);
    }

    private static List<Lengths> synthetic(int in, int out, SplittableRandom random) {
        if (in < 1 || out < 1) {
            throw new ConfigurationException(
                    "--workload synthetic:" + in + "/" + out + ": both lengths must be at least 1");
        }
        List<Lengths> lengths = new ArrayList<>();
        for (int i = 0; i < SAMPLES; i++) {
            lengths.add(new Lengths(around(in, random), around(out, random)));
        }
        return lengths;
    }

    private static int around(int mean, SplittableRandom random) {
        return Math.max(1, (int) Math.round(mean * (1 - SPREAD + 2 * SPREAD * random.nextDouble())));
    }

    private static List<Lengths> reasoning(SplittableRandom random) {
        List<Lengths> lengths = new ArrayList<>();
        for (int i = 0; i < SAMPLES; i++) {
            lengths.add(new Lengths(random.nextInt(200, 501), random.nextInt(1_000, 4_001)));
        }
        return lengths;
    }

    private static List<Lengths> scaled(List<Lengths> lengths, int meanOutput) {
        double mean = lengths.stream().mapToInt(Lengths::output).average().orElseThrow();
        return lengths.stream()
                .map(l -> new Lengths(l.prompt(), Math.max(1, (int) Math.round(l.output() * meanOutput / mean))))
                .toList();
    }

    /**
     * Reads lengths from a CSV resource with a header line.
     *
     * @param column the index of the prompt's length; the output's follows it
     */
    private static List<Lengths> read(String file, int column) {
        try (BufferedReader reader = new BufferedReader(
                new InputStreamReader(Workload.class.getResourceAsStream(file), StandardCharsets.UTF_8))) {
            return reader.lines()
                    .skip(1)
                    .filter(line -> !line.isBlank())
                    .map(line -> line.split(","))
                    .map(cells -> new Lengths(
                            Math.max(1, Integer.parseInt(cells[column].strip())),
                            Math.max(1, Integer.parseInt(cells[column + 1].strip()))))
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
