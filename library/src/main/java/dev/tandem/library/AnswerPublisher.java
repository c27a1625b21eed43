package dev.tandem.library;

import dev.tandem.text.answer.AnswerPart;
import java.util.Optional;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Gives an answer to one subscriber as Reactive Streams demand it.
 *
 * <p>Owned by: any thread subscribes; a virtual thread per subscription reads the answer and calls the subscriber.
 */
final class AnswerPublisher implements Flow.Publisher<AnswerPart> {
    private final Answer answer;
    private final AtomicBoolean subscribed = new AtomicBoolean();

    AnswerPublisher(Answer answer) {
        this.answer = answer;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super AnswerPart> subscriber) {
        Subscription subscription = new Subscription(subscriber);
        subscriber.onSubscribe(subscription);
        if (subscribed.compareAndSet(false, true)) {
            Thread.ofVirtual().name("tandem-answer").start(subscription::run);
        } else {
            subscriber.onError(new IllegalStateException("the answer has a subscriber already; it is read once"));
        }
    }

    private final class Subscription implements Flow.Subscription {
        private final Flow.Subscriber<? super AnswerPart> subscriber;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition changed = lock.newCondition();
        /** Parts that the subscriber has requested and not received. */
        private long demand;

        private boolean invalid;
        private boolean cancelled;

        Subscription(Flow.Subscriber<? super AnswerPart> subscriber) {
            this.subscriber = subscriber;
        }

        @Override
        public void request(long parts) {
            lock.lock();
            try {
                invalid |= parts <= 0;
                demand = demand + parts < 0 ? Long.MAX_VALUE : demand + parts;
                changed.signal();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void cancel() {
            lock.lock();
            try {
                cancelled = true;
                changed.signal();
            } finally {
                lock.unlock();
            }
            answer.close();
        }

        void run() {
            try {
                while (true) {
                    Optional<AnswerPart> part = answer.read();
                    if (part.isEmpty() || !awaitDemand()) {
                        break;
                    }
                    subscriber.onNext(part.get());
                }
                end();
            } catch (RuntimeException | Error e) {
                answer.close();
                if (!isCancelled()) {
                    subscriber.onError(e);
                }
            }
        }

        private void end() {
            if (isCancelled()) {
                return;
            }
            if (invalid) {
                answer.close();
                subscriber.onError(new IllegalArgumentException("a subscriber must request at least 1 part"));
            } else {
                subscriber.onComplete();
            }
        }

        private boolean isCancelled() {
            lock.lock();
            try {
                return cancelled;
            } finally {
                lock.unlock();
            }
        }

        /** Waits until a part is requested; false when the subscriber wants no more. */
        private boolean awaitDemand() {
            lock.lock();
            try {
                while (demand == 0 && !cancelled && !invalid) {
                    changed.awaitUninterruptibly();
                }
                demand--;
                return !cancelled && !invalid;
            } finally {
                lock.unlock();
            }
        }
    }
}
