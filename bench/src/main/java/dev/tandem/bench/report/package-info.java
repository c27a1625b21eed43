/**
 * Results as pictures and pages: SVG plots and one HTML file, both without anything to load. Entry points:
 * {@link dev.tandem.bench.report.Plot}, {@link dev.tandem.bench.report.HtmlPage}.
 *
 * <p>Owned by: any thread; all values are immutable, and a page belongs to the thread that builds it.
 */
@NullMarked
package dev.tandem.bench.report;

import org.jspecify.annotations.NullMarked;
