package dev.tandem.server;

import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerException;
import dev.tandem.text.Vocabulary;
import java.util.Arrays;
import java.util.BitSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** A tokenizer in which each character is a token and token 42 is the text "t42 "; it counts calls and can block. */
public final class FakeTokenizer implements Tokenizer {
    static final int TOKENS = 1000;
    /** Text that this tokenizer refuses to encode. */
    public static final String TOO_MUCH = "(too much)";

    public final AtomicInteger calls = new AtomicInteger();
    /** Characters of the longest text encoded so far. */
    public final AtomicInteger longest = new AtomicInteger();

    final AtomicReference<CountDownLatch> gate = new AtomicReference<>(new CountDownLatch(0));
    final CountDownLatch entered = new CountDownLatch(1);
    private final Vocabulary vocabulary;

    public FakeTokenizer() {
        this("t0 ");
    }

    /** @param first the text of token 0 */
    public FakeTokenizer(String first) {
        String[] tokens = new String[TOKENS];
        Arrays.setAll(tokens, id -> id == 0 ? first : "t" + id + " ");
        BitSet literal = new BitSet();
        literal.set(0, TOKENS);
        vocabulary = new Vocabulary(tokens, new BitSet(), literal, Vocabulary.Spelling.BYTE_LEVEL);
    }

    @Override
    public int[] encode(String text, boolean addSpecial) {
        calls.incrementAndGet();
        if (text.contains(TOO_MUCH)) {
            throw new TokenizerException("the text is too much for the tokenizer");
        }
        longest.accumulateAndGet(text.length(), Math::max);
        entered.countDown();
        try {
            gate.get().await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return text.chars().map(c -> c % TOKENS).toArray();
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public void close() {}
}
