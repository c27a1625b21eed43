package dev.tandem.text.answer;

import dev.tandem.text.ChatTemplate;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/**
 * How a model writes what an answer has besides its text.
 *
 * <p>Owned by: any thread, immutable.
 *
 * @param calls how it writes tool calls; empty when it writes none that a parser knows
 * @param reasoning how it marks reasoning; empty when it does not reason
 */
public record AnswerFormat(Optional<ToolCallFormat> calls, Optional<ReasoningFormat> reasoning) {
    /** Answers that are text alone. */
    public static final AnswerFormat TEXT = new AnswerFormat(Optional.empty(), Optional.empty());

    /** The format that a model's chat template shows. */
    public static AnswerFormat of(ChatTemplate template) {
        return new AnswerFormat(ToolCallFormat.of(template), ReasoningFormat.of(template));
    }

    /** Whether an answer is messages in harmony's channels, so that reasoning, text and calls never mix. */
    public boolean hasChannels() {
        return reasoning.equals(Optional.of(ReasoningFormat.HARMONY))
                && calls.stream().allMatch(ToolCallFormat.HARMONY::equals);
    }

    /** The same format with other tool calls. */
    public AnswerFormat withCalls(Optional<ToolCallFormat> other) {
        return new AnswerFormat(other, reasoning);
    }

    /**
     * Texts that the parser needs in the text, even where they are special tokens.
     *
     * @param mayCall whether the request has tools
     */
    public Set<String> markers(boolean mayCall) {
        Set<String> markers = new HashSet<>();
        reasoning.ifPresent(format -> markers.addAll(format.markers()));
        calls.filter(format -> mayCall).ifPresent(format -> markers.addAll(format.markers()));
        return markers;
    }

    /**
     * A parser of one answer.
     *
     * @param tools names of the request's tools; with none, text that looks like a call is content
     * @param parallel whether calls after the first are kept
     * @param promptEnd the end of the prompt, at least as long as a marker: it may have begun the reasoning
     */
    public AnswerParser parser(Set<String> tools, boolean parallel, String promptEnd) {
        boolean mayCall = !tools.isEmpty() && calls.isPresent();
        PartBuffer parts = new PartBuffer(mayCall, parallel);
        Stage answer = mayCall
                ? calls.get().stage(parts, tools)
                : reasoning.filter(ReasoningFormat.HARMONY::equals).isPresent()
                        ? new HarmonyStage(parts, false)
                        : new ContentStage(parts);
        return new AnswerParser(
                parts,
                reasoning
                        .map(format -> format.stage(parts, format.isOpenAfter(promptEnd), answer))
                        .orElse(answer));
    }
}
