package dev.tandem.library;

import dev.tandem.server.openai.LocalAnswer;
import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.Flow;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * An answer while the model writes it.
 *
 * <p>It is read once, in one of several ways: as text, as {@link #parts}, as a {@link #publisher}, or whole by
 * {@link #result}, which also reads the rest of what was begun. What nobody has read yet is kept, at most as many
 * tokens as the answer may have, so that a slow reader never delays the model or other answers.
 *
 * <p>Closing it before its end ends the generation. An answer that is read to its end need not be closed.
 *
 * <p>Owned by: any thread; a part goes to one of the threads that read.
 */
public final class Answer implements Iterable<String>, AutoCloseable {
    /**
     * A complete answer.
     *
     * @param text without reasoning and calls
     * @param reasoning of the model, where it writes any
     * @param calls of tools
     * @param finishReason {@code stop}, {@code length}, {@code tool_calls}, or {@code abort} for one that was closed
     * @param usage tokens that it cost
     */
    public record Result(
            String text, String reasoning, List<ToolCall> calls, String finishReason, LocalAnswer.Usage usage) {}

    /** A tool call and its arguments so far. */
    private record Call(String tool, StringBuilder arguments) {}

    private final LocalAnswer source;
    /** Held while a thread reads; {@link #close} does not take it. */
    private final ReentrantLock reading = new ReentrantLock();

    private final Deque<AnswerPart> unread = new ArrayDeque<>();
    private final StringBuilder text = new StringBuilder();
    private final StringBuilder reasoning = new StringBuilder();
    private final List<Call> calls = new ArrayList<>();

    Answer(LocalAnswer source) {
        this.source = source;
    }

    /**
     * The next part; empty at the end.
     *
     * @throws AnswerException when the answer has failed, or the thread was interrupted, which ends the generation
     */
    Optional<AnswerPart> read() {
        reading.lock();
        try {
            return readNext();
        } finally {
            reading.unlock();
        }
    }

    private Optional<AnswerPart> readNext() {
        while (unread.isEmpty() && !source.isEnded()) {
            try {
                source.next().forEach(this::keep);
            } catch (InterruptedException e) {
                source.close();
                Thread.currentThread().interrupt();
                throw new AnswerException("the thread was interrupted while it waited; the answer ends here");
            }
        }
        Optional<AnswerPart> part = Optional.ofNullable(unread.poll());
        if (part.isEmpty()) {
            source.failure().ifPresent(why -> {
                throw new AnswerException(why);
            });
        }
        return part;
    }

    private void keep(AnswerPart part) {
        unread.add(part);
        switch (part) {
            case AnswerPart.Content more -> text.append(more.text());
            case AnswerPart.Reasoning more -> reasoning.append(more.text());
            case AnswerPart.Call call -> calls.add(new Call(call.name(), new StringBuilder()));
            case AnswerPart.Arguments more ->
                calls.get(more.index()).arguments().append(more.text());
        }
    }

    /** The parts of the answer, with reasoning and calls, as the model writes them. */
    public Iterator<AnswerPart> parts() {
        return new Reader<>(Optional::of);
    }

    /** The text of the answer, in the pieces in which the model writes it. */
    @Override
    public Iterator<String> iterator() {
        return new Reader<>(
                part -> part instanceof AnswerPart.Content content ? Optional.of(content.text()) : Optional.empty());
    }

    /** The text as a stream; closing the stream closes the answer. */
    public Stream<String> stream() {
        return StreamSupport.stream(
                        Spliterators.spliteratorUnknownSize(iterator(), Spliterator.ORDERED | Spliterator.NONNULL),
                        false)
                .onClose(this::close);
    }

    /**
     * The parts for one subscriber, on a virtual thread. The subscriber gets no more than it has requested; cancelling
     * closes the answer.
     */
    public Flow.Publisher<AnswerPart> publisher() {
        return new AnswerPublisher(this);
    }

    /**
     * Reads to the end of the answer.
     *
     * @throws AnswerException when it has failed
     */
    public Result result() {
        reading.lock();
        try {
            boolean more = true;
            while (more) {
                more = readNext().isPresent(); // keep() has taken the part
            }
            return whole();
        } finally {
            reading.unlock();
        }
    }

    private Result whole() {
        List<ToolCall> called = new ArrayList<>();
        for (Call call : calls) {
            called.add(new ToolCall(
                    callId(called.size()), call.tool(), call.arguments().toString()));
        }
        return new Result(text.toString(), reasoning.toString(), called, source.finishReason(), source.usage());
    }

    /** The id of the call with this index. */
    public String callId(int call) {
        return source.callId(call);
    }

    /** Ends the generation, if it still runs; a reader gets the end of the answer. */
    @Override
    public void close() {
        source.close();
    }

    /** Reads the parts that a view shows. */
    private final class Reader<T> implements Iterator<T> {
        private final Function<AnswerPart, Optional<T>> view;
        private Optional<T> ahead = Optional.empty();

        Reader(Function<AnswerPart, Optional<T>> view) {
            this.view = view;
        }

        @Override
        public boolean hasNext() {
            while (ahead.isEmpty()) {
                Optional<AnswerPart> part = read();
                if (part.isEmpty()) {
                    return false;
                }
                ahead = view.apply(part.get());
            }
            return true;
        }

        @Override
        public T next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the answer has ended");
            }
            T value = ahead.orElseThrow();
            ahead = Optional.empty();
            return value;
        }
    }
}
