/**
 * A conversation in a terminal, with a server of OpenAI's API.
 *
 * <p>Entry point: {@link dev.tandem.app.chat.ChatSession}, which knows commands and the conversation. A
 * {@link dev.tandem.app.chat.ChatTerminal} reads and prints, and a {@link dev.tandem.app.chat.ChatClient} asks. Owned
 * by: the main thread; only {@link dev.tandem.app.chat.Answer#stop} is called by another one.
 */
@NullMarked
package dev.tandem.app.chat;

import org.jspecify.annotations.NullMarked;
