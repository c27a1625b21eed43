package dev.tandem.spring;

import dev.tandem.library.Device;
import dev.tandem.library.LoadOptions;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * How the model is loaded. Properties have the names of {@code tandem serve}'s options. Their descriptions are shown by
 * IDEs.
 *
 * @param model GGUF file, Hugging Face directory, ORG/NAME[@REVISION][:TAG] on the hub, or short name; without one, a
 *     small model that is fetched once.
 * @param device Where the model runs.
 * @param maxModelLen Max tokens of one request, prompt and answer together.
 * @param kvCacheMemory Memory for KV beside the computing.
 * @param hostKv Memory of the host's KV pool.
 * @param threads Compute threads of the CPU.
 * @param further Options of tandem serve as on the command line, such as --max-num-seqs,8.
 * @param shutdownTimeout How long answers may take to end when the application shuts down.
 * @param chat Defaults of prompts without options.
 */
@ConfigurationProperties("tandem")
public record TandemProperties(
        @Nullable String model,
        @DefaultValue("auto") Device device,
        @Nullable Integer maxModelLen,
        @Nullable DataSize kvCacheMemory,
        @Nullable DataSize hostKv,
        @Nullable Integer threads,
        @DefaultValue List<String> further,
        @DefaultValue("30s") Duration shutdownTimeout,
        @DefaultValue Chat chat) {
    /**
     * Defaults of prompts without options; what is left out has the model's own default.
     *
     * @param temperature Randomness of the answer; 0 takes the most probable token each time.
     * @param topP Samples from the most probable tokens that have this part of the probability.
     * @param topK Samples from this many most probable tokens.
     * @param presencePenalty Penalty of tokens that the answer has already.
     * @param frequencyPenalty Penalty of tokens by how often the answer has them.
     * @param seed Makes answers reproducible.
     * @param maxTokens Max tokens of an answer.
     */
    public record Chat(
            @Nullable Double temperature,
            @Nullable Double topP,
            @Nullable Integer topK,
            @Nullable Double presencePenalty,
            @Nullable Double frequencyPenalty,
            @Nullable Long seed,
            @Nullable Integer maxTokens) {
        TandemChatOptions options() {
            return TandemChatOptions.builder()
                    .temperature(temperature)
                    .topP(topP)
                    .topK(topK)
                    .presencePenalty(presencePenalty)
                    .frequencyPenalty(frequencyPenalty)
                    .seed(seed)
                    .maxTokens(maxTokens)
                    .build();
        }
    }

    LoadOptions loadOptions() {
        LoadOptions options = model == null ? LoadOptions.defaults() : LoadOptions.of(model);
        options = options.withDevice(device).withFurther(further.toArray(String[]::new));
        if (maxModelLen != null) {
            options = options.withContextTokens(maxModelLen);
        }
        if (kvCacheMemory != null) {
            options = options.withKvBytes(kvCacheMemory.toBytes());
        }
        if (hostKv != null) {
            options = options.withHostKvBytes(hostKv.toBytes());
        }
        return threads == null ? options : options.withThreads(threads);
    }
}
