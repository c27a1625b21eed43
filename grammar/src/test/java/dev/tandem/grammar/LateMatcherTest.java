package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.sampling.GrammarMatcher;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A matcher whose bitmasks are computed when the test says so. Its tokens are bytes. */
@Timeout(60)
class LateMatcherTest {
    private static final int VOCABULARY = 257;
    private static final int END = 256;

    private final Arena upcalls = Arena.ofShared();
    private final Queue<Runnable> pending = new ArrayDeque<>();
    private final Executor later = pending::add;
    private final Executor atOnce = Runnable::run;
    private Llguidance library;
    private MemorySegment tokenizer;
    private LlguidanceMatcher matcher;

    @BeforeEach
    void start() {
        library = Vocabularies.library();
        byte[][] tokens = new byte[VOCABULARY][];
        for (int id = 0; id < END; id++) {
            tokens[id] = new byte[] {(byte) id};
        }
        tokens[END] = "\u00FFend".getBytes(StandardCharsets.ISO_8859_1);
        ByteTokenizer text = new ByteTokenizer(Vocabularies.TOKENIZER);
        tokenizer = library.newTokenizer(tokens, new int[] {END}, text, upcalls);
        MemorySegment first =
                library.newMatcher(tokenizer, GrammarSource.regex("[a-z]{8}"), GrammarMatcher.words(VOCABULARY));
        matcher = new LlguidanceMatcher(library, text, first, VOCABULARY, Set.of(END), atOnce, later);
    }

    @AfterEach
    void free() {
        if (tokenizer != null) {
            library.freeTokenizer(tokenizer);
        }
        upcalls.close();
    }

    private void compute() {
        while (!pending.isEmpty()) {
            pending.remove().run();
        }
    }

    @Test
    void aBitmaskIsLateUntilItIsComputed() {
        assertThat(matcher.awaitReady(0)).as("none was asked for").isTrue();
        matcher.prepareBitmask();
        assertThat(matcher.awaitReady(0)).isFalse();
        assertThat(matcher.awaitReady(1)).isFalse();
        compute();
        assertThat(matcher.awaitReady(0)).isTrue();
        int[] bitmask = new int[GrammarMatcher.words(VOCABULARY)];
        matcher.fillBitmask(bitmask);
        assertThat(bitmask['a' / 32] >>> 'a' & 1).isOne();
        assertThat(bitmask['A' / 32] >>> 'A' & 1).isZero();
        matcher.accept('a');
        assertThat(matcher.awaitReady(0)).as("moved on").isTrue();
        matcher.close();
    }

    /** A request that is cancelled does not hold up the engine. */
    @Test
    void aMatcherThatIsClosedEarlierIsFreedWhenItsBitmaskIsDone() {
        matcher.prepareBitmask();
        matcher.close();
        assertThat(pending).isNotEmpty();
        assertThat(matcher.allows('A')).as("a closed one allows all").isTrue();
        matcher.accept('A');
        assertThat(matcher.acceptForced()).isEmpty();
        int[] bitmask = new int[GrammarMatcher.words(VOCABULARY)];
        matcher.fillBitmask(bitmask);
        assertThat(bitmask).containsOnly(-1);
        matcher.close();
        compute();
    }
}
