package dev.tandem.app;

import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Runs {@code rm}: deletes models that were fetched. */
@Command(
        name = "rm",
        mixinStandardHelpOptions = true,
        description = "Deletes models that were fetched. Files that other revisions use stay.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem rm ORG/MODEL               all its revisions",
            "  tandem rm ORG/MODEL:Q8_0          one GGUF file",
            "  tandem rm smollm2"
        })
final class RemoveCommand implements Callable<Integer> {
    @Parameters(arity = "1..*", paramLabel = "MODEL", description = "A model as tandem list shows it.")
    List<String> models = List.of();

    @Override
    public Integer call() {
        ModelStore store = ModelStore.ofUser();
        for (String model : models) {
            long freed = store.remove(ModelReference.parse(model));
            System.out.println("deleted " + model + ", " + new ByteSize(freed) + " freed");
        }
        return 0;
    }
}
