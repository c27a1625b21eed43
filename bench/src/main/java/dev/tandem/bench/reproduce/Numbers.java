package dev.tandem.bench.reproduce;

import java.math.BigDecimal;
import java.math.MathContext;

/** Numbers in reports: three significant digits, because two seeds support no more. */
final class Numbers {
    private static final MathContext DIGITS = new MathContext(3);

    private Numbers() {}

    static String text(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return "none";
        }
        return new BigDecimal(value).round(DIGITS).stripTrailingZeros().toPlainString();
    }
}
