package dev.tandem.fetch.hub;

import dev.tandem.fetch.FetchException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;

/**
 * The files of a repository that a model needs: one GGUF file, or a configuration, a tokenizer and safetensors.
 *
 * @param listing the repository's files
 * @param gguf the GGUF file; empty for safetensors
 */
public record ModelFiles(HubListing listing, Optional<HubFile> gguf) {
    private static final String CONFIG = "config.json";
    private static final String TOKENIZER = "tokenizer.json";
    private static final String WEIGHTS = "model.safetensors";
    private static final String INDEX = "model.safetensors.index.json";

    /** What describes a model with safetensors; a repository has those that it needs. */
    private static final Set<String> DESCRIPTION = Set.of(
            CONFIG,
            TOKENIZER,
            INDEX,
            "generation_config.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "chat_template.jinja",
            "chat_template.json");

    /** The quantisation in the name of a file or its folder: Q4_K_M, UD-Q4_K_XL, IQ4_NL, BF16, MXFP4. */
    private static final Pattern TAG = Pattern.compile(
            "(?i)(?<=^|[-._/])((?:UD-)?(?:I?Q[0-9](?:_[0-9A-Z]+)*|BF16|FP?16|FP?32|MXFP4(?:_MOE)?))(?=[-./]|$)");
    /** Files beside a model that are no models: projectors of images, statistics, small models that draft. */
    private static final Pattern NO_MODEL = Pattern.compile("(?i).*(mmproj|imatrix|draft).*");

    private static final Pattern SPLIT = Pattern.compile(".*-[0-9]{5}-of-([0-9]{5})\\.gguf");
    /** The quantisation of a repository that has several, where none is named. */
    private static final List<String> PREFERRED_TAGS = List.of("Q4_K_M", "Q8_0");

    /**
     * Chooses the files.
     *
     * @throws FetchException when the repository has none in a format that Tandem reads, or several for the tag
     */
    public static ModelFiles choose(HubListing listing) {
        Optional<String> tag = listing.model().tag();
        if (tag.isEmpty() && find(listing, CONFIG).isPresent() && hasSafetensors(listing)) {
            if (find(listing, TOKENIZER).isEmpty()) {
                throw new FetchException(listing.model() + " has no " + TOKENIZER + ", which Tandem needs; choose a"
                        + " repository with one, or one with GGUF files");
            }
            return new ModelFiles(listing, Optional.empty());
        }
        Map<String, HubFile> tags = tags(listing);
        if (tags.isEmpty()) {
            throw new FetchException(listing.model() + " has neither " + CONFIG
                    + " with safetensors nor GGUF files, but " + formats(listing) + "; Tandem reads those two formats");
        }
        String wanted = tag.orElseGet(() -> PREFERRED_TAGS.stream()
                .filter(tags::containsKey)
                .findFirst()
                .orElse(tags.size() == 1 ? tags.keySet().iterator().next() : ""));
        HubFile file = tags.get(wanted.toUpperCase(Locale.ROOT));
        if (file == null) {
            throw new FetchException(listing.model().repository() + " has "
                    + tag.map(t -> "no GGUF file " + t).orElse("several GGUF files") + "; choose one of "
                    + list(listing.model(), tags));
        }
        Matcher split = SPLIT.matcher(file.path());
        if (split.matches()) {
            throw new FetchException(file.path() + " of " + listing.model().repository() + " is one of "
                    + Integer.parseInt(split.group(1)) + " parts of a model, and Tandem reads GGUF files of one part;"
                    + " choose another of " + list(listing.model(), tags));
        }
        return new ModelFiles(listing, Optional.of(file));
    }

    /** What a model in the cache consists of; without the tag, its parts of safetensors or each GGUF file. */
    public record Complete(HubModel model, List<HubFile> files) {}

    /**
     * The models of a listing of the cache that are complete.
     *
     * @param snapshot the listing's folder
     */
    public static List<Complete> complete(HubListing listing, Path snapshot) {
        List<Complete> all = new ArrayList<>();
        HubModel model = listing.model();
        if (find(listing, CONFIG).isPresent() && find(listing, TOKENIZER).isPresent() && hasSafetensors(listing)) {
            ModelFiles files = new ModelFiles(listing, Optional.empty());
            try {
                List<HubFile> both = new ArrayList<>(files.description());
                both.addAll(files.weights(snapshot));
                all.add(new Complete(new HubModel(model.repository(), model.revision(), Optional.empty()), both));
            } catch (FetchException e) {
                // a part is missing: the download has not ended
            }
        }
        tags(listing)
                .forEach((tag, file) -> all.add(new Complete(
                        new HubModel(model.repository(), model.revision(), Optional.of(tag)), List.of(file))));
        return all;
    }

    private static Optional<HubFile> find(HubListing listing, String path) {
        return listing.files().stream().filter(file -> file.path().equals(path)).findFirst();
    }

    private static boolean hasSafetensors(HubListing listing) {
        return find(listing, WEIGHTS).or(() -> find(listing, INDEX)).isPresent();
    }

    /** GGUF files by quantisation in upper case; the first part of a file in parts. */
    private static Map<String, HubFile> tags(HubListing listing) {
        Map<String, HubFile> tags = new LinkedHashMap<>();
        List<HubFile> files = listing.files().stream()
                .filter(file -> file.path().toLowerCase(Locale.ROOT).endsWith(".gguf"))
                .filter(file -> !NO_MODEL.matcher(file.path()).matches())
                .sorted(Comparator.comparing(HubFile::path))
                .toList();
        for (HubFile file : files) {
            String path = file.path().substring(0, file.path().length() - ".gguf".length());
            Matcher found = TAG.matcher(path);
            String tag = found.results()
                    .reduce((first, second) -> second)
                    .map(last -> last.group(1))
                    .orElse(path);
            String key = tag.toUpperCase(Locale.ROOT);
            boolean second =
                    tags.containsKey(key) && !SPLIT.matcher(file.path()).matches();
            tags.putIfAbsent(second ? path.toUpperCase(Locale.ROOT) : key, file);
        }
        return tags;
    }

    private static String list(HubModel model, Map<String, HubFile> tags) {
        return String.join(
                ", ",
                tags.entrySet().stream()
                        .map(tag -> model.repository() + ":" + tag.getKey() + " ("
                                + String.format(
                                        Locale.ROOT, "%.1f GB", tag.getValue().size() / 1e9) + ")")
                        .toList());
    }

    private static String formats(HubListing listing) {
        Set<String> endings = new TreeSet<>();
        for (HubFile file : listing.files()) {
            int dot = file.name().lastIndexOf('.');
            endings.add(dot < 0 ? file.name() : "*" + file.name().substring(dot));
        }
        return endings.isEmpty()
                ? "no files"
                : String.join(", ", endings.stream().limit(8).toList());
    }

    /** The files that describe a model with safetensors; none for GGUF, which describes itself. */
    public List<HubFile> description() {
        return gguf.isPresent()
                ? List.of()
                : listing.files().stream()
                        .filter(file -> DESCRIPTION.contains(file.path()))
                        .toList();
    }

    /**
     * The files with the weights.
     *
     * @param snapshot the folder with the {@link #description}
     * @throws FetchException when the index of the weights is wrong, or a file that it names is missing
     */
    public List<HubFile> weights(Path snapshot) {
        if (gguf.isPresent()) {
            return List.of(gguf.get());
        }
        Path index = snapshot.resolve(INDEX);
        if (!Files.exists(index)) {
            return List.of(required(WEIGHTS));
        }
        Set<String> names = new TreeSet<>();
        try {
            new ObjectMapper()
                    .readTree(Files.readAllBytes(index))
                    .path("weight_map")
                    .forEach(name -> names.add(name.asString("")));
        } catch (IOException | JacksonException e) {
            throw new FetchException(index + " cannot be read: " + e.getMessage(), e);
        }
        List<HubFile> files = new ArrayList<>();
        names.forEach(name -> files.add(required(name)));
        return files;
    }

    private HubFile required(String path) {
        return find(listing, path)
                .orElseThrow(() -> new FetchException(
                        listing.model() + " has no " + path + ", which holds weights of the model; try again later"));
    }

    /** What Tandem opens: the snapshot's folder, or the GGUF file within it. */
    public Path model(Path snapshot) {
        return gguf.map(file -> snapshot.resolve(file.path())).orElse(snapshot);
    }
}
