package dev.tandem.fetch.hub;

import dev.tandem.fetch.FetchException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;

/**
 * The files of a repository that a model needs: one GGUF file, the parts of one, or a configuration, a tokenizer and
 * safetensors.
 *
 * @param listing the repository's files
 * @param gguf the GGUF file or all its parts, the first one first; empty for safetensors
 */
public record ModelFiles(HubListing listing, List<HubFile> gguf) {
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

    private static final Pattern PART = Pattern.compile("(.*)-[0-9]{5}-of-([0-9]{5})\\.gguf");
    /** The quantisation of a repository that has several, where none is named. */
    private static final List<String> PREFERRED_TAGS = List.of("Q4_K_M", "Q8_0");

    /**
     * Chooses the files.
     *
     * @throws FetchException when the repository has none in a format that Tandem reads, several for the tag, or not
     *     all parts of a file
     */
    public static ModelFiles choose(HubListing listing) {
        Optional<String> tag = listing.model().tag();
        if (tag.isEmpty() && find(listing, CONFIG).isPresent() && hasSafetensors(listing)) {
            if (find(listing, TOKENIZER).isEmpty()) {
                throw new FetchException(listing.model() + " has no " + TOKENIZER + ", which Tandem needs; choose a"
                        + " repository with one, or one with GGUF files");
            }
            return new ModelFiles(listing, List.of());
        }
        Map<String, GgufModel> tags = tags(listing);
        if (tags.isEmpty()) {
            throw new FetchException(listing.model() + " has neither " + CONFIG
                    + " with safetensors nor GGUF files, but " + formats(listing) + "; Tandem reads those two formats");
        }
        String wanted = tag.orElseGet(() -> PREFERRED_TAGS.stream()
                .filter(tags::containsKey)
                .findFirst()
                .orElse(tags.size() == 1 ? tags.keySet().iterator().next() : ""));
        GgufModel model = tags.get(wanted.toUpperCase(Locale.ROOT));
        if (model == null) {
            throw new FetchException(listing.model().repository() + " has "
                    + tag.map(t -> "no GGUF file " + t).orElse("several GGUF files") + "; choose one of "
                    + list(listing.model(), tags));
        }
        if (!model.isComplete()) {
            throw new FetchException(listing.model().repository() + " has "
                    + model.files().size() + " of "
                    + model.paths().size() + " parts of a GGUF file and lacks "
                    + String.join(", ", model.missing().stream().limit(8).toList())
                    + "; choose another of " + list(listing.model(), tags) + ", or try again later");
        }
        return new ModelFiles(listing, model.files());
    }

    /**
     * A GGUF file of a repository, or the parts of one.
     *
     * @param stem the path without the part's number and the ending
     * @param paths the paths of all parts, in their order
     * @param files those of them that the repository has, in the same order
     */
    private record GgufModel(String stem, List<String> paths, List<HubFile> files) {
        boolean isComplete() {
            return files.size() == paths.size();
        }

        List<String> missing() {
            Set<String> present = new TreeSet<>();
            files.forEach(file -> present.add(file.path()));
            return paths.stream().filter(path -> !present.contains(path)).toList();
        }
    }

    /** What a model in the cache consists of; its parts of safetensors, or a GGUF file with all its parts. */
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
            ModelFiles files = new ModelFiles(listing, List.of());
            try {
                List<HubFile> both = new ArrayList<>(files.description());
                both.addAll(files.weights(snapshot));
                all.add(new Complete(new HubModel(model.repository(), model.revision(), Optional.empty()), both));
            } catch (FetchException e) {
                // a part is missing: the download has not ended
            }
        }
        tags(listing).forEach((tag, gguf) -> {
            if (gguf.isComplete()) {
                all.add(new Complete(
                        new HubModel(model.repository(), model.revision(), Optional.of(tag)), gguf.files()));
            }
        });
        return all;
    }

    private static Optional<HubFile> find(HubListing listing, String path) {
        return listing.files().stream().filter(file -> file.path().equals(path)).findFirst();
    }

    private static boolean hasSafetensors(HubListing listing) {
        return find(listing, WEIGHTS).or(() -> find(listing, INDEX)).isPresent();
    }

    /** GGUF files by quantisation in upper case. */
    private static Map<String, GgufModel> tags(HubListing listing) {
        Map<String, GgufModel> tags = new LinkedHashMap<>();
        for (GgufModel model : ggufModels(listing)) {
            String tag = TAG.matcher(model.stem())
                    .results()
                    .reduce((first, second) -> second)
                    .map(last -> last.group(1))
                    .orElse(model.stem());
            String key = tag.toUpperCase(Locale.ROOT);
            tags.putIfAbsent(tags.containsKey(key) ? model.stem().toUpperCase(Locale.ROOT) : key, model);
        }
        return tags;
    }

    /** The GGUF files of a listing by path, those in parts as one. */
    private static Collection<GgufModel> ggufModels(HubListing listing) {
        Map<String, HubFile> files = new TreeMap<>();
        listing.files().stream()
                .filter(file -> file.path().toLowerCase(Locale.ROOT).endsWith(".gguf"))
                .filter(file -> !NO_MODEL.matcher(file.path()).matches())
                .forEach(file -> files.put(file.path(), file));
        Map<String, GgufModel> models = new LinkedHashMap<>();
        files.forEach((path, file) -> {
            Matcher part = PART.matcher(path);
            if (part.matches()) {
                models.computeIfAbsent(part.group(1) + part.group(2), _ -> parts(part, files));
            } else {
                String stem = path.substring(0, path.length() - ".gguf".length());
                models.put(path, new GgufModel(stem, List.of(path), List.of(file)));
            }
        });
        return models.values();
    }

    private static GgufModel parts(Matcher part, Map<String, HubFile> files) {
        List<String> paths = IntStream.rangeClosed(1, Integer.parseInt(part.group(2)))
                .mapToObj(number ->
                        String.format(Locale.ROOT, "%s-%05d-of-%s.gguf", part.group(1), number, part.group(2)))
                .toList();
        return new GgufModel(
                part.group(1),
                paths,
                paths.stream().filter(files::containsKey).map(files::get).toList());
    }

    private static String list(HubModel model, Map<String, GgufModel> tags) {
        return String.join(
                ", ",
                tags.entrySet().stream()
                        .map(tag -> model.repository() + ":" + tag.getKey() + " ("
                                + String.format(
                                        Locale.ROOT,
                                        "%.1f GB",
                                        HubListing.bytes(tag.getValue().files()) / 1e9)
                                + ")")
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
        return gguf.isEmpty()
                ? listing.files().stream()
                        .filter(file -> DESCRIPTION.contains(file.path()))
                        .toList()
                : List.of();
    }

    /**
     * The files with the weights.
     *
     * @param snapshot the folder with the {@link #description}
     * @throws FetchException when the index of the weights is wrong, or a file that it names is missing
     */
    public List<HubFile> weights(Path snapshot) {
        if (!gguf.isEmpty()) {
            return gguf;
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

    /** What Tandem opens: the snapshot's folder, or within it the GGUF file or its first part. */
    public Path model(Path snapshot) {
        return gguf.isEmpty() ? snapshot : snapshot.resolve(gguf.getFirst().path());
    }
}
