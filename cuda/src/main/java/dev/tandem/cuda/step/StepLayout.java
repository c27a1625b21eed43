package dev.tandem.cuda.step;

import dev.tandem.cuda.forward.SmPartition;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import java.util.List;

/**
 * How the rows of a sub-batch lie: those of one-row chunks first, for they share decode attention, then prompts, then
 * those that the CPU attends to, then slots; and how attention is cut into work.
 */
public final class StepLayout {
    /** KV blocks below which spreading decode attention further costs more in merging than it saves. */
    private static final int BLOCKS_PER_WARP = 2;

    /** Thread blocks of attention of which the transfer kernel takes the place. */
    private static final int TRANSFER = 1;

    private final ModelShape shape;
    private final SmPartition shares;

    public StepLayout(SmPartition shares) {
        this.shape = shares.shape();
        this.shares = shares;
    }

    /**
     * What a sub-batch holds.
     *
     * @param decodes rows of decode attention
     * @param hostTokens that the CPU attends to
     */
    record Filled(int rows, int sampled, int decodes, int hostTokens) {
        int firstHostRow() {
            return rows - hostTokens;
        }
    }

    /** How a host token gets its number. */
    interface HostEntry {
        HostToken enter(Admission row);
    }

    /** What stands for a token in a step's inputs: its id, or where the step before has chosen it. */
    public interface Tokens {
        int of(long sequence, int token);
    }

    /**
     * Writes a sub-batch's inputs; {@link #spread} and {@link #slots} complete them.
     *
     * @param chunks in the order of the rows
     * @param pools gives staging to prompts that land on the host
     * @param tokens knows those that are awaited
     * @param sampled receives the chunks whose last row is sampled, in the order of the samples
     */
    public Filled fill(
            StepBuffer inputs, List<Chunk> chunks, KvPools pools, Tokens tokens, HostEntry host, List<Chunk> sampled) {
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
                Admission asRow = new Admission(
                        chunk.sequence(),
                        chunk.start(),
                        chunk.tokens()[0],
                        chunk.blocks(),
                        chunk.sampler().orElseThrow());
                inputs.hostToken(
                        row++, tokens.of(chunk.sequence(), chunk.tokens()[0]), chunk.start(), host.enter(asRow));
                hostTokens++;
                continue;
            }
            int length = chunk.start() + count;
            boolean offloadsPrefill = chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
            int[] blocks = offloadsPrefill ? pools.stage(chunk) : chunk.blocks();
            int table = inputs.table(blocks, (length - 1) / ModelShape.BLOCK_TOKENS + 1);
            for (int i = 0; i < count; i++) {
                int position = chunk.start() + i;
                int block = blocks[position / ModelShape.BLOCK_TOKENS];
                inputs.row(
                        row + i,
                        tokens.of(chunk.sequence(), chunk.tokens()[i]),
                        position,
                        block * ModelShape.BLOCK_TOKENS + position % ModelShape.BLOCK_TOKENS);
            }
            if (count == 1 && !offloadsPrefill) {
                inputs.decode(length, table, shape.config().kvHeads());
                decodes++;
            } else {
                tiles(inputs, row, count, chunk.start(), table, shape.tileTokens());
            }
            row += count;
        }
        return new Filled(row, sampled.size() - before, decodes, hostTokens);
    }

    /** Slots for in-flight tokens, from row {@code first} on; their results are sampled from {@code firstSample} on. */
    public static void slots(
            StepBuffer inputs, int first, int slots, int firstSample, Tokens tokens, List<HostToken> admitted) {
        for (int slot = 0; slot < slots; slot++) {
            inputs.row(first + slot, 0, 0, -1);
            inputs.sample(firstSample + slot, first + slot);
            inputs.admitNobody(slot);
        }
        for (int slot = 0; slot < admitted.size(); slot++) {
            Admission admission = admitted.get(slot).admission;
            inputs.row(first + slot, tokens.of(admission.sequence(), admission.token()), admission.position(), -1);
            inputs.admit(slot, admitted.get(slot));
        }
    }

    /** Fills a decode step up to the rows of its graph: rows that store nothing and that nobody looks at. */
    public static void pad(StepBuffer inputs, int rows, int bucket) {
        padRows(inputs, rows, bucket);
        padSamples(inputs, rows, bucket);
    }

    public static void padRows(StepBuffer inputs, int rows, int bucket) {
        for (int row = rows; row < bucket; row++) {
            inputs.row(row, 0, 0, -1);
        }
    }

    /** Results that nobody looks at. */
    static void padSamples(StepBuffer inputs, int sampled, int bucket) {
        for (int sample = sampled; sample < bucket; sample++) {
            inputs.sample(sample, sample);
        }
    }

    /**
     * Cuts attention into as much as is resident: decode attention beside the transfer kernel and prompts' attention,
     * where there are these.
     */
    public void spread(StepBuffer inputs, int slots) {
        int others = slots == 0 ? 0 : TRANSFER;
        if (shares.together() && inputs.tileCount() > 0) {
            SmPartition.Prompts prompts = shares.prompts(inputs.units(), inputs.tileCount(), inputs.tileStages());
            inputs.prompts(prompts.blocks(), prompts.splits());
            others += prompts.blocks() < shares.multiprocessors() ? prompts.blocks() * shares.decodeBlocks() : 0;
        }
        inputs.spread(
                shares.attentionBlocks() - others,
                BLOCKS_PER_WARP * shape.decodeWarps(),
                shape.config().kvHeads(),
                slots);
    }

    /** The last tile of a chunk sees the longest context: it begins first. */
    public static void tiles(StepBuffer inputs, int row, int count, int start, int table, int tileTokens) {
        for (int from = (count - 1) / tileTokens * tileTokens; from >= 0; from -= tileTokens) {
            inputs.tile(row + from, Math.min(tileTokens, count - from), start + from, table);
        }
    }
}
