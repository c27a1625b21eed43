/**
 * An interpreter for the part of Jinja that chat templates use, with the settings of Hugging Face transformers:
 * {@code trim_blocks} and {@code lstrip_blocks} on, {@code tojson} as plain JSON, {@code raise_exception} and loop
 * controls. Entry point: {@link dev.tandem.text.jinja.JinjaTemplate}.
 *
 * <p>Owned by: templates are immutable, a rendering belongs to its caller.
 */
@NullMarked
package dev.tandem.text.jinja;

import org.jspecify.annotations.NullMarked;
