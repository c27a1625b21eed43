package dev.tandem.bench.report;

/**
 * A single value beside the curves, as a number that a paper prints.
 *
 * @param name what it is, for the legend
 */
public record Mark(String name, double x, double y) {}
