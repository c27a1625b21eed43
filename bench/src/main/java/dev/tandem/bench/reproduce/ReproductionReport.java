package dev.tandem.bench.reproduce;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.report.HtmlPage;
import dev.tandem.bench.report.Plot;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.ObjectMapper;

/**
 * Writes reproductions into a folder: {@code index.html} with a verdict per claim, one SVG file per panel,
 * {@code points.jsonl} and {@code verdicts.jsonl}.
 *
 * @param reproductions in the order of the report, at least one, all of one origin
 * @param circumstances of the run
 * @param leftOut a line per panel or system that was left out, with the reason
 */
public record ReproductionReport(List<Reproduction> reproductions, Circumstances circumstances, List<String> leftOut) {
    private static final ObjectMapper JSON = new ObjectMapper();
    /**
     * Writes all files; files of the same name are replaced.
     *
     * @param folder created if it is missing
     * @throws ConfigurationException if the folder cannot be written
     */
    public void write(Path folder) {
        try {
            Files.createDirectories(folder);
            List<String> points = new ArrayList<>();
            List<String> verdicts = new ArrayList<>();
            HtmlPage page = new HtmlPage(title());
            introduction().forEach(page::paragraph);
            page.paragraph("Curves are means over the seeds, and bands are their range. Marks, and lines without dots"
                    + " of a system, are numbers that the papers print.");
            page.command(circumstances.command()).paragraph(circumstances.words());
            summary(page);
            for (Reproduction reproduction : reproductions) {
                section(page, reproduction);
                for (Panel panel : reproduction.figure().panels()) {
                    Plot plot = new FigurePlots(reproduction).plot(panel);
                    Files.writeString(folder.resolve(file(reproduction, panel)), plot.svg());
                    page.plot(plot).paragraph(machine(reproduction, panel));
                }
                verdicts(page, reproduction);
                reproduction.points().forEach(point -> points.add(json(line(reproduction, point))));
                reproduction.verdicts().forEach(verdict -> verdicts.add(json(line(reproduction.figure(), verdict))));
            }
            Files.writeString(folder.resolve("index.html"), page.html());
            Files.write(folder.resolve("points.jsonl"), points);
            Files.write(folder.resolve("verdicts.jsonl"), verdicts);
        } catch (IOException e) {
            throw new ConfigurationException(
                    "--output " + folder + " cannot be written: " + e.getMessage() + "; name another folder");
        }
    }

    private Origin origin() {
        return reproductions.getFirst().origin();
    }

    private String title() {
        return switch (origin()) {
            case Origin.Simulated _ -> "Figures of NEO and APEX, simulated by Tandem";
            case Origin.Executed executed -> "Figures of NEO and APEX, executed by Tandem on " + executed.machine();
        };
    }

    /** What ran, and what the numbers are not. */
    private List<String> introduction() {
        List<String> sentences = new ArrayList<>();
        switch (origin()) {
            case Origin.Simulated simulated -> {
                sentences.add("The real scheduler runs over an executor that only counts time.");
                if (!simulated.selection().isWhole()) {
                    sentences.add("Only a part of each figure ran, so there are numbers and no verdicts.");
                }
            }
            case Origin.Executed executed -> {
                sentences.add("The model ran with random weights on " + executed.machine() + ", with the limits of each"
                        + " panel. That is not the machine of the papers, so there are numbers and no verdicts.");
                if (!executed.selection().isWhole()) {
                    sentences.add("Only a part of each figure ran:"
                            + executed.selection().options() + ".");
                }
            }
        }
        if (!leftOut.isEmpty()) {
            sentences.add("Left out: " + String.join("; ", leftOut) + ".");
        }
        return sentences;
    }

    private static String file(Reproduction reproduction, Panel panel) {
        return reproduction.figure().id().file() + "-" + panel.name().replace(' ', '-') + ".svg";
    }

    private void summary(HtmlPage page) {
        List<String> head = new ArrayList<>(List.of("figure", "fidelity"));
        List<Verdict.Outcome> outcomes = Verdict.Outcome.of(origin());
        outcomes.forEach(outcome -> head.add(outcome.words()));
        List<List<String>> rows = new ArrayList<>();
        for (Reproduction reproduction : reproductions) {
            for (Fidelity fidelity : reproduction.fidelities()) {
                List<String> row =
                        new ArrayList<>(List.of(reproduction.figure().id().toString(), fidelity.flag()));
                for (Verdict.Outcome outcome : outcomes) {
                    row.add(String.valueOf(reproduction.verdicts().stream()
                            .filter(verdict -> verdict.fidelity() == fidelity && verdict.outcome() == outcome)
                            .count()));
                }
                rows.add(row);
            }
        }
        page.table(head, rows);
    }

    private static void section(HtmlPage page, Reproduction reproduction) {
        Figure figure = reproduction.figure();
        String fidelities =
                reproduction.fidelities().stream().map(Fidelity::flag).collect(Collectors.joining(","));
        page.heading(figure.id().toString())
                .paragraph(figure.title())
                .command("./tandem reproduce " + figure.id() + " --fidelity " + fidelities
                        + reproduction.origin().options());
    }

    private static void verdicts(HtmlPage page, Reproduction reproduction) {
        page.table(
                List.of("claim", "section", "fidelity", "verdict"),
                reproduction.verdicts().stream()
                        .map(verdict -> List.of(
                                verdict.claim().words(),
                                section(verdict.claim()),
                                verdict.fidelity().flag(),
                                verdict.because()))
                        .toList());
        page.paragraph(
                "Known differences: " + String.join(" ", reproduction.figure().differences()));
    }

    /** Where the claim stands; a section's number is no quantity, so it has its sign. */
    private static String section(Claim claim) {
        return Character.isDigit(claim.section().charAt(0)) ? "§" + claim.section() : claim.section();
    }

    /** The machine of a panel's points: the paper's, or the one at hand. */
    private static String machine(Reproduction reproduction, Panel panel) {
        String named = panel.setting().hardware();
        return switch (reproduction.origin()) {
            case Origin.Simulated _ ->
                panel.name() + ": " + named + ", " + Hardware.named(named).describeProvenance();
            case Origin.Executed executed ->
                panel.name() + ": " + executed.machine() + pool(reproduction, panel) + "; not " + named
                        + ", the machine of the paper";
        };
    }

    /** The panel's GPU memory for KV, where requests ran. */
    private static String pool(Reproduction reproduction, Panel panel) {
        double kib = panel.setting().gpuKvBytes() / 1024.0;
        return !reproduction.figure().experiment().runsRequests()
                ? ""
                : ", with " + panel.setting().gpuBlocks() + " KV blocks ("
                        + (kib < 1024
                                ? String.format(Locale.ROOT, "%.0f KiB", kib)
                                : String.format(Locale.ROOT, "%.0f MiB", kib / 1024))
                        + ")";
    }

    private static Map<String, Object> line(Reproduction reproduction, Point point) {
        Cell cell = point.cell();
        Panel panel = cell.figure().panel(cell.panel());
        boolean simulated = reproduction.origin() instanceof Origin.Simulated;
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("paper", cell.figure().id().paper());
        line.put("figure", cell.figure().id().figure());
        line.put("panel", cell.panel());
        line.put("system", PanelEngine.name(panel.system(cell.system()), cell.fidelity()));
        line.put(
                "strategy",
                PanelEngine.strategy(panel.system(cell.system()), cell.fidelity())
                        .flag());
        line.put("fidelity", cell.fidelity().flag());
        line.put("machine", (simulated ? "simulated: " : "executed: ") + machine(reproduction, panel));
        line.put("model", panel.setting().model());
        line.put("workload", panel.workload());
        line.put("seed", cell.seed());
        line.put("x", point.x());
        line.put("value", point.value());
        line.putAll(point.details());
        return line;
    }

    private Map<String, Object> line(Figure figure, Verdict verdict) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("paper", figure.id().paper());
        line.put("figure", figure.id().figure());
        line.put("claim", verdict.claim().words());
        line.put("section", verdict.claim().section());
        line.put("fidelity", verdict.fidelity().flag());
        line.put(
                "printed",
                Double.isNaN(verdict.claim().printed()) ? null : verdict.claim().printed());
        Estimate mean = verdict.mean();
        line.put("mean", mean.known() ? finite(mean.low()) : null);
        line.put("min", finite(verdict.min()));
        line.put("max", finite(verdict.max()));
        line.put("verdict", verdict.outcome().words());
        line.put("because", verdict.because());
        line.put(
                "reason_is",
                verdict.reason().map(reason -> reason.basis().key()).orElse(null));
        line.putAll(circumstances.fields());
        return line;
    }

    private static @Nullable Double finite(double number) {
        return Double.isFinite(number) ? number : null;
    }

    private static String json(Map<String, Object> line) {
        return JSON.writeValueAsString(line);
    }
}
