package dev.tandem.cuda.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostAttentionWorkers.HostBlocks;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.ModelShape;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

/**
 * The KV blocks that a step converts between the two tiers' formats, in sections of blocks that are copied together
 * ({@code struct Moves} of rows.cu). In a section a count comes first, then per move the host block, or where the
 * staging has a copy of it, and the layer blocks of its tokens. The addresses are fixed, so that CUDA graphs can read
 * them.
 *
 * <p>Owned by: engine thread. Where steps are planned ahead, the pinned memory has two halves that take turns at
 * {@link #clear}, so that a list may be written while the upload of the one before is outstanding.
 */
final class BlockCopyList implements AutoCloseable {
    private static final int INTS = 8;
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    /** The parts of the pinned memory that take turns. */
    private final MemorySegment[] turns;

    private final String label;
    private final Parts parts;
    private final int capacity;
    private final Section[] sections;
    private MemorySegment memory;
    private int turn;
    /** Empty without --kv-checksums. */
    private Optional<TransferChecksums> sums = Optional.empty();

    /** Receives consecutive host blocks whose copies are consecutive too; {@code layerBlock} has the first one's. */
    interface Run {
        void accept(int host, int layerBlock, int blocks);
    }

    /**
     * The layers that are copied of a block one after another: those of its page, or one by one those of the model.
     *
     * @param count how many there are
     * @param sections of the list
     * @param section whose blocks have the part
     * @param host addresses of a part in host blocks
     */
    record Parts(int count, int sections, IntUnaryOperator section, HostBlocks host) {}

    /**
     * @param capacity max moves of each section in a step
     * @param ahead whether a step's list is written before the step before has ended
     */
    BlockCopyList(Device owner, Parts parts, int capacity, boolean ahead, String label) {
        this.label = label;
        this.capacity = capacity;
        this.parts = parts;
        this.sections = new Section[parts.sections()];
        Arrays.setAll(sections, i -> new Section(i * (1 + capacity)));
        long bytes = bytes(sections.length, capacity);
        device = owner.allocate(bytes, label);
        turns = new MemorySegment[ahead ? 2 : 1];
        pinned = owner.pinned(turns.length * bytes, label);
        Arrays.setAll(turns, i -> pinned.memory().asSlice(i * bytes, bytes));
        memory = turns[0];
    }

    Parts parts() {
        return parts;
    }

    /** Verifies what moves from now on; takes ownership. */
    void check(TransferChecksums sums) {
        this.sums = Optional.of(sums);
    }

    /** {@link TransferChecksums#begin}, where moves are verified. */
    void beginSums() {
        sums.ifPresent(s -> s.begin(this));
    }

    /** {@link TransferChecksums#enqueue}, where moves are verified. */
    void sum(Stream stream, long gpu, int part, int count) {
        sums.ifPresent(s -> s.enqueue(stream, this, gpu, part, count));
    }

    /** {@link TransferChecksums#verify}, where moves are verified. */
    void verifySums() {
        sums.ifPresent(s -> s.verify(this));
    }

    /** GPU memory of a list; {@code capacity} is the max number of moves of each section. */
    static long bytes(int sections, int capacity) {
        return sections * bytes(1 + capacity);
    }

    /** GPU memory of this list. */
    long bytes() {
        return device.bytes();
    }

    /** @param entries moves and counts */
    private static long bytes(int entries) {
        return (long) INTS * Integer.BYTES * entries;
    }

    void clear() {
        turn = (turn + 1) % turns.length;
        memory = turns[turn];
        for (Section section : sections) {
            section.count = 0;
        }
    }

    /** Whether no section has a move. */
    boolean isEmpty() {
        return max() == 0;
    }

    /** The moves of the section that has most. */
    int max() {
        int max = 0;
        for (Section section : sections) {
            max = Math.max(max, section.count);
        }
        return max;
    }

    /** A section, by its number. */
    Section section(int number) {
        return sections[number];
    }

    /** The section of a part. */
    Section of(int part) {
        return sections[parts.section().applyAsInt(part)];
    }

    /** Uploads the list for kernels that address blocks of the host pool. */
    void upload(Stream stream) {
        uploadAll(stream, section -> section.hosts);
    }

    /**
     * Uploads the list for kernels that address copies of host blocks in GPU memory. A step copies one layer at a time,
     * so the copies of all sections lie in the same place.
     *
     * @param place layer block at which the n-th copy begins
     */
    void upload(Stream stream, IntUnaryOperator place) {
        int[] copies = IntStream.range(0, max()).map(place).toArray();
        for (Section section : sections) {
            section.copies = copies;
        }
        uploadAll(stream, section -> copies);
    }

    /** Kernels read the count of every section, once there is a move. */
    private void uploadAll(Stream stream, Function<Section, int[]> blocks) {
        if (isEmpty()) {
            return;
        }
        for (Section section : sections) {
            section.complete(blocks.apply(section));
        }
        stream.uploadRows(device, 0, memory, bytes(1 + capacity), bytes(1 + max()), sections.length);
    }

    /** Blocks that are copied together. */
    final class Section {
        /** Where its count is, in entries of the list. */
        private final int from;

        private int[] hosts = new int[64];
        /** Layer blocks at which the copies of host blocks begin; for moves through copies only. */
        private int[] copies = new int[0];

        private int count;

        private Section(int from) {
            this.from = from;
        }

        int count() {
            return count;
        }

        int host(int move) {
            return hosts[move];
        }

        int tokens(int move) {
            return memory.getAtIndex(JAVA_INT, entry(move) + 1);
        }

        long address() {
            return device.address() + bytes(from);
        }

        /** Index of the first int of a move. */
        private int entry(int move) {
            return INTS * (from + 1 + move);
        }

        /**
         * Adds a sequence's host blocks, from the one that holds token {@code first} to the last of {@code tokens}
         * tokens.
         *
         * @param layerBlocks one for every {@link ModelShape#BLOCK_TOKENS} tokens of the sequence
         */
        void add(int[] hostBlocks, int[] layerBlocks, int first, int tokens) {
            int begin = first / HostFormat.BLOCK_TOKENS * HostFormat.BLOCK_TOKENS;
            for (int start = begin; start < tokens; start += HostFormat.BLOCK_TOKENS) {
                if (count == capacity) {
                    throw new IllegalStateException(label + " of a step are more than " + capacity + " blocks");
                }
                if (count == hosts.length) {
                    hosts = Arrays.copyOf(hosts, 2 * count);
                }
                hosts[count] = hostBlocks[start / HostFormat.BLOCK_TOKENS];
                int at = entry(count++);
                int inBlock = Math.min(HostFormat.BLOCK_TOKENS, tokens - start);
                set(at + 1, inBlock);
                for (int i = 0; i < RATIO; i++) {
                    set(
                            at + 2 + i,
                            i * ModelShape.BLOCK_TOKENS < inBlock
                                    ? layerBlocks[start / ModelShape.BLOCK_TOKENS + i]
                                    : 0);
                }
            }
        }

        private void set(int at, int value) {
            memory.setAtIndex(JAVA_INT, at, value);
        }

        /** @param step layer blocks from a copy to the next one that the copy engine copies with it */
        void forEachRun(int step, Run run) {
            for (int first = 0, next; first < count; first = next) {
                next = first + 1;
                while (next < count && hosts[next] == hosts[next - 1] + 1 && copies[next] == copies[next - 1] + step) {
                    next++;
                }
                run.accept(hosts[first], copies[first], next - first);
            }
        }

        /** Writes what is known once all moves are: their count, and the blocks by their numbers or copies. */
        private void complete(int[] blocks) {
            set(INTS * from, count);
            for (int i = 0; i < count; i++) {
                set(entry(i), blocks[i]);
            }
        }
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(device, pinned));
        sums.ifPresent(all::add);
        Resources.closeAll(all);
    }
}
