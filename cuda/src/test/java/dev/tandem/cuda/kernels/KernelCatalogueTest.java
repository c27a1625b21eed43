package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.model.config.DataType;
import java.util.List;
import org.junit.jupiter.api.Test;

class KernelCatalogueTest {
    @Test
    void sharedMemoryPerComputeCapability() {
        assertThat(KernelCatalogue.CAPABILITIES).containsExactly(75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121);
        assertThat(KernelCatalogue.CAPABILITIES.stream().map(KernelCatalogue::sharedMemory))
                .containsExactly(65536, 166912, 101376, 166912, 101376, 232448, 232448, 232448, 232448, 101376, 101376);
    }

    @Test
    void theErrorForAnUnsupportedCapabilityListsTheSupportedOnes() {
        assertThatThrownBy(() -> KernelCatalogue.require(130))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("compute capability 13.0")
                .hasMessageContaining("7.5, 8.0")
                .hasMessageContaining("12.0, 12.1")
                .hasMessageContaining("--device cpu");
    }

    @Test
    void onAT4PrefillHasTwoStagesForHeadsOf128AndOneFor256() {
        List<ModelShape> models = KernelCatalogue.models(DataType.FLOAT16);
        int t4 = KernelCatalogue.sharedMemory(75);
        assertThat(KernelCatalogue.prefill(models.getFirst(), 75, t4).stages()).isEqualTo(2);
        assertThat(KernelCatalogue.prefill(models.get(3), 75, t4).stages()).isEqualTo(1);
    }

    @Test
    void limitationsNameCapabilitiesThatNeverRan() {
        assertThat(KernelCatalogue.limitations(90, false)).isEmpty();
        assertThat(KernelCatalogue.limitations(90, true))
                .hasSize(1)
                .first()
                .asString()
                .contains("MIG slice");
        assertThat(KernelCatalogue.limitations(75, false))
                .anyMatch(limitation -> limitation.contains("7.5 and have never run on it"));
        assertThat(KernelCatalogue.limitations(121, false))
                .anyMatch(limitation -> limitation.contains("12.1 and have never run on it"));
    }
}
