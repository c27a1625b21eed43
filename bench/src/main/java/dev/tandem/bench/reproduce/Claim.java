package dev.tandem.bench.reproduce;

/**
 * A statement of a paper, in words and as a check.
 *
 * @param words what the paper says, in short
 * @param section where
 * @param printed the number that the text prints; NaN for a claim of shape without one
 * @param quantity the number of ours that is held against it
 * @param holds where the claim is reproduced
 * @param direction where only its direction is
 */
public record Claim(String words, String section, double printed, Quantity quantity, Band holds, Band direction) {}
