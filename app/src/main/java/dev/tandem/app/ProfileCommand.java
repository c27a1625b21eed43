package dev.tandem.app;

import dev.tandem.engine.cost.Profile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Measures what the strategies decide by. */
@Command(
        name = "profile",
        mixinStandardHelpOptions = true,
        description = {
            "Measures how long this machine takes for the parts of a step with this model, in seconds, and keeps the",
            "result in the cache, where serve and bench find it. They measure by themselves what is missing; run this",
            "when the machine has changed.",
            "",
            "  tandem profile",
            "  tandem profile my-model/ --dtype bfloat16 --output my-profile.txt"
        })
final class ProfileCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options;

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            description = "Write the profile here too.")
    Optional<Path> output = Optional.empty();

    @Override
    public Integer call() throws IOException {
        output.ifPresent(file -> OutputFile.check("--output", file));
        Profile profile = EngineAssembly.profile(options, System.err);
        System.out.print(profile.format());
        if (output.isPresent()) {
            Files.writeString(output.get(), profile.format());
        }
        return 0;
    }
}
