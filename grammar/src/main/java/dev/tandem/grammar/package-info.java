/**
 * Grammars that constrain the output of requests: JSON Schema, regular expressions, Lark grammars, choices and
 * structural tags, compiled by the Rust library llguidance. Entry point: {@link dev.tandem.grammar.Llguidance}.
 *
 * <p>Owned by: any thread compiles; the engine owns the matchers, whose bitmasks threads of this package compute.
 */
@NullMarked
package dev.tandem.grammar;

import org.jspecify.annotations.NullMarked;
