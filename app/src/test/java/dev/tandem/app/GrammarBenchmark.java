package dev.tandem.app;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.SplittableRandom;
import tools.jackson.databind.ObjectMapper;

/**
 * Times of compiling a grammar and of moving on by a token and computing the next bitmask, with the vocabulary of the
 * model that {@code main} is given, or else of the default model. The grammar is a JSON schema, or the expression of
 * {@code --regex=EXPRESSION} as the first argument. It follows random outputs; {@code main} prints medians and 99th
 * percentiles in microseconds.
 *
 * <p>{@code --schemas=FILE} compiles each distinct schema of a file of JSON lines instead; a line has it under
 * {@code schema}. A schema's time is the median of its compilations.
 */
final class GrammarBenchmark {
    private static final String REGEX = "--regex=";
    private static final String SCHEMAS = "--schemas=";
    private static final int COMPILATIONS = 5;
    private static final int WARM_UP = 20;
    private static final int ROUNDS = 200;
    private static final int MAX_TOKENS = 100;
    private static final String SCHEMA = """
            {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 120}, "email": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 5},
            "address": {"$ref": "#/$defs/address"}}, "required": ["name", "age", "tags", "address"],
            "additionalProperties": false, "$defs": {"address": {"type": "object", "properties":
            {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["street", "zip"], "additionalProperties": false}}}""";

    private GrammarBenchmark() {}

    public static void main(String[] arguments) throws IOException {
        String option = arguments.length > 0 && arguments[0].startsWith("--") ? arguments[0] : "";
        String[] model = Arrays.copyOfRange(arguments, option.isEmpty() ? 0 : 1, arguments.length);
        try (ModelGrammar grammars = new ModelGrammar(model)) {
            if (option.startsWith(SCHEMAS)) {
                compileAll(grammars.compiler, Path.of(option.substring(SCHEMAS.length())));
            } else if (option.startsWith(REGEX)) {
                followOne(grammars, GrammarSource.regex(option.substring(REGEX.length())));
            } else {
                followOne(grammars, source(SCHEMA));
            }
        }
    }

    private static GrammarSource source(String schema) {
        return GrammarSource.jsonSchema(new ObjectMapper().readTree(schema), GrammarSource.Whitespace.ANY);
    }

    private static void compileAll(GrammarCompiler compiler, Path file) throws IOException {
        Set<String> schemas = new LinkedHashSet<>();
        for (String line : Files.readAllLines(file)) {
            schemas.add(new ObjectMapper().readTree(line).path("schema").toString());
        }
        List<Long> medians = new ArrayList<>();
        for (String schema : schemas) {
            try {
                medians.add(medianOfCompiling(compiler, source(schema)));
            } catch (GrammarException e) {
                System.out.println("refused: " + e.getMessage());
            }
        }
        System.out.println(schemas.size() + " distinct schemas");
        print("compile", medians);
    }

    private static long medianOfCompiling(GrammarCompiler compiler, GrammarSource source) {
        long[] times = new long[COMPILATIONS];
        for (int i = 0; i < COMPILATIONS; i++) {
            long start = System.nanoTime();
            GrammarCompiler.Compiled compiled = compiler.compile(source);
            times[i] = System.nanoTime() - start;
            compiled.close();
        }
        Arrays.sort(times);
        return times[COMPILATIONS / 2];
    }

    private static void followOne(ModelGrammar grammars, GrammarSource source) {
        List<Long> compile = new ArrayList<>();
        List<Long> copy = new ArrayList<>();
        List<Long> token = new ArrayList<>();
        SplittableRandom random = new SplittableRandom(1);
        int[] bitmask = grammars.bitmask();
        for (int round = 0; round < WARM_UP + ROUNDS; round++) {
            if (round == WARM_UP) {
                List.of(compile, copy, token).forEach(List::clear);
            }
            long start = System.nanoTime();
            try (GrammarCompiler.Compiled grammar = grammars.compiler.compile(source)) {
                compile.add(System.nanoTime() - start);
                start = System.nanoTime();
                GrammarMatcher matcher = grammar.matcher();
                copy.add(System.nanoTime() - start);
                matcher.fillBitmask(bitmask);
                follow(grammars, matcher, bitmask, random, token);
                matcher.close();
            }
        }
        print("compile", compile);
        print("copy", copy);
        print("token", token);
    }

    private static void follow(
            ModelGrammar model, GrammarMatcher matcher, int[] bitmask, SplittableRandom random, List<Long> times) {
        for (int i = 0; i < MAX_TOKENS; i++) {
            int next = random.ints(0, model.tokenizer.vocabulary().size())
                    .filter(token -> ModelGrammar.isAllowed(bitmask, token))
                    .findFirst()
                    .orElseThrow();
            long start = System.nanoTime();
            matcher.accept(next);
            if (model.ends.contains(next)) {
                return;
            }
            matcher.fillBitmask(bitmask);
            times.add(System.nanoTime() - start);
        }
    }

    private static void print(String what, List<Long> nanos) {
        long[] sorted = nanos.stream().mapToLong(Long::longValue).toArray();
        Arrays.sort(sorted);
        System.out.printf(
                Locale.ROOT,
                "%-8s %,8d times: median %.1f us, p99 %.1f us%n",
                what,
                sorted.length,
                sorted[sorted.length / 2] / 1e3,
                sorted[sorted.length * 99 / 100] / 1e3);
    }
}
