package dev.tandem.spring;

import dev.tandem.engine.loop.Engine;
import dev.tandem.library.Tandem;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/**
 * The state of the engine for Spring Boot's Actuator. A degraded engine is up, because it still answers.
 *
 * <p>Owned by: thread-safe.
 */
final class TandemHealthIndicator extends AbstractHealthIndicator {
    private final Tandem tandem;

    TandemHealthIndicator(Tandem tandem) {
        super("the state of the engine could not be read");
        this.tandem = tandem;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
        builder.withDetail("model", tandem.model());
        switch (tandem.health()) {
            case Engine.Health.Serving() -> builder.up();
            case Engine.Health.Degraded(String reason) -> builder.up().withDetail("degraded", reason);
            case Engine.Health.Draining() -> builder.outOfService().withDetail("reason", "the model is shutting down");
            case Engine.Health.Dead(String reason) -> builder.down().withDetail("reason", reason);
        }
    }
}
