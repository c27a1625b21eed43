package dev.tandem.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.ArmRanking;
import dev.tandem.engine.strategy.select.SelectorLimits;
import dev.tandem.engine.strategy.select.StrategySelector;
import dev.tandem.engine.strategy.select.ThroughputWindow;
import io.prometheus.metrics.model.snapshots.CounterSnapshot;
import io.prometheus.metrics.model.snapshots.DataPointSnapshot;
import io.prometheus.metrics.model.snapshots.GaugeSnapshot;
import io.prometheus.metrics.model.snapshots.HistogramSnapshot;
import io.prometheus.metrics.model.snapshots.Label;
import io.prometheus.metrics.model.snapshots.MetricSnapshot;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ServerMetricsTest {
    private double ratio = Double.NaN;

    @Test
    void theIdealGainIsReadAtEachScrapeAndAbsentWhileUnknown() {
        ServerMetrics metrics = new ServerMetrics("m");
        metrics.watchIdeal(() -> ratio);
        assertThat(scrape(metrics)).doesNotContain("tandem:ideal_gain{");
        ratio = 1.25;
        assertThat(scrape(metrics)).contains("tandem:ideal_gain{engine=\"0\",model_name=\"m\"} 0.25\n");
    }

    @Test
    void stepsCountHowTheySampledAndForWhatTheyWaited() {
        ServerMetrics metrics = new ServerMetrics("m");
        for (boolean later : new boolean[] {true, false, true}) {
            metrics.step(new StepRecord(
                    0,
                    new StepRecord.Tokens(0, 1, 0),
                    0,
                    0,
                    0,
                    0,
                    new StepRecord.Sampling(later, 3, 250_000_000),
                    StepTimes.ofHost(0, 0, 500_000_000)));
        }
        assertThat(scrape(metrics))
                .contains("tandem:steps_sampled_later_total{engine=\"0\",model_name=\"m\"} 2.0\n")
                .contains("tandem:bitmask_wait_seconds_total{engine=\"0\",model_name=\"m\"} 0.75\n")
                .contains("tandem:host_wait_seconds_total{engine=\"0\",model_name=\"m\"} 1.5\n")
                .contains("tandem:late_bitmasks_total{engine=\"0\",model_name=\"m\"} 9.0\n");
    }

    @Test
    void aServerThatWatchesEverythingHasTheMetricsOfTheTableWithTheirTypesAndLabels() {
        ServerMetrics metrics = watchingEverything();
        List<String> registered = new ArrayList<>();
        for (MetricSnapshot snapshot : metrics.collect()) {
            registered.add(describe(snapshot));
        }
        assertThat(registered)
                .containsExactlyInAnyOrderElementsOf(
                        List.of(Metric.values()).stream().map(this::describe).toList());
    }

    @Test
    void theTextHasTheNamesOfTheTable() {
        String text = scrape(watchingEverything());
        for (Metric metric : Metric.values()) {
            if (metric != Metric.MEASURED_GAIN && metric != Metric.IDEAL_GAIN) { // unknown here
                assertThat(text)
                        .contains("\n# TYPE " + metric.exposed() + " "
                                + metric.type().name().toLowerCase(Locale.ROOT) + "\n");
            }
        }
    }

    /** 1,000 tokens were looked up; 300 of them lay in GPU blocks and 450 in host blocks. */
    @Test
    void theHostTierIsTheExternalCache() {
        ServerMetrics metrics = new ServerMetrics("m");
        PrefixCacheUse.Tier none = new PrefixCacheUse.Tier(0, 0);
        EngineStats stats =
                stats(new PrefixCacheUse(1000, 200, 50, new PrefixCacheUse.Copied(400, 100), none, none, 0));
        metrics.watch(() -> stats, () -> 0, 16);
        metrics.finished(
                new Request("a", new int[] {1}, SamplingParams.builder().build(), 0, TextDecoder.none(), event -> {}),
                FinishReason.LENGTH,
                new Usage(90, 5, 0, 0, 0, 0, 0, 70, 30, List.of()));
        String labels = "{engine=\"0\",model_name=\"m\"} ";
        String bySource = "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"m\",source=\"";
        assertThat(scrape(metrics))
                .contains("vllm:prefix_cache_queries_total" + labels + "1000.0\n")
                .contains("vllm:prefix_cache_hits_total" + labels + "300.0\n")
                .contains("vllm:gpu_prefix_cache_hits_total" + labels + "300.0\n")
                .contains("vllm:external_prefix_cache_queries_total" + labels + "700.0\n")
                .contains("vllm:external_prefix_cache_hits_total" + labels + "450.0\n")
                .contains("vllm:prompt_tokens_total" + labels + "90.0\n")
                .contains("vllm:prompt_tokens_cached_total" + labels + "70.0\n")
                .contains(bySource + "local_compute\"} 20.0\n")
                .contains(bySource + "local_cache_hit\"} 40.0\n")
                .contains(bySource + "external_kv_transfer\"} 30.0\n")
                .contains("vllm:kv_cache_usage_perc" + labels + "0.25\n")
                .contains("vllm:gpu_cache_usage_perc" + labels + "0.25\n")
                .contains("source=\"gpu\"} 200.0\n")
                .contains("source=\"host\"} 50.0\n")
                .contains("source=\"copied\"} 500.0\n");
    }

    /** A host block has three pages. */
    @Test
    void theBlocksOfATierAreCountedByStateAndAddUpToItsPool() {
        String text = scrape(watchingEverything());
        String gpu = "tandem:kv_blocks{engine=\"0\",model_name=\"m\",state=\"%s\",tier=\"gpu\"} %s\n";
        assertThat(text)
                .contains(gpu.formatted("free", "3.0"))
                .contains(gpu.formatted("private", "2.0"))
                .contains(gpu.formatted("held", "0.0"))
                .contains(gpu.formatted("cached", "2.0"))
                .contains(gpu.formatted("quarantined", "1.0"));
        double host = text.lines()
                .filter(line -> line.startsWith("tandem:kv_blocks{") && line.contains("tier=\"host\""))
                .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' '))))
                .sum();
        assertThat(host).isCloseTo(4, within(1e-9));
    }

    @Test
    void copiedKvHasTheNamesOfVllmsOffloading() {
        String labels = "{engine=\"0\",model_name=\"m\"} ";
        assertThat(scrape(watchingEverything()))
                .contains("vllm:kv_offload_load_bytes_total" + labels + "700.0\n")
                .contains("vllm:kv_offload_store_bytes_total" + labels + "900.0\n");
    }

    private static EngineStats stats(PrefixCacheUse use) {
        return new EngineStats(
                new EngineStats.Requests(0, 0, 0, 0, 0),
                new EngineStats.Pool(8, 1, 3, 2, 0, 2, 1, 700),
                new EngineStats.Pool(4, 3, 8, 1, 2, 1, 0, 900),
                0,
                use,
                "");
    }

    private static ServerMetrics watchingEverything() {
        ServerMetrics metrics = new ServerMetrics("m");
        PrefixCacheUse.Tier none = new PrefixCacheUse.Tier(0, 0);
        EngineStats stats = stats(new PrefixCacheUse(0, 0, 0, new PrefixCacheUse.Copied(0, 0), none, none, 0));
        metrics.watch(() -> stats, () -> 0, 16);
        metrics.watchKvEvents(() -> 0, () -> 0);
        CostModel cost = TestProfile.model();
        metrics.watch(cost);
        metrics.watch(new StrategySelector(
                List.of(),
                Optional.empty(),
                new StepPredictor(cost, true, 0),
                new AllEqual(),
                SelectorLimits.DEFAULT,
                () -> Double.NaN));
        metrics.watchIdeal(() -> Double.NaN);
        metrics.watchTraces(() -> 0);
        return metrics;
    }

    /** Finds any two windows equal. */
    private static final class AllEqual implements ArmRanking {
        @Override
        public StepPredictor.Work work(StepDraft draft) {
            throw new IllegalStateException("no step is drafted here");
        }

        @Override
        public double ratio(ThroughputWindow candidate, ThroughputWindow reference, double promptCost) {
            return 1;
        }
    }

    /** Name, type and labels; a metric without values has no labels yet. */
    private static String describe(MetricSnapshot snapshot) {
        String type = switch (snapshot) {
            case CounterSnapshot counter -> "COUNTER";
            case GaugeSnapshot gauge -> "GAUGE";
            case HistogramSnapshot histogram -> "HISTOGRAM";
            default -> throw new AssertionError("Metric.Type has no " + snapshot.getClass());
        };
        String name = snapshot.getMetadata().getName() + (type.equals("COUNTER") ? "_total" : "");
        return name + " " + type + " "
                + snapshot.getDataPoints().stream()
                        .findFirst()
                        .map(DataPointSnapshot::getLabels)
                        .map(labels ->
                                labels.stream().map(Label::getName).sorted().toList())
                        .orElse(List.of());
    }

    private String describe(Metric metric) {
        boolean hasValue = metric != Metric.MEASURED_GAIN && metric != Metric.IDEAL_GAIN;
        return metric.exposed() + " " + metric.type() + " "
                + (hasValue ? metric.labels().stream().sorted().toList() : List.of());
    }

    private static String scrape(ServerMetrics metrics) {
        return new String(metrics.scrape(), StandardCharsets.UTF_8);
    }
}
