package dev.tandem.engine.request;

/**
 * With which other requests a request shares the KV of equal prefixes.
 *
 * @param enabled whether it shares any
 * @param salt it shares with requests of the same salt only; empty for the requests without one
 */
public record PrefixCaching(boolean enabled, String salt) {
    /** Shares with all requests without a salt. */
    public static final PrefixCaching SHARED = new PrefixCaching(true, "");

    /** Computes all tokens, and lets nobody hit them. */
    public static final PrefixCaching OFF = new PrefixCaching(false, "");

    /** Shares with requests of one salt. */
    public static PrefixCaching salted(String salt) {
        return new PrefixCaching(true, salt);
    }
}
