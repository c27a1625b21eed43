/**
 * Helpers shared by the tests of several modules. Entry point: {@link dev.tandem.testkit.FuzzReplay}.
 *
 * <p>Owned by: the thread of the test.
 */
package dev.tandem.testkit;
