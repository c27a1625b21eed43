/**
 * The systems of the papers, as printed; every deviation is an option. {@code docs/concepts/papers.md} maps sections to
 * classes. Entry points: {@link dev.tandem.engine.strategy.paper.Neo} and
 * {@link dev.tandem.engine.strategy.paper.Apex}. They make their steps of {@link dev.tandem.engine.strategy}. Next:
 * {@link dev.tandem.engine.strategy.select}.
 */
package dev.tandem.engine.strategy.paper;
