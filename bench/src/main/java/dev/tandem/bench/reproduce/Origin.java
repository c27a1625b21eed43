package dev.tandem.bench.reproduce;

/** What computed the points of a reproduction, which decides what its verdicts may say. */
public sealed interface Origin {
    /** The part of the figures that was run. */
    Selection selection();

    /** The simulator, with the machine that the paper names. */
    record Simulated(Selection selection) implements Origin {}

    /**
     * The real executor, on another machine than the paper's.
     *
     * @param flag value of {@code --on}
     * @param machine GPU and CPU
     */
    record Executed(Selection selection, String flag, String machine) implements Origin {}

    /** The options of the command line that say so, with a blank before each. */
    default String options() {
        return switch (this) {
            case Simulated simulated -> simulated.selection().options();
            case Executed executed ->
                " --on " + executed.flag() + executed.selection().options();
        };
    }
}
