package dev.tandem.cpu.attention;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.Test;

/** The size of a KV pool is computed in 64 bits. */
class KvStoreTest {
    /** 80 layers times 53,687,092 blocks overflow an int; the bytes are more than any system grants. */
    @Test
    void theSizeOfAHugePoolDoesNotOverflow() {
        try (Arena arena = Arena.ofConfined()) {
            assertThatThrownBy(() -> new KvStore(KvTier.HOST, 53_687_092, 80, 128, 256, DataType.FLOAT32, arena))
                    .isInstanceOf(OutOfMemoryError.class)
                    .hasMessageContaining(" needs 17179869440 MiB ");
        }
    }
}
