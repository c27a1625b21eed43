package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Panel.Mark;
import dev.tandem.bench.reproduce.Panel.Setting;
import dev.tandem.bench.reproduce.Quantity.CurveName;
import dev.tandem.bench.reproduce.Reason.Basis;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Reads a figure's spec file: JSON. An error names the file, the place in it, the value and what must be there. */
final class FigureReader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long GIB = 1L << 30;

    private final String origin;
    private List<Panel> panels = List.of();

    private FigureReader(String origin) {
        this.origin = origin;
    }

    /**
     * Reads a spec.
     *
     * @param origin names the text in errors
     * @throws ConfigurationException that names what is missing or wrong
     */
    static Figure read(String text, String origin) {
        try {
            return new FigureReader(origin).figure(JSON.readTree(text));
        } catch (JacksonException e) {
            throw new ConfigurationException(origin + " is no JSON: " + e.getOriginalMessage());
        }
    }

    private Figure figure(JsonNode root) {
        Experiment experiment = experiment(text(root, "experiment"));
        panels = list(root, "panels", node -> panel(node, experiment));
        return new Figure(
                new Figure.Id(text(root, "paper"), text(root, "figure")),
                text(root, "title"),
                experiment,
                panels,
                list(root, "seeds", node -> (long) number(node, "seeds")),
                list(root, "claims", this::claim),
                list(root, "differences", node -> string(node, "differences")));
    }

    private Experiment experiment(String key) {
        return Arrays.stream(Experiment.values())
                .filter(experiment -> experiment.key().equals(key))
                .findFirst()
                .orElseThrow(() -> error(
                        "experiment",
                        "'" + key + "'",
                        "one of "
                                + Arrays.stream(Experiment.values())
                                        .map(Experiment::key)
                                        .collect(Collectors.joining(", "))));
    }

    private Panel panel(JsonNode node, Experiment experiment) {
        List<Double> x = node.has("x") ? numbers(node, "x") : List.of();
        Setting setting = new Setting(
                text(node, "model"),
                text(node, "hardware"),
                experiment.runsRequests() ? count(node, "gpu_blocks") : 0,
                experiment.runsRequests() ? count(node, "host_kv_gib") * GIB : 0,
                experiment.runsRequests() ? count(node, "max_batch_tokens") : 0,
                experiment.runsRequests() ? count(node, "max_requests") : 0);
        return new Panel(
                text(node, "name"),
                setting,
                experiment.runsRequests() ? text(node, "workload") : "",
                experiment.runsRequests() ? count(node, "requests") : 0,
                experiment == Experiment.LATENCY_PERCENTILES ? number(node.path("rate"), "rate") : 0,
                list(node, "systems", system -> system(system, x)),
                node.has("marks") ? list(node, "marks", this::mark) : List.of());
    }

    private ComparedSystem system(JsonNode node, List<Double> shared) {
        List<Double> x = node.has("x") ? numbers(node, "x") : shared;
        for (int i = 0; i < x.size(); i++) {
            if (i > 0 && x.get(i) <= x.get(i - 1)) {
                throw error("x", x.toString(), "increasing");
            }
        }
        if (x.isEmpty()) {
            throw error("x", "empty", "a list of numbers, in the panel or in the system");
        }
        return new ComparedSystem(
                text(node, "name"),
                text(node, "strategy"),
                node.has("host_attention") ? positive(node, "host_attention") : 1,
                x);
    }

    private Mark mark(JsonNode node) {
        double x = node.has("x") ? number(node.path("x"), "x") : Double.NaN;
        double y = node.has("y") ? number(node.path("y"), "y") : Double.NaN;
        if (Double.isNaN(x) && Double.isNaN(y)) {
            throw error("marks", node.toString(), "a mark with x, y or both");
        }
        return new Mark(text(node, "label"), x, y);
    }

    private Claim claim(JsonNode node) {
        return new Claim(
                text(node, "words"),
                text(node, "section"),
                node.has("printed") ? number(node.path("printed"), "printed") : Double.NaN,
                quantity(node.path("check")),
                band(node, "holds"),
                band(node, "direction"),
                node.has("reasons") ? reasons(node) : List.of());
    }

    /** Reasons, of which no two are of one fidelity: a verdict has one reason. */
    private List<Reason> reasons(JsonNode node) {
        List<Reason> reasons = list(node, "reasons", this::reason);
        List<Fidelity> named =
                reasons.stream().flatMap(reason -> reason.fidelities().stream()).toList();
        if (Set.copyOf(named).size() < named.size()) {
            throw error("reasons.fidelities", named.toString(), "one reason per fidelity");
        }
        return reasons;
    }

    private Reason reason(JsonNode node) {
        List<Basis> bases = Arrays.stream(Basis.values())
                .filter(basis -> node.has(basis.key()))
                .toList();
        if (bases.size() != 1) {
            throw error("reasons", node.toString(), "a text as measured or as assumed, and not both");
        }
        return new Reason(
                Set.copyOf(list(node, "fidelities", name -> Fidelity.of(string(name, "fidelities")))),
                bases.getFirst(),
                text(node, bases.getFirst().key()));
    }

    private Quantity quantity(JsonNode node) {
        String kind = text(node, "kind");
        return switch (kind) {
            case "value" -> new Quantity.Value(curve(node, "of"), number(node.path("x"), "x"));
            case "gain" -> new Quantity.Gain(curve(node, "of"), curve(node, "to"), number(node.path("x"), "x"));
            case "max-gain" -> new Quantity.MaxGain(curve(node, "of"), curve(node, "to"), range(node));
            case "min-gain" -> new Quantity.MinGain(curve(node, "of"), curve(node, "to"), range(node));
            case "rise" -> new Quantity.Rise(curve(node, "of"), curve(node, "to"));
            case "fall" -> new Quantity.Fall(curve(node, "of"), curve(node, "to"));
            case "gain-spread" -> new Quantity.GainSpread(curve(node, "of"), curve(node, "to"), range(node));
            case "spread" -> new Quantity.Spread(curve(node, "of"), range(node));
            case "load" -> new Quantity.Load(curve(node, "of"), positive(node, "latency"));
            case "load-gain" -> new Quantity.LoadGain(curve(node, "of"), curve(node, "to"), positive(node, "latency"));
            case "peak-order" -> {
                List<String> names = list(node, "panels", panel -> string(panel, "panels"));
                String of = text(node, "of");
                String to = text(node, "to");
                names.forEach(panel ->
                        Stream.of(of, to).forEach(system -> known(new CurveName(panel, system), "check.panels")));
                yield new Quantity.PeakOrder(names, of, to);
            }
            default ->
                throw error(
                        "check.kind",
                        "'" + kind + "'",
                        "value, gain, max-gain, min-gain, rise, fall, gain-spread, spread, load, load-gain or"
                                + " peak-order");
        };
    }

    /** A curve as {@code panel/system}; the system alone where the figure has one panel. */
    private CurveName curve(JsonNode node, String field) {
        String name = text(node, field);
        int slash = name.indexOf('/');
        CurveName curve = slash >= 0
                ? new CurveName(name.substring(0, slash), name.substring(slash + 1))
                : new CurveName(panels.size() == 1 ? panels.getFirst().name() : "", name);
        known(curve, "check." + field);
        return curve;
    }

    private void known(CurveName curve, String field) {
        List<String> all = panels.stream()
                .flatMap(panel -> panel.systems().stream().map(system -> panel.name() + "/" + system.name()))
                .toList();
        if (!all.contains(curve.panel() + "/" + curve.system())) {
            throw error(field, "'" + curve.panel() + "/" + curve.system() + "'", "one of " + String.join(", ", all));
        }
    }

    private Band range(JsonNode node) {
        return new Band(
                node.has("from") ? number(node.path("from"), "from") : Double.NEGATIVE_INFINITY,
                node.has("until") ? number(node.path("until"), "until") : Double.POSITIVE_INFINITY);
    }

    /** An interval of two numbers, of which one may be null. */
    private Band band(JsonNode node, String field) {
        JsonNode value = node.path(field);
        if (!value.isArray() || value.size() != 2) {
            throw error(field, value.toString(), "two numbers, of which one may be null");
        }
        double low = value.get(0).isNull() ? Double.NEGATIVE_INFINITY : number(value.get(0), field);
        double high = value.get(1).isNull() ? Double.POSITIVE_INFINITY : number(value.get(1), field);
        if (!(low <= high) || low == Double.NEGATIVE_INFINITY && high == Double.POSITIVE_INFINITY) {
            throw error(field, value.toString(), "two numbers in rising order, of which one may be null");
        }
        return new Band(low, high);
    }

    private <T> List<T> list(JsonNode node, String field, Function<JsonNode, T> element) {
        JsonNode value = node.path(field);
        if (!value.isArray() || value.isEmpty()) {
            throw error(field, value.toString(), "a list with at least one element");
        }
        List<T> list = new ArrayList<>();
        value.forEach(each -> list.add(element.apply(each)));
        return List.copyOf(list);
    }

    private List<Double> numbers(JsonNode node, String field) {
        return list(node, field, each -> number(each, field));
    }

    private String text(JsonNode node, String field) {
        return string(node.path(field), field);
    }

    private String string(JsonNode value, String field) {
        if (!value.isString() || value.stringValue().isBlank()) {
            throw error(field, value.toString(), "a text");
        }
        return value.stringValue();
    }

    private int count(JsonNode node, String field) {
        JsonNode value = node.path(field);
        if (!value.isInt() || value.intValue() < 1) {
            throw error(field, value.toString(), "an integer above 0");
        }
        return value.intValue();
    }

    private double positive(JsonNode node, String field) {
        double value = number(node.path(field), field);
        if (!(value > 0)) {
            throw error(field, String.valueOf(value), "above 0");
        }
        return value;
    }

    private double number(JsonNode value, String field) {
        if (!value.isNumber()) {
            throw error(field, value.toString(), "a number");
        }
        return value.doubleValue();
    }

    private ConfigurationException error(String field, String value, String wanted) {
        return new ConfigurationException(
                origin + ": " + field + " is " + (value.isEmpty() ? "missing" : value) + "; it must be " + wanted);
    }
}
