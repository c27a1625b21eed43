package dev.tandem.app;

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
                .filter(known ->
                        present.stream().noneMatch(model -> model.name().equals(known.name())))
                .toList();
        int width = Math.max(
                present.stream().mapToInt(model -> model.name().length()).max().orElse(0),
                others.stream().mapToInt(known -> known.name().length()).max().orElse(0));
        out.println(present.isEmpty() ? "No model was fetched." : "Models on this machine:");
        for (ModelStore.Present model : present) {
            out.println(row(width, model.name(), model.bytes(), model.path().toString()));
        }
        if (!others.isEmpty()) {
            out.println("Short names that tandem pull fetches:");
        }
        for (ShortName known : others) {
            out.println(row(width, known.name(), known.model().bytes(), known.description()));
        }
        return 0;
    }

    private static String row(int width, String name, long bytes, String text) {
        return String.format(Locale.ROOT, "  %-" + width + "s  %9s  %s", name, new ByteSize(bytes), text);
    }
}
