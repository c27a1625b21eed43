package dev.tandem.cuda.step;

import dev.tandem.cuda.forward.SmPartition;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.hostattention.HostTokenTracker.Resumed;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import java.util.List;

/**
 * Writes the rows of a sub-batch into its step buffer and partitions its attention. Rows come in this order: one-row
 * chunks, which share decode attention; prompts; same-layer tokens; slots; resumed in-flight tokens.
 */
public final class StepLayout {
    /** Min KV blocks per warp: spreading decode attention further costs more in merging than it saves. */
    private static final int BLOCKS_PER_WARP = 2;

    /** Attention thread blocks whose place the transfer kernel takes. */
    private static final int TRANSFER_BLOCKS = 1;

    private final ModelShape shape;
    private final SmPartition partition;

    public StepLayout(SmPartition partition) {
        this.shape = partition.shape();
        this.partition = partition;
    }

    /**
     * The rows of a sub-batch.
     *
     * @param decodes rows of decode attention
     * @param hostTokens same-layer tokens
     */
    record Filled(int rows, int sampled, int decodes, int hostTokens) {
        int firstHostToken() {
            return rows - hostTokens;
        }
    }

    /** Registers a same-layer token, which gives it its index. */
    interface HostEntry {
        HostToken enter(Admission admission);
    }

    /** Resolves a token for a step's inputs: its id, or the sample index of the step before for a placeholder. */
    public interface Tokens {
        int of(long sequence, int token);
    }

    /**
     * Writes a sub-batch's inputs; {@link #spread} and {@link #slots} complete them.
     *
     * @param chunks in the order of the rows
     * @param pools allocates staging for offloaded prefills
     * @param tokens resolves placeholders
     * @param sampled receives the chunks whose last row is sampled, in the order of the samples
     */
    public Filled fill(
            StepBuffer inputs,
            List<Chunk> chunks,
            KvPools pools,
            Tokens tokens,
            HostEntry hostEntry,
            List<Chunk> sampled) {
        inputs.clear();
        int before = sampled.size();
        int row = 0;
        int decodes = 0;
        int hostTokens = 0;
        for (Chunk chunk : chunks) {
            int count = chunk.rows();
            if (chunk.sampler().isPresent()) {
                inputs.sample(sampled.size() - before, row + count - 1);
                sampled.add(chunk);
            }
            if (chunk.site() == AttentionSite.CPU_FROM_HOST) {
                Admission admission = new Admission(
                        chunk.sequence(),
                        chunk.start(),
                        chunk.tokens()[0],
                        chunk.kv(),
                        chunk.sampler().orElseThrow());
                inputs.hostToken(
                        row++,
                        tokens.of(chunk.sequence(), chunk.tokens()[0]),
                        chunk.start(),
                        hostEntry.enter(admission));
                hostTokens++;
                continue;
            }
            int length = chunk.start() + count;
            boolean offloadsPrefill = chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
            List<KvView> kv = offloadsPrefill ? pools.stage(chunk) : chunk.kv();
            StepBuffer.Table table = inputs.table(kv, (length - 1) / ModelShape.BLOCK_TOKENS + 1);
            for (int i = 0; i < count; i++) {
                inputs.row(row + i, tokens.of(chunk.sequence(), chunk.tokens()[i]), chunk.start() + i, kv);
            }
            if (count == 1 && !offloadsPrefill) {
                inputs.decode(length, table, shape.config().kvHeads(), shape.window());
                decodes++;
            } else {
                tiles(inputs, row, count, chunk.start(), table, shape.tileTokens());
            }
            row += count;
        }
        return new Filled(row, sampled.size() - before, decodes, hostTokens);
    }

    /** Writes the slots for in-flight tokens, from row {@code first} on; their samples begin at {@code firstSample}. */
    public static void slots(
            StepBuffer inputs, int first, int slots, int firstSample, Tokens tokens, List<HostToken> admitted) {
        for (int slot = 0; slot < slots; slot++) {
            inputs.row(first + slot, 0, 0);
            inputs.sample(firstSample + slot, first + slot);
            inputs.admitNone(slot);
        }
        for (int slot = 0; slot < admitted.size(); slot++) {
            Admission admission = admitted.get(slot).admission;
            inputs.row(first + slot, tokens.of(admission.sequence(), admission.token()), admission.position());
            inputs.admit(slot, admitted.get(slot));
        }
    }

    /**
     * Writes resumed in-flight tokens behind the slots.
     *
     * @param first row of the first slot
     * @param firstSample sample of the first slot
     */
    static void resumed(StepBuffer inputs, int first, int slots, int firstSample, List<Resumed> resumed) {
        for (int i = 0; i < resumed.size(); i++) {
            inputs.row(first + slots + i, 0, 0);
            inputs.sample(firstSample + slots + i, first + slots + i);
            inputs.admitNone(slots + i);
            inputs.resume(i, resumed.get(i).hostToken());
        }
    }

    /** Pads a decode step to the rows of its graph, with rows that store no KV and whose samples are not read. */
    public static void pad(StepBuffer inputs, int rows, int bucket) {
        padRows(inputs, rows, bucket);
        padSamples(inputs, rows, bucket);
    }

    /** Pads with rows that store no KV. */
    public static void padRows(StepBuffer inputs, int rows, int bucket) {
        for (int row = rows; row < bucket; row++) {
            inputs.row(row, 0, 0);
        }
    }

    /** Pads with samples that are not read. */
    static void padSamples(StepBuffer inputs, int sampled, int bucket) {
        for (int sample = sampled; sample < bucket; sample++) {
            inputs.sample(sample, sample);
        }
    }

    /**
     * Partitions attention over the thread blocks that are resident at a time. Decode attention leaves room for the
     * transfer kernel and for prompts' attention, where a step has these.
     */
    public void spread(StepBuffer inputs, int slots) {
        int others = slots == 0 ? 0 : TRANSFER_BLOCKS;
        if (partition.together() && inputs.tileCount() > 0) {
            SmPartition.Prompts prompts = partition.prompts(inputs.units(), inputs.tileCount(), inputs.tileStages());
            inputs.prompts(prompts.blocks(), prompts.splits());
            others += prompts.blocks() < partition.multiprocessors() ? prompts.blocks() * partition.decodeBlocks() : 0;
        }
        inputs.spread(
                partition.attentionBlocks() - others,
                BLOCKS_PER_WARP * shape.decodeWarps(),
                shape.config().kvHeads(),
                slots);
    }

    /** Adds a chunk's tiles of prefill attention, the last first, because it has the longest context. */
    public static void tiles(StepBuffer inputs, int row, int count, int start, StepBuffer.Table table, int tileTokens) {
        for (int from = (count - 1) / tileTokens * tileTokens; from >= 0; from -= tileTokens) {
            inputs.tile(row + from, Math.min(tileTokens, count - from), start + from, table);
        }
    }
}
