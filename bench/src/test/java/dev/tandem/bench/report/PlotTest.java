package dev.tandem.bench.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.StringReader;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.xml.sax.InputSource;

class PlotTest {
    private static final Series CURVE = new Series(
            "neo <printed>",
            List.of(new Series.Point(1, 10), new Series.Point(2, 100), new Series.Point(3, Double.NaN)),
            List.of(new Series.Band(1, 8, 12), new Series.Band(2, 90, 120)));

    private static Document parse(String xml) throws Exception {
        return DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new InputSource(new StringReader(xml)));
    }

    @Test
    void aPlotIsWellFormedAndHasEachElement() throws Exception {
        Plot plot = new Plot(
                "Latency & load",
                Axis.linear("requests/s"),
                Axis.log("ms"),
                List.of(CURVE),
                List.of(new Mark("printed", 1.5, 50), new Mark("printed", 2, 60)));
        Document svg = parse(plot.svg());
        assertThat(svg.getElementsByTagName("circle").getLength())
                .as("a value that is not a number has no dot")
                .isEqualTo(2);
        assertThat(plot.svg().split("class=\"mark\"", -1))
                .as("two marks and the legend")
                .hasSize(4);
        assertThat(plot.svg()).contains("neo &lt;printed&gt;", "class=\"band c0\"", "prefers-color-scheme: dark");
        assertThat(plot.svg()).isEqualTo(plot.svg());
    }

    @Test
    void aPlotWithoutValuesIsStillAPlot() throws Exception {
        parse(Plot.of("nothing", Axis.linear("x"), Axis.log("y"), List.of()).svg());
        parse(Plot.of("one", Axis.log("x"), Axis.linear("y"), List.of(Series.of("a", List.of(new Series.Point(0, 0)))))
                .svg());
    }

    @Test
    void aPlotHasRoomForTheLongestNameOfItsLegend() {
        Series named = Series.of("a".repeat(27), List.of(new Series.Point(1, 1)));
        Plot plot = Plot.of("", Axis.linear(""), Axis.linear(""), List.of(named));
        assertThat(plot.svg()).contains("viewBox=\"0 0 778 400\" width=\"778\"");
        Mark mark = new Mark("b".repeat(30), 1, 1);
        assertThat(new Plot("", plot.x(), plot.y(), plot.series(), List.of(mark)).svg())
                .contains("width=\"796\"");
        assertThat(Plot.of("", plot.x(), plot.y(), List.of(CURVE)).svg()).contains("width=\"760\"");
    }

    @Test
    void ticksAreRoundAndCoverTheValues() {
        Axis.Range linear = Axis.linear("").range(List.of(0.3, 3.9));
        assertThat(linear.low()).isZero();
        assertThat(linear.high()).isEqualTo(4);
        Axis.Range log = Axis.log("").range(List.of(30.0, 900.0));
        assertThat(log.ticks()).containsExactly(20.0, 50.0, 100.0, 200.0, 500.0, 1000.0);
        assertThat(log.position(Math.sqrt(20 * 1000))).isCloseTo(0.5, within(1e-9));
        assertThat(Axis.linear("").upTo(2).range(List.of(1.0, 50.0)).high()).isEqualTo(2);
    }

    @Test
    void ticksHaveNoNeedlessDigits() {
        assertThat(List.of(0.0, 0.05, 0.5, 2.0, 10.0, 100.0, 2500.0).stream().map(Axis::text))
                .containsExactly("0", "0.05", "0.5", "2", "10", "100", "2,500");
    }

    @Test
    void aPageEscapesItsTextAndLoadsNothing() {
        String page = new HtmlPage("a & b")
                .heading("h")
                .paragraph("1 < 2")
                .command("bench serve")
                .table(List.of("x", "y"), List.of(List.of("<script>", "2")))
                .plot(Plot.of("p", Axis.linear("x"), Axis.linear("y"), List.of(CURVE)))
                .html();
        assertThat(page).contains("1 &lt; 2", "&lt;script&gt;", "<svg").doesNotContain("<script", "src=", "href=");
    }

    @Test
    void onlyColumnsOfNumbersAreAlignedOnTheRight() {
        String page = new HtmlPage("t")
                .table(
                        List.of("claim", "ours", "verdict"),
                        List.of(List.of("fast", "1,024.5", "reproduced: ours is 2"), List.of("slow", "", "3")))
                .html();
        assertThat(page)
                .contains("<tr><th>claim</th><th class=\"number\">ours</th><th>verdict</th></tr>")
                .contains("<tr><td>fast</td><td class=\"number\">1,024.5</td><td>reproduced: ours is 2</td></tr>")
                .contains("<tr><td>slow</td><td class=\"number\"></td><td>3</td></tr>")
                .contains("td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #e4e7eb; text-align: left; }")
                .contains("td.number { text-align: right; }");
    }
}
