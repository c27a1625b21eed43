package dev.tandem.text.jinja;

import java.math.BigDecimal;
import java.math.BigInteger;

/** Python's numbers: bool, int of any size (a Long if it fits, else a BigInteger) and float. */
final class Numbers {
    /** More than templates need; without a limit, repeated powers would fill the memory. */
    private static final int MAX_BITS = 4096;
    /** The digits of {@link #MAX_BITS}, rounded up. */
    private static final int MAX_DIGITS = 1300;

    private Numbers() {}

    /** Whether the value is a number; booleans are numbers in Python. */
    static boolean is(Object value) {
        return isInteger(value) || value instanceof Double || value instanceof Boolean;
    }

    static boolean isInteger(Object value) {
        return value instanceof Long || value instanceof BigInteger;
    }

    static Object of(BigInteger value) {
        if (value.bitLength() > MAX_BITS) {
            throw new JinjaException("an integer takes " + value.bitLength() + " bits; the limit is " + MAX_BITS);
        }
        return value.bitLength() < Long.SIZE ? (Object) value.longValue() : value;
    }

    /** @throws NumberFormatException when the text is not an integer of this radix */
    static Object parse(String text, int radix) {
        if (text.length() > MAX_DIGITS) {
            throw new JinjaException("an integer has " + text.length() + " digits; the limit is " + MAX_DIGITS);
        }
        return of(new BigInteger(text, radix));
    }

    static double real(Object value) {
        return switch (value) {
            case Boolean b -> b ? 1 : 0;
            case Long l -> l;
            case BigInteger i -> i.doubleValue();
            case Double d -> d;
            default -> throw new JinjaException(Values.typeName(value) + " is not a number");
        };
    }

    /** The value as a count or an index. */
    static long integer(Object value) {
        return switch (value) {
            case Boolean b -> b ? 1 : 0;
            case Long l -> l;
            case BigInteger i -> throw new JinjaException(i + " is too large for a count or an index");
            default -> throw new JinjaException(Values.typeName(value) + " is not an integer");
        };
    }

    private static BigInteger big(Object value) {
        return value instanceof BigInteger i ? i : BigInteger.valueOf(integer(value));
    }

    /** Rounds towards zero, as Python's {@code int()} of a float does. */
    static Object truncate(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            throw new JinjaException(Values.real(value) + " has no integer value");
        }
        return of(new BigDecimal(value).toBigInteger());
    }

    static boolean equal(Object a, Object b) {
        return a instanceof Long x && b instanceof Long y
                ? x.longValue() == y.longValue()
                : ordered(a, b) && compare(a, b) == 0;
    }

    /** Whether the numbers can be ordered; false when one is NaN. */
    private static boolean ordered(Object a, Object b) {
        return !Double.isNaN(real(a)) && !Double.isNaN(real(b));
    }

    /** Compares exact values: a large int differs from the float nearest to it. */
    static int compare(Object a, Object b) {
        if (a instanceof Long x && b instanceof Long y) {
            return Long.compare(x, y);
        }
        double x = real(a);
        double y = real(b);
        boolean finite = Double.isFinite(x) && Double.isFinite(y);
        return finite ? exact(a).compareTo(exact(b)) : Double.compare(x, y);
    }

    private static BigDecimal exact(Object value) {
        return value instanceof Double d ? new BigDecimal(d) : new BigDecimal(big(value));
    }

    static Object negate(Object value) {
        return value instanceof Double d ? (Object) (-d) : of(big(value).negate());
    }

    static Object absolute(Object value) {
        return value instanceof Double d ? (Object) Math.abs(d) : of(big(value).abs());
    }

    static Object arithmetic(String operator, Object left, Object right) {
        boolean integers = !(left instanceof Double) && !(right instanceof Double);
        boolean divides = operator.equals("//") || operator.equals("%") || operator.equals("/");
        if (divides && real(right) == 0) {
            throw new JinjaException("division by zero");
        }
        if (!integers || operator.equals("/") || operator.equals("**") && real(right) < 0) {
            return reals(operator, real(left), real(right));
        }
        BigInteger a = big(left);
        BigInteger b = big(right);
        return switch (operator) {
            case "+" -> of(a.add(b));
            case "-" -> of(a.subtract(b));
            case "*" -> of(a.multiply(b));
            case "//" -> of(floorDivide(a, b)[0]);
            case "%" -> of(floorDivide(a, b)[1]);
            case "**" -> of(power(a, b));
            default -> throw new JinjaException("the operator '" + operator + "' is not known");
        };
    }

    private static BigInteger[] floorDivide(BigInteger a, BigInteger b) {
        BigInteger[] result = a.divideAndRemainder(b);
        if (result[1].signum() != 0 && result[1].signum() != b.signum()) {
            result[0] = result[0].subtract(BigInteger.ONE);
            result[1] = result[1].add(b);
        }
        return result;
    }

    private static BigInteger power(BigInteger base, BigInteger exponent) {
        if (base.abs().bitLength() <= 1) { // 0, 1 and -1 to any power
            boolean odd = exponent.testBit(0);
            return exponent.signum() == 0 ? BigInteger.ONE : odd ? base : base.abs();
        }
        // (bits - 1) * exponent is less than the result's bits
        if (exponent.bitLength() > 31 || (long) (base.bitLength() - 1) * exponent.intValue() > MAX_BITS) {
            throw new JinjaException("an integer power takes more than " + MAX_BITS + " bits");
        }
        return base.pow(exponent.intValue());
    }

    private static Object reals(String operator, double a, double b) {
        return switch (operator) {
            case "+" -> a + b;
            case "-" -> a - b;
            case "*" -> a * b;
            case "/" -> a / b;
            case "//" -> Math.floor(a / b);
            case "%" -> a - b * Math.floor(a / b);
            case "**" -> Math.pow(a, b);
            default -> throw new JinjaException("the operator '" + operator + "' is not known");
        };
    }
}
