package dev.tandem.app.config;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;
import org.snakeyaml.engine.v2.nodes.Tag;

/**
 * The options of a YAML file: one mapping from long option names to values.
 *
 * @param entries valid lines by key
 * @param problems what is wrong, in the order of the file
 */
public record ConfigurationFile(Path path, Map<String, Entry> entries, List<Problem> problems) {
    /**
     * A valid line.
     *
     * @param line from 1
     */
    public record Entry(String value, int line) {}

    /**
     * One thing that is wrong with the file.
     *
     * @param line from 1; 0 where it concerns the whole file
     */
    public record Problem(int line, String message) {}

    /**
     * Reads a file and checks its keys and the types of its values, but not their ranges.
     *
     * @param named what named the file, for an error
     * @throws ConfigurationException when the file cannot be read
     */
    public static ConfigurationFile read(String named, Path path, KnownOptions known) {
        String text;
        try {
            text = Files.readString(path);
        } catch (NoSuchFileException e) {
            throw new ConfigurationException(named + " " + path + " does not exist; check the path");
        } catch (IOException e) {
            throw new ConfigurationException(named + " " + path + " cannot be read as UTF-8 text ("
                    + e.getClass().getSimpleName() + "); name a YAML file of options");
        }
        ConfigurationFile file = new ConfigurationFile(path, new LinkedHashMap<>(), new ArrayList<>());
        try {
            LoadSettings settings = LoadSettings.builder()
                    .setLabel(path.toString())
                    .setAllowNonScalarKeys(true) // they get a message of their own
                    .build();
            new Compose(settings).composeString(text).ifPresent(node -> file.addAll(node, known));
        } catch (MarkedYamlEngineException e) {
            file.problems.add(new Problem(
                    line(e.getProblemMark()), "this is not YAML (" + e.getProblem() + "); write lines KEY: VALUE"));
        } catch (YamlEngineException e) {
            file.problems.add(new Problem(0, "this is not YAML (" + e.getMessage() + "); write lines KEY: VALUE"));
        }
        return file;
    }

    /** Where and what is wrong: {@code FILE:LINE: message}. */
    public String text(Problem problem) {
        return path + (problem.line() == 0 ? "" : ":" + problem.line()) + ": " + problem.message();
    }

    private static int line(Optional<Mark> mark) {
        return mark.map(at -> at.getLine() + 1).orElse(0);
    }

    private void addAll(Node root, KnownOptions known) {
        if (!(root instanceof MappingNode mapping)) {
            problems.add(new Problem(line(root.getStartMark()), "this is no mapping; write lines KEY: VALUE"));
            return;
        }
        for (NodeTuple pair : mapping.getValue()) {
            int line = line(pair.getKeyNode().getStartMark());
            String key = pair.getKeyNode() instanceof ScalarNode scalar ? scalar.getValue() : "a list or mapping";
            add(key, pair.getValueNode(), line, known).ifPresent(message -> problems.add(new Problem(line, message)));
        }
    }

    /** Adds an entry, or returns what is wrong with it. */
    private Optional<String> add(String key, Node node, int line, KnownOptions known) {
        if (!known.has(key)) {
            return Optional.of(key + " is not an option of tandem serve; "
                    + known.nearest(key)
                            .map(near -> "did you mean " + near + "?")
                            .orElse("tandem config show lists them"));
        }
        if (entries.containsKey(key)) {
            return Optional.of(key + " is also set in line " + entries.get(key).line() + "; remove one of the two");
        }
        Optional<String> value = value(node, known.isList(key));
        if (value.isEmpty()) {
            return Optional.of(key + (known.isList(key) ? " needs a value or a list of values" : " needs one value")
                    + "; write it, or remove the line");
        }
        Optional<String> problem = known.problem(key, value.get());
        if (problem.isEmpty()) {
            entries.put(key, new Entry(value.get(), line));
        }
        return problem;
    }

    /** The value as on the command line; empty for null and for what is no value of an option. */
    private static Optional<String> value(Node node, boolean list) {
        return switch (node) {
            case ScalarNode scalar when !scalar.getTag().equals(Tag.NULL) -> Optional.of(scalar.getValue());
            case SequenceNode sequence
            when list -> {
                List<String> values = new ArrayList<>();
                for (Node item : sequence.getValue()) {
                    value(item, false).ifPresent(values::add);
                }
                yield values.isEmpty() || values.size() < sequence.getValue().size()
                        ? Optional.empty()
                        : Optional.of(String.join(",", values));
            }
            default -> Optional.empty();
        };
    }
}
