package dev.tandem.bench.reproduce;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * How a reproduction was made.
 *
 * @param commit of the build
 * @param machine that simulated or executed
 * @param command exactly as given
 * @param time of its end, in UTC
 * @param seconds from its start to its end
 * @param cpuSeconds of all threads of its process
 */
public record Circumstances(
        String commit, String machine, String command, String time, double seconds, double cpuSeconds) {
    /** The fields of a result line. */
    Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("commit", commit);
        fields.put("machine", machine);
        fields.put("command", command);
        fields.put("time", time);
        fields.put("seconds", Math.round(seconds));
        fields.put("cpu_seconds", Math.round(cpuSeconds));
        return fields;
    }

    /** One sentence for people. */
    String words() {
        return String.format(
                Locale.ROOT,
                "Commit %s, run on %s until %s: %.0f s, with %.0f s of CPU time.",
                commit,
                machine,
                time,
                seconds,
                cpuSeconds);
    }
}
