package dev.tandem.text.answer;

import dev.tandem.text.ChatTemplate;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** How a model writes tool calls. */
public enum ToolCallFormat {
    /** Hermes and Qwen: JSON between {@code <tool_call>} and {@code </tool_call>}. */
    HERMES(List.of(HermesCalls.BEGIN, HermesCalls.END)),
    /** Llama 3: a JSON object is the whole answer. */
    LLAMA3_JSON(List.of(LlamaCalls.TAG)),
    /** Mistral: JSON, or names with JSON, after {@code [TOOL_CALLS]}. */
    MISTRAL(MistralCalls.MARKERS),
    /** Gemma 4 and FunctionGemma: {@code call:name{...}} between markers, in a notation of their own. */
    GEMMA(List.of(
            GemmaCalls.BEGIN.get(0),
            GemmaCalls.BEGIN.get(1),
            GemmaCalls.END.get(0),
            GemmaCalls.END.get(1),
            GemmaArguments.QUOTES.get(0),
            GemmaArguments.QUOTES.get(1))),
    /** gpt-oss: messages with a recipient. */
    HARMONY(HarmonyStage.MARKERS);

    private final List<String> markers;

    ToolCallFormat(List<String> markers) {
        this.markers = markers;
    }

    /** Texts that the parser needs, even where they are special tokens. */
    List<String> markers() {
        return markers;
    }

    /** The format that the template shows; empty when it shows no tools, or in a format without a parser. */
    public static Optional<ToolCallFormat> of(ChatTemplate template) {
        if (!template.mentions("tools")) {
            return Optional.empty();
        }
        if (template.mentions("<|channel|>")) {
            return Optional.of(HARMONY);
        }
        if (GemmaCalls.BEGIN.stream().anyMatch(template::mentions)) {
            return Optional.of(GEMMA);
        }
        if (template.mentions(MistralCalls.BEGIN)) {
            return Optional.of(MISTRAL);
        }
        if (template.mentions(HermesCalls.BEGIN)) {
            // some families put XML between the same markers
            boolean xml = template.mentions("<function=") || template.mentions("<arg_key>");
            return xml ? Optional.empty() : Optional.of(HERMES);
        }
        boolean llama = template.mentions("<|start_header_id|>") && template.mentions("\"parameters\"");
        return llama ? Optional.of(LLAMA3_JSON) : Optional.empty();
    }

    /** The stage that finds calls of these tools. */
    Stage stage(PartBuffer parts, Set<String> tools) {
        return switch (this) {
            case HERMES -> new HermesCalls(parts, tools);
            case LLAMA3_JSON -> new LlamaCalls(parts, tools);
            case MISTRAL -> new MistralCalls(parts);
            case GEMMA -> new GemmaCalls(parts);
            case HARMONY -> new HarmonyStage(parts, true);
        };
    }
}
