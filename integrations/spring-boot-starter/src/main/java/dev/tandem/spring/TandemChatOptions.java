package dev.tandem.spring;

import dev.tandem.library.ToolChoice;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.model.tool.DefaultToolCallingChatOptions;
import org.springframework.ai.model.tool.StructuredOutputChatOptions;
import org.springframework.ai.model.tool.ToolCallingChatOptions;

/**
 * Options of one request to a {@link TandemChatModel}. What is null has the default that the model's authors recommend,
 * or else that of OpenAI's API.
 */
public final class TandemChatOptions extends DefaultToolCallingChatOptions implements StructuredOutputChatOptions {
    private final @Nullable Long seed;
    private final @Nullable ToolChoice toolChoice;
    private final @Nullable String outputSchema;

    private TandemChatOptions(
            ToolCallingChatOptions common,
            @Nullable Long seed,
            @Nullable ToolChoice toolChoice,
            @Nullable String outputSchema) {
        super(
                common.getToolCallbacks(),
                common.getToolContext(),
                common.getModel(),
                common.getFrequencyPenalty(),
                common.getMaxTokens(),
                common.getPresencePenalty(),
                common.getStopSequences(),
                common.getTemperature(),
                common.getTopK(),
                common.getTopP());
        this.seed = seed;
        this.toolChoice = toolChoice;
        this.outputSchema = outputSchema;
    }

    /** A builder that leaves everything to the defaults. */
    public static Builder builder() {
        return new Builder();
    }

    /** Makes the answer reproducible. */
    public @Nullable Long getSeed() {
        return seed;
    }

    /** Whether the answer calls tools; null lets the model decide. */
    public @Nullable ToolChoice getToolChoice() {
        return toolChoice;
    }

    /** The JSON schema of the answer; null for any text. */
    @Override
    public @Nullable String getOutputSchema() {
        return outputSchema;
    }

    @Override
    public Builder mutate() {
        return builder()
                .model(getModel())
                .frequencyPenalty(getFrequencyPenalty())
                .maxTokens(getMaxTokens())
                .presencePenalty(getPresencePenalty())
                .stopSequences(getStopSequences())
                .temperature(getTemperature())
                .topK(getTopK())
                .topP(getTopP())
                .toolCallbacks(getToolCallbacks())
                .toolContext(getToolContext())
                .seed(seed)
                .toolChoice(toolChoice)
                .outputSchema(outputSchema);
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return super.equals(other)
                && other instanceof TandemChatOptions that
                && Objects.equals(seed, that.seed)
                && Objects.equals(toolChoice, that.toolChoice)
                && Objects.equals(outputSchema, that.outputSchema);
    }

    @Override
    public int hashCode() {
        return Objects.hash(super.hashCode(), seed, toolChoice, outputSchema);
    }

    /**
     * Sets options one by one.
     *
     * <p>Owned by: the thread that builds.
     */
    public static final class Builder extends DefaultToolCallingChatOptions.Builder<Builder>
            implements StructuredOutputChatOptions.Builder<Builder> {
        private @Nullable Long seed;
        private @Nullable ToolChoice toolChoice;
        private @Nullable String outputSchema;

        private Builder() {}

        /** Sets {@link TandemChatOptions#getSeed}. */
        public Builder seed(@Nullable Long value) {
            seed = value;
            return this;
        }

        /** Sets {@link TandemChatOptions#getToolChoice}. */
        public Builder toolChoice(@Nullable ToolChoice value) {
            toolChoice = value;
            return this;
        }

        /** Sets {@link TandemChatOptions#getOutputSchema}. */
        @Override
        public Builder outputSchema(@Nullable String value) {
            outputSchema = value;
            return this;
        }

        @Override
        public Builder combineWith(ChatOptions.Builder<?> other) {
            super.combineWith(other);
            if (other instanceof Builder that) {
                seed = that.seed == null ? seed : that.seed;
                toolChoice = that.toolChoice == null ? toolChoice : that.toolChoice;
                outputSchema = that.outputSchema == null ? outputSchema : that.outputSchema;
            }
            return this;
        }

        @Override
        public TandemChatOptions build() {
            return new TandemChatOptions(super.build(), seed, toolChoice, outputSchema);
        }
    }
}
