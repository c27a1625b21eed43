package dev.tandem.bench.report;

import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * Builds one HTML file with text, tables and plots. It loads nothing and has no scripts.
 *
 * <p>Owned by: the thread that builds it.
 */
public final class HtmlPage {
    private static final String STYLE = """
            <style>
              :root { color-scheme: light dark; }
              body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
                     background: #ffffff; color: #1f2933; }
              table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
              th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #e4e7eb; text-align: left; }
              th.number, td.number { text-align: right; }
              svg { max-width: 100%; height: auto; }
              code { font-size: 13px; overflow-wrap: anywhere; }
              @media (prefers-color-scheme: dark) {
                body { background: #10161c; color: #e4e7eb; } th, td { border-color: #323f4b; }
              }
            </style>
            """;

    private static final Pattern NUMBER = Pattern.compile("[-+]?[0-9][0-9,.]*([eE][-+]?[0-9]+)?");

    private final String title;
    private final StringBuilder body = new StringBuilder();

    public HtmlPage(String title) {
        this.title = title;
    }

    /** Adds a heading. */
    public HtmlPage heading(String text) {
        body.append("<h2>").append(Plot.escape(text)).append("</h2>\n");
        return this;
    }

    /** Adds a paragraph. */
    public HtmlPage paragraph(String text) {
        body.append("<p>").append(Plot.escape(text)).append("</p>\n");
        return this;
    }

    /** Adds a command, as it was typed. */
    public HtmlPage command(String text) {
        body.append("<p><code>").append(Plot.escape(text)).append("</code></p>\n");
        return this;
    }

    /** Adds a table; each row has as many cells as the head. Columns of numbers are aligned on the right. */
    public HtmlPage table(List<String> head, List<List<String>> rows) {
        for (List<String> cells : rows) {
            if (cells.size() != head.size()) {
                throw new IllegalArgumentException(
                        "a row has " + cells.size() + " cells and the head " + head.size() + ": " + cells);
            }
        }
        List<Boolean> numbers = IntStream.range(0, head.size())
                .mapToObj(
                        column -> rows.stream().map(cells -> cells.get(column)).allMatch(HtmlPage::isNumber))
                .toList();
        body.append("<table>\n");
        row("th", head, numbers);
        rows.forEach(cells -> row("td", cells, numbers));
        body.append("</table>\n");
        return this;
    }

    /** Whether a cell may be in a column of numbers, as an empty one may. */
    private static boolean isNumber(String cell) {
        return cell.isEmpty() || NUMBER.matcher(cell).matches();
    }

    private void row(String element, List<String> cells, List<Boolean> numbers) {
        body.append("<tr>");
        for (int column = 0; column < cells.size(); column++) {
            body.append('<').append(element).append(numbers.get(column) ? " class=\"number\">" : ">");
            body.append(Plot.escape(cells.get(column)))
                    .append("</")
                    .append(element)
                    .append('>');
        }
        body.append("</tr>\n");
    }

    /** Adds a plot. */
    public HtmlPage plot(Plot plot) {
        body.append("<figure>\n").append(plot.svg()).append("</figure>\n");
        return this;
    }

    /** The whole file. */
    public String html() {
        return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                + "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>"
                + Plot.escape(title) + "</title>\n" + STYLE + "</head>\n<body>\n<h1>" + Plot.escape(title) + "</h1>\n"
                + body + "</body>\n</html>\n";
    }
}
