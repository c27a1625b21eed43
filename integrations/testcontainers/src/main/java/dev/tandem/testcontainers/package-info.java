/**
 * A container of Tandem's server for tests. Entry point: {@link dev.tandem.testcontainers.TandemContainer}.
 *
 * <p>Owned by: the test's thread.
 */
@NullMarked
package dev.tandem.testcontainers;

import org.jspecify.annotations.NullMarked;
