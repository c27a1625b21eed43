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

/** Runs {@code profile}: measures the profile from which strategies predict step times. */
@Command(
        name = "profile",
        mixinStandardHelpOptions = true,
        description = "Measures how long this machine takes for each part of a step with this model, and keeps the"
                + " result in the cache for serve and bench. They measure by themselves when there is none; run this"
                + " when the machine has changed.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem profile", "  tandem profile my-model/ --dtype bfloat16 --output my-profile.txt"})
final class ProfileCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            description = "Also write the profile to this file. Default: none.")
    Optional<Path> output = Optional.empty();

    @Override
    public Integer call() throws IOException {
        output.ifPresent(file -> OutputFile.check("--output", file));
        Profile profile = EngineAssembly.profile(options, new StartLog(System.err, true));
        System.out.print(profile.format());
        if (output.isPresent()) {
            Files.writeString(output.get(), profile.format());
        }
        return 0;
    }
}
