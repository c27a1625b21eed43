package dev.tandem.bench.reproduce;

import dev.tandem.bench.SimulatedRun.OpenLoop;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.Workload;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Simulates a cell: the real scheduler over the profile of the figure's machine.
 *
 * <p>Owned by: the thread that simulates the cell.
 */
final class SimulatedCell implements CellEngines {
    private final Cell cell;
    private final Panel panel;
    private final ModelShape model;

    SimulatedCell(Cell cell) {
        this.cell = cell;
        this.panel = cell.figure().panel(cell.panel());
        this.model = panel.setting().shape();
    }

    @Override
    public Measured run(ComparedSystem system, Workload workload, Load load) {
        OpenLoop run = PanelEngine.of(panel, system, cell.fidelity(), profile(system), model)
                .engine(cell.seed())
                .open(workload, load);
        long lost = run.requests().stream()
                .filter(request -> !(request.outcome() instanceof RequestTimes.Outcome.Ended))
                .count();
        if (lost > 0) { // a lost one would make the others look faster
            throw new IllegalStateException(lost + " of " + run.requests().size() + " simulated requests of " + cell
                    + " did not end; a request may be longer than the limits of the panel");
        }
        Map<String, Object> details = new LinkedHashMap<>();
        details.put("host_token_fraction", Statistics.rounded(run.hostTokenFraction()));
        details.put("host_busy_fraction", Statistics.rounded(run.hostBusyFraction()));
        return new Measured(run.load(), run.requests(), details);
    }

    @Override
    public CostModel cost(ComparedSystem system) {
        return new CostModel(profile(system));
    }

    private Profile profile(ComparedSystem system) {
        return Hardware.named(panel.setting().hardware())
                .withHostAttention(system.hostAttention())
                .profile(model);
    }
}
