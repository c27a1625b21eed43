package dev.tandem.server.fuzz;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.openai.RequestReading;

/** Fuzz target: each endpoint accepts any body or refuses it with an error of one short line. */
public final class RequestFuzz {
    private static final int MAX_MESSAGE = 2000;

    private RequestFuzz() {}

    public static void fuzzerTestOneInput(byte[] body) {
        try {
            RequestReading.read(body);
        } catch (RequestException e) {
            if (e.getMessage().length() > MAX_MESSAGE || e.getMessage().chars().anyMatch(Character::isISOControl)) {
                throw new AssertionError("the error message is long or has control characters: " + e.getMessage(), e);
            }
            RequestReading.error(e.getMessage(), e.parameter());
        }
    }
}
