package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

class GpuMemoryLedgerTest {
    @Test
    void partsAddUpToTheTotal() {
        Map<String, Long> parts = new GpuMemoryLedger(16, 2, 1, 43, 10, 80).parts();
        assertThat(parts).containsEntry("driver, others", 8L).containsEntry("KV pool", 43L);
        long total = parts.get("total");
        assertThat(parts.values().stream().mapToLong(Long::longValue).sum()).isEqualTo(2 * total);
    }
}
