/**
 * The web page at {@code /}: its files, and how they are served. Entry point:
 * {@link dev.tandem.server.page.PageRouter}.
 *
 * <p>Owned by: event loops; everything is immutable. Next: {@code openai}, whose API the page uses.
 */
@NullMarked
package dev.tandem.server.page;

import org.jspecify.annotations.NullMarked;
