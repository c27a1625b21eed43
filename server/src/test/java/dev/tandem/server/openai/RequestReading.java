package dev.tandem.server.openai;

import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.server.FakeTokenizer;
import dev.tandem.text.ChatTemplate;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;

/** Reads a body as the handlers do before they submit it to the engine; for the fuzz target. */
public final class RequestReading {
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}"
            + "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";

    private RequestReading() {}

    public static void read(byte[] body) {
        for (ApiFields.Endpoint endpoint : ApiFields.Endpoint.values()) {
            read(body, endpoint);
        }
    }

    private static void read(byte[] body, ApiFields.Endpoint endpoint) {
        FakeTokenizer tokenizer = new FakeTokenizer();
        // no engine: nothing is generated
        ServedModel model = new ServedModel(
                "fake",
                null,
                tokenizer,
                Optional.of(new ChatTemplate(TEMPLATE, "", "")),
                ServedModel.SamplingDefaults.NEUTRAL,
                GrammarCompiler.unavailable("no grammars"),
                CacheSaltFrom.NONE);
        PromptReader promptReader = new PromptReader(tokenizer, 1000);
        RequestParser parser = new RequestParser(promptReader);
        RequestFields fields = parser.parse(new ByteArrayInputStream(body), endpoint);
        ModelName.check(fields, model);
        switch (endpoint) {
            case CHAT -> {
                ToolUse tools = ToolFields.read(fields, ToolList.CHAT, model);
                new ChatPrompt(model, promptReader, parser).read(fields, tools, GrammarFields.read(fields, parser));
                sampling(fields, parser, "max_completion_tokens");
            }
            case COMPLETIONS -> sampling(fields, parser, "max_tokens");
            case MESSAGES, COUNT_TOKENS -> {
                GrammarFields.readOutput(fields, parser);
                ReasoningFields.Thinking thinking = ReasoningFields.thinking(fields, model);
                new MessagesPrompt(new ChatPrompt(model, promptReader, parser))
                        .read(fields, MessagesTools.read(fields, model), ReasoningFields.variables(thinking, model));
            }
            case RESPONSES -> {
                ArrayNode conversation = new ObjectMapper().createArrayNode();
                ResponsesPrompt.append(conversation, fields);
                new ChatPrompt(model, promptReader, parser)
                        .read(
                                "input",
                                ResponsesPrompt.withInstructions(conversation, "instructions"),
                                ToolFields.read(fields, ToolList.RESPONSES, model)
                                        .definitions(),
                                false,
                                ReasoningFields.responsesVariables(
                                        fields, model, GrammarFields.readText(fields, parser)));
            }
            case TOKENIZE -> {
                if (fields.field("messages").isPresent()) {
                    ToolUse tools = ToolFields.read(fields, ToolList.CHAT, model);
                    new ChatPrompt(model, promptReader, parser).read(fields, tools, Optional.empty());
                } else {
                    promptReader.encode("prompt", fields.text("prompt").orElse(""), true);
                }
            }
            case DETOKENIZE ->
                fields.field("tokens").ifPresent(list -> list.forEach(token -> RequestFields.whole("tokens", token)));
        }
    }

    private static void sampling(RequestFields fields, RequestParser parser, String maxTokens) {
        GrammarFields.read(fields, parser);
        SamplingFields.choices(fields);
        SamplingFields.targets(fields);
        StreamFields.read(fields, false);
        SamplingFields.read(fields, ServedModel.SamplingDefaults.NEUTRAL, fields.integer(maxTokens), maxTokens, -1);
    }

    /** An error as the client gets it. */
    public static byte[] error(String message, String parameter) {
        return ApiErrors.node(400, message, parameter).toString().getBytes(StandardCharsets.UTF_8);
    }
}
