package dev.tandem.engine.request;

/** Where a sequence stands in the engine. Prefill and decode are not states: see {@link Sequence#remaining()}. */
public sealed interface RequestState {
    /** Holds no KV: not started, or preempted for recomputation. */
    record Waiting() implements RequestState {}

    /** Its KV is in GPU blocks. */
    record OnGpu() implements RequestState {}

    /** Its KV is in host blocks: the CPU decodes it, or it waits for GPU blocks, as the strategy has it. */
    record OnHost() implements RequestState {}

    /** A host token between layers: its blocks are the executor's until the row is sampled or parked. */
    record InFlight() implements RequestState {}

    record Finished(FinishReason reason) implements RequestState {}

    RequestState WAITING = new Waiting();
    RequestState ON_GPU = new OnGpu();
    RequestState ON_HOST = new OnHost();
    RequestState IN_FLIGHT = new InFlight();
}
