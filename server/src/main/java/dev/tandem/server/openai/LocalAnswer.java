package dev.tandem.server.openai;

import dev.tandem.text.answer.AnswerPart;
import java.util.List;
import java.util.Optional;

/**
 * An answer while it is generated, for a reader in the same process.
 *
 * <p>The engine never waits for the reader: parts that nobody has read are kept, as many as the answer may have tokens.
 *
 * <p>Owned by: the reader's thread; any thread may {@link #close} it.
 */
public final class LocalAnswer implements AutoCloseable {
    /**
     * What an answer cost, in tokens.
     *
     * @param prompt of the prompt
     * @param output of the answer
     * @param cached of the prompt, whose KV was in the prefix cache
     * @param reasoning of the answer, which are reasoning
     * @param host of the answer, whose attention the CPU computed beside a GPU
     */
    public record Usage(int prompt, int output, int cached, int reasoning, int host) {}

    private final String id;
    private final AnswerRequest request;
    private final Generation generation;
    private final AnswerStream stream;

    LocalAnswer(String id, AnswerRequest request, Generation generation, AnswerStream stream) {
        this.id = id;
        this.request = request;
        this.generation = generation;
        this.stream = stream;
    }

    /** Waits for the next token, and returns the parts that it completes; a token may complete none. */
    public List<AnswerPart> next() throws InterruptedException {
        return stream.next();
    }

    /** Whether the answer is complete or has failed. */
    public boolean isEnded() {
        return stream.isEnded();
    }

    /** Why the answer failed; empty before its end, and when it did not. */
    public Optional<String> failure() {
        return stream.failure();
    }

    /** Why the answer ended, as OpenAI's API spells it; empty before its end. */
    public String finishReason() {
        return stream.choice().finishReason;
    }

    /** The stop string or stop token that ended the answer; empty for other reasons. */
    public String stopReason() {
        return stream.choice().stopReason;
    }

    /** The id of the call with this index. */
    public String callId(int call) {
        return request.reading().callId("call_", id, call);
    }

    /** What the answer has cost so far; cached tokens are known at the end. */
    public Usage usage() {
        return new Usage(
                request.prompt().length,
                stream.outputTokens(),
                stream.cachedTokens(),
                stream.choice().reasoningTokens(),
                stream.hostTokens());
    }

    /** Ends the generation at the next step; the reader then gets the end of the answer. Any thread may call it. */
    @Override
    public void close() {
        generation.cancel();
    }
}
