package dev.tandem.app;

import dev.tandem.bench.Profiler;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.cost.ProfileException;
import dev.tandem.engine.executor.Executor;
import dev.tandem.fetch.CacheFile;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Measured profiles, kept by what they were measured on. */
final class Profiles {
    private final Path folder;
    private final PrintStream log;

    /** @param folder created when missing */
    Profiles(Path folder, PrintStream log) {
        this.folder = folder;
        this.log = log;
    }

    /** What a profile is good for. */
    static String name(String model, String dtype, int threads, int attentionThreads) {
        return MachineProbe.machine() + "; " + model + "; " + dtype + "; CPU executor, " + threads + " threads, "
                + attentionThreads + " for attention";
    }

    /** The given file's, else the cached one of this name, else one measured now. */
    Profile find(Optional<Path> file, Backend backend) {
        String name = backend.profileName();
        Executor executor = backend.executor();
        if (file.isPresent()) {
            Profile profile = read(file.get());
            if (!profile.name().equals(name)) {
                log.println("given up: the profile " + file.get() + " is of '" + profile.name() + "', this is '" + name
                        + "'; its predictions may be wrong here, and on a GPU only CPU attention is corrected as the"
                        + " server runs. Leave --profile out to measure this machine");
            }
            check(profile, executor, file.get().toString());
            return profile;
        }
        Path cached = path(name);
        if (Files.exists(cached)) {
            try {
                Profile profile = read(cached);
                check(profile, executor, cached.toString());
                if (reaches(profile, executor)) {
                    log.println("profile: " + cached);
                    return profile;
                }
                log.println("given up: the profile " + cached
                        + " was measured with a far smaller pool and is measured again");
            } catch (ProfileException e) {
                log.println("given up: the cached profile is broken (" + e.getMessage() + ") and is measured again");
            }
        }
        return measure(backend);
    }

    /** Whether it was measured with a pool not much smaller than this one. */
    private static boolean reaches(Profile profile, Executor executor) {
        long tokens = (long) executor.limits().gpuBlocks() * executor.limits().blockTokens();
        return profile.gpuAttention().covers(Math.min(Profiler.MAX_TOKENS, tokens) / 8.0);
    }

    private static void check(Profile profile, Executor executor, String origin) {
        if (profile.layers() != executor.limits().layers()) {
            throw new ProfileException(origin + " is of a model of " + profile.layers() + " layers; this one has "
                    + executor.limits().layers() + ". Measure with tandem profile");
        }
    }

    private static Profile read(Path file) {
        try {
            return Profile.parse(Files.readString(file), file.toString());
        } catch (IOException e) {
            throw new ProfileException(file + " cannot be read: " + e.getMessage());
        }
    }

    /** Measures, and keeps the result. */
    Profile measure(Backend backend) {
        // the executor pins whoever drives it, and threads started later inherit that: a thread of its own
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
            log.println("profile: measured, kept in " + target);
        } catch (IOException e) {
            log.println("given up: the profile could not be kept in " + target + ": " + e.getMessage());
        }
    }

    Path path(String name) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(name.getBytes(StandardCharsets.UTF_8));
            return folder.resolve(HexFormat.of().formatHex(digest, 0, 8) + ".txt");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
