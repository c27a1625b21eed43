package dev.tandem.app;

import dev.tandem.bench.reproduce.Selection;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import picocli.CommandLine.Option;

/** Options that choose a part of a figure. */
@Section(Section.Heading.COMMAND)
final class SelectionOptions {
    @Option(
            names = "--panel",
            paramLabel = "NAME",
            split = ",",
            description = "Run these diagrams of the figure alone, as t4. Default: all.")
    List<String> panels = List.of();

    @Option(
            names = "--requests",
            paramLabel = "NUMBER",
            description = "Requests per cell, where a figure runs requests. Default: the figure's.")
    Optional<Integer> requests = Optional.empty();

    @Option(
            names = "--x",
            paramLabel = "NUMBER",
            split = ",",
            description = "Horizontal values in place of the figure's, for all systems, as 50,100: output tokens,"
                    + " requests/s or percentiles. Default: the figure's.")
    List<Double> x = List.of();

    @Option(
            names = "--seeds",
            paramLabel = "NUMBER",
            split = ",",
            description = "Seeds of lengths and arrivals in place of the figure's, as 1,2. Default: the figure's.")
    List<Long> seeds = List.of();

    Selection selection() {
        return new Selection(
                requests.map(OptionalInt::of).orElse(OptionalInt.empty()),
                List.copyOf(x),
                seeds.stream().distinct().toList(),
                panels.stream().distinct().toList());
    }
}
