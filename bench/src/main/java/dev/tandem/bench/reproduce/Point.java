package dev.tandem.bench.reproduce;

import java.util.Map;

/**
 * One point of a curve.
 *
 * @param cell the run that it is of
 * @param x horizontal value
 * @param value vertical value, in the unit of the experiment
 * @param details of the run under vLLM's keys; empty where nothing ran
 */
public record Point(Cell cell, double x, double value, Map<String, Object> details) {}
