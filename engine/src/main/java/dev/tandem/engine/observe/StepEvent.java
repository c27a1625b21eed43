package dev.tandem.engine.observe;

import dev.tandem.engine.schedule.Decision;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * A step in a recording of the JDK (JFR), from its submission to its result.
 *
 * <p>Without a recording it costs one small object per step. Times are in nanoseconds by the engine's clock; the
 * event's own duration is by the recorder's.
 *
 * <p>Owned by: engine thread.
 */
@Name("dev.tandem.Step")
@Label("Step")
@Description("A step of the engine, from its submission to its result.")
@Category("Tandem")
@StackTrace(false)
@SuppressWarnings("UnusedVariable") // the recorder reads the fields
public final class StepEvent extends Event {
    @Label("Step")
    @Description("Number of the step.")
    private long step;

    @Label("Strategy")
    @Description("How the parts of the step overlap, as /debug/steps names it.")
    private String strategy = "";

    @Label("Rows")
    @Description("Tokens that the step computed.")
    private int rows;

    @Label("Prefill tokens")
    @Description("Tokens that do not decode.")
    private int prefillTokens;

    @Label("GPU tokens")
    @Description("Decoded tokens with KV in GPU blocks.")
    private int gpuTokens;

    @Label("Host tokens")
    @Description("Decoded tokens whose attention the CPU computed from host KV.")
    private int hostTokens;

    @Label("Swaps")
    @Description("Sequences whose KV moved between the tiers.")
    private int swaps;

    @Label("Planning")
    @Description("Time that planning took.")
    @Timespan(Timespan.NANOSECONDS)
    private long planned;

    @Label("Predicted")
    @Description("Time that the cost model predicted; 0 without one.")
    @Timespan(Timespan.NANOSECONDS)
    private long predicted;

    @Label("Measured")
    @Description("Time from the submission, or from the result before if that came later, to the result.")
    @Timespan(Timespan.NANOSECONDS)
    private long measured;

    @Label("CPU attention")
    @Description("Time of the CPU's attention, as far as the executor measures it.")
    @Timespan(Timespan.NANOSECONDS)
    private long cpuAttention;

    @Label("Host wait")
    @Description("Time that the GPU waited for the CPU's attention, with the copy of its results.")
    @Timespan(Timespan.NANOSECONDS)
    private long hostWait;

    @Label("Reason")
    @Description("Why the step was planned so.")
    private String reason = "";

    /** Creates the event of a step that is submitted now. */
    public StepEvent() {
        begin();
    }

    /** Writes the event, if a recording wants it; the step has its result. */
    public void commit(StepRecord record, Decision decision) {
        end();
        if (!shouldCommit()) {
            return;
        }
        StepRecord.Tokens tokens = record.tokens();
        step = record.step();
        strategy = decision.chosen().label();
        rows = tokens.prefill() + tokens.decode();
        prefillTokens = tokens.prefill();
        gpuTokens = tokens.decode() - tokens.host();
        hostTokens = tokens.host();
        swaps = record.swaps();
        planned = record.planNanos();
        predicted = Math.round(decision.predicted() * 1e9);
        measured = record.executeNanos();
        cpuAttention = record.times().cpuAttention();
        hostWait = record.times().hostWait();
        reason = decision.reason();
        commit();
    }
}
