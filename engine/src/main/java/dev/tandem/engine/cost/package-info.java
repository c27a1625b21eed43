/**
 * What a step's parts cost on this machine: a measured profile, corrected while serving where the executor times the
 * parts. Next: {@link dev.tandem.engine.strategy}.
 */
package dev.tandem.engine.cost;
