package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import tools.jackson.databind.JsonNode;

/** Reads the sampling parameters that chat and completions share. */
final class SamplingFields {
    private static final int MAX_CHOICES = 128;

    private SamplingFields() {}

    /**
     * @param maxTokens read by the endpoint, as logprobs is: names and defaults differ between the endpoints
     * @param maxTokensField name of the field that maxTokens was read from
     */
    static SamplingParams read(
            RequestFields fields,
            ServedModel.SamplingDefaults defaults,
            OptionalInt maxTokens,
            String maxTokensField,
            int logprobs) {
        SamplingParams.Builder sampling = SamplingParams.builder()
                .temperature(fields.number("temperature", defaults.temperature()))
                .topP(fields.number("top_p", defaults.topP()))
                .topK(fields.integer("top_k", defaults.topK()))
                .minP(fields.number("min_p", 0))
                .repetitionPenalty(fields.number("repetition_penalty", defaults.repetitionPenalty()))
                .presencePenalty(fields.number("presence_penalty", 0))
                .frequencyPenalty(fields.number("frequency_penalty", 0))
                .logitBias(logitBias(fields))
                .maxTokens(maxTokens)
                .maxTokensField(maxTokensField)
                .minTokens(fields.integer("min_tokens", 0))
                .stop(stop(fields))
                .includeStop(fields.flag("include_stop_str_in_output", false))
                .stopTokenIds(stopTokenIds(fields))
                .ignoreEos(fields.flag("ignore_eos", false))
                .logprobs(logprobs);
        fields.wholeLong("seed").ifPresent(sampling::seed);
        return sampling.build();
    }

    /** {@code ttft_target} and {@code tpot_target}, in milliseconds: Tandem's own fields, which guide placement. */
    static LatencyTargets targets(RequestFields fields) {
        return new LatencyTargets(nanos(fields, "ttft_target"), nanos(fields, "tpot_target"));
    }

    private static long nanos(RequestFields fields, String name) {
        double millis = fields.number(name, 0);
        if (millis < 0) {
            throw RequestException.bad(
                    name, name + " is " + millis + "; it must be a number of milliseconds, 0 for none");
        }
        return (long) (millis * 1e6);
    }

    static int choices(RequestFields fields) {
        int n = fields.integer("n", 1);
        if (n < 1 || n > MAX_CHOICES) {
            throw RequestException.bad("n", "n is " + n + "; it must lie in [1, " + MAX_CHOICES + "]");
        }
        return n;
    }

    private static List<String> stop(RequestFields fields) {
        List<String> stops = new ArrayList<>();
        fields.field("stop").ifPresent(node -> {
            if (node.isArray()) {
                node.forEach(item -> stops.add(RequestFields.string("stop", item)));
            } else {
                stops.add(RequestFields.string("stop", node));
            }
        });
        return stops;
    }

    private static Set<Integer> stopTokenIds(RequestFields fields) {
        Set<Integer> ids = new HashSet<>();
        fields.field("stop_token_ids").ifPresent(node -> {
            if (!node.isArray()) {
                throw RequestFields.wrong("stop_token_ids", node, "a list of integers");
            }
            node.forEach(item -> ids.add(RequestFields.whole("stop_token_ids", item)));
        });
        return ids;
    }

    private static Map<Integer, Float> logitBias(RequestFields fields) {
        Map<Integer, Float> bias = new HashMap<>();
        fields.field("logit_bias").ifPresent(node -> {
            if (!node.isObject()) {
                throw RequestFields.wrong("logit_bias", node, "an object from token id to number");
            }
            node.propertyStream().forEach(entry -> bias.put(tokenId(entry.getKey()), bias(entry.getValue())));
        });
        return bias;
    }

    private static int tokenId(String key) {
        try {
            return Integer.parseInt(key);
        } catch (NumberFormatException e) {
            throw RequestException.bad(
                    "logit_bias", "logit_bias has the name '" + Printable.of(key) + "'; its names must be token ids");
        }
    }

    private static float bias(JsonNode value) {
        if (!value.isNumber()) {
            throw RequestFields.wrong("logit_bias", value, "a number from -100 to 100");
        }
        return (float) value.asDouble();
    }
}
