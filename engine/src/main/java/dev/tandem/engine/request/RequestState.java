package dev.tandem.engine.request;

/** Where a sequence stands in the engine. Prefill and decode are not states: see {@link Sequence#remaining()}. */
public sealed interface RequestState {
    /** Holds no KV: not started, or preempted for recomputation. */
    record Waiting() implements RequestState {}

    /** Has KV blocks and takes part in steps. */
    record Running() implements RequestState {}

    /** Preempted; its KV waits in host memory until GPU blocks are free. */
    record Swapped() implements RequestState {}

    record Finished(FinishReason reason) implements RequestState {}

    RequestState WAITING = new Waiting();
    RequestState RUNNING = new Running();
    RequestState SWAPPED = new Swapped();
}
