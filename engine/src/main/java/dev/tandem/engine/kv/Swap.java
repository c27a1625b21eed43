package dev.tandem.engine.kv;

/**
 * A copy of one sequence's KV between places, block by block, before the step's layers run. The blocks it leaves may be
 * granted to others in the same plan: swaps run in the plan's order, all before any row writes.
 *
 * @param tokens how many tokens of KV the blocks hold
 */
public record Swap(long sequence, KvTier from, int[] fromBlocks, KvTier to, int[] toBlocks, int tokens) {}
