/**
 * Tokenizers, streaming detokenization and chat templates. Entry points: {@link dev.tandem.text.Tokenizer},
 * {@link dev.tandem.text.ChatTemplate}.
 *
 * <p>Owned by: tokenizers and templates are shared and immutable; a detokenizer belongs to one sequence. Next:
 * {@code jinja}, then module {@code server}.
 */
@NullMarked
package dev.tandem.text;

import org.jspecify.annotations.NullMarked;
