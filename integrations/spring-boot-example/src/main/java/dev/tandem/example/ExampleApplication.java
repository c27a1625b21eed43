package dev.tandem.example;

import org.springframework.ai.chat.client.ChatClient;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;

/** Answers questions over HTTP: {@code curl 'http://localhost:8080/ask?question=What+is+a+prime'}. */
@SpringBootApplication
@RestController
public class ExampleApplication {
    private final ChatClient client;

    /** Takes the client that Spring AI has made for the model. */
    public ExampleApplication(ChatClient.Builder client) {
        this.client = client.build();
    }

    /** Starts the application. */
    public static void main(String[] arguments) {
        SpringApplication.run(ExampleApplication.class, arguments);
    }

    /** A whole answer. */
    @GetMapping("/ask")
    public String ask(@RequestParam String question) {
        return client.prompt(question).call().content();
    }

    /** The same as server-sent events, while the model writes it. */
    @GetMapping(path = "/stream", produces = MediaType.TEXT_EVENT_STREAM_VALUE)
    public Flux<String> stream(@RequestParam String question) {
        return client.prompt(question).stream().content();
    }
}
