package dev.tandem.app;

import dev.tandem.bench.Profiler;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.cost.ProfileException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.fetch.CacheFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** A cache of measured profiles, by machine, model and options. */
final class Profiles {
    /** Raised when profiles are measured in another way, so that kept ones are measured again. */
    private static final int METHOD = 4;

    private final Path folder;
    private final StartLog log;

    /** @param folder created when missing */
    Profiles(Path folder, StartLog log) {
        this.folder = folder;
        this.log = log;
    }

    /** The machine, model and options for which a profile is valid. */
    static String name(String model, String dtype, int threads, int attentionThreads) {
        return MachineProbe.machine() + "; " + model + "; " + dtype + "; CPU executor, " + threads + " threads, "
                + attentionThreads + " for attention";
    }

    /** Reads the profile from this file, or the cached one of the backend; otherwise measures one now. */
    Profile find(Optional<Path> file, Backend backend) {
        return known(file, backend.profileName(), backend.executor().limits()).orElseGet(() -> measure(backend));
    }

    /** Reads the profile from this file, or the cached one of this name; empty where the cache has none to use. */
    Optional<Profile> known(Optional<Path> file, String name, ExecutorLimits limits) {
        if (file.isPresent()) {
            Profile profile = read(file.get());
            if (!profile.name().equals(name)) {
                log.notice("The profile " + file.get() + " is of '" + profile.name() + "' and this is '" + name
                        + "', so predictions may be wrong; on a GPU, only those of CPU attention are corrected while"
                        + " the server runs. Leave --profile out to measure this machine.");
            }
            check(profile, limits.layers(), file.get().toString());
            return Optional.of(profile);
        }
        Optional<Profile> cached = cached(name, limits.layers());
        if (cached.isPresent() && !reaches(cached.get(), limits)) {
            log.notice("The profile in the cache is not used: " + path(name)
                    + " was measured with a far smaller KV pool.");
            return Optional.empty();
        }
        cached.ifPresent(profile -> log.detail("profile: " + path(name)));
        return cached;
    }

    /** Reads the cached profile of this name; empty where there is none, or, with a notice, none that can be used. */
    Optional<Profile> cached(String name, int layers) {
        Path file = path(name);
        if (!Files.exists(file)) {
            return Optional.empty();
        }
        try {
            Profile profile = read(file);
            check(profile, layers, file.toString());
            return Optional.of(profile);
        } catch (ProfileException e) {
            log.notice("The profile in the cache is not used: " + e.getMessage());
            return Optional.empty();
        }
    }

    /** Whether the profile was measured with a pool that is not much smaller than this one. */
    private static boolean reaches(Profile profile, ExecutorLimits limits) {
        long tokens = (long) limits.gpuBlocks() * limits.blockTokens();
        return profile.gpuAttention().covers(Math.min(Profiler.MAX_TOKENS, tokens) / 8.0);
    }

    private static void check(Profile profile, int layers, String origin) {
        if (profile.layers() != layers) {
            throw new ProfileException(origin + " is of a model of " + profile.layers() + " layers; this one has "
                    + layers + ". Measure with tandem profile");
        }
    }

    private static Profile read(Path file) {
        try {
            return Profile.parse(Files.readString(file), file.toString());
        } catch (IOException e) {
            throw new ProfileException(file + " cannot be read: " + e.getMessage());
        }
    }

    /** Measures a profile and saves it. */
    Profile measure(Backend backend) {
        // a thread of its own: the executor pins it to a core, and threads that it starts inherit the pinning
        CompletableFuture<Profile> measured = new CompletableFuture<>();
        Thread.ofPlatform().name("tandem-profile").start(() -> {
            try {
                measured.complete(backend.profiler().apply(backend.profileName()));
            } catch (RuntimeException | Error e) {
                measured.completeExceptionally(e);
            }
        });
        Profile profile;
        try {
            profile = measured.get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ProfileException("profiling was interrupted");
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
        }
        keep(profile, path(backend.profileName()));
        return profile;
    }

    private void keep(Profile profile, Path target) {
        try {
            CacheFile.write(target, profile.format().getBytes(StandardCharsets.UTF_8));
            log.detail("profile: measured, kept in " + target);
        } catch (IOException e) {
            log.notice("The profile cannot be kept in " + target + ", so the next start measures again: "
                    + e.getMessage() + ". Set TANDEM_CACHE to a folder that can be written.");
        }
    }

    Path path(String name) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256")
                    .digest((name + "; method " + METHOD).getBytes(StandardCharsets.UTF_8));
            return folder.resolve(HexFormat.of().formatHex(digest, 0, 8) + ".txt");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
