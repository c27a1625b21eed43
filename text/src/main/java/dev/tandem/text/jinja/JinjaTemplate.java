package dev.tandem.text.jinja;

import java.time.ZonedDateTime;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.function.Supplier;

/** A parsed template, rendered any number of times from any thread. */
public final class JinjaTemplate {
    private final List<Node> nodes;
    private final Supplier<ZonedDateTime> now;

    /**
     * @param now what {@code strftime_now} formats
     * @throws JinjaException with the line, when the source cannot be parsed
     */
    public JinjaTemplate(String source, Supplier<ZonedDateTime> now) {
        this.nodes = new Parser(new Lexer(source).run()).template();
        this.now = now;
    }

    /**
     * @param variables JSON-like values: null, Boolean, Number, String, List, Map
     * @throws JinjaException when the template fails or raises
     */
    public String render(Map<String, ?> variables) {
        try {
            return new Interpreter(variables, now).render(nodes);
        } catch (ClassCastException | IndexOutOfBoundsException | NoSuchElementException e) {
            throw new JinjaException("the template calls a function with wrong arguments: " + e.getMessage());
        }
    }
}
