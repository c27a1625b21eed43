package dev.tandem.bench.reproduce;

import dev.tandem.engine.strategy.Fidelity;

/**
 * One run of a figure.
 *
 * @param figure the figure
 * @param panel name of the diagram
 * @param system name of the system in it
 * @param fidelity how close strategies stay to the papers
 * @param x horizontal value; in a figure of percentiles the first of them
 * @param seed of lengths and arrivals
 */
public record Cell(Figure figure, String panel, String system, Fidelity fidelity, double x, long seed) {
    /** The cell in messages. */
    @Override
    public String toString() {
        return figure.id() + ", " + panel + "/" + system + ", " + fidelity.flag() + ", x " + Numbers.text(x) + ", seed "
                + seed;
    }
}
