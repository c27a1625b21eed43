package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Quantity.CurveName;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A figure of a paper, as its spec file has it.
 *
 * @param id the paper and the figure on the command line
 * @param title what it shows
 * @param experiment what it measures
 * @param panels its diagrams
 * @param seeds one run of each cell per seed
 * @param claims what the paper says about it
 * @param differences known differences between the paper's setting and the simulated one
 */
public record Figure(
        Id id,
        String title,
        Experiment experiment,
        List<Panel> panels,
        List<Long> seeds,
        List<Claim> claims,
        List<String> differences) {
    /**
     * The name of a figure.
     *
     * @param paper {@code neo} or {@code apex}
     * @param figure such as {@code fig6c}
     */
    public record Id(String paper, String figure) {
        /** Name of files and of the section in the report. */
        public String file() {
            return paper + "-" + figure;
        }

        @Override
        public String toString() {
            return paper + " " + figure;
        }
    }

    /** All figures with a spec file, in the order of the papers. */
    public static final List<Id> ALL = List.of(
            new Id("neo", "fig6a"),
            new Id("neo", "fig6b"),
            new Id("neo", "fig6c"),
            new Id("neo", "fig7"),
            new Id("neo", "fig8a"),
            new Id("neo", "fig8b"),
            new Id("neo", "fig9"),
            new Id("neo", "fig10a"),
            new Id("neo", "fig10b"),
            new Id("apex", "fig2"),
            new Id("apex", "fig3"),
            new Id("apex", "fig6a"),
            new Id("apex", "fig6b"),
            new Id("apex", "fig7"),
            new Id("apex", "fig8"),
            new Id("apex", "fig9"),
            new Id("apex", "speedup"));

    /**
     * Reads a figure.
     *
     * @throws ConfigurationException if no figure has this name; the message lists those of the paper
     */
    public static Figure of(String paper, String figure) {
        Id id = new Id(paper, figure);
        if (!ALL.contains(id)) {
            String known = ALL.stream()
                    .filter(other -> other.paper().equals(paper))
                    .map(Id::figure)
                    .collect(Collectors.joining(", "));
            throw new ConfigurationException(
                    known.isEmpty()
                            ? "paper " + paper + " is not known; use neo or apex"
                            : "figure " + figure + " of " + paper + " is not known; use " + known);
        }
        String file = id.file() + ".json";
        return FigureReader.read(resource(file), file);
    }

    /** This figure with other panels, and the claims whose curves these have. */
    Figure withPanels(List<Panel> others) {
        List<CurveName> curves = others.stream()
                .flatMap(panel -> panel.systems().stream().map(system -> new CurveName(panel.name(), system.name())))
                .toList();
        List<Claim> kept = claims.stream()
                .filter(claim -> curves.containsAll(claim.quantity().curves()))
                .toList();
        return new Figure(id, title, experiment, others, seeds, kept, differences);
    }

    /** This figure with other seeds. */
    Figure withSeeds(List<Long> others) {
        return new Figure(id, title, experiment, panels, others, claims, differences);
    }

    /** The panel of that name. */
    public Panel panel(String name) {
        return panels.stream()
                .filter(panel -> panel.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(id + " has no panel " + name));
    }

    /** The text of a resource of this package. */
    static String resource(String file) {
        try (InputStream resource = Figure.class.getResourceAsStream(file)) {
            if (resource == null) {
                throw new IllegalStateException("the resource " + file + " is missing in this build");
            }
            return new String(resource.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
