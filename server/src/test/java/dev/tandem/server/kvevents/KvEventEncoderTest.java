package dev.tandem.server.kvevents;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvTier;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The bytes are those of Python's msgpack 1.2.4 for the same values. */
class KvEventEncoderTest {
    private static final String BATCH =
            "93cb40934a00000000009489a474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739301"
                    + "cd012ccf8000000000000005b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739c7879"
                    + "7a7b7c7d7e7fcc80cc81cc82cc83aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347"
                    + "5055a96c6f72615f6e616d65c0aa65787472615f6b6579739391d924612073616c74206f66206d6f72652074"
                    + "68616e207468697274792d6f6e65206279746573c0c088a474797065ab426c6f636b53746f726564ac626c6f"
                    + "636b5f68617368657391ce00011170b1706172656e745f626c6f636b5f68617368cfffffffffffffffffa974"
                    + "6f6b656e5f6964739400cdffffce000100007faa626c6f636b5f73697a6504a76c6f72615f6964c0a66d6564"
                    + "69756da3435055a96c6f72615f6e616d65c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f"
                    + "68617368657393ccffcc80cf0000000100000000a66d656469756da343505581a474797065b0416c6c426c6f"
                    + "636b73436c656172656400";
    private static final String GROUPS =
            "93cb3ff8000000000000938ba474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739107"
                    + "b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a"
                    + "6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b657973"
                    + "9191a173a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f61747465"
                    + "6e74696f6e8ba474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739109b1706172656e"
                    + "745f626c6f636b5f6861736808a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72"
                    + "615f6964c0a66d656469756da3435055a96c6f72615f6e616d65c0a967726f75705f69647801b26b765f6361"
                    + "6368655f737065635f6b696e64ae736c6964696e675f77696e646f77bc6b765f63616368655f737065635f73"
                    + "6c6964696e675f77696e646f77cd040084a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861"
                    + "736865739109a66d656469756da3435055a967726f75705f6964780100";

    @Test
    void aBatchHasTheBytesOfMsgpack() {
        List<KvEvent> events = List.of(
                new KvEvent.Stored(
                        KvTier.GPU,
                        Optional.empty(),
                        new long[] {1, 300, Long.MIN_VALUE + 5},
                        OptionalLong.empty(),
                        IntStream.range(120, 132).toArray(),
                        4,
                        "a salt of more than thirty-one bytes"),
                new KvEvent.Stored(
                        KvTier.HOST,
                        Optional.empty(),
                        new long[] {70_000},
                        OptionalLong.of(-1),
                        new int[] {0, 65_535, 65_536, 127},
                        4,
                        "a salt of more than thirty-one bytes"),
                new KvEvent.Removed(KvTier.HOST, Optional.empty(), new long[] {255, 128, 1L << 32}),
                new KvEvent.Cleared());
        assertThat(HexFormat.of().formatHex(KvEventEncoder.encode(1234.5, events)))
                .isEqualTo(BATCH);
    }

    /** The fields are those of vLLM 0.29. */
    @Test
    void groupsOfLayersHaveTheFieldsOfVllm() {
        Optional<KvEvent.Group> all = Optional.of(new KvEvent.Group(0, 0));
        Optional<KvEvent.Group> windowed = Optional.of(new KvEvent.Group(1, 1024));
        int[] tokens = {1, 2, 3, 4};
        List<KvEvent> events = List.of(
                new KvEvent.Stored(KvTier.GPU, all, new long[] {7}, OptionalLong.empty(), tokens, 4, "s"),
                new KvEvent.Stored(KvTier.HOST, windowed, new long[] {9}, OptionalLong.of(8), tokens, 4, "s"),
                new KvEvent.Removed(KvTier.HOST, windowed, new long[] {9}));
        assertThat(HexFormat.of().formatHex(KvEventEncoder.encode(1.5, events))).isEqualTo(GROUPS);
    }

    @Test
    void sizesHaveTheBytesOfMsgpack() throws NoSuchAlgorithmException {
        MessagePackWriter out = new MessagePackWriter();
        out.array(6).array(16);
        IntStream.range(0, 16).forEach(out::unsigned);
        out.array(65_536);
        IntStream.range(0, 65_536).forEach(out::unsigned);
        out.text("x".repeat(255)).text("x".repeat(256)).text("x".repeat(65_536)).map(16);
        IntStream.range(0, 16).forEach(i -> out.text(Integer.toString(i)).unsigned(i));
        byte[] bytes = out.toBytes();
        assertThat(bytes).hasSize(262_363);
        assertThat(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes)))
                .isEqualTo("96ee5ea24998e982dcddef44b96e124bcdd83649de55b525e96e848b434a6ddb");
    }
}
