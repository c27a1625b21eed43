/**
 * What a step's parts cost on this machine: a measured profile, corrected while serving. Next: {@link
 * dev.tandem.engine.strategy}.
 */
package dev.tandem.engine.cost;
