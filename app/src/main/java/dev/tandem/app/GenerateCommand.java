package dev.tandem.app;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.StreamingDetokenizer;
import dev.tandem.text.Tokenizer;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Runs {@code generate}: answers one prompt and streams the answer to the terminal. */
@Section(Section.Heading.COMMAND)
@Command(
        name = "generate",
        mixinStandardHelpOptions = true,
        description = "Answers one prompt and streams the text to the terminal.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem generate --prompt 'What is the capital of France?'",
            "  tandem generate my-model/ --raw --prompt 'Once upon a time' --temperature 0.8"
        })
final class GenerateCommand implements Callable<Integer> {
    private static final int DEFAULT_TOKENS = 256;

    @Mixin
    ModelOptions options = new ModelOptions();

    @Option(
            names = {"-p", "--prompt"},
            required = true,
            paramLabel = "TEXT",
            description = "The text to answer. Required.")
    String prompt = "";

    @Option(names = "--raw", description = "Continue the text as it is, without the chat template. Default: off.")
    boolean raw;

    @Option(
            names = "--max-tokens",
            paramLabel = "TOKENS",
            description =
                    "Max tokens of the answer. Default: 256, or fewer where the prompt leaves less of the context.")
    Optional<Integer> maxTokens = Optional.empty();

    @Option(
            names = "--temperature",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Temperature of sampling; 0 takes the most likely token. Default: ${DEFAULT-VALUE}.")
    double temperature;

    @Option(
            names = "--top-p",
            paramLabel = "FRACTION",
            defaultValue = "1",
            description = "Sample from the most likely tokens that have this fraction of the probability."
                    + " Default: ${DEFAULT-VALUE}.")
    double topP;

    @Option(
            names = "--top-k",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Sample from this many most likely tokens; 0 for all. Default: ${DEFAULT-VALUE}.")
    int topK;

    private SamplingParams sampling(int tokens) {
        return SamplingParams.builder()
                .temperature(temperature)
                .topP(topP)
                .topK(topK)
                .maxTokens(tokens)
                .build();
    }

    @Override
    public Integer call() throws InterruptedException {
        sampling(maxTokens.orElse(DEFAULT_TOKENS)); // refuses a bad value before the model is loaded
        StartLog log = new StartLog(System.err, false);
        try (EngineAssembly assembly =
                EngineAssembly.start(options, EngineAssembly.Use.GENERATE, EngineListener.NONE, log)) {
            log.printSummary();
            Tokenizer tokenizer = assembly.tokenizer().orElseThrow();
            int[] tokens = promptTokens(tokenizer, assembly.template());
            BlockingQueue<TokenEvent> events = new LinkedBlockingQueue<>();
            int room = Math.clamp(assembly.engine().config().contextTokens() - tokens.length, 1, DEFAULT_TOKENS);
            SamplingParams sampling = sampling(maxTokens.orElse(room));
            StreamingDetokenizer detokenizer = new StreamingDetokenizer(tokenizer.vocabulary(), true);
            assembly.engine()
                    .submit(new Request(
                            "generate",
                            tokens,
                            sampling,
                            0,
                            TextDecoder.of(detokenizer::append, detokenizer::finish),
                            events::add));
            return print(events);
        }
    }

    private int[] promptTokens(Tokenizer tokenizer, Optional<ChatTemplate> template) {
        if (raw || template.isEmpty()) {
            return tokenizer.encode(prompt, true);
        }
        String text =
                template.get().render(List.of(Map.of("role", "user", "content", prompt)), List.of(), true, Map.of());
        return tokenizer.encode(text, false);
    }

    private static int print(BlockingQueue<TokenEvent> events) throws InterruptedException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        while (true) {
            switch (events.take()) {
                case TokenEvent.Token token -> {
                    out.print(token.text());
                    out.flush();
                }
                case TokenEvent.Finished finished -> {
                    out.println(finished.text());
                    var usage = finished.usage();
                    double decode = (usage.total() - usage.timeToFirstToken()) / 1e9;
                    System.err.printf(
                            Locale.ROOT,
                            "%d prompt tokens, first token after %.0f ms, %d tokens at %.1f per second%n",
                            usage.promptTokens(),
                            usage.timeToFirstToken() / 1e6,
                            usage.completionTokens(),
                            Math.max(0, usage.completionTokens() - 1) / decode);
                    return 0;
                }
                case TokenEvent.Failed failed -> {
                    System.err.println(failed.message());
                    return 1;
                }
            }
        }
    }
}
