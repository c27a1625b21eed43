package dev.tandem.fetch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Progress of a known number of items. */
class ProgressCounterTest {
    private static final int ITEMS = 1000;

    private final List<String> reports = new ArrayList<>();

    private ProgressCounter counter(int items) {
        return new ProgressCounter((what, done, total) -> reports.add(what + " " + done + "/" + total), "work", items);
    }

    @Test
    void reportsOfManyThreadsAreInOrder() {
        ProgressCounter counter = counter(ITEMS);
        IntStream.range(0, ITEMS).parallel().forEach(item -> counter.finished());
        assertThat(reports)
                .containsExactlyElementsOf(IntStream.rangeClosed(0, ITEMS)
                        .mapToObj(done -> "work " + done + "/" + ITEMS)
                        .toList());
    }

    @Test
    void workWithoutItemsIsNotReported() {
        counter(0);
        assertThat(reports).isEmpty();
    }
}
