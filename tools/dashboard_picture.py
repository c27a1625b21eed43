#!/usr/bin/env python3
"""Draws the Grafana dashboard as SVG, from its file and a Prometheus that scrapes a running Tandem server.

usage: tools/dashboard_picture.py [--minutes 4] --server http://127.0.0.1:8000 OUT.svg

Starts the program prometheus (Debian's package of that name), lets it scrape the server for --minutes, and asks it
every query of deploy/grafana/tandem.json. Keep the server busy meanwhile, for instance with "bench serve".
The picture has the panels where the file puts them, with their titles, units, lines and legends. It is not a picture
of Grafana, whose fonts, tooltips and menus it lacks. docs/pictures/dashboard.png was made of it, in a window of the
size that this script prints, by

  chromium --headless --hide-scrollbars --window-size=1400,2228 --screenshot=OUT.png OUT.svg
  pngquant --nofs --speed 1 --output dashboard.png 256 OUT.png

Standard library only.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import time

from check_monitoring import DASHBOARD, ask, fill_in, need, prometheus
from pictures import Svg

# Grafana divides the width into 24 columns; panels are drawn with a margin inside their cells.
WIDTH, COLUMNS, CELL, MARGIN, HEAD = 1400, 24, 26, 4, 40
SAMPLES = 240  # per line: more than one per two pixels of a panel cannot be seen
COLOURS = ("#2f6f4f", "#b35c1e", "#3b6fb6", "#a33b5b", "#7a5cad", "#8a7a1f", "#3f8f95", "#7b8794")
STYLE = """<style>
  .page { fill: #f4f5f7; } .panel { fill: #ffffff; stroke: #dfe3e8; } .line { fill: none; stroke-width: 1.5; }
  .area { stroke: none; fill-opacity: 0.1; } .number { font-size: 56px; fill: #2f6f4f; }
  @media (prefers-color-scheme: dark) { .page { fill: #111519; } .panel { fill: #1a2026; stroke: #323f4b; } }
</style>"""


def scaled(value, scales):
    """The value in the first of the units, as (factor, name), in which it is 1 or more; else in the last."""
    factor, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{value / factor:.4g}{name}"


def with_unit(value, unit):
    """A value as Grafana writes it in this unit."""
    match unit:
        case "s":
            return scaled(value, ((1, " s"), (1e-3, " ms"), (1e-6, " µs"))) if value else "0 s"
        case "short":
            return scaled(value, ((1e9, " B"), (1e6, " M"), (1e3, " K"), (1, "")))
        case "Bps":
            return scaled(value, ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1, " B/s")))
        case "reqps":
            return f"{value:.4g} req/s"
        case "percentunit":
            return f"{100 * value:.4g}%"
    sys.exit(f"{DASHBOARD.name} has the unit {unit!r}, which this script does not write; add it to with_unit")


def name_of(target, labels):
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), target["legendFormat"])


def series_of(panel, base, start, end, step):
    """The panel's lines as (name, {time: value}), without samples that are not a number."""
    series = []
    for target in panel["targets"]:
        answer = ask(base, "/api/v1/query_range", query=fill_in(target["expr"]), start=start, end=end, step=step)
        if answer["status"] != "success":
            sys.exit(f"{panel['title']}: {answer['error']}")
        for result in answer["data"]["result"]:
            values = {float(at): float(value) for at, value in result["values"] if math.isfinite(float(value))}
            if values:
                series.append((name_of(target, result["metric"]), values))
    return series


def stacked(series):
    """The lines, each upon those before it."""
    sums, result = {}, []
    for name, values in series:
        sums = {**sums, **{at: sums.get(at, 0) + value for at, value in values.items()}}
        result.append((name, {at: sums[at] for at in values}))
    return result


def pieces(values, step):
    """The samples in runs without a gap."""
    runs, last = [], -math.inf
    for at in sorted(values):
        if at - last > 1.5 * step:
            runs.append([])
        runs[-1].append((at, values[at]))
        last = at
    return runs


def ticks(low, high, wanted=4):
    """Round values from low to high, about as many as wanted."""
    size = 10 ** math.floor(math.log10((high - low) / wanted))
    size *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= wanted)
    first = math.floor(low / size + 1e-6)
    return [size * i for i in range(first, math.ceil(high / size - 1e-6) + 1)]


def draw_lines(svg, panel, box, series, start, end, step):
    x, y, width, height = box
    defaults = panel["fieldConfig"]["defaults"]
    if "stacking" in defaults["custom"]:
        series = stacked(series)
    every = [value for _, values in series for value in values.values()]
    low = defaults.get("min", min(every))
    high = defaults.get("max", max(every))
    marks = ticks(low, high if high > low else low + 1)
    left, top, right, bottom = x + 72, y + 34, x + width - 12, y + height - 46

    def place(at, value):
        return (
            left + (right - left) * (at - start) / (end - start),
            bottom - (bottom - top) * (value - marks[0]) / (marks[-1] - marks[0]),
        )

    for mark in marks:
        _, level = place(start, mark)
        svg.line(left, level, right, level, "grid")
        svg.text(left - 8, level + 4, with_unit(mark, defaults["unit"]), "small", "end")
    spacing = 60 * math.ceil((end - start) / 60 / 5)
    for at in range(int(start // spacing + 1) * spacing, int(end) + 1, spacing):
        svg.text(place(at, marks[0])[0], bottom + 16, time.strftime("%H:%M", time.localtime(at)), "small", "middle")
    coloured = [(*line, COLOURS[i % len(COLOURS)]) for i, line in enumerate(series)]
    for _, values, colour in reversed(coloured):  # the first line is seen where several are the same
        for run in pieces(values, step):
            points = [place(*sample) for sample in run]
            outline = "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
            ground = f"L{points[-1][0]:.1f} {bottom:.1f}L{points[0][0]:.1f} {bottom:.1f}Z"
            svg.parts.append(f'<path d="{outline}{ground}" class="area" fill="{colour}"/>')
            svg.parts.append(f'<path d="{outline}" class="line" stroke="{colour}"/>')
    legend = x + 12
    for name, _, colour in coloured:
        svg.parts.append(f'<rect x="{legend:g}" y="{y + height - 19:g}" width="14" height="4" fill="{colour}"/>')
        svg.text(legend + 19, y + height - 13, name, "small")
        legend += 34 + 6.6 * len(name)


def draw_panel(svg, panel, base, start, end, step):
    grid = panel["gridPos"]
    x, y = grid["x"] * WIDTH / COLUMNS + MARGIN, grid["y"] * CELL + MARGIN + HEAD
    width, height = grid["w"] * WIDTH / COLUMNS - 2 * MARGIN, grid["h"] * CELL - 2 * MARGIN
    if panel["type"] == "row":
        svg.text(x + 6, y + 15, panel["title"], "title")
        return
    svg.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" class="panel"/>')
    svg.text(x + 12, y + 21, panel["title"])
    series = series_of(panel, base, start, end, step)
    if not series:
        svg.text(x + width / 2, y + height / 2 + 8, "No data", "small", "middle")
    elif panel["type"] == "timeseries":
        draw_lines(svg, panel, (x, y, width, height), series, start, end, step)
    elif panel["type"] == "stat":
        values = series[0][1]
        number = with_unit(values[max(values)], panel["fieldConfig"]["defaults"]["unit"])
        svg.text(x + width / 2, y + height / 2 + 24, number, "number", "middle")
    else:
        sys.exit(f"{panel['title']}: a panel of type {panel['type']} is not drawn; row, timeseries and stat are")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", metavar="URL", required=True, help="address of a Tandem server, without a path")
    parser.add_argument("--minutes", type=float, default=4, help="how long to scrape it (default: 4)")
    parser.add_argument("out", metavar="OUT.svg", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.minutes > 0:
        parser.error(f"--minutes {arguments.minutes:g} must be more than 0")
    need("prometheus")
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    height = HEAD + MARGIN + CELL * max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in dashboard["panels"])
    svg = Svg(WIDTH, height, f"The dashboard {dashboard['title']}")
    svg.parts.append(f'{STYLE}<rect width="{WIDTH}" height="{height}" class="page"/>')
    svg.text(MARGIN + 6, 27, dashboard["title"], "title")
    with prometheus(arguments.server.rstrip("/"), "2s") as base:
        start = time.time()
        time.sleep(60 * arguments.minutes)
        end = time.time()
        for panel in dashboard["panels"]:
            draw_panel(svg, panel, base, start, end, (end - start) / SAMPLES)
    arguments.out.write_text(str(svg), encoding="utf-8")
    print(f"{arguments.out}: {WIDTH} x {height}")


if __name__ == "__main__":
    main()
