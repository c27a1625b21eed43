#!/usr/bin/env python3
"""Draws a step of a trace (--trace of serve and bench throughput) as SVG: the GPU's lane and the attention threads'.

usage: tools/timeline.py TRACE.json STEP OUT.svg [FIRST_MS LAST_MS]

FIRST_MS and LAST_MS are milliseconds within the step; without them the whole step is drawn.
"""
import json
import sys

WIDTH, LEFT, ROW, GAP, TOP = 1200, 120, 16, 4, 42
COLOURS = {"gpu 0": "#1f77b4", "gpu 1": "#76b7e5", "wait": "#d62728", "cpu 0": "#2ca02c", "cpu 1": "#98df8a"}


def load(path):
    events = json.load(open(path))["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    return names, [e for e in events if e["ph"] == "X"]


def bars(names, events, step):
    """(lane, start, end, kind) of a step, in microseconds from its start, and its length."""
    gpu = next(e for e in events if e["name"] == "gpu step" and e["args"]["step"] == step)
    begin, length = gpu["ts"], gpu["dur"]
    inside = [e for e in events if begin <= e["ts"] < begin + length]
    waits = sorted((e for e in inside if e["name"] == "gpu wait"), key=lambda e: e["ts"])
    out, at, kind = [], 0, "gpu 0"
    # in-flight tokens: nobody waits, and each layer says when its attention began
    for layer in () if waits else (e for e in inside if e["name"] == "gpu layer"):
        start = layer["ts"] - begin
        out.append(("GPU", at, start, kind))
        at, kind = start, f"gpu {layer['args']['layer'] % 2}"
    for wait in waits:
        start = wait["ts"] - begin
        out.append(("GPU", at, start, kind))
        out.append(("GPU", start, start + wait["dur"], "wait"))
        # after a sub-batch's attention its post-projection and next pre-projection follow
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
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
        ' font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{title}</text>',
    ]
    turns = any(kind == "wait" for *_, kind in items)
    gpu = ("sub-batch 0", "sub-batch 1") if turns else ("GPU, even layers", "odd layers")
    legend = [("gpu 0", gpu[0]), ("gpu 1", gpu[1])] + [("wait", "GPU waits")] * turns
    legend += [("cpu 0", "attention, even layers"), ("cpu 1", "odd layers")]
    for i, (kind, text) in enumerate(legend):
        x = LEFT + i * 180
        svg.append(f'<rect x="{x}" y="24" width="12" height="12" fill="{COLOURS[kind]}"/>'
                   f'<text x="{x + 18}" y="34">{text}</text>')
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
    path, step, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    names, events = load(path)
    items, length = bars(names, events, step)
    first, last = (float(v) * 1e3 for v in sys.argv[4:6]) if len(sys.argv) > 4 else (0, length)
    waited = sum(end - start for *_, start, end, kind in items if kind == "wait")
    busy = sum(end - start for lane, start, end, _ in items if lane != "GPU")
    threads = len({lane for lane, *_ in items} - {"GPU"})
    work = 100 * busy / max(1, threads) / length
    title = (f"step {step}: {length / 1e3:.1f} ms; the GPU waits {100 * waited / length:.0f} % of it,"
             f" attention threads work {work:.0f} %")
    open(out, "w").write(draw(items, first, last, title))
    print(title)


main()
