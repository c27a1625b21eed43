package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.Place;
import dev.tandem.engine.request.Sequence;

/** Where a sequence's KV is to live when it starts. */
@FunctionalInterface
public interface Placement {
    Place home(Sequence sequence);

    Placement ALL_GPU = sequence -> Place.GPU;
}
