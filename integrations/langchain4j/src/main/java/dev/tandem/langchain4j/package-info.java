/**
 * Chat models of LangChain4j that run in the program's own process. Entry points:
 * {@link dev.tandem.langchain4j.TandemChatModel} and {@link dev.tandem.langchain4j.TandemStreamingChatModel}.
 *
 * <p>Owned by: the program's threads; each streamed answer is read by a virtual thread.
 */
@NullMarked
package dev.tandem.langchain4j;

import org.jspecify.annotations.NullMarked;
