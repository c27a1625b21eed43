package dev.tandem.engine.strategy.select;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/**
 * A change of the selector's {@link Phase} in a recording of the JDK (JFR).
 *
 * <p>Owned by: engine thread.
 */
@Name("dev.tandem.GuardPhase")
@Label("Phase of the guard")
@Description("The guard, or the choice between strategies that offload, entered another phase.")
@Category("Tandem")
@StackTrace(false)
@SuppressWarnings("UnusedVariable") // the recorder reads the fields
final class PhaseEvent extends Event {
    @Label("From")
    @Description("The phase that ended: measure, warm_up, run, drain or pause.")
    String from = "";

    @Label("To")
    @Description("The phase that began; the same as before when another strategy is tried.")
    String to = "";

    @Label("Strategy")
    @Description("The strategy that offloads, or would.")
    String strategy = "";

    @Label("Measured ratio")
    @Description("Throughput of the last judged window over gpu-only's; NaN while not both are measured.")
    double measuredRatio;

    @Label("Losses")
    @Description("Times that offloading has lost to gpu-only.")
    int losses;

    @Label("Pause")
    @Description("Steps until gpu-only is measured for another attempt.")
    long pauseSteps;

    @Label("Reason")
    @Description("What ended the phase.")
    String reason = "";
}
