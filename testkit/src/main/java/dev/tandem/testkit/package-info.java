/**
 * What the tests of several modules share. Entry point: {@link dev.tandem.testkit.FuzzReplay}.
 *
 * <p>Owned by: the thread of the test.
 */
package dev.tandem.testkit;
