package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenSink;
import java.util.SplittableRandom;

/**
 * Makes greedy requests of random tokens that ignore the end of the text. A request that is longer than the context is
 * cut to it.
 *
 * <p>Thread-safe.
 */
final class RandomRequests {
    private static final int FIRST_TOKEN_ID = 3;

    private final String name;
    private final int contextTokens;
    private final int vocabulary;
    private final SplittableRandom random;
    /** The tokens with which all prompts of the workload begin. */
    private final int[] sharedPrompt;

    private int made;
    private int cut;

    /**
     * Requests for an engine of these limits.
     *
     * @param name with which all ids begin; no live request of the engine may have such an id
     * @param contextTokens max tokens of a request, prompt and output
     * @param sharedPrompt number of tokens with which all prompts that are longer begin
     * @param seed of the tokens
     */
    RandomRequests(String name, int contextTokens, int vocabulary, int sharedPrompt, long seed) {
        this.name = name;
        this.contextTokens = contextTokens;
        this.vocabulary = vocabulary;
        this.random = new SplittableRandom(seed);
        this.sharedPrompt = new SplittableRandom(seed + 1)
                .ints(sharedPrompt, FIRST_TOKEN_ID, vocabulary)
                .toArray();
    }

    /** Requests for an engine, with the shared prompt of a workload. */
    static RandomRequests of(Engine engine, String name, Workload workload, long seed) {
        return new RandomRequests(
                name, engine.config().contextTokens(), engine.limits().vocabulary(), workload.sharedPrompt(), seed);
    }

    /** Makes a request whose events go to the sink. */
    synchronized Request request(Lengths lengths, TokenSink sink) {
        int prompt = Math.min(lengths.prompt(), contextTokens - 1);
        cut += lengths.prompt() + lengths.output() > contextTokens ? 1 : 0;
        int[] tokens = random.ints(prompt, FIRST_TOKEN_ID, vocabulary).toArray();
        if (prompt > sharedPrompt.length) { // else it is of the warm-up
            System.arraycopy(sharedPrompt, 0, tokens, 0, sharedPrompt.length);
        }
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(Math.max(1, Math.min(lengths.output(), contextTokens - prompt)))
                .ignoreEos(true)
                .build();
        return new Request(name + "-" + made++, tokens, sampling, 0, TextDecoder.none(), sink);
    }

    /** Number of requests that were cut to the context. */
    synchronized int cut() {
        return cut;
    }
}
