package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.KvMove;
import dev.tandem.engine.request.TraceParent;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Where the KV of a traced request was, as its usage tells. */
class KvMovesTest {
    private static final TraceParent TRACE =
            new TraceParent("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "", "chat");
    private static final int CONTEXT = 64;
    private static final int GPU_BLOCKS = 8;

    /** Two requests that together outgrow the GPU pool; the younger one is traced. */
    private static List<KvMove> moves(Preemption preemption) {
        Budget budget = new Budget(32, 4, 32);
        try (ContentExecutor executor = new ContentExecutor(2, GPU_BLOCKS, 8, 32, CONTEXT, Readiness.allEarly());
                EngineHarness harness = EngineHarness.gpuOnly(executor, budget, preemption)) {
            harness.submit("old", new int[] {1, 2, 3, 4}, EngineHarness.greedy(20));
            harness.submit("young", new int[] {5, 6, 7, 8}, EngineHarness.greedy(20), TRACE);
            harness.run();
            assertThat(harness.answers.get("old").usage.moves()).isEmpty();
            assertThat(harness.answers.get("young").usage.preemptions()).isPositive();
            return harness.answers.get("young").usage.moves();
        }
    }

    @Test
    void aSwapIsAMoveToTheHostAndOneBack() {
        List<KvMove> moves = moves(Preemption.SWAP);
        assertThat(moves)
                .extracting(KvMove::to)
                .startsWith(Optional.of(KvTier.GPU), Optional.of(KvTier.HOST), Optional.of(KvTier.GPU));
        assertThat(moves).extracting(KvMove::sinceArrival).isSorted();
        assertThat(moves.getLast().sinceArrival()).isPositive();
    }

    @Test
    void droppedKvIsOnNoTierUntilItIsComputedAgain() {
        assertThat(moves(Preemption.RECOMPUTE))
                .extracting(KvMove::to)
                .startsWith(Optional.of(KvTier.GPU), Optional.empty(), Optional.of(KvTier.GPU));
    }
}
