#!/usr/bin/env python3
"""Draws one step of a trace as an SVG timeline, with a lane for the GPU and one per attention thread.

The trace is written by --trace of serve and bench throughput.
"""
import argparse
import json

WIDTH, LEFT, ROW, GAP, TOP = 1200, 120, 16, 4, 42
COLOURS = {"gpu 0": "#1f77b4", "gpu 1": "#76b7e5", "wait": "#d62728", "cpu 0": "#2ca02c", "cpu 1": "#98df8a"}


def load(path):
    events = json.load(open(path))["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    return names, [e for e in events if e["ph"] == "X"]


def bars(names, events, step):
    """Returns a step's bars (lane, start, end, kind), in microseconds from its start, and its length."""
    gpu = next(e for e in events if e["name"] == "gpu step" and e["args"]["step"] == step)
    begin, length = gpu["ts"], gpu["dur"]
    inside = [e for e in events if begin <= e["ts"] < begin + length]
    waits = sorted((e for e in inside if e["name"] == "gpu wait"), key=lambda e: e["ts"])
    out, at, kind = [], 0, "gpu 0"
    # async overlap: the GPU never waits, and each layer's event marks the begin of its attention
    for layer in () if waits else (e for e in inside if e["name"] == "gpu layer"):
        start = layer["ts"] - begin
        out.append(("GPU", at, start, kind))
        at, kind = start, f"gpu {layer['args']['layer'] % 2}"
    for wait in waits:
        start = wait["ts"] - begin
        out.append(("GPU", at, start, kind))
        out.append(("GPU", start, start + wait["dur"], "wait"))
        # a sub-batch's attention is followed by its post-projection and the next pre-projection
        at, kind = start + wait["dur"], f"gpu {wait['args']['sub-batch']}"
    out.append(("GPU", at, length, kind))
    for e in events:
        start = e["ts"] - begin
        if e["name"] == "cpu attention" and start < length and start + e["dur"] > 0:
            out.append((names[e["tid"]], max(0, start), min(length, start + e["dur"]), f"cpu {e['args']['layer'] % 2}"))
    return out, length


def draw(items, first, last, title):
    lanes = ["GPU"] + sorted({lane for lane, *_ in items if lane != "GPU"}, key=lambda name: int(name.split()[-1]))
    scale = (WIDTH - LEFT - 10) / (last - first)
    height = TOP + len(lanes) * (ROW + GAP) + 30
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{title}</text>',
    ]
    alternates = any(kind == "wait" for *_, kind in items)
    gpu = ("sub-batch 0", "sub-batch 1") if alternates else ("GPU, even layers", "odd layers")
    legend = [("gpu 0", gpu[0]), ("gpu 1", gpu[1])] + [("wait", "GPU waits")] * alternates
    legend += [("cpu 0", "attention, even layers"), ("cpu 1", "odd layers")]
    for i, (kind, text) in enumerate(legend):
        svg.append(f'<rect x="{LEFT + i * 180}" y="24" width="12" height="12" fill="{COLOURS[kind]}"/>'
                   f'<text x="{LEFT + 18 + i * 180}" y="34">{text}</text>')
    for i, lane in enumerate(lanes):
        svg.append(f'<text x="10" y="{TOP + i * (ROW + GAP) + 12}">{lane}</text>')
    for lane, start, end, kind in items:
        start, end = max(start, first), min(end, last)
        if end > start:
            y = TOP + lanes.index(lane) * (ROW + GAP)
            x, width = LEFT + (start - first) * scale, max(0.3, (end - start) * scale)
            svg.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{COLOURS[kind]}"/>')
    for i in range(11):
        x = LEFT + i * (WIDTH - LEFT - 10) / 10
        at = (first + (last - first) * i / 10) / 1e3
        svg.append(f'<text x="{x:.0f}" y="{height - 8}" text-anchor="middle">{at:.1f} ms</text>')
    return "\n".join(svg + ["</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="TRACE.json")
    parser.add_argument("step", type=int, help="the step's number")
    parser.add_argument("out", help="OUT.svg")
    parser.add_argument("first", type=float, nargs="?", help="first millisecond of the step to draw (its begin)")
    parser.add_argument("last", type=float, nargs="?", help="last millisecond of the step to draw (its end)")
    arguments = parser.parse_args()
    step = arguments.step
    names, events = load(arguments.trace)
    items, length = bars(names, events, step)
    first = 0 if arguments.first is None else arguments.first * 1e3
    last = length if arguments.last is None else arguments.last * 1e3
    waited = sum(end - start for *_, start, end, kind in items if kind == "wait")
    busy = sum(end - start for lane, start, end, _ in items if lane != "GPU")
    threads = len({lane for lane, *_ in items} - {"GPU"})
    title = (f"step {step}: {length / 1e3:.1f} ms; the GPU waits {100 * waited / length:.0f} % of it, "
             f"attention threads work {100 * busy / max(1, threads) / length:.0f} %")
    open(arguments.out, "w").write(draw(items, first, last, title))
    print(title)


main()
