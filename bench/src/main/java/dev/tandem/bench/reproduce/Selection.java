package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.config.ConfigurationException;
import java.util.List;
import java.util.OptionalInt;
import java.util.stream.Collectors;

/**
 * The part of a figure that is run. A run of a part has no verdicts: other lengths of runs, and other points, have
 * other numbers.
 *
 * @param requests per cell; empty for the figure's
 * @param x horizontal values of all systems; empty for the figure's
 * @param seeds empty for the figure's
 * @param panels names of diagrams; empty for all
 */
public record Selection(OptionalInt requests, List<Double> x, List<Long> seeds, List<String> panels) {
    /** All of a figure. */
    public static final Selection WHOLE = new Selection(OptionalInt.empty(), List.of(), List.of(), List.of());

    /**
     * Fewest requests of a cell. No experiment chose it: of 10 Poisson arrivals, of which a quarter is the warm-up,
     * none is measured in one of 1,800 runs, and such a run ends with an error.
     */
    private static final int MIN_REQUESTS = 10;

    /** @throws ConfigurationException that names the option, its value and the limit */
    public Selection {
        if (requests.isPresent() && requests.getAsInt() < MIN_REQUESTS) {
            throw new ConfigurationException("--requests " + requests.getAsInt() + " is too small; each cell needs at"
                    + " least " + MIN_REQUESTS + ", of which a quarter may be warm-up");
        }
        for (int i = 0; i < x.size(); i++) {
            if (!(x.get(i) > 0) || i > 0 && x.get(i) <= x.get(i - 1)) {
                throw new ConfigurationException(
                        "--x " + texts(x) + " must be numbers above 0 in rising order, as 50,100");
            }
        }
    }

    /** Whether all of a figure is run. */
    public boolean isWhole() {
        return equals(WHOLE);
    }

    /** The options of the command line, with a blank before each. */
    String options() {
        StringBuilder options = new StringBuilder();
        panels.forEach(panel -> options.append(" --panel '").append(panel).append("'"));
        requests.ifPresent(number -> options.append(" --requests ").append(number));
        options.append(x.isEmpty() ? "" : " --x " + texts(x));
        options.append(
                seeds.isEmpty()
                        ? ""
                        : " --seeds " + seeds.stream().map(String::valueOf).collect(Collectors.joining(",")));
        return options.toString();
    }

    private static String texts(List<Double> numbers) {
        return numbers.stream().map(Numbers::text).collect(Collectors.joining(","));
    }

    /**
     * The part of a figure, with the claims whose curves it has.
     *
     * @throws ConfigurationException when the figure has no such panel, or its horizontal values are fixed
     */
    Figure of(Figure figure) {
        for (String name : panels) {
            if (figure.panels().stream().noneMatch(panel -> panel.name().equals(name))) {
                throw new ConfigurationException("--panel " + name + ": " + figure.id() + " has no such panel; use "
                        + figure.panels().stream().map(Panel::name).collect(Collectors.joining(", ")));
            }
        }
        return figure.withPanels(figure.panels().stream()
                        .filter(panel -> panels.isEmpty() || panels.contains(panel.name()))
                        .map(panel -> of(figure, panel))
                        .toList())
                .withSeeds(seeds.isEmpty() ? figure.seeds() : seeds);
    }

    private Panel of(Figure figure, Panel panel) {
        checkX(figure, panel);
        return new Panel(
                panel.name(),
                panel.setting(),
                panel.workload(),
                figure.experiment().runsRequests() ? requests.orElse(panel.requests()) : panel.requests(),
                panel.rate(),
                panel.systems().stream()
                        .map(system -> new ComparedSystem(
                                system.name(), system.strategy(), system.hostAttention(), x.isEmpty() ? system.x() : x))
                        .toList(),
                panel.marks());
    }

    private void checkX(Figure figure, Panel panel) {
        boolean fixed = switch (figure.experiment()) {
            case THROUGHPUT, TOTAL_TOKENS, SPEEDUP_FORMULA -> !panel.workload().contains("{x}");
            case LOAD_LATENCY, LATENCY_PERCENTILES, LINEAR_SECONDS, ATTENTION_SECONDS -> false;
        };
        if (!x.isEmpty() && fixed) {
            throw new ConfigurationException("--x " + texts(x) + ": panel " + panel.name() + " of " + figure.id()
                    + " has one horizontal value, that of its workload " + panel.workload() + "; leave --x out");
        }
        boolean rates = figure.experiment() == Experiment.LOAD_LATENCY;
        if (!rates && x.stream().anyMatch(value -> value != Math.rint(value))) {
            throw new ConfigurationException(
                    "--x " + texts(x) + ": " + figure.experiment().horizontal() + " must be integers");
        }
        if (figure.experiment() == Experiment.LATENCY_PERCENTILES && x.stream().anyMatch(value -> value > 100)) {
            throw new ConfigurationException("--x " + texts(x) + ": a percentile is at most 100");
        }
    }
}
