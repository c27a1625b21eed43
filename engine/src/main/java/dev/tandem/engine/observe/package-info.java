/**
 * Steps, requests and pools in numbers, for metrics, dashboards and logs. Entry point:
 * {@link dev.tandem.engine.observe.EngineListener}.
 *
 * <p>Owned by: records are immutable; listeners are called on the engine thread. Next: module {@code server}.
 */
@NullMarked
package dev.tandem.engine.observe;

import org.jspecify.annotations.NullMarked;
