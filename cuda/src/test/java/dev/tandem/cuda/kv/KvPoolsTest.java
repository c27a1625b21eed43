package dev.tandem.cuda.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Where KV lies, and which blocks the copy lists name, for models of one group of layers and of several. A letter
 * stands for a layer: w with a window of 20 tokens, f without. Needs no GPU: no kernel is launched.
 */
class KvPoolsTest {
    private static final int GPU_BLOCKS = 20;
    private static final int HOST_BLOCKS = 5;
    private static final int MAX_CHUNK = 64;
    private static final int INTS_PER_MOVE = 8;

    private final FakeDriver fake = new FakeDriver();
    private final Device device = new Device(fake.driver(), 0, 0);
    private final Stream stream = device.stream("test");

    /** A host block of a list, with the layer blocks of its tokens. */
    private record Move(int host, int tokens, List<Integer> gpu) {}

    private static ModelShape shape(String layers) {
        ModelShape whole = GpuRig.shape(layers.length(), 4, 2, 64, 64, 64, 301, DataType.BFLOAT16);
        List<Integer> windows =
                layers.chars().mapToObj(layer -> layer == 'w' ? 20 : 0).toList();
        return GpuRig.withWindows(whole, windows);
    }

    private KvPools pools(ModelShape shape) {
        long hostBytes = HOST_BLOCKS * HostFormat.bytesPerToken(shape) * HostFormat.BLOCK_TOKENS;
        KvLayout layout = shape.layout(MAX_CHUNK);
        return new KvPools(device, null, shape, layout, GPU_BLOCKS, 64, hostBytes, 4, false);
    }

    /** Address of a layer's part of a block, as layerBlock of prelude.cu has it. */
    private static long gpuBlock(ModelShape shape, KvPools pools, int layer, int id) {
        long number = id < pools.pages() ? (long) id * shape.layersPerPage() : id + pools.stagingShift(layer);
        return pools.layer(layer) + number * shape.layerBlockBytes();
    }

    @ParameterizedTest
    @ValueSource(strings = {"fffff", "wwwww", "wwwwfw", "wwfwwwfw", "wfwfwfwf"})
    void everyLayerHasAPlaceOfItsOwnInEveryPage(String layers) {
        ModelShape shape = shape(layers);
        try (KvPools pools = pools(shape)) {
            KvLayout layout = pools.layout();
            Set<Long> gpu = new HashSet<>();
            Set<Long> host = new HashSet<>();
            for (int layer = 0; layer < layers.length(); layer++) {
                for (int page = layout.groupOf(layer); page < pools.pages(); page += layout.groups()) {
                    gpu.add(gpuBlock(shape, pools, layer, page) - pools.gpu().address());
                }
                for (int page = layout.groupOf(layer);
                        page < pools.hostBlocks() * layout.groups();
                        page += layout.groups()) {
                    host.add(pools.hostBlock(layer, page) - pools.hostBlock(0, 0));
                }
            }
            assertThat(gpu)
                    .hasSize(GPU_BLOCKS * layers.length())
                    .allSatisfy(at ->
                            assertThat(at).isBetween(0L, GPU_BLOCKS * shape.blockBytes() - shape.layerBlockBytes()));
            assertThat(pools.hostBlocks()).isEqualTo(HOST_BLOCKS);
            assertThat(host)
                    .hasSize(HOST_BLOCKS * layers.length())
                    .allSatisfy(at -> assertThat(at).isBetween(0L, pools.hostBytes() - HostFormat.blockBytes(shape)));
        }
    }

    /** The sections of a list that was uploaded, from the n-th upload on. */
    private List<List<Move>> uploaded(int from, int groups) {
        List<List<Move>> sections = new ArrayList<>();
        for (long address : fake.uploads.subList(from, from + groups)) {
            MemorySegment ints = MemorySegment.ofAddress(address).reinterpret(1 << 16);
            List<Move> moves = new ArrayList<>();
            for (int i = 1; i <= ints.get(ValueLayout.JAVA_INT, 0); i++) {
                int at = INTS_PER_MOVE * i;
                moves.add(new Move(
                        ints.getAtIndex(ValueLayout.JAVA_INT, at),
                        ints.getAtIndex(ValueLayout.JAVA_INT, at + 1),
                        IntStream.range(at + 2, at + 6)
                                .mapToObj(i2 -> ints.getAtIndex(ValueLayout.JAVA_INT, i2))
                                .toList()));
            }
            sections.add(moves);
        }
        return sections;
    }

    /** A plan may grant pages that one group vacates to another, so all groups' pages are copied in one order. */
    @ParameterizedTest
    @ValueSource(strings = {"fffff", "wwwwfw", "wwfwwwfw"})
    void swapsListPagesWhateverTheirGroup(String layers) {
        ModelShape shape = shape(layers);
        try (KvPools pools = pools(shape)) {
            int perPage = shape.layersPerPage();
            Swap first = new Swap(1, KvTier.GPU, new int[] {7, 2, 9, 4, 3}, KvTier.HOST, new int[] {4, 1}, 70);
            Swap second = new Swap(1, KvTier.GPU, new int[] {1}, KvTier.HOST, new int[] {0}, 6);
            pools.beginStep(List.of(first, second), new int[0]);
            pools.upload(stream);
            assertThat(fake.uploads).as("only the list to the host has moves").hasSize(1);
            assertThat(uploaded(0, 1).getFirst())
                    .containsExactly(
                            new Move(4, 64, List.of(7 * perPage, 2 * perPage, 9 * perPage, 4 * perPage)),
                            new Move(1, 6, List.of(3 * perPage, 0, 0, 0)),
                            new Move(0, 6, List.of(perPage, 0, 0, 0)));
            assertThat(pools.moving()).isEqualTo(new KvPools.Moving(true, false));
        }
    }

    /** A prompt's chunk of 30 tokens after 100, of which windowed layers hold those from 64 on. */
    private static Chunk chunk(KvLayout layout, long sequence, int firstHostBlock) {
        List<KvView> kv = new ArrayList<>();
        for (KvLayout.Kind kind : layout.kinds()) {
            int first = kind.window().start(100) / HostFormat.BLOCK_TOKENS;
            for (int group = kind.first(); group < kind.end(); group++) {
                int of = group;
                kv.add(new KvView(
                        first,
                        IntStream.range(first, 3)
                                .map(block -> (firstHostBlock + block) * layout.groups() + of)
                                .toArray()));
            }
        }
        return new Chunk(sequence, 100, new int[30], kv, AttentionSite.GPU_PREFILL_OFFLOAD, Optional.empty());
    }

    /** Kernels write and read a layer's staged KV by the block table; the copies find it by their own list. */
    @ParameterizedTest
    @ValueSource(strings = {"f", "fffff", "wwwww", "wwwwfw", "wwfwwwfw", "wfwfwfwf"})
    void copiesFindStagedKvWhereTheLayersStoreIt(String layers) {
        ModelShape shape = shape(layers);
        try (KvPools pools = pools(shape)) {
            KvLayout layout = pools.layout();
            PrefillStaging staging = shape.staging();
            List<Chunk> chunks = List.of(chunk(layout, 1, 0), chunk(layout, 2, 3));
            int behind = layout.widest().start(100);
            int blocks = 2 * ((130 - behind - 1) / ModelShape.BLOCK_TOKENS + 1);
            // from the end of the pool, and without room for copies: kernels find the host's blocks themselves
            int[] borrowed = IntStream.range(0, staging.layerBlocks(blocks))
                    .map(i -> pools.pages() - 1 - i)
                    .toArray();
            pools.beginStep(List.of(), borrowed);
            List<List<KvView>> views = chunks.stream().map(pools::stage).toList();
            pools.upload(stream);
            List<List<Move>> leaving = uploaded(0, layout.groups());
            List<List<Move>> returning = uploaded(layout.groups(), layout.groups());
            assertThat(fake.uploadedRows).as("a copy per list").hasSize(layout.groups() == 1 ? 0 : 2);

            Set<Long> places = new HashSet<>();
            for (int layer = 0; layer < layers.length(); layer++) {
                int group = layout.groupOf(layer);
                Map<Integer, List<Long>> staged = new HashMap<>(); // of each host block, where the table has its tokens
                for (int i = 0; i < chunks.size(); i++) {
                    KvView host = chunks.get(i).kv(group);
                    for (int block = host.first(); block < 3; block++) {
                        List<Long> parts = new ArrayList<>();
                        for (int part = 4 * block; part < Math.min(4 * block + 4, 9); part++) {
                            int id = views.get(i).get(group).block(part);
                            parts.add(gpuBlock(shape, pools, layer, id));
                        }
                        staged.put(host.block(block), parts);
                    }
                }
                List<Long> all = staged.values().stream().flatMap(List::stream).toList();
                assertThat(all).as("layer %d", layer).doesNotHaveDuplicates();
                places.addAll(all);
                assertThat(hosts(leaving.get(group)))
                        .as("layer %d, from token 64 on", layer)
                        .containsExactlyElementsOf(hostBlocks(chunks, group, 1, 3));
                assertThat(hosts(returning.get(group)))
                        .as("layer %d, up to token 100", layer)
                        .containsExactlyElementsOf(hostBlocks(chunks, group, 0, 2));
                for (List<Move> moves : List.of(leaving.get(group), returning.get(group))) {
                    for (Move move : moves) {
                        List<Long> parts = staged.get(move.host());
                        for (int i = 0; i < (move.tokens() + 15) / 16; i++) {
                            assertThat(pools.gpu().address() + move.gpu().get(i) * shape.layerBlockBytes())
                                    .as("layer %d, host block %d, part %d", layer, move.host(), i)
                                    .isEqualTo(parts.get(i));
                        }
                    }
                }
            }
            assertThat(places).as("of one layer").hasSize(blocks);
            Set<Long> lent = new HashSet<>();
            for (int page : borrowed) {
                for (int i = 0; i < shape.layersPerPage(); i++) {
                    lent.add(pools.gpu().address()
                            + ((long) page * shape.layersPerPage() + i) * shape.layerBlockBytes());
                }
            }
            assertThat(lent).containsAll(places);
        }
    }

    private static List<Integer> hosts(List<Move> moves) {
        return moves.stream().map(Move::host).toList();
    }

    /** The host blocks of a group that hold the prompts' blocks of 64 tokens from one to another, if it holds these. */
    private static List<Integer> hostBlocks(List<Chunk> chunks, int group, int from, int to) {
        return chunks.stream()
                .map(chunk -> chunk.kv(group))
                .flatMap(kv -> IntStream.range(Math.max(from, kv.first()), to).mapToObj(kv::block))
                .toList();
    }

    /**
     * Copies of host blocks lie behind the staged layer: those that leave, then those that return, in the same place.
     */
    @ParameterizedTest
    @ValueSource(strings = {"fffffffff", "wfwfwfwf"})
    void copiesOfHostBlocksLieInPagesOfTheirOwn(String layers) {
        ModelShape shape = shape(layers);
        try (KvPools pools = pools(shape)) {
            KvLayout layout = pools.layout();
            PrefillStaging staging = shape.staging();
            PrefillStaging.Need need = staging.need(100, 30);
            int[] borrowed = IntStream.range(0, staging.blocks(need))
                    .map(i -> pools.pages() - 1 - i)
                    .toArray();
            pools.beginStep(List.of(), borrowed);
            pools.stage(chunk(layout, 1, 0));
            pools.upload(stream);
            int[] pages = Arrays.copyOfRange(borrowed, staging.layerBlocks(need.gpuBlocks()), borrowed.length);
            int copies = staging.copiesPerBlock();
            List<Integer> places = IntStream.range(0, need.hostBlocks())
                    .mapToObj(i -> pages[i / copies] * shape.layersPerPage() + i % copies * 4)
                    .toList();
            for (int group = 0; group < layout.groups(); group++) {
                int held = 3 - chunk(layout, 1, 0).kv(group).first();
                List<Integer> leaving = hosts(uploaded(0, layout.groups()).get(group));
                List<Integer> returning =
                        hosts(uploaded(layout.groups(), layout.groups()).get(group));
                assertThat(leaving).containsExactlyElementsOf(places.subList(0, 2));
                assertThat(returning).containsExactlyElementsOf(places.subList(2, 2 + held - 1));
            }
        }
    }
}
