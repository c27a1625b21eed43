package dev.tandem.text.answer;

/** A part of an answer, in the order in which the model wrote it. */
public sealed interface AnswerPart {
    /** Text of the model's reasoning, which is not part of the answer proper. */
    record Reasoning(String text) implements AnswerPart {}

    /** Text of the answer. */
    record Content(String text) implements AnswerPart {}

    /**
     * The start of a tool call; its {@link Arguments} follow.
     *
     * @param index of the call in the answer, from 0
     * @param name of the tool
     */
    record Call(int index, String name) implements AnswerPart {}

    /**
     * A piece of a call's arguments. All pieces together are a JSON object, unless the model wrote something else or
     * was cut off.
     *
     * @param index of the call in the answer
     */
    record Arguments(int index, String text) implements AnswerPart {}
}
