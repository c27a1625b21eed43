package dev.tandem.bench.load.http;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Sources of prompts: the prompt of the request at an index, equal for equal seeds. */
public final class Prompts {
    /** Prompt and output tokens of a request. */
    public record Lengths(int prompt, int output) {}

    /** Ids that the vocabularies of all common models have; lower ones are often special tokens. */
    private static final int FIRST_ID = 1_000;

    private static final int LAST_ID = 30_000;

    /** Words that common tokenizers have as one token each. */
    private static final String[] WORDS =
            ("time year people way day man thing woman life child world school state family"
                            + " student group country problem hand part place case week company system program"
                            + " question work government number night point home water room mother area money"
                            + " story fact month lot right study book eye job word business issue side kind"
                            + " head house service friend father power hour game line end member law car city"
                            + " community name president team minute idea body information")
                    .split(" ");

    private static final int CHARACTERS_PER_TOKEN = 4;

    /** In place of a request's index: what all requests share. Lower numbers are later turns of conversations. */
    private static final int SHARED = -1;

    private Prompts() {}

    /**
     * Random token ids of given lengths.
     *
     * @param shared tokens with which all prompts begin
     */
    public static IntFunction<Prompt> tokens(IntFunction<Lengths> lengths, int shared, long seed) {
        int[] start = random(seed, SHARED).ints(shared, FIRST_ID, LAST_ID).toArray();
        return index -> {
            Lengths length = lengths.apply(index);
            int[] ids =
                    random(seed, index).ints(length.prompt(), FIRST_ID, LAST_ID).toArray();
            System.arraycopy(start, 0, ids, 0, Math.min(shared, ids.length));
            return new Prompt(new Prompt.Content.Tokens(ids), length.prompt(), length.output());
        };
    }

    /**
     * Random common words, one per token of the given lengths; a server counts a few tokens more.
     *
     * @param shared words with which all prompts begin
     */
    public static IntFunction<Prompt> words(IntFunction<Lengths> lengths, int shared, long seed) {
        return index -> {
            Lengths length = lengths.apply(index);
            SplittableRandom common = random(seed, SHARED);
            SplittableRandom random = random(seed, index);
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < length.prompt(); i++) {
                SplittableRandom source = i < shared ? common : random;
                text.append(i == 0 ? "" : " ").append(WORDS[source.nextInt(WORDS.length)]);
            }
            return new Prompt(new Prompt.Content.Text(text.toString()), length.prompt(), length.output());
        };
    }

    /**
     * Conversations in random common words, one per token of the given lengths.
     *
     * @param first of the first prompt and each answer
     * @param shared words with which all conversations begin
     * @param turns requests per conversation; each but the first adds as many words as the first has of its own
     */
    public static Conversations conversations(Lengths first, int shared, int turns, long seed) {
        int own = first.prompt() - shared;
        return new Conversations(
                words(index -> first, shared, seed),
                turns,
                (conversation, turn) -> {
                    SplittableRandom random = random(seed, SHARED - conversation * turns - turn);
                    return IntStream.range(0, own)
                            .mapToObj(i -> WORDS[random.nextInt(WORDS.length)])
                            .collect(Collectors.joining(" "));
                },
                own);
    }

    private static SplittableRandom random(long seed, int index) {
        return new SplittableRandom(seed * 1_000_003 + index);
    }

    /**
     * Reads prompts from a file with one JSON object per line: {@code prompt}, and {@code output_tokens} where it
     * differs from the default.
     *
     * @throws ConfigurationException that names the file, the line and what is wrong
     */
    public static IntFunction<Prompt> custom(Path file, int outputTokens) {
        ObjectMapper mapper = new ObjectMapper();
        List<Prompt> prompts = new ArrayList<>();
        List<String> lines = lines(file);
        for (int i = 0; i < lines.size(); i++) {
            if (lines.get(i).isBlank()) {
                continue;
            }
            try {
                JsonNode line = mapper.readTree(lines.get(i));
                String text = line.path("prompt").asString("");
                if (text.isEmpty()) {
                    throw new ConfigurationException("line " + (i + 1) + " of " + file
                            + " has no text under \"prompt\"; each line must be an object with one");
                }
                prompts.add(text(text, line.path("output_tokens").asInt(outputTokens)));
            } catch (JacksonException e) {
                throw new ConfigurationException(
                        "line " + (i + 1) + " of " + file + " is not a JSON object: " + e.getOriginalMessage(), e);
            }
        }
        return repeating(file, prompts);
    }

    /**
     * Reads conversations in ShareGPT's format: the first message is the prompt, and the second one's length is the
     * number of output tokens, estimated at four characters per token.
     *
     * @param outputTokens replaces the second message's length; 0 to keep it
     * @throws ConfigurationException when the file is not a JSON array of conversations
     */
    public static IntFunction<Prompt> shareGpt(Path file, int outputTokens) {
        List<Prompt> prompts = new ArrayList<>();
        try {
            for (JsonNode entry : new ObjectMapper().readTree(String.join("\n", lines(file)))) {
                JsonNode turns = entry.path("conversations");
                String question = turns.path(0).path("value").asString("");
                String answer = turns.path(1).path("value").asString("");
                if (!question.isEmpty() && !answer.isEmpty()) {
                    int length = outputTokens > 0 ? outputTokens : estimate(answer);
                    prompts.add(text(question, length));
                }
            }
        } catch (JacksonException e) {
            throw new ConfigurationException(
                    file + " is not a JSON array of conversations: " + e.getOriginalMessage(), e);
        }
        return repeating(file, prompts);
    }

    private static Prompt text(String text, int outputTokens) {
        return new Prompt(new Prompt.Content.Text(text), estimate(text), outputTokens);
    }

    private static int estimate(String text) {
        return Math.max(1, text.length() / CHARACTERS_PER_TOKEN);
    }

    private static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file);
        } catch (IOException e) {
            throw new ConfigurationException("--dataset-path " + file + " cannot be read: " + e, e);
        }
    }

    private static IntFunction<Prompt> repeating(Path file, List<Prompt> prompts) {
        if (prompts.isEmpty()) {
            throw new ConfigurationException("--dataset-path " + file + " has no prompts; name another file");
        }
        return index -> prompts.get(index % prompts.size());
    }
}
