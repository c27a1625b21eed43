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
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.MissingNode;

/** Reads how long a model may reason: each API has fields of its own. */
final class ReasoningFields {
    private static final String EFFORT = "reasoning_effort";
    private static final String BUDGET = "thinking_token_budget";
    private static final String THINKING = "thinking";
    private static final String THINKING_BUDGET = "thinking.budget_tokens";
    private static final String REASONING = "reasoning";
    private static final String NONE = "none";
    private static final List<String> EFFORTS = List.of(NONE, "minimal", "low", "medium", "high", "xhigh");
    /** The variable by which templates of several families turn reasoning on and off. */
    private static final String SWITCH = "enable_thinking";

    /** Of an API without such a field. */
    static final Budget NO_BUDGET = new Budget("", OptionalInt.empty());

    private ReasoningFields() {}

    /**
     * Max tokens of reasoning.
     *
     * @param field of the request that has them
     * @param tokens empty when there is no limit but that of the answer
     */
    record Budget(String field, OptionalInt tokens) {}

    /**
     * The template's variables for {@code reasoning_effort}.
     *
     * @param demanded what the answer must match: a grammar leaves no room for reasoning, except in channels
     * @throws RequestException when the template has no variable for it, so that it would have no effect, or a grammar
     *     excludes the effort
     */
    static Map<String, Object> variables(
            RequestFields fields, ServedModel model, Optional<GrammarFields.Constraint> demanded) {
        Optional<String> effort = fields.text(EFFORT);
        Map<String, Object> variables = new HashMap<>();
        effort.ifPresent(value -> variables.putAll(variables(EFFORT, value, template(model))));
        demanded.ifPresent(constraint -> forbid(constraint, EFFORT, effort.orElse(NONE), model, variables));
        return variables;
    }

    /** Tells the template not to reason, where it can be told; an effort contradicts the grammar. */
    private static void forbid(
            GrammarFields.Constraint constraint,
            String field,
            String effort,
            ServedModel model,
            Map<String, Object> variables) {
        if (AnswerReading.leavesRoomForReasoning(constraint, model.answers())) {
            return;
        }
        AnswerReading.refuseTogether(constraint.field(), field, !effort.equals(NONE));
        if (template(model).mentions(SWITCH)) {
            variables.put(SWITCH, false);
        }
    }

    private static Map<String, Object> variables(String field, String effort, ChatTemplate template) {
        if (!EFFORTS.contains(effort)) {
            throw RequestException.bad(
                    field,
                    field + " is \"" + Printable.of(effort) + "\"; it must be one of " + String.join(", ", EFFORTS));
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
                    field,
                    field + " is \"" + effort + "\", but the model's chat template cannot change it; leave it out");
        }
        return variables;
    }

    /** Reads {@code thinking_token_budget}. */
    static Budget budget(RequestFields fields, ServedModel model) {
        OptionalInt budget = fields.integer(BUDGET);
        if (budget.isPresent() && budget.getAsInt() < 0) {
            throw RequestException.bad(
                    BUDGET, BUDGET + " is " + budget.getAsInt() + "; it must be 0 or more, or left out for no limit");
        }
        requireReasoning(BUDGET, budget.isPresent(), model);
        return new Budget(BUDGET, budget);
    }

    private static void requireReasoning(String field, boolean isPresent, ServedModel model) {
        if (isPresent && model.answers().reasoning().isEmpty()) {
            throw RequestException.bad(
                    field,
                    field + " is set, but the chat template of " + model.name() + " shows no reasoning;"
                            + " leave it out");
        }
    }

    /**
     * The template's variables for {@code reasoning.effort} of the Responses API.
     *
     * @param demanded what the answer must match: a grammar leaves no room for reasoning, except in channels
     * @throws RequestException when the template cannot express the effort, a summary is demanded, or a grammar
     *     excludes the effort
     */
    static Map<String, Object> responsesVariables(
            RequestFields fields, ServedModel model, Optional<GrammarFields.Constraint> demanded) {
        JsonNode reasoning = fields.field(REASONING).orElse(MissingNode.getInstance());
        Map<String, Object> variables = new HashMap<>(effort(reasoning, model));
        String effort = reasoning.path("effort").asString(NONE);
        demanded.ifPresent(constraint -> forbid(constraint, REASONING + ".effort", effort, model, variables));
        return variables;
    }

    private static Map<String, Object> effort(JsonNode reasoning, ServedModel model) {
        if (!reasoning.isObject() && !reasoning.isMissingNode()) {
            throw RequestFields.wrong(REASONING, reasoning, "an object with effort");
        }
        Map<String, Object> variables = new HashMap<>();
        reasoning.propertyStream().filter(entry -> !entry.getValue().isNull()).forEach(entry -> {
            String field = REASONING + "." + Printable.of(entry.getKey());
            String value = RequestFields.string(field, entry.getValue());
            switch (entry.getKey()) {
                case "effort" -> variables.putAll(variables(field, value, template(model)));
                case "summary", "generate_summary" -> {
                    if (!value.equals("auto")) {
                        throw RequestException.bad(
                                field,
                                field + " is \"" + Printable.of(value)
                                        + "\"; the server summarises no reasoning, so it"
                                        + " must be \"auto\" or left out");
                    }
                }
                default -> throw RequestException.bad(field, field + " is not supported; " + ApiFields.LEAVE_OUT);
            }
        });
        return variables;
    }

    /** {@code thinking} of the Messages API. */
    enum Thinking {
        /** The API's default: the model reasons only where its template cannot stop it. */
        UNSET,
        DISABLED,
        ENABLED
    }

    /** Reads {@code thinking.type}; "adaptive" lets the model reason without a budget. */
    static Thinking thinking(RequestFields fields, ServedModel model) {
        Optional<JsonNode> thinking = fields.field(THINKING);
        if (thinking.isEmpty()) {
            return Thinking.UNSET;
        }
        JsonNode type = thinking.get().path("type");
        Thinking read = switch (type.asString("")) {
            case "disabled" -> Thinking.DISABLED;
            case "enabled", "adaptive" -> Thinking.ENABLED;
            default ->
                throw RequestException.bad(
                        THINKING + ".type",
                        "thinking.type is " + RequestFields.shown(type)
                                + "; it must be \"enabled\", \"adaptive\" or \"disabled\"");
        };
        requireReasoning(THINKING, read == Thinking.ENABLED, model);
        return read;
    }

    /**
     * The template's variables for {@code thinking}.
     *
     * @throws RequestException when it is disabled, but the template always lets the model reason
     */
    static Map<String, Object> variables(Thinking thinking, ServedModel model) {
        boolean switches = template(model).mentions(SWITCH);
        if (thinking == Thinking.DISABLED
                && !switches
                && model.answers().reasoning().isPresent()) {
            throw RequestException.bad(
                    THINKING,
                    "thinking is disabled, but the chat template of " + model.name()
                            + " has no switch for reasoning; leave it out");
        }
        return switches ? Map.of(SWITCH, thinking == Thinking.ENABLED) : Map.of();
    }

    /** Reads {@code thinking.budget_tokens}, which "enabled" must have. */
    static Budget thinkingBudget(RequestFields fields, int maxTokens) {
        Optional<JsonNode> thinking = fields.field(THINKING);
        JsonNode budget = thinking.map(node -> node.path("budget_tokens")).orElse(MissingNode.getInstance());
        boolean needed = thinking.map(node -> node.path("type").asString(""))
                .filter("enabled"::equals)
                .isPresent();
        if (!needed && (budget.isMissingNode() || budget.isNull())) {
            return new Budget(THINKING_BUDGET, OptionalInt.empty());
        }
        int tokens = RequestFields.whole(THINKING_BUDGET, budget);
        if (tokens < 1 || tokens >= maxTokens) {
            throw RequestException.bad(
                    THINKING_BUDGET,
                    THINKING_BUDGET + " is " + tokens + "; it must be at least 1 and less than max_tokens, which is "
                            + maxTokens);
        }
        return new Budget(THINKING_BUDGET, OptionalInt.of(tokens));
    }

    private static ChatTemplate template(ServedModel model) {
        return model.template().orElseThrow(() -> RequestException.bad("", model.missingTemplate()));
    }
}
