package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.loop.SchedulingPolicy;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for the size of a step and the order of requests. */
@Section(Section.Heading.SCHEDULING)
final class SchedulingOptions {
    @Option(
            names = "--max-num-seqs",
            paramLabel = "REQUESTS",
            description = "Max requests that run at the same time. Default: 256 on a GPU, 64 on the CPU.")
    Optional<Integer> maxNumSeqs = Optional.empty();

    @Option(
            names = "--max-num-batched-tokens",
            paramLabel = "TOKENS",
            description = "Max tokens per step, of all requests together. Default: 8192 on a GPU, 1024 on the CPU.")
    Optional<Integer> maxNumBatchedTokens = Optional.empty();

    @Option(
            names = "--max-prefill-chunk",
            paramLabel = "TOKENS",
            description = "Max prompt tokens of one request per step."
                    + " Default: --max-num-batched-tokens on a GPU, 512 on the CPU.")
    Optional<Integer> maxPrefillChunk = Optional.empty();

    @Option(
            names = "--max-queued-requests",
            paramLabel = "REQUESTS",
            defaultValue = "1024",
            description = "Max requests that wait; the server answers 429 to more. Default: ${DEFAULT-VALUE}.")
    int maxQueuedRequests = 1024;

    @Option(
            names = "--scheduling-policy",
            paramLabel = "POLICY",
            defaultValue = "fcfs",
            description = "fcfs runs requests in order of arrival and refuses priorities. priority runs lower values"
                    + " first; one unit counts as much as 10 s of waiting. Default: ${DEFAULT-VALUE}.")
    SchedulingPolicy policy = SchedulingPolicy.FCFS;

    @Option(
            names = "--preemption",
            paramLabel = "METHOD",
            defaultValue = "swap",
            description = "What happens to the KV of a preempted request: swap moves it to the host pool, recompute"
                    + " drops it and computes it again. Default: ${DEFAULT-VALUE}.")
    Preemption preemption = Preemption.SWAP;

    @Option(
            names = "--max-queue-bypass",
            paramLabel = "REQUESTS",
            defaultValue = "8",
            description = "With gpu-only: max later requests of the same priority that start before a request whose"
                    + " prompt does not fit into the KV pool; 0 keeps the order of arrival."
                    + " Default: ${DEFAULT-VALUE}.")
    int maxQueueBypass = 8;

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (maxQueuedRequests < 1) {
            throw new ConfigurationException(
                    "--max-queued-requests " + maxQueuedRequests + " is too small; it must be at least 1");
        }
        if (maxQueueBypass < 0) {
            throw new ConfigurationException("--max-queue-bypass " + maxQueueBypass + " must be 0 or more");
        }
    }

    int maxNumSeqs(boolean gpu) {
        return maxNumSeqs.orElse(gpu ? 256 : 64);
    }

    /** The limits of one step. */
    Budget budget(boolean gpu) {
        int tokens = maxNumBatchedTokens.orElse(gpu ? 8192 : 1024);
        return new Budget(tokens, maxNumSeqs(gpu), maxPrefillChunk.orElse(gpu ? tokens : Math.min(512, tokens)));
    }
}
