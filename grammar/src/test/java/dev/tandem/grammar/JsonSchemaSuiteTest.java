package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.grammar.GrammarSource.Whitespace;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Runs the JSON Schema Test Suite for {@code tools/json_schema_suite.py}, which fetches it and judges the results:
 * random outputs of each schema, and which of the suite's instances its grammar accepts.
 */
@EnabledIfSystemProperty(named = "tandem.schema.suite", matches = ".+")
class JsonSchemaSuiteTest {
    private static final long SEED = 20_261;
    private static final int OUTPUTS = 10;
    private static final int MAX_TOKENS = 300;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final SplittableRandom random = new SplittableRandom(SEED);

    @Test
    void everySchemaIsCompiledOrRefused() throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.list(Path.of(System.getProperty("tandem.schema.suite")))) {
            files = all.filter(file -> file.toString().endsWith(".json"))
                    .sorted()
                    .toList();
        }
        int cases = 0;
        try (LlguidanceCompiler compiler = Vocabularies.compiler();
                BufferedWriter results =
                        Files.newBufferedWriter(Path.of(System.getProperty("tandem.schema.results")))) {
            for (Path file : files) {
                for (JsonNode group : JSON.readTree(file)) {
                    results.write(result(compiler, file, group).toString());
                    results.newLine();
                    cases++;
                }
            }
        }
        assertThat(cases).isGreaterThan(100);
    }

    private ObjectNode result(LlguidanceCompiler compiler, Path file, JsonNode group) {
        ObjectNode result = JSON.createObjectNode();
        result.put("file", file.getFileName().toString());
        result.set("description", group.path("description"));
        result.set("schema", group.path("schema"));
        GrammarSource source;
        GrammarCompiler.Compiled compiled;
        try {
            source = GrammarSource.jsonSchema(group.path("schema"), Whitespace.ANY);
            compiled = compiler.compile(source);
        } catch (GrammarException e) {
            return result.put("refused", e.getMessage());
        }
        try (GrammarCompiler.Compiled grammar = compiled) {
            var outputs = result.putArray("outputs");
            for (int i = 0; i < OUTPUTS; i++) {
                String output = Vocabularies.random(grammar, random, MAX_TOKENS);
                if (!output.isEmpty()) {
                    outputs.add(output);
                }
            }
            var instances = result.putArray("instances");
            for (JsonNode test : group.path("tests")) {
                instances
                        .addObject()
                        .put("data", test.path("data").toString())
                        .put("valid", test.path("valid").asBoolean())
                        .put(
                                "accepted",
                                Vocabularies.accepts(grammar, test.path("data").toString()));
            }
        }
        return result;
    }
}
