package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Maps a whole file as read-only memory with the lifetime of an arena. */
public final class MappedFile {
    private MappedFile() {}

    public static MemorySegment map(Path file, Arena arena) {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
        } catch (IOException e) {
            throw new ModelException(file + " cannot be opened: " + e, e);
        }
    }
}
