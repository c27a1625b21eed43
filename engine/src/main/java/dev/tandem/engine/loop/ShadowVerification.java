package dev.tandem.engine.loop;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.engine.request.Usage;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Verifies host attention while the engine serves: the GPU recomputes some tokens that were decoded from host KV.
 *
 * <p>A fraction of requests is watched. When a watched request ends, one of its host tokens is recomputed: a
 * verification request has the prompt and output before the token as its prompt. The two log-probabilities are
 * compared.
 *
 * <p>Verification requests run in order of arrival among clients' requests, so that they also run under load. They take
 * no place in the admission queue. At most {@link #MAX_VERIFICATIONS} exist at a time; comparisons beyond that are
 * dropped and counted.
 *
 * <p>Watched requests compute log-probabilities; clients that did not ask for them do not receive them.
 *
 * <p>Owned by: engine thread, but for {@link #watch}, which any thread may call.
 */
final class ShadowVerification {
    private static final Logger LOG = System.getLogger(ShadowVerification.class.getName());
    /** Bias that makes greedy sampling choose the token in question; log-probabilities do not include it. */
    private static final float CERTAIN_BIAS = 100;
    /** Few beside the dozens of sequences of a step, so that a client waits for one further prompt at most. */
    static final int MAX_VERIFICATIONS = 4;

    private final double rate;
    private final SplittableRandom random;
    private final Consumer<Request> submit;
    private final EngineListener listener;
    /** Verification requests that have not ended. */
    private int running;

    /**
     * @param rate fraction of requests that are watched
     * @param submit accepts verification requests; throws {@link RequestException} when it cannot
     * @param listener receives each comparison
     */
    ShadowVerification(double rate, long seed, Consumer<Request> submit, EngineListener listener) {
        this.rate = rate;
        this.random = new SplittableRandom(seed);
        this.submit = submit;
        this.listener = listener;
    }

    /** The requests to submit: a fraction of them is watched, the others are unchanged. */
    List<Request> watch(List<Request> requests) {
        if (rate == 0) {
            return requests;
        }
        synchronized (random) {
            return requests.stream()
                    .map(request -> random.nextDouble() < rate ? watch(request) : request)
                    .toList();
        }
    }

    private Request watch(Request request) {
        boolean asked = request.sampling().logprobs() >= 0;
        SamplingParams sampling =
                asked ? request.sampling() : request.sampling().withLogprobs(0);
        Request watched = new Request(
                        request.id(),
                        request.prompt(),
                        sampling,
                        request.priority(),
                        request.targets(),
                        request.decoder(),
                        new Watched(request, asked, random.split()))
                .withCaching(request.caching())
                .withTrace(request.trace());
        return request.scorer().map(watched::withScorer).orElse(watched);
    }

    /** Passes a client its events and records tokens that were decoded from host KV. */
    private final class Watched implements TokenSink {
        private record FromHost(int position, float logprob) {}

        private final Request request;
        private final boolean asked;
        private final SplittableRandom random;
        private final List<Integer> output = new ArrayList<>();
        private final List<FromHost> fromHost = new ArrayList<>();

        Watched(Request request, boolean asked, SplittableRandom random) {
            this.request = request;
            this.asked = asked;
            this.random = random;
        }

        @Override
        public void on(TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> {
                    if (token.fromHost()) {
                        fromHost.add(new FromHost(
                                output.size(), token.logprobs().orElseThrow().logprob()));
                    }
                    output.add(token.id());
                    request.sink()
                            .on(
                                    asked
                                            ? token
                                            : new TokenEvent.Token(
                                                    token.id(), token.text(), Optional.empty(), token.fromHost()));
                }
                case TokenEvent.Finished finished -> {
                    request.sink().on(finished);
                    if (!fromHost.isEmpty()) {
                        verify(fromHost.get(random.nextInt(fromHost.size())));
                    }
                }
                case TokenEvent.Failed failed -> request.sink().on(failed);
            }
        }

        private void verify(FromHost token) {
            if (running == MAX_VERIFICATIONS) {
                drop(request.id(), MAX_VERIFICATIONS + " verifications run already");
                return;
            }
            int[] before = request.prompt();
            int[] prompt = Arrays.copyOf(before, before.length + token.position());
            for (int i = 0; i < token.position(); i++) {
                prompt[before.length + i] = output.get(i);
            }
            int id = output.get(token.position());
            SamplingParams sampling = SamplingParams.builder()
                    .temperature(0)
                    .maxTokens(1)
                    .ignoreEos(true)
                    .logitBias(Map.of(id, CERTAIN_BIAS))
                    .logprobs(0)
                    .build();
            try {
                Request verification = new Request(
                        "shadow-" + request.id(),
                        prompt,
                        sampling,
                        0,
                        TextDecoder.none(),
                        new Verification(request.id(), token.position(), id, token.logprob()));
                submit.accept(verification.withCaching(PrefixCaching.OFF)); // it would hit what it is to verify
                running++;
            } catch (RequestException e) {
                drop(request.id(), e.getMessage());
            }
        }
    }

    private void drop(String request, @Nullable String reason) {
        LOG.log(Level.DEBUG, "A token of {0} is not verified: {1}.", request, reason);
        listener.comparisonDropped();
    }

    /** Compares the recomputed token with the one from the host. */
    private final class Verification implements TokenSink {
        private final String of;
        private final int position;
        private final int id;
        private final float logprob;

        Verification(String of, int position, int id, float logprob) {
            this.of = of;
            this.position = position;
            this.id = id;
            this.logprob = logprob;
        }

        @Override
        public void on(TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> {
                    // a token with logit -infinity is not chosen despite its bias: then the difference is the max
                    double difference = token.id() == id
                            ? Math.abs(token.logprobs().orElseThrow().logprob() - logprob)
                            : CERTAIN_BIAS;
                    LOG.log(
                            Level.DEBUG,
                            "Shadow verification of output token {0} of {1}: the log-probabilities differ by {2}.",
                            position,
                            of,
                            difference);
                    listener.comparedWithGpu(difference);
                }
                case TokenEvent.Finished finished -> running--;
                case TokenEvent.Failed failed -> {
                    running--;
                    drop(of, failed.message());
                }
            }
        }
    }

    /** True for a verification request. */
    static boolean isVerification(Request request) {
        return request.sink() instanceof Verification;
    }

    /** A listener that receives no events of verification requests. */
    static EngineListener withoutVerifications(EngineListener listener) {
        return new EngineListener() {
            @Override
            public void step(StepRecord record) {
                listener.step(record);
            }

            @Override
            public void firstToken(Request request, long sinceArrival) {
                if (!isVerification(request)) {
                    listener.firstToken(request, sinceArrival);
                }
            }

            @Override
            public void nextToken(Request request, long sincePrevious) {
                listener.nextToken(request, sincePrevious); // verification requests have one token only
            }

            @Override
            public void finished(Request request, FinishReason reason, Usage usage) {
                if (!isVerification(request)) {
                    listener.finished(request, reason, usage);
                }
            }

            @Override
            public void failed(Request request, String message) {
                if (!isVerification(request)) {
                    listener.failed(request, message);
                }
            }
        };
    }
}
