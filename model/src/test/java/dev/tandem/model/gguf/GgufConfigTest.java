package dev.tandem.model.gguf;

import static dev.tandem.model.weights.ElementType.BF16;
import static dev.tandem.model.weights.ElementType.F16;
import static dev.tandem.model.weights.ElementType.F32;
import static dev.tandem.model.weights.ElementType.Q4_0;
import static dev.tandem.model.weights.ElementType.Q4_K;
import static dev.tandem.model.weights.ElementType.Q5_0;
import static dev.tandem.model.weights.ElementType.Q6_K;
import static dev.tandem.model.weights.ElementType.Q8_0;
import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.config.DataType;
import java.util.Set;
import org.junit.jupiter.api.Test;

class GgufConfigTest {
    @Test
    void filesWithBlocksGoWithBf16() {
        assertThat(GgufConfig.storage(Set.of(Q4_K, Q6_K))).isEqualTo(DataType.BFLOAT16);
        assertThat(GgufConfig.storage(Set.of(Q5_0, Q8_0))).isEqualTo(DataType.BFLOAT16);
        assertThat(GgufConfig.storage(Set.of(Q4_K, F32))).isEqualTo(DataType.BFLOAT16);
        assertThat(GgufConfig.storage(Set.of(Q4_0, Q8_0))).isEqualTo(DataType.BFLOAT16);
    }

    @Test
    void sixteenBitFilesKeepTheirType() {
        assertThat(GgufConfig.storage(Set.of(BF16))).isEqualTo(DataType.BFLOAT16);
        assertThat(GgufConfig.storage(Set.of(F16))).isEqualTo(DataType.FLOAT16);
    }

    @Test
    void otherTypesAreStoredAsFp32() {
        assertThat(GgufConfig.storage(Set.of(F32))).isEqualTo(DataType.FLOAT32);
        assertThat(GgufConfig.storage(Set.of(F16, BF16))).isEqualTo(DataType.FLOAT32);
    }
}
