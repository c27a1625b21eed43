package dev.tandem.engine.request;

import dev.tandem.engine.kv.KvTier;
import java.util.Optional;

/**
 * A move of a request's KV.
 *
 * @param to the tier where it is afterwards; empty where it was dropped, to be computed again
 * @param sinceArrival nanoseconds from the request's arrival to the plan that moves it
 */
public record KvMove(Optional<KvTier> to, long sinceArrival) {}
