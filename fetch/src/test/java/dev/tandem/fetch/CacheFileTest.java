package dev.tandem.fetch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CacheFileTest {
    @TempDir
    Path folder;

    private List<Path> files(Path in) throws IOException {
        try (Stream<Path> files = Files.list(in)) {
            return files.toList();
        }
    }

    @Test
    void createsFileAndFolderAndReplacesTheFile() throws IOException {
        Path target = folder.resolve("a/b/file.txt");
        CacheFile.write(target, "one".getBytes());
        CacheFile.write(target, "two".getBytes());
        assertThat(target).hasContent("two");
        assertThat(files(target.getParent())).as("nothing else is left").containsExactly(target);
    }

    /** A cache may be filled by another user than the one that reads it, for example in a container image. */
    @Test
    void filePermissionsFollowTheUmask() throws IOException {
        Path target = folder.resolve("file.txt");
        CacheFile.write(target, new byte[3]);
        Path plain = Files.write(folder.resolve("plain.txt"), new byte[3]);
        assertThat(Files.getPosixFilePermissions(target)).isEqualTo(Files.getPosixFilePermissions(plain));
    }

    @Test
    void manyWritersLeaveOneCompleteFile() throws Exception {
        Path target = folder.resolve("cache/file.bin");
        List<Thread> writers = new ArrayList<>();
        List<Throwable> problems = new ArrayList<>();
        for (byte writer = 0; writer < 8; writer++) {
            byte[] content = new byte[1 << 16];
            Arrays.fill(content, writer);
            writers.add(Thread.ofPlatform().start(() -> {
                try {
                    for (int i = 0; i < 50; i++) {
                        CacheFile.write(target, content);
                        byte[] seen = Files.readAllBytes(target);
                        byte[] whole = new byte[1 << 16];
                        Arrays.fill(whole, seen[0]);
                        assertThat(seen).isEqualTo(whole);
                    }
                } catch (IOException | AssertionError e) {
                    synchronized (problems) {
                        problems.add(e);
                    }
                }
            }));
        }
        for (Thread writer : writers) {
            writer.join();
        }
        assertThat(problems).isEmpty();
        assertThat(files(target.getParent())).containsExactly(target);
    }

    @Test
    void throwsWhenTheFolderCannotBeCreated() throws IOException {
        Path file = Files.write(folder.resolve("file"), new byte[1]);
        assertThatThrownBy(() -> CacheFile.write(file.resolve("below/it"), new byte[1]))
                .isInstanceOf(IOException.class);
    }
}
