package dev.tandem.bench.reproduce;

import dev.tandem.bench.OpenLoopRun;
import dev.tandem.bench.Recorder;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.ThroughputRun;
import dev.tandem.bench.WaitingClock;
import dev.tandem.bench.Workload;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.reproduce.FigureMachine.RunningEngine;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The engines of one panel on the machine at hand: one runs at a time, and it stays while cells ask for it.
 *
 * <p>Owned by: the thread that runs the cells. Closing it closes the engine.
 */
final class ExecutedCells implements AutoCloseable {
    /** Requests, prompt tokens and output tokens that warm up an engine, as {@code bench throughput} does. */
    private static final int WARM_UP_REQUESTS = 8;

    private static final int WARM_UP_PROMPT = 64;
    private static final int WARM_UP_OUTPUT = 32;

    private final FigureMachine machine;
    private final Panel panel;
    private final Recorder recorder;
    private final WaitingClock clock;
    private final ThroughputRun.Progress progress;
    private Optional<Running> running = Optional.empty();
    private Optional<Profile> profile = Optional.empty();
    private int runs;

    private record Running(EngineSetting setting, RunningEngine engine) {}

    ExecutedCells(
            FigureMachine machine,
            Panel panel,
            Recorder recorder,
            WaitingClock clock,
            ThroughputRun.Progress progress) {
        this.machine = machine;
        this.panel = panel;
        this.recorder = recorder;
        this.clock = clock;
        this.progress = progress;
    }

    /** The engines of a cell of this panel. */
    CellEngines of(Cell cell) {
        return new CellEngines() {
            @Override
            public Measured run(ComparedSystem system, Workload workload, Load load) throws InterruptedException {
                RunningEngine engine = engine(EngineSetting.of(panel, system, cell.fidelity()));
                OpenLoopRun.Result result = new OpenLoopRun(
                                engine.engine(), "run" + runs++, recorder, clock, workload, cell.seed(), progress)
                        .run(load);
                Map<String, Object> details = new LinkedHashMap<>();
                details.put("host_token_fraction", Statistics.rounded(result.hostTokenFraction()));
                details.put("gpu_kv_bytes", engine.engine().limits().gpuKvBytes());
                details.put("host_blocks", engine.engine().limits().hostBlocks());
                details.put("cut_to_context", result.cut());
                return new Measured(result.load(), result.requests(), details);
            }

            @Override
            public CostModel cost(ComparedSystem system) {
                if (profile.isEmpty()) {
                    close(); // one model in memory at a time
                    profile = Optional.of(machine.profile(EngineSetting.of(panel, system, cell.fidelity())));
                }
                return new CostModel(profile.get());
            }
        };
    }

    private RunningEngine engine(EngineSetting setting) throws InterruptedException {
        if (running.isEmpty() || !running.get().setting().equals(setting)) {
            close();
            RunningEngine engine = machine.start(setting, recorder);
            running = Optional.of(new Running(setting, engine));
            new ThroughputRun(engine.engine(), recorder, clock, new Workload("warm-up", List.of()), 0, progress)
                    .warmUp(WARM_UP_REQUESTS, WARM_UP_PROMPT, WARM_UP_OUTPUT);
        }
        return running.get().engine();
    }

    @Override
    public void close() {
        running.ifPresent(current -> current.engine().close());
        running = Optional.empty();
    }
}
