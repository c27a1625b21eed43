package dev.tandem.text.jinja;

import java.time.ZonedDateTime;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.function.Supplier;

/**
 * A parsed template that can be rendered any number of times.
 *
 * <p>Owned by: thread-safe; immutable.
 */
public final class JinjaTemplate {
    /** The longest known chat templates have about 20,000 characters. */
    private static final int MAX_SOURCE = 1 << 20;

    private final List<Node> nodes;
    private final Supplier<ZonedDateTime> now;

    /**
     * @param now the time that {@code strftime_now} formats
     * @throws JinjaException with the line, when the source cannot be parsed
     */
    public JinjaTemplate(String source, Supplier<ZonedDateTime> now) {
        if (source.length() > MAX_SOURCE) {
            throw new JinjaException("the template has " + source.length() + " characters; the limit is " + MAX_SOURCE);
        }
        this.nodes = new Parser(new Lexer(source).run()).template();
        this.now = now;
    }

    /**
     * Renders the template in bounded time, memory and stack, whatever its source and values; see {@code RenderBudget}.
     *
     * @param variables JSON-like values: null, Boolean, Number, String, List, Map
     * @throws JinjaException when the template fails, raises an exception or exceeds a limit
     */
    public String render(Map<String, ?> variables) {
        try {
            return new Interpreter(new RenderBudget(), variables, now).render(nodes);
        } catch (ArithmeticException | IndexOutOfBoundsException | NoSuchElementException e) {
            throw new JinjaException("the template calls a function with wrong arguments: " + e.getMessage());
        }
    }
}
