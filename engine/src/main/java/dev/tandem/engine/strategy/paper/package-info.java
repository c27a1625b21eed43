/**
 * The strategies of the NEO and APEX papers, as printed; every deviation is an option. {@code docs/concepts/papers.md}
 * maps sections to classes. Entry points: {@link dev.tandem.engine.strategy.paper.Neo} and
 * {@link dev.tandem.engine.strategy.paper.Apex}. They draft their steps with {@link dev.tandem.engine.strategy}. Next:
 * {@link dev.tandem.engine.strategy.select}.
 */
@NullMarked
package dev.tandem.engine.strategy.paper;

import org.jspecify.annotations.NullMarked;
