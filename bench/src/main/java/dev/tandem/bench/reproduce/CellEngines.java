package dev.tandem.bench.reproduce;

import dev.tandem.bench.Workload;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.cost.CostModel;
import java.util.List;
import java.util.Map;

/**
 * What runs the requests of one cell, and knows how long its machine takes.
 *
 * <p>Owned by: the thread that runs the cell.
 */
interface CellEngines {
    /**
     * What an open loop measured.
     *
     * @param load what the requests experienced
     * @param requests every request that arrived, by arrival
     * @param details fields of the points beside those of the load
     */
    record Measured(LoadResult load, List<RequestTimes> requests, Map<String, Object> details) {}

    /** Runs a load to its end on an engine of a system, which need not be the cell's own. */
    Measured run(ComparedSystem system, Workload workload, Load load) throws InterruptedException;

    /** Seconds of a system's machine. */
    CostModel cost(ComparedSystem system);
}
