package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Points in which Tandem's strategies, the papers and NEO's artifact differ. Each has a name and one value per
 * {@link Fidelity}. {@code docs/concepts/deviations.md} has the reason and the effect of each.
 */
public enum Deviation {
    /** Admission asks whether the tier will hold all of its sequences to their ends (ADR 20). */
    ROOM_TO_GROW("room-to-grow", "false", "false", "true"),
    /** Prompts are cut into chunks that fill steps; the papers compute them whole. */
    CHUNKED_PREFILL("chunked-prefill", "false", "false", "true"),
    /** Steps with few tokens take prompt tokens that cost little, while requests wait for KV (ADR 10). */
    PIGGYBACKED_PREFILL("piggybacked-prefill", "false", "false", "true"),
    /** Later requests may start before one that does not fit (ADR 9). */
    QUEUE_BYPASS("queue-bypass", "false", "false", "true"),
    /** Host and GPU sequences exchange tiers after some tokens. */
    ROTATION("rotation", "false", "false", "true"),
    /** Chunked prompts leave one token in eight of a step to host tokens; see {@link #WHOLE_TILES}. */
    RESERVED_HOST_TOKENS("reserved-host-tokens", "false", "false", "true"),
    /**
     * While host tokens hide behind prompts, steps of prompts end with whole tiles of GEMMs, and few host tokens begin
     * none (ADR 97).
     */
    WHOLE_TILES("whole-tiles", "false", "false", "true"),
    /** Host tokens decode in order of their last token, or, in async overlap, overdue ones first. */
    LONGEST_WAITING_FIRST("longest-waiting-first", "false", "false", "true"),
    /** NEO's step 4 gives each token to the sub-batch with more slack, and skips what is no shorter than a misfit. */
    ALTERNATING_STEP_4("alternating-step-4", "false", "true", "false"),
    /** The GPU waits for host tokens that do not hide, while they raise the requests per second. */
    WAITS_FOR_HOST_TOKENS("waits-for-host-tokens", "false", "false", "true"),
    /**
     * Prompts for the host that NEO's step 5 keeps although the inequalities hold without them: {@code none}, those
     * among the first {@code 128-tokens} of sub-batch 0, or those without which the CPU would be idle
     * ({@code idle-cpu}).
     */
    STEP_5_KEEPS("step-5-keeps", List.of("none", "128-tokens", "idle-cpu"), "none", "128-tokens", "idle-cpu"),
    /** The gpu-only schedule of NEO's step 6 leaves out prompts for the host beyond 128 tokens. */
    STEP_6_STRIPS_PROMPTS("step-6-strips-prompts", "false", "true", "false"),
    /** Steps of one batch take host tokens that the CPU attends for beside the GPU, in the same layer (ADR 47, 101). */
    SAME_LAYER("same-layer", "false", "false", "true"),
    /** Predictions include the work before and after the layers; NEO's estimate has the layers alone. */
    STEP_ENDS("step-ends", "false", "false", "true"),
    /** Milliseconds that a prediction adds per stage of a layer: a number, or {@code measured} by the profile. */
    STAGE_OVERHEAD("stage-overhead", List.of(Deviation.Values.NUMBER, "measured"), "0", "0.8", "measured"),
    /** Min CPU requests per GPU request for which APEX uses the CPU (APEX §4.2). */
    MIN_CPU_RATIO("min-cpu-ratio", List.of(Deviation.Values.NUMBER), "0", "8", "0"),
    /** Host tokens are spread over the layers; in APEX they pass the layers together, as a cohort. */
    SPREAD_HOST_TOKENS("spread-host-tokens", "false", "false", "true"),
    /** Prompts start on the host only while the CPU computes one layer's attention of all host tokens in a step. */
    LIMITED_HOST_PROMPTS("limited-host-prompts", "false", "false", "true"),
    /** APEX's pipeline, async overlap and gpu-only are compared by predicted work, not only by the inequalities. */
    COMPARES_WITH_ASYNC("compares-with-async", "false", "false", "true"),
    /**
     * In-flight tokens that APEX's rule 4 lets finish within an asymmetric step: {@code all-or-none}, {@code some} of
     * them, those admitted first before the others, or {@code never} any.
     */
    PARTIAL_PROGRESS("partial-progress", List.of("all-or-none", "some", "never"), "some", "some", "never"),
    /** APEX's rules are measured against async overlap alone, and the better one stays (ADR 35). */
    MEASURED_ARMS("measured-arms", "false", "false", "true"),
    /** Sequences whose token is in flight move to the GPU as soon as there is room; the token begins anew (ADR 52). */
    RETURNS_IN_FLIGHT("returns-in-flight", "false", "false", "true"),
    /**
     * In NEO's step 6 a host token of a short context counts as its context over the mean one of GPU decodes (ADR 86).
     */
    STEP_6_COUNTS_CONTEXT("step-6-counts-context", "false", "false", "true");

    /** Words for values that stand for many. */
    private static final class Values {
        static final String NUMBER = "a number of 0 or more";
    }

    private final String flag;
    private final List<String> values;
    private final List<String> byFidelity;

    Deviation(String flag, String printed, String artifact, String tandem) {
        this(flag, List.of("true", "false"), printed, artifact, tandem);
    }

    Deviation(String flag, List<String> values, String printed, String artifact, String tandem) {
        this.flag = flag;
        this.values = values;
        this.byFidelity = List.of(printed, artifact, tandem);
    }

    /** The name on the command line and in results. */
    public String flag() {
        return flag;
    }

    /** The values that the deviation may have, in words. */
    public List<String> words() {
        return values;
    }

    /** Whether the values are true and false. */
    boolean isBoolean() {
        return values.contains("true");
    }

    /** Whether the deviation may have this value. */
    boolean allows(String value) {
        return values.contains(value) && !value.equals(Values.NUMBER)
                || values.contains(Values.NUMBER) && isNumber(value);
    }

    static boolean isNumber(String value) {
        try {
            double number = Double.parseDouble(value);
            return number >= 0 && number < Double.POSITIVE_INFINITY;
        } catch (NumberFormatException e) {
            return false;
        }
    }

    /** The value under a fidelity. */
    public String value(Fidelity fidelity) {
        return switch (fidelity) {
            case PRINTED -> byFidelity.get(0);
            case ARTIFACT -> byFidelity.get(1);
            case TANDEM -> byFidelity.get(2);
        };
    }

    /**
     * Finds a deviation by its name.
     *
     * @throws ConfigurationException that lists the names
     */
    public static Deviation of(String flag) {
        return Arrays.stream(Deviation.values())
                .filter(deviation -> deviation.flag.equals(flag))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("--deviation " + flag + " is not known; known are "
                        + Arrays.stream(Deviation.values()).map(Deviation::flag).collect(Collectors.joining(", "))));
    }
}
