package dev.tandem.fetch.hub;

import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.StallWatch;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * Downloads one blob by ranges. The bytes go to {@code ETAG.tandem.incomplete}, and a journal beside it lists the
 * ranges that are complete, so that a later download goes on from there. The name differs from those of the hub's
 * Python client, which would take a file of full length for a complete one.
 *
 * <p>Owned by: the thread that holds the blob's lock; threads of {@code ranges} write their own ranges.
 */
final class BlobDownload {
    private static final String JOURNAL = "tandem-ranges 1 ";

    private final HubHttp http;
    private final HubListing listing;
    private final HubFile file;
    private final long rangeBytes;
    private final LongConsumer received;
    private final Path blob;
    private final Path part;
    private final Path journal;

    private final AtomicLong counted = new AtomicLong();

    /**
     * @param rangeBytes bytes of a range
     * @param received told how many bytes were added, or taken back when a download starts again
     */
    BlobDownload(HubHttp http, HubListing listing, HubFile file, Path blob, long rangeBytes, LongConsumer received) {
        this.http = http;
        this.listing = listing;
        this.file = file;
        this.rangeBytes = rangeBytes;
        this.received = received;
        this.blob = blob;
        this.part = blob.resolveSibling(file.etag() + ".tandem.incomplete");
        this.journal = blob.resolveSibling(file.etag() + ".tandem.journal");
    }

    /** Downloads what is missing, checks the whole and moves it into place. */
    void run(ExecutorService ranges) throws IOException, InterruptedException {
        Files.createDirectories(blob.getParent());
        BitSet complete = readJournal();
        count(complete.stream().mapToLong(this::length).sum());
        try (FileChannel out = FileChannel.open(part, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            int first = complete.nextClearBit(0);
            if (first < rangeCount()) {
                // the first answer shows whether there are ranges; the others are asked for while it is read
                HubHttp.Bytes answer =
                        http.repeated(() -> http.open(listing, file, start(first), start(first) + length(first)));
                if (answer.whole()) {
                    downloadWhole(out, answer.in());
                } else {
                    downloadRanges(out, complete, first, answer.in(), ranges);
                }
            }
            out.force(true);
        }
        requireDigest();
        Files.move(part, blob, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        Files.deleteIfExists(journal);
    }

    private void count(long bytes) {
        counted.addAndGet(bytes);
        received.accept(bytes);
    }

    private int rangeCount() {
        return Math.toIntExact((file.size() + rangeBytes - 1) / rangeBytes);
    }

    private long start(int range) {
        return range * rangeBytes;
    }

    private long length(int range) {
        return Math.min(rangeBytes, file.size() - range * rangeBytes);
    }

    /** The ranges that an earlier download completed. */
    private BitSet readJournal() throws IOException {
        BitSet complete = new BitSet();
        String head = JOURNAL + file.size() + " " + rangeBytes;
        List<String> lines = Files.exists(journal) && Files.exists(part) ? Files.readAllLines(journal) : List.of();
        if (lines.isEmpty() || !lines.getFirst().equals(head)) {
            Files.deleteIfExists(part);
            Files.writeString(journal, head + "\n");
            return complete;
        }
        for (String line : lines.subList(1, lines.size())) {
            // a process that was killed may have left half a line
            if (line.matches("[0-9]{1,9}\\.")) {
                complete.set(Integer.parseInt(line.substring(0, line.length() - 1)));
            }
        }
        Files.writeString(journal, "\n", StandardOpenOption.APPEND);
        complete.clear(rangeCount(), Math.max(rangeCount(), complete.length()));
        return complete;
    }

    private synchronized void note(FileChannel out, int range) throws IOException {
        out.force(false); // the bytes are on the disk before the journal says so
        Files.writeString(journal, range + ".\n", StandardOpenOption.APPEND);
    }

    private void downloadRanges(FileChannel out, BitSet complete, int first, InputStream opened, ExecutorService ranges)
            throws IOException, InterruptedException {
        List<Future<?>> running = new ArrayList<>();
        try {
            for (int range = complete.nextClearBit(first + 1);
                    range < rangeCount();
                    range = complete.nextClearBit(range + 1)) {
                int number = range;
                running.add(ranges.submit(() -> {
                    downloadRange(out, number, Optional.empty());
                    return null;
                }));
            }
            downloadRange(out, first, Optional.of(opened));
            for (Future<?> range : running) {
                Hub.await(range);
            }
        } finally {
            running.forEach(range -> range.cancel(true));
        }
    }

    /** How far a download has come, also when it ends with an error. */
    private static final class Position {
        long at;
    }

    /** @param opened the body of an answer that was asked for already */
    private void downloadRange(FileChannel out, int range, Optional<InputStream> opened)
            throws IOException, InterruptedException {
        long end = start(range) + length(range);
        Position position = new Position();
        position.at = start(range);
        Optional<InputStream> body = opened;
        int failures = 0;
        while (position.at < end) {
            long before = position.at;
            try {
                copy(out, body.isPresent() ? body.get() : openRange(before, end), position, end);
            } catch (IOException e) {
                failures = position.at > before ? 1 : failures + 1;
                http.pauseAfter(failures, e);
            }
            body = Optional.empty();
        }
        note(out, range);
    }

    private InputStream openRange(long from, long to) throws IOException, InterruptedException {
        HubHttp.Bytes answer = http.open(listing, file, from, to);
        if (answer.whole() && to - from < file.size()) {
            answer.in().close();
            throw new IOException("the answer to a range of " + file.path() + " is the whole file");
        }
        return answer.in();
    }

    /** Copies a body into the file. */
    private void copy(FileChannel out, InputStream body, Position position, long end) throws IOException {
        byte[] buffer = new byte[1 << 17];
        try (InputStream in = body;
                StallWatch watch = http.watch(in)) {
            for (int n = http.read(in, buffer, watch); n >= 0; n = http.read(in, buffer, watch)) {
                if (n > end - position.at) {
                    throw new FetchException("the hub's answer for " + file.path() + " of " + listing.model()
                            + " goes on after byte " + end + ", which was asked for last; check HF_ENDPOINT");
                }
                write(out, ByteBuffer.wrap(buffer, 0, n), position.at);
                position.at += n;
                count(n);
            }
        }
        if (position.at < end) {
            throw new IOException(
                    "the connection broke after " + position.at + " of " + file.size() + " bytes of " + file.path());
        }
    }

    private void write(FileChannel out, ByteBuffer bytes, long position) {
        long at = position;
        try {
            while (bytes.hasRemaining()) {
                at += out.write(bytes, at);
            }
        } catch (IOException e) {
            throw Hub.cannotWrite(part, e);
        }
    }

    /** Downloads a file from a server without ranges; each attempt begins at the first byte. */
    private void downloadWhole(FileChannel out, InputStream opened) throws IOException, InterruptedException {
        Files.deleteIfExists(journal);
        Optional<InputStream> body = Optional.of(opened);
        Position position = new Position();
        for (int failures = 1; position.at < file.size(); failures++) {
            count(-counted.get());
            position.at = 0;
            try {
                copy(
                        out,
                        body.isPresent()
                                ? body.get()
                                : http.open(listing, file, 0, file.size()).in(),
                        position,
                        file.size());
            } catch (IOException e) {
                http.pauseAfter(failures, e);
            }
            body = Optional.empty();
        }
    }

    private void requireDigest() throws IOException {
        long size = Files.size(part);
        String digest = digest();
        if (size != file.size() || !digest.equals(file.etag())) {
            Files.deleteIfExists(part);
            Files.deleteIfExists(journal);
            throw new FetchException(file.path() + " of " + listing.model() + " arrived with "
                    + (file.large() ? "SHA-256 " : "git's SHA-1 ") + digest + " and " + size
                    + " bytes, but the hub names "
                    + file.etag() + " and " + file.size() + "; the download was dropped, try again");
        }
    }

    private String digest() throws IOException {
        try (InputStream in = Files.newInputStream(part)) {
            MessageDigest digest = MessageDigest.getInstance(file.large() ? "SHA-256" : "SHA-1");
            if (!file.large()) {
                digest.update(("blob " + file.size() + "\0").getBytes(StandardCharsets.US_ASCII));
            }
            byte[] buffer = new byte[1 << 17];
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                digest.update(buffer, 0, n);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has it", e);
        }
    }
}
