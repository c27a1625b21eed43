package dev.tandem.text.answer;

import dev.tandem.text.ChatTemplate;
import java.util.List;
import java.util.Optional;

/** How a model marks its reasoning. */
public enum ReasoningFormat {
    /** Qwen 3, DeepSeek R1 and others: between {@code <think>} and {@code </think>}. */
    THINK("<think>", "</think>", "\n</think>\n\n"),
    /** Gemma 4: a channel named {@code thought}. */
    GEMMA("<|channel>thought", "<channel|>", "\n<channel|>"),
    /** gpt-oss: the channel {@code analysis}. */
    HARMONY("<|channel|>analysis<|message|>", "<|end|>", "<|end|><|start|>assistant<|channel|>final<|message|>");

    private final String begin;
    private final String end;
    private final String ending;

    ReasoningFormat(String begin, String end, String ending) {
        this.begin = begin;
        this.end = end;
        this.ending = ending;
    }

    /** The marker that begins reasoning. */
    public String begin() {
        return begin;
    }

    /** The marker that ends reasoning. */
    public String end() {
        return end;
    }

    /** The text that ends reasoning and begins the answer, for a model that has reasoned long enough. */
    public String ending() {
        return ending;
    }

    /** Whether a prompt that ends with this text has begun the reasoning. */
    public boolean isOpenAfter(String promptEnd) {
        return promptEnd.stripTrailing().endsWith(begin);
    }

    /** The format that the template shows; empty when it shows no reasoning. */
    public static Optional<ReasoningFormat> of(ChatTemplate template) {
        if (template.mentions("<|channel|>")) {
            return Optional.of(HARMONY);
        }
        if (template.mentions("<|channel>")) {
            return Optional.of(GEMMA);
        }
        return template.mentions(THINK.end) ? Optional.of(THINK) : Optional.empty();
    }

    /** Texts that the parser needs, even where they are special tokens. */
    List<String> markers() {
        return switch (this) {
            case THINK -> List.of(begin, end);
            case GEMMA -> List.of("<|channel>", end);
            case HARMONY -> HarmonyStage.MARKERS;
        };
    }

    /** The stage that splits off reasoning; the answer goes to {@code next}. */
    Stage stage(PartBuffer parts, boolean open, Stage next) {
        return switch (this) {
            case THINK, GEMMA -> new ReasoningStage(parts, begin, end, open, next);
            case HARMONY -> next;
        };
    }
}
