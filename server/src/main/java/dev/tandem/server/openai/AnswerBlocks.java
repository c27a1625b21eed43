package dev.tandem.server.openai;

import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayList;
import java.util.List;

/**
 * An answer as a list of blocks: reasoning, text and calls in the order in which the model wrote them.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class AnswerBlocks {
    /** What a block contains. */
    enum Kind {
        REASONING,
        TEXT,
        CALL
    }

    /**
     * A block and its text so far.
     *
     * @param index in the answer, from 0
     * @param name of the called tool; empty unless it is a call
     * @param text of a call: its arguments
     */
    record Block(Kind kind, int index, String name, StringBuilder text) {}

    private final List<Block> blocks = new ArrayList<>();

    /** Adds a part and returns its block, which begins with it when {@link #begins} says so. */
    Block add(AnswerPart part) {
        return switch (part) {
            case AnswerPart.Reasoning reasoning -> append(Kind.REASONING, reasoning.text());
            case AnswerPart.Content content -> append(Kind.TEXT, content.text());
            case AnswerPart.Call call -> begin(Kind.CALL, call.name());
            case AnswerPart.Arguments arguments -> append(Kind.CALL, arguments.text());
        };
    }

    /** Whether the part would begin a block. */
    boolean begins(AnswerPart part) {
        return switch (part) {
            case AnswerPart.Reasoning reasoning -> !endsWith(Kind.REASONING);
            case AnswerPart.Content content -> !endsWith(Kind.TEXT);
            case AnswerPart.Call call -> true;
            case AnswerPart.Arguments arguments -> false;
        };
    }

    /** Begins a text block without text, so that the answer has one. */
    Block beginText() {
        return begin(Kind.TEXT, "");
    }

    private Block append(Kind kind, String text) {
        Block block = endsWith(kind) ? blocks.getLast() : begin(kind, "");
        block.text().append(text);
        return block;
    }

    private Block begin(Kind kind, String name) {
        Block block = new Block(kind, blocks.size(), name, new StringBuilder());
        blocks.add(block);
        return block;
    }

    private boolean endsWith(Kind kind) {
        return !blocks.isEmpty() && blocks.getLast().kind() == kind;
    }

    List<Block> all() {
        return blocks;
    }

    /** The text of all blocks of a kind. */
    String text(Kind kind) {
        StringBuilder text = new StringBuilder();
        blocks.stream().filter(block -> block.kind() == kind).forEach(block -> text.append(block.text()));
        return text.toString();
    }
}
