package dev.tandem.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.weights.ElementType;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Every block type against the gguf Python package (tools/make_gguf_goldens.py), bit for bit. */
class BlockUnpackingTest {
    private static final Path FOLDER = Path.of("src/test/resources/gguf-blocks");

    @ParameterizedTest
    @EnumSource(value = ElementType.class, names = "F32", mode = EnumSource.Mode.EXCLUDE)
    void unpacksLikeTheReference(ElementType type) throws IOException {
        byte[] blocks = Files.readAllBytes(FOLDER.resolve(type + ".blocks"));
        ByteBuffer values = ByteBuffer.wrap(Files.readAllBytes(FOLDER.resolve(type + ".values")))
                .order(ByteOrder.LITTLE_ENDIAN);
        float[] expected = new float[values.remaining() / 4];
        values.asFloatBuffer().get(expected);
        float[] actual = new float[expected.length + 3];
        type.unpack(MemorySegment.ofArray(blocks), 0, expected.length, actual, 3);
        for (int i = 0; i < expected.length; i++) {
            assertThat(actual[i + 3]).as("%s value %d", type, i).isEqualTo(expected[i]);
        }
    }
}
