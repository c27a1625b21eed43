package dev.tandem.engine.request;

/** Where a sequence stands in the engine. Prefill and decode are not states: see {@link Sequence#remaining()}. */
public sealed interface RequestState {
    /** The sequence holds no KV: it has not started, or was preempted for recomputation. */
    record Waiting() implements RequestState {}

    /** The KV is in GPU blocks. */
    record OnGpu() implements RequestState {}

    /** The KV is in host blocks: the CPU computes its attention, or it waits for GPU blocks. */
    record OnHost() implements RequestState {}

    /** The offloaded token is between two layers: the executor owns its blocks until it is sampled or paused. */
    record InFlight() implements RequestState {}

    /** The request has ended. */
    record Finished(FinishReason reason) implements RequestState {}

    /** The one {@link Waiting}. */
    RequestState WAITING = new Waiting();

    /** The one {@link OnGpu}. */
    RequestState ON_GPU = new OnGpu();

    /** The one {@link OnHost}. */
    RequestState ON_HOST = new OnHost();

    /** The one {@link InFlight}. */
    RequestState IN_FLIGHT = new InFlight();
}
