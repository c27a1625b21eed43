package dev.tandem.bench.reproduce;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import tools.jackson.databind.ObjectMapper;

/**
 * Writes reproductions into a folder: {@code index.html} with a verdict per claim, one SVG file per panel,
 * {@code points.jsonl} and {@code verdicts.jsonl}.
 *
 * @param reproductions in the order of the report
 */
public record ReproductionReport(List<Reproduction> reproductions) {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String HEAD = """
            <!DOCTYPE html>
            <html lang="en"><head><meta charset="utf-8"><title>Figures of NEO and APEX, simulated by Tandem</title>
            <style>
            :root { color-scheme: light dark; }
            body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
            table { border-collapse: collapse; } td, th { border: 1px solid #8888; padding: 0.3em 0.6em; text-align: left; }
            img { max-width: 100%; } .reproduced { color: #228833; } .direction { color: #bb7700; } .not { color: #cc3344; }
            </style></head><body>
            <h1>Figures of NEO and APEX, simulated by Tandem</h1>
            <p>The real scheduler runs over an executor that only counts time.
            Curves are means over the seeds, and bands are their range.
            Dashed grey lines and crosses are numbers that the papers print.</p>
            """;

    /**
     * Writes all files; files of the same name are replaced.
     *
     * @param folder created if it is missing
     * @param command that makes one figure again, without its name
     * @throws ConfigurationException if the folder cannot be written
     */
    public void write(Path folder, String command) {
        try {
            Files.createDirectories(folder);
            List<String> points = new ArrayList<>();
            List<String> verdicts = new ArrayList<>();
            StringBuilder html = new StringBuilder(HEAD);
            summary(html);
            for (Reproduction reproduction : reproductions) {
                for (Panel panel : reproduction.figure().panels()) {
                    Files.writeString(folder.resolve(file(reproduction, panel)), Diagram.svg(reproduction, panel));
                }
                reproduction.points().forEach(point -> points.add(json(line(point))));
                reproduction.verdicts().forEach(verdict -> verdicts.add(json(line(reproduction.figure(), verdict))));
                section(html, reproduction, command);
            }
            Files.writeString(folder.resolve("index.html"), html.append("</body></html>\n"));
            Files.write(folder.resolve("points.jsonl"), points);
            Files.write(folder.resolve("verdicts.jsonl"), verdicts);
        } catch (IOException e) {
            throw new ConfigurationException(
                    "--output " + folder + " cannot be written: " + e.getMessage() + "; name another folder");
        }
    }

    private static String file(Reproduction reproduction, Panel panel) {
        return reproduction.figure().id().file() + "-" + panel.name().replace(' ', '-') + ".svg";
    }

    private void summary(StringBuilder html) {
        html.append("<table><tr><th>figure</th><th>fidelity</th>");
        for (Verdict.Outcome outcome : Verdict.Outcome.values()) {
            html.append("<th>").append(outcome.words()).append("</th>");
        }
        html.append("</tr>\n");
        for (Reproduction reproduction : reproductions) {
            for (Fidelity fidelity : reproduction.fidelities()) {
                Map<Verdict.Outcome, Long> counts = reproduction.verdicts().stream()
                        .filter(verdict -> verdict.fidelity() == fidelity)
                        .collect(Collectors.groupingBy(Verdict::outcome, Collectors.counting()));
                html.append("<tr><td><a href=\"#")
                        .append(reproduction.figure().id().file())
                        .append("\">")
                        .append(reproduction.figure().id())
                        .append("</a></td><td>")
                        .append(fidelity.flag())
                        .append("</td>");
                for (Verdict.Outcome outcome : Verdict.Outcome.values()) {
                    html.append("<td>").append(counts.getOrDefault(outcome, 0L)).append("</td>");
                }
                html.append("</tr>\n");
            }
        }
        html.append("</table>\n");
    }

    private static void section(StringBuilder html, Reproduction reproduction, String command) {
        Figure figure = reproduction.figure();
        html.append("<h2 id=\"").append(figure.id().file()).append("\">").append(figure.id()).append("</h2>\n<p>");
        html.append(Html.escaped(figure.title())).append("</p>\n<pre>");
        html.append(Html.escaped(command.replace("FIGURE", figure.id().toString()))).append("</pre>\n");
        for (Panel panel : figure.panels()) {
            html.append("<figure><img src=\"").append(file(reproduction, panel)).append("\" alt=\"");
            html.append(Html.escaped(panel.name())).append("\"><figcaption>");
            html.append(Html.escaped(machine(panel))).append("</figcaption></figure>\n");
        }
        html.append("<table><tr><th>claim</th><th>section</th><th>fidelity</th><th>verdict</th></tr>\n");
        for (Verdict verdict : reproduction.verdicts()) {
            html.append("<tr><td>").append(Html.escaped(verdict.claim().words()));
            html.append("</td><td>").append(Html.escaped(verdict.claim().section()));
            html.append("</td><td>").append(verdict.fidelity().flag());
            html.append("</td><td class=\"").append(verdict.outcome().words().split(" ")[0]).append("\">");
            html.append(Html.escaped(verdict.because())).append("</td></tr>\n");
        }
        html.append("</table>\n<p>Known differences:</p>\n<ul>\n");
        figure.differences().forEach(
                difference -> html.append("<li>").append(Html.escaped(difference)).append("</li>\n"));
        html.append("</ul>\n");
    }

    private static String machine(Panel panel) {
        return panel.name() + ": " + panel.setting().hardware() + ", "
                + Hardware.named(panel.setting().hardware()).describeProvenance();
    }

    private static Map<String, Object> line(Point point) {
        Cell cell = point.cell();
        Panel panel = cell.figure().panel(cell.panel());
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("paper", cell.figure().id().paper());
        line.put("figure", cell.figure().id().figure());
        line.put("panel", cell.panel());
        line.put("system", cell.system());
        line.put("strategy", panel.system(cell.system()).strategy());
        line.put("fidelity", cell.fidelity().flag());
        line.put("machine", "simulated: " + machine(panel));
        line.put("model", panel.setting().model());
        line.put("workload", panel.workload());
        line.put("seed", cell.seed());
        line.put("x", point.x());
        line.put("value", point.value());
        line.putAll(point.details());
        return line;
    }

    private static Map<String, Object> line(Figure figure, Verdict verdict) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("paper", figure.id().paper());
        line.put("figure", figure.id().figure());
        line.put("claim", verdict.claim().words());
        line.put("section", verdict.claim().section());
        line.put("fidelity", verdict.fidelity().flag());
        line.put("printed", Double.isNaN(verdict.claim().printed()) ? null : verdict.claim().printed());
        line.put("mean", verdict.mean());
        line.put("min", verdict.low());
        line.put("max", verdict.high());
        line.put("verdict", verdict.outcome().words());
        line.put("because", verdict.because());
        return line;
    }

    private static String json(Map<String, Object> line) {
        return JSON.writeValueAsString(line);
    }
}
