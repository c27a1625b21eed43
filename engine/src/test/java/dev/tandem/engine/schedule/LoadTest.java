package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The sizes of a sub-batch, row by row. */
class LoadTest {
    private final Scene scene = new Scene(200, 200, new Budget(400, 20, 400));
    private final Load load = new Load();

    private Row add(Sequence sequence, int rows, AttentionSite site) {
        Row row = new Row(sequence, sequence.computed(), rows, site);
        load.add(row, 1);
        return row;
    }

    /** A prompt of 100 tokens, of which 40 are computed. */
    private Sequence begun() {
        Sequence sequence = scene.waiting(100);
        sequence.advance(40);
        return sequence;
    }

    @Test
    void aDecodeIsOneRequestWhereverItsAttentionIs() {
        add(scene.gpu(9), 1, AttentionSite.GPU_FROM_GPU);
        add(scene.host(20), 1, AttentionSite.GPU_FROM_HOST);
        add(scene.host(30), 1, AttentionSite.CPU_FROM_HOST);
        assertThat(load.requests()).isEqualTo(3);
        assertThat(List.of(load.rows(), load.outputs(), load.gpuRows(), load.cpuRows()))
                .containsExactly(3, 3, 2, 1);
        assertThat(List.of(load.gpuTokens(), load.cpuTokens())).containsExactly(29L, 30L);
        assertThat(load.prefillPairs()).isZero();
        assertThat(load.prefillOffloadTokens()).isZero();
    }

    @Test
    void aChunkIsItsFractionOfThePrompt() {
        add(begun(), 25, AttentionSite.GPU_FROM_GPU);
        assertThat(load.requests()).isEqualTo(0.25);
        assertThat(load.rows()).isEqualTo(25);
        assertThat(load.outputs()).as("35 tokens are left").isZero();
        assertThat(load.gpuRows()).isZero();
        assertThat(load.prefillPairs()).as("25 * 40 and 25 * 26 / 2").isEqualTo(1325);
        assertThat(load.prefillOffloadTokens()).isZero();
    }

    @Test
    void theLastChunkHasAnOutput() {
        add(begun(), 60, AttentionSite.GPU_PREFILL_OFFLOAD);
        assertThat(load.requests()).isEqualTo(0.6);
        assertThat(load.outputs()).isEqualTo(1);
        assertThat(load.prefillOffloadTokens())
                .as("those of the first chunk as well")
                .isEqualTo(100);
    }

    @Test
    void removingRowsUndoesAddingThem() {
        List<Row> rows = List.of(
                add(scene.gpu(9), 1, AttentionSite.GPU_FROM_GPU),
                add(scene.host(30), 1, AttentionSite.CPU_FROM_HOST),
                add(begun(), 25, AttentionSite.GPU_FROM_GPU),
                add(begun(), 60, AttentionSite.GPU_PREFILL_OFFLOAD));
        rows.forEach(row -> load.add(row, -1));
        assertThat(load).usingRecursiveComparison().isEqualTo(new Load());
    }

    @Test
    void aDecodeIsNoPrefillOffload() {
        assertThatThrownBy(() -> add(scene.host(9), 1, AttentionSite.GPU_PREFILL_OFFLOAD))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("was to be offloaded as a prefill");
    }
}
