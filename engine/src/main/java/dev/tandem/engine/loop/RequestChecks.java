package dev.tandem.engine.loop;

import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import java.util.HashSet;
import java.util.OptionalInt;
import java.util.Set;

/**
 * Checks requests against the model and the configuration before they are queued.
 *
 * <p>Owned by: any thread, immutable.
 */
final class RequestChecks {
    private final EngineConfig config;
    private final ExecutorLimits limits;

    RequestChecks(EngineConfig config, ExecutorLimits limits) {
        this.config = config;
        this.limits = limits;
    }

    /** @throws RequestException that names the parameter and the remedy */
    void check(Request request) {
        checkLength(request);
        for (int token : request.prompt()) { // no stream: one of 8,192 tokens took 66 to 105 µs of each request
            checkToken("prompt", token);
        }
        request.sampling().logitBias().keySet().forEach(token -> checkToken("logit_bias", token));
        request.sampling().stopTokenIds().forEach(token -> checkToken("stop_token_ids", token));
        checkEnds(request.sampling());
        if (request.priority() != 0 && config.schedulingPolicy() == SchedulingPolicy.FCFS) {
            throw RequestException.bad(
                    "priority",
                    "priority is " + request.priority()
                            + " but priority scheduling is not enabled; leave priority out, or start the"
                            + " server with --scheduling-policy priority");
        }
    }

    /** The message uses vLLM's words: clients look for "maximum context length is" and then send less. */
    private void checkLength(Request request) {
        int context = config.contextTokens();
        int prompt = request.prompt().length;
        String limit = "This model's maximum context length is " + context + " tokens. However, you requested ";
        OptionalInt completion = request.sampling().maxTokens();
        if (completion.isPresent() && (long) prompt + completion.getAsInt() > context) {
            throw RequestException.bad(
                    prompt < context ? request.sampling().maxTokensField() : "prompt",
                    limit + ((long) prompt + completion.getAsInt()) + " tokens (" + prompt + " in the messages, "
                            + completion.getAsInt()
                            + " in the completion). Please reduce the length of the messages or completion.");
        }
        if (prompt >= context) {
            throw RequestException.bad(
                    "prompt",
                    limit + prompt + " tokens in the messages, which leaves none for the completion."
                            + " Please reduce the length of the messages.");
        }
    }

    /** Before min_tokens, end and stop tokens are impossible; then some other token must be possible. */
    private void checkEnds(SamplingParams sampling) {
        if (sampling.minTokens() == 0) {
            return;
        }
        Set<Integer> ends = new HashSet<>(config.endTokens());
        ends.addAll(sampling.stopTokenIds());
        if (ends.size() >= limits.vocabulary()) {
            throw RequestException.bad(
                    "stop_token_ids",
                    "min_tokens is " + sampling.minTokens()
                            + " and stop_token_ids with the end-of-sequence tokens name all " + limits.vocabulary()
                            + " tokens of the vocabulary, so no token may come first; leave one of them out");
        }
    }

    private void checkToken(String field, int token) {
        if (token < 0 || token >= limits.vocabulary()) {
            throw RequestException.bad(
                    field,
                    field + " has token id " + token + ", which is not in the vocabulary of " + limits.vocabulary());
        }
    }
}
