package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;

/** Checks the {@code model} field. */
final class ModelName {
    private ModelName() {}

    /** Throws when the request names another model; it may name none. */
    static void check(RequestFields fields, ServedModel model) {
        fields.text("model").ifPresent(name -> {
            if (!name.equals(model.name())) {
                throw RequestException.of(
                        RequestException.Category.NOT_FOUND,
                        "the model '" + Printable.of(name) + "' is not served here; '" + model.name() + "' is");
            }
        });
    }
}
