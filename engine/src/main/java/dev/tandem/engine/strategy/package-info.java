/**
 * The strategies of NEO and APEX, each a policy that reads like its section:
 * {@link dev.tandem.engine.strategy.Strategy} names them, docs/papers.md maps the papers to classes and tests. Next:
 * {@link dev.tandem.engine.step}.
 */
package dev.tandem.engine.strategy;
