package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Responses that later requests may name. When their text exceeds the limit, those that were used longest ago are
 * dropped; responses in progress stay, and the engine's queue bounds their number.
 *
 * <p>Owned by: any thread; its lock guards the entries.
 */
final class ResponseStore {
    /** Text of about 10,000 conversations of 1,500 tokens. */
    static final long DEFAULT_LIMIT = 64L << 20;

    /**
     * One response.
     *
     * <p>Owned by: the thread that computes it until it has ended; afterwards it does not change.
     */
    static final class Entry {
        private final Runnable cancel;
        private final CountDownLatch ended = new CountDownLatch(1);
        private volatile ObjectNode response;
        private volatile ArrayNode conversation;

        /**
         * @param response as the client sees it now
         * @param conversation so far, without the answer
         * @param cancel ends the computation
         */
        Entry(ObjectNode response, ArrayNode conversation, Runnable cancel) {
            this.response = response;
            this.conversation = conversation;
            this.cancel = cancel;
        }

        ObjectNode response() {
            return response;
        }

        /** Messages as of /v1/chat/completions, the answer included once the response has ended. */
        ArrayNode conversation() {
            return conversation;
        }

        boolean hasEnded() {
            return ended.getCount() == 0;
        }

        /** Ends the computation and waits for its end. */
        void cancel() throws InterruptedException {
            cancel.run();
            ended.await();
        }

        private void end(ObjectNode last, ArrayNode whole) {
            response = last;
            conversation = whole;
            ended.countDown();
        }

        /** Characters of JSON, of which nearly all take one byte. */
        private long size() {
            return (long) response.toString().length() + conversation.toString().length();
        }
    }

    private final long limit;
    /** In the order of their last use. */
    private final Map<String, Entry> entries = new LinkedHashMap<>(16, 0.75f, true);

    private final Map<String, Long> sizes = new LinkedHashMap<>();
    private long used;

    /** @param limit characters of all kept responses */
    ResponseStore(long limit) {
        this.limit = limit;
    }

    synchronized void add(String id, Entry entry) {
        entries.put(id, entry);
        count(id, entry);
    }

    /** Ends an entry, which then counts with its last size. */
    synchronized void end(String id, Entry entry, ObjectNode response, ArrayNode conversation) {
        entry.end(response, conversation);
        if (entries.containsKey(id)) {
            count(id, entry);
        }
    }

    private void count(String id, Entry entry) {
        long size = entry.size();
        Long before = sizes.put(id, size);
        used += size - (before == null ? 0 : before);
        List<String> oldest = new ArrayList<>(entries.keySet());
        for (int i = 0; i < oldest.size() && used > limit; i++) {
            String candidate = oldest.get(i);
            Entry kept = entries.get(candidate);
            if (kept != null && kept.hasEnded()) {
                entries.remove(candidate);
                Long freed = sizes.remove(candidate);
                used -= freed == null ? 0 : freed;
            }
        }
    }

    /** @throws RequestException not found, when there is none of this id or it was dropped */
    synchronized Entry get(String id) {
        Entry entry = entries.get(id);
        if (entry == null) {
            throw RequestException.of(
                    RequestException.Category.NOT_FOUND,
                    "there is no response '" + Printable.of(id) + "': it was created with store false, or by another"
                            + " server, or dropped because the server keeps " + limit
                            + " characters of responses; send the whole conversation as input");
        }
        return entry;
    }
}
