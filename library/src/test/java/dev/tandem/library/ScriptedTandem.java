package dev.tandem.library;

import dev.tandem.server.openai.ServedModel;

/** Makes a model of the tests usable as a loaded one. */
public final class ScriptedTandem {
    private ScriptedTandem() {}

    /** Takes requests for a model that the caller closes. */
    public static Tandem of(ServedModel model) {
        return new Tandem(
                model,
                metrics -> {
                    metrics.watch(
                            model.engine()::stats,
                            model.engine()::waiting,
                            model.engine().limits().blockTokens());
                    return () -> {};
                },
                () -> {});
    }
}
