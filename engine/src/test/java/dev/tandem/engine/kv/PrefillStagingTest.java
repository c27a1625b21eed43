package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.PrefillStaging.Need;
import org.junit.jupiter.api.Test;

class PrefillStagingTest {
    private static final PrefillStaging LAYERS_32 = new PrefillStaging(16, 64, 32);

    @Test
    void oneBlockHoldsALayerOf512TokensOrEightHostBlocks() {
        assertThat(LAYERS_32.blocks(LAYERS_32.need(0, 512))).isEqualTo(1 + 1);
        assertThat(LAYERS_32.blocks(LAYERS_32.need(0, 513))).isEqualTo(2 + 2);
    }

    @Test
    void chunksOf2048TokensTakeAtMostOnePercentOf1650BlocksAndOneOf160FourPercentOf54() {
        assertThat(LAYERS_32.blocks(LAYERS_32.need(0, 2048))).isEqualTo(4 + 4);
        assertThat(LAYERS_32.blocks(LAYERS_32.need(2048, 2048))).isEqualTo(8 + 8);
        assertThat(LAYERS_32.blocks(LAYERS_32.need(0, 160))).isEqualTo(1 + 1);
    }

    @Test
    void earlierChunksReturnAndAHostBlockThatIsBegunLeavesAgain() {
        assertThat(LAYERS_32.need(0, 100)).isEqualTo(new Need(7, 2));
        assertThat(LAYERS_32.need(100, 60)).isEqualTo(new Need(10, 2 + 2));
        assertThat(LAYERS_32.need(128, 32)).isEqualTo(new Need(10, 2 + 1));
    }

    @Test
    void noChunkOfAPromptNeedsMoreThanItsMax() {
        for (int tokens = 1; tokens <= 200; tokens++) {
            Need max = LAYERS_32.max(tokens);
            for (int start = 0; start < tokens; start++) {
                for (int rows = 1; start + rows <= tokens; rows++) {
                    Need need = LAYERS_32.need(start, rows);
                    assertThat(need.gpuBlocks()).isLessThanOrEqualTo(max.gpuBlocks());
                    assertThat(need.hostBlocks())
                            .as("%d tokens after %d of %d", rows, start, tokens)
                            .isLessThanOrEqualTo(max.hostBlocks());
                }
            }
        }
    }

    @Test
    void blocksOfFewLayersHaveNoRoomForCopies() {
        assertThat(new PrefillStaging(16, 64, 3).blocks(new Need(10, 5))).isEqualTo(4);
        assertThat(new PrefillStaging(16, 64, 1).blocks(new Need(10, 5))).isEqualTo(10);
        assertThat(new PrefillStaging(16, 64, 5).blocks(new Need(10, 5))).isEqualTo(2 + 5);
    }

    @Test
    void promptsAreBoundedBy8192TokensInWholeBlocks() {
        assertThat(LAYERS_32.maxTokens()).isEqualTo(8192);
        assertThat(new PrefillStaging(24, 64, 32).maxTokens()).isEqualTo(342 * 24);
    }

    @Test
    void executorsThatWriteToTheHostDirectlyBorrowNothing() {
        assertThat(PrefillStaging.NONE.blocks(PrefillStaging.NONE.need(5, 100))).isZero();
    }
}
