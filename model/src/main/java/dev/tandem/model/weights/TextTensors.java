package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The tensors of the text part of a model that also takes images, under the names of a model of text. Files have
 * {@code language_model.} before these names, or {@code model.language_model.} in place of {@code model.}.
 *
 * <p>Closing it closes the tensors of all parts.
 */
public final class TextTensors implements StoredTensors {
    private static final String BEFORE = "language_model.";
    private static final String WITHIN = "model.";

    private final StoredTensors all;
    /** The file's name of each tensor of the text part. */
    private final Map<String, String> names = new TreeMap<>();

    private final Set<String> unusedParts = new TreeSet<>();

    /** @param all is closed with this */
    public TextTensors(StoredTensors all) {
        this.all = all;
        for (String name : all.names()) {
            Optional<String> text = textName(name);
            text.ifPresent(textName -> names.put(textName, name));
            if (text.isEmpty()) {
                String part = name.startsWith(WITHIN) ? name.substring(WITHIN.length()) : name;
                unusedParts.add(part.substring(0, part.indexOf('.') < 0 ? part.length() : part.indexOf('.')));
            }
        }
    }

    private static Optional<String> textName(String name) {
        if (name.startsWith(BEFORE)) {
            return Optional.of(name.substring(BEFORE.length()));
        }
        if (name.startsWith(WITHIN + BEFORE)) {
            return Optional.of(WITHIN + name.substring(WITHIN.length() + BEFORE.length()));
        }
        return name.startsWith(Role.HEAD.part() + ".") ? Optional.of(name) : Optional.empty();
    }

    /** The number of tensors that text does not need. */
    public int unused() {
        return all.names().size() - names.size();
    }

    /** The parts of the model that these belong to, in alphabetical order. */
    public List<String> unusedParts() {
        return List.copyOf(unusedParts);
    }

    @Override
    public boolean contains(String name) {
        return names.containsKey(name);
    }

    @Override
    public Tensor tensor(String name) {
        String stored = names.get(name);
        if (stored == null) {
            throw new ModelException(
                    origin() + ": the text part has no tensor " + name + ", neither as " + BEFORE + name + " nor as "
                            + WITHIN + BEFORE + name.substring(name.startsWith(WITHIN) ? WITHIN.length() : 0));
        }
        return all.tensor(stored);
    }

    @Override
    public Set<String> names() {
        return Set.copyOf(names.keySet());
    }

    @Override
    public String origin() {
        return all.origin();
    }

    @Override
    public void close() {
        all.close();
    }
}
