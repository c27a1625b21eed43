package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/**
 * How much heap cached prefixes take. Objects are counted by their fields, as a JVM with compressed pointers lays them
 * out, so the figure is the same on every machine.
 */
class PrefixHeapTest {
    private static final int GPU_BLOCKS = 20_000;
    private static final int PROMPTS = 20;
    /** 8B's KV of 16 tokens is 2 MiB, so this is 0.007 % of it. */
    private static final double MAX_BYTES_PER_16_TOKENS = 150;

    private final KvCache cache =
            new KvCache(16, 64, GPU_BLOCKS, 5_000, PrefillStaging.NONE, PrefixCacheOptions.on(1), Long.MAX_VALUE);

    @Test
    void sixteenCachedTokensTakeAtMost150Bytes() {
        long empty = bytes(cache);
        SplittableRandom random = new SplittableRandom(5);
        for (int i = 0; i < PROMPTS; i++) {
            compute(i, random.ints(16 * GPU_BLOCKS / PROMPTS, 0, 32_000).toArray());
        }
        assertThat(cache.pool(KvTier.GPU).cached()).isEqualTo(GPU_BLOCKS);
        assertThat((double) (bytes(cache) - empty) / GPU_BLOCKS)
                .as("bytes per 16 cached tokens; the tokens themselves are 64")
                .isBetween(64.0, MAX_BYTES_PER_16_TOKENS);
    }

    private void compute(long key, int[] prompt) {
        SamplingParams params = SamplingParams.builder().build();
        Request request = new Request("r" + key, prompt, params, 0, TextDecoder.none(), event -> {})
                .withCaching(PrefixCaching.SHARED);
        Sequence sequence =
                new Sequence(key, request, 0, prompt.length + 1, new TokenSampler(params, prompt, Set.of(), 1));
        cache.start(sequence, PrefixUse.nothing(KvTier.GPU));
        assertThat(cache.grow(sequence, prompt.length)).isTrue();
        sequence.advance(prompt.length);
        cache.register(sequence, prompt.length);
        cache.release(sequence);
    }

    /** Bytes of an object and of all that it leads to. */
    private static long bytes(Object root) {
        Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        Deque<Object> left = new ArrayDeque<>();
        reach(root, seen, left);
        long bytes = 0;
        while (!left.isEmpty()) {
            bytes += visit(left.removeLast(), seen, left);
        }
        return bytes;
    }

    private static void reach(Object object, Set<Object> seen, Deque<Object> left) {
        if (object != null && seen.add(object)) {
            left.add(object);
        }
    }

    private static long visit(Object object, Set<Object> seen, Deque<Object> left) {
        Class<?> type = object.getClass();
        if (type.isArray()) {
            if (object instanceof Object[] elements) {
                for (Object element : elements) {
                    reach(element, seen, left);
                }
            }
            return aligned(16 + (long) size(type.componentType()) * Array.getLength(object));
        }
        switch (object) { // a library's fields are closed; an entry is a table's slot and an object
            case Map<?, ?> map -> {
                map.forEach((key, value) -> {
                    reach(key, seen, left);
                    reach(value, seen, left);
                });
                return 48 + 40L * map.size();
            }
            case Collection<?> elements -> {
                elements.forEach(element -> reach(element, seen, left));
                return 40 + 8L * elements.size();
            }
            default -> {}
        }
        if (type.getName().startsWith("java.")) {
            return 24;
        }
        long bytes = 12;
        for (Class<?> at = type; at != Object.class && at != null; at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    bytes += size(field.getType());
                    if (!field.getType().isPrimitive() && !at.getName().startsWith("java.")) {
                        reach(value(field, object), seen, left);
                    }
                }
            }
        }
        return aligned(bytes);
    }

    private static Object value(Field field, Object object) {
        try {
            field.setAccessible(true);
            return field.get(object);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    private static int size(Class<?> type) {
        if (type == long.class || type == double.class) {
            return 8;
        }
        if (type == boolean.class || type == byte.class) {
            return 1;
        }
        return type == short.class || type == char.class ? 2 : 4;
    }

    private static long aligned(long bytes) {
        return (bytes + 7) / 8 * 8;
    }
}
