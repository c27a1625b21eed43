/**
 * From sampled tokens to client events: detokenisation, stop strings, event sinks. Entry point:
 * {@link dev.tandem.engine.output.OutputProcessor}.
 *
 * <p>Owned by: engine thread. Next: {@code loop}.
 */
@NullMarked
package dev.tandem.engine.output;

import org.jspecify.annotations.NullMarked;
