package dev.tandem.bench;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenSink;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.LongFunction;

/** Requests that arrive at random moments, however many the engine has: an open loop. */
final class PoissonSource {
    private final Workload workload;
    private final double perSecond;
    private final SplittableRandom random;
    private double next;
    private int count;

    PoissonSource(Workload workload, double perSecond, long seed) {
        this.workload = workload;
        this.perSecond = perSecond;
        this.random = new SplittableRandom(seed);
    }

    /** Submits the requests that have arrived by now. */
    void submit(AdmissionQueue queue, VirtualClock clock, LongFunction<TokenSink> sinkOfArrival) {
        while (next <= clock.nanos() / 1e9) {
            Workload.Lengths lengths = workload.request(count);
            SamplingParams sampling = SamplingParams.builder()
                    .temperature(0)
                    .maxTokens(lengths.output())
                    .ignoreEos(true)
                    .build();
            TokenSink sink = sinkOfArrival.apply((long) (next * 1e9));
            int[] prompt = new int[lengths.prompt()];
            queue.offer(List.of(new Request("r" + count++, prompt, sampling, 0, TextDecoder.none(), sink)));
            next -= Math.log(1 - random.nextDouble()) / perSecond;
        }
    }

    /** Nanoseconds until the next request arrives. */
    long untilNext(VirtualClock clock) {
        return Math.max(1, (long) (next * 1e9) - clock.nanos());
    }
}
