package dev.tandem.engine.loop;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
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

/**
 * Host attention is checked while it serves: of some requests, one token that was decoded from host KV is computed
 * again by the GPU from the text before it, as a request of its own, and the two log-probabilities are compared.
 *
 * <p>Own requests run in order of arrival like clients' requests, so that they also run while many wait; they take no
 * place in the clients' queue, and at most {@link #MAX_OWN} exist at a time. Comparisons beyond that are dropped and
 * counted.
 *
 * <p>Requests that are watched have their log-probabilities computed, and their clients do not see them unless they
 * asked.
 *
 * <p>Owned by: {@link #watch} may be called by any thread; all else, with the count of own requests, belongs to the
 * engine thread.
 */
final class ShadowVerification {
    private static final Logger LOG = System.getLogger(ShadowVerification.class.getName());
    /** Makes a greedy choice the token that is asked about; log-probabilities do not contain it. */
    private static final float CERTAIN = 100;
    /**
     * Few beside the dozens of sequences that a step serves; with as many, each client waits for one prompt more at
     * most.
     */
    static final int MAX_OWN = 4;

    private final double rate;
    private final SplittableRandom random;
    private final Consumer<Request> submit;
    private final EngineListener listener;
    /** Own requests that have not ended. */
    private int own;

    /**
     * @param rate share of requests that are watched
     * @param submit takes the requests that compute again; throws {@link RequestException} when it cannot
     * @param listener told of each comparison
     */
    ShadowVerification(double rate, long seed, Consumer<Request> submit, EngineListener listener) {
        this.rate = rate;
        this.random = new SplittableRandom(seed);
        this.submit = submit;
        this.listener = listener;
    }

    /** The requests as the engine shall have them. */
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
        return new Request(
                request.id(),
                request.prompt(),
                sampling,
                request.priority(),
                request.targets(),
                request.decoder(),
                new Watched(request, asked, random.split()));
    }

    /** Hands a client its events, and remembers what came from the host. */
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
                        computeAgain(fromHost.get(random.nextInt(fromHost.size())));
                    }
                }
                case TokenEvent.Failed failed -> request.sink().on(failed);
            }
        }

        private void computeAgain(FromHost token) {
            if (own == MAX_OWN) {
                drop(request.id(), MAX_OWN + " comparisons are under way");
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
                    .logitBias(Map.of(id, CERTAIN))
                    .logprobs(0)
                    .build();
            try {
                submit.accept(new Request(
                        "shadow-" + request.id(),
                        prompt,
                        sampling,
                        0,
                        TextDecoder.none(),
                        new Again(request.id(), token.position(), id, token.logprob())));
                own++;
            } catch (RequestException e) {
                drop(request.id(), e.getMessage());
            }
        }
    }

    private void drop(String request, String reason) {
        LOG.log(Level.DEBUG, "a token of {0} is not computed again: {1}", request, reason);
        listener.comparisonDropped();
    }

    /** Compares. */
    private final class Again implements TokenSink {
        private final String of;
        private final int position;
        private final int id;
        private final float logprob;

        Again(String of, int position, int id, float logprob) {
            this.of = of;
            this.position = position;
            this.id = id;
            this.logprob = logprob;
        }

        @Override
        public void on(TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> {
                    // a token that the GPU finds impossible is not chosen even so: the difference is as large as can be
                    // said
                    double difference = token.id() == id
                            ? Math.abs(token.logprobs().orElseThrow().logprob() - logprob)
                            : CERTAIN;
                    LOG.log(
                            Level.DEBUG,
                            "shadow verification: output token {0} of {1}: {2} apart",
                            position,
                            of,
                            difference);
                    listener.comparedWithGpu(difference);
                }
                case TokenEvent.Finished finished -> own--;
                case TokenEvent.Failed failed -> {
                    own--;
                    drop(of, failed.message());
                }
            }
        }
    }

    /** Whether a request only computes again. */
    static boolean isOwn(Request request) {
        return request.sink() instanceof Again;
    }

    /** What is told of the engine's requests, without those that only compute again. */
    static EngineListener withoutOwn(EngineListener listener) {
        return new EngineListener() {
            @Override
            public void step(StepRecord record) {
                listener.step(record);
            }

            @Override
            public void firstToken(Request request, long sinceArrival) {
                if (!isOwn(request)) {
                    listener.firstToken(request, sinceArrival);
                }
            }

            @Override
            public void nextToken(Request request, long sincePrevious) {
                listener.nextToken(request, sincePrevious); // they have no second token
            }

            @Override
            public void finished(Request request, FinishReason reason, Usage usage) {
                if (!isOwn(request)) {
                    listener.finished(request, reason, usage);
                }
            }

            @Override
            public void failed(Request request) {
                if (!isOwn(request)) {
                    listener.failed(request);
                }
            }
        };
    }
}
