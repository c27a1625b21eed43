package dev.tandem.cuda.tune;

import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The sizes for which a profile times the GPU.
 *
 * @param rows of decode steps
 * @param prompts tokens of prompt steps, all longer than the longest decode step
 * @param prefills tokens of prompt steps whose attention is timed
 * @param contexts context tokens of decode steps, over all rows
 * @param transfers host blocks that are copied at a time
 */
record ProfilePoints(
        List<Integer> rows,
        List<Integer> prompts,
        List<Integer> prefills,
        List<Integer> contexts,
        List<Integer> transfers) {
    /** Max context tokens measured, over all rows; beyond them each token costs the same. */
    private static final int MAX_CONTEXT = 131_072;
    /** Max prompt tokens of a measured step; beyond them each row costs the same. */
    private static final int MAX_PROMPT = 4096;

    /**
     * Prompt tokens up to which every multiple of {@link GemmPlan#ROW_STEP} is measured. GEMMs compute whole tiles and
     * waves of tiles, so their time rises in stairs: 19 % from 1,024 to 1,088 tokens on an H100 (ADR 78).
     */
    private static final int STAIRS = 1280;

    private static final int[] LONG_PROMPTS = {1536, 1792, 2048, 3072, MAX_PROMPT};
    /**
     * Row counts of steps without prompts. Sub-batches are not padded to the sizes of graphs, so up to 64 all multiples
     * of 8 are measured; beyond that a longer size stands for those below it.
     */
    private static final int[] ROWS = {1, 8, 16, 24, 32, 40, 48, 56, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512};

    /**
     * The sizes up to what an executor allows.
     *
     * @param decodeRows max rows of decode steps
     * @param promptTokens max tokens of a prompt
     */
    static ProfilePoints of(int decodeRows, int promptTokens, int gpuBlocks, int hostBlocks) {
        List<Integer> rows =
                IntStream.of(ROWS).filter(count -> count <= decodeRows).boxed().toList();
        int maxPrompt = Math.min(promptTokens, MAX_PROMPT);
        IntStream prompts = IntStream.concat(
                        IntStream.rangeClosed(1, STAIRS / GemmPlan.ROW_STEP).map(steps -> steps * GemmPlan.ROW_STEP),
                        IntStream.of(LONG_PROMPTS))
                .filter(size -> size > rows.getLast() && size < maxPrompt);
        IntStream prefills = IntStream.iterate(
                        128, size -> size / 2 < promptTokens && size <= MAX_PROMPT, size -> 4 * size)
                .map(size -> Math.min(size, promptTokens));
        int maxContext = Math.min(gpuBlocks * ModelShape.BLOCK_TOKENS, MAX_CONTEXT);
        IntStream contexts = IntStream.iterate(512, size -> size < 4 * maxContext, size -> 4 * size)
                .map(size -> Math.min(size, maxContext));
        int maxTransfer = Math.min(hostBlocks, gpuBlocks * ModelShape.BLOCK_TOKENS / HostFormat.BLOCK_TOKENS);
        IntStream transfers = IntStream.iterate(1, blocks -> blocks <= maxTransfer, blocks -> 8 * blocks);
        return new ProfilePoints(
                rows,
                IntStream.concat(prompts, IntStream.of(maxPrompt).filter(size -> size > rows.getLast()))
                        .boxed()
                        .toList(),
                prefills.boxed().toList(),
                contexts.boxed().toList(),
                transfers.boxed().toList());
    }

    /** The number of points, over all lists. */
    int count() {
        return rows.size() + prompts.size() + prefills.size() + contexts.size() + transfers.size();
    }
}
