import module java.net.http;
import tools.jackson.databind.*;

String weather(String city) {
    return city.equals("Bern") ? "21 degrees" : "no such city: " + city;
}

/** Asks a model that may call {@link #weather}: java Agent.java URL QUESTION, with Jackson 3 on the class path. */
void main(String[] arguments) throws Exception {
    var json = new ObjectMapper();
    JsonNode body = json.readTree("""
            {"temperature": 0, "max_tokens": 500, "tools": [{"type": "function", "function": {"name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]}""");
    var messages = body.asObject().withArray("messages");
    messages.addObject().put("role", "user").put("content", arguments[1]);
    var request = HttpRequest.newBuilder(URI.create(arguments[0] + "/v1/chat/completions"))
            .header("Content-Type", "application/json");
    JsonNode message;
    do {
        request.POST(HttpRequest.BodyPublishers.ofString(body.toString()));
        var answer = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        message = json.readTree(answer.body()).at("/choices/0/message");
        messages.add(message);
        for (JsonNode call : message.path("tool_calls")) {
            String city = json.readTree(call.at("/function/arguments").asString()).path("city").asString();
            messages.addObject().put("role", "tool").set("tool_call_id", call.path("id")).put("content", weather(city));
        }
    } while (message.has("tool_calls") && messages.size() < 12);
    IO.println(message.path("content").asString());
}
