package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.answer.ReasoningFormat;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/** Reads {@code reasoning_effort} and {@code thinking_token_budget}. */
final class ReasoningFields {
    private static final String EFFORT = "reasoning_effort";
    static final String BUDGET = "thinking_token_budget";
    private static final String NONE = "none";
    private static final List<String> EFFORTS = List.of(NONE, "minimal", "low", "medium", "high", "xhigh");
    /** The variable by which templates of several families turn reasoning on and off. */
    private static final String SWITCH = "enable_thinking";

    private ReasoningFields() {}

    /**
     * The template's variables for the effort that the request asks for.
     *
     * @throws RequestException when the template has no variable for it, so that it would have no effect
     */
    static Map<String, Object> variables(RequestFields fields, ChatTemplate template) {
        Optional<String> wanted = fields.text(EFFORT);
        if (wanted.isEmpty()) {
            return Map.of();
        }
        String effort = wanted.get();
        if (!EFFORTS.contains(effort)) {
            throw RequestException.bad(
                    EFFORT,
                    EFFORT + " is \"" + Printable.of(effort) + "\"; it must be one of " + String.join(", ", EFFORTS));
        }
        Map<String, Object> variables = new HashMap<>();
        if (template.mentions(EFFORT)) {
            variables.put(EFFORT, effort);
        }
        if (template.mentions(SWITCH)) {
            variables.put(SWITCH, !effort.equals(NONE));
        }
        boolean noEffect = effort.equals(NONE) && ReasoningFormat.of(template).isEmpty();
        if (variables.isEmpty() && !noEffect) {
            throw RequestException.bad(
                    EFFORT,
                    EFFORT + " is \"" + effort + "\", but the model's chat template cannot change it; leave it out");
        }
        return variables;
    }

    /** Max tokens of reasoning; empty when there is no limit but that of the answer. */
    static OptionalInt budget(RequestFields fields, ServedModel model) {
        OptionalInt budget = fields.integer(BUDGET);
        if (budget.isPresent() && budget.getAsInt() < 0) {
            throw RequestException.bad(
                    BUDGET, BUDGET + " is " + budget.getAsInt() + "; it must be 0 or more, or left out for no limit");
        }
        if (budget.isPresent() && model.answers().reasoning().isEmpty()) {
            throw RequestException.bad(
                    BUDGET,
                    BUDGET + " is set, but the chat template of " + model.name() + " shows no reasoning;"
                            + " leave it out");
        }
        return budget;
    }
}
