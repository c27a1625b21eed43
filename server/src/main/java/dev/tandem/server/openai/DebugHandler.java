package dev.tandem.server.openai;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.Exchange;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Serves {@code GET /debug/steps}: the scheduler's decisions for the last steps, oldest first. */
final class DebugHandler {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_STEPS = 200;

    private final DecisionLog decisions;

    DebugHandler(DecisionLog decisions) {
        this.decisions = decisions;
    }

    void steps(Exchange exchange) {
        ObjectNode root = JSON.createObjectNode();
        ArrayNode steps = root.putArray("steps");
        for (Decision decision : decisions.last(MAX_STEPS)) {
            ObjectNode step = steps.addObject()
                    .put("step", decision.step())
                    .put("chosen", decision.chosen().label())
                    .put("predicted_ms", decision.predicted() * 1e3)
                    .put("achieved_ms", decision.achieved() * 1e3)
                    .put("host_wait_ms", decision.waited() * 1e3)
                    .put("in_flight", decision.inFlight())
                    .put("finishing", decision.finishing())
                    .put("reason", decision.reason());
            ArrayNode candidates = step.putArray("candidates");
            for (Decision.Candidate candidate : decision.candidates()) {
                candidates
                        .addObject()
                        .put("shape", candidate.shape().label())
                        .put("rows", candidate.rows())
                        .put("cpu_rows", candidate.cpuRows())
                        .put("predicted_ms", candidate.seconds() * 1e3)
                        .put("requests", candidate.requests());
            }
        }
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(root));
    }
}
