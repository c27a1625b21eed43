import java.net.URI;
import java.net.http.*;
import tools.jackson.databind.*;
import tools.jackson.databind.node.*;

/** Asks a model that may call {@link #weather}: java Agent.java URL QUESTION, with Jackson 3 on the class path. */
public final class Agent {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNode TOOLS = JSON.readTree("""
            [{"type": "function", "function": {"name": "weather", "description": "The weather of a city now",
              "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]""");

    static String weather(String city) {
        return city.equals("Bern") ? "21 degrees" : "no such city: " + city;
    }

    public static void main(String[] arguments) throws Exception {
        ArrayNode messages = JSON.createArrayNode();
        messages.addObject().put("role", "user").put("content", arguments[1]);
        JsonNode message = answer(arguments[0], messages);
        for (int round = 0; round < 5 && message.has("tool_calls"); round++) {
            messages.add(message);
            for (JsonNode call : message.path("tool_calls")) {
                JsonNode values = JSON.readTree(call.at("/function/arguments").asString());
                messages.addObject().put("role", "tool").put("tool_call_id", call.path("id").asString())
                        .put("content", weather(values.path("city").asString()));
            }
            message = answer(arguments[0], messages);
        }
        System.out.println(message.path("content").asString());
    }

    private static JsonNode answer(String url, ArrayNode messages) throws Exception {
        ObjectNode body = JSON.createObjectNode().put("max_tokens", 500).set("messages", messages).asObject();
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/v1/chat/completions"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body.set("tools", TOOLS).toString())).build();
        String json = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
        return JSON.readTree(json).at("/choices/0/message");
    }
}
