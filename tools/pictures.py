#!/usr/bin/env python3
"""Draws the pictures of the documentation as SVG, from recorded results or from the tables in this file.

usage: tools/pictures.py [--check]

Writes docs/pictures/*.svg. With --check it writes nothing and fails when a file differs from what it would write.
Standard library only. Each function draws one picture and is named for its file.
"""

import argparse
import html
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
OUT = ROOT / "docs" / "pictures"

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11px; fill: #52606d; }
  .on { fill: #ffffff; }
  .axis { stroke: #9aa5b1; fill: none; }
  .grid { stroke: #e4e7eb; fill: none; }
  .box { fill: #f5f7fa; stroke: #9aa5b1; }
  .gpu { fill: #2f6f4f; } .cpu { fill: #b35c1e; } .link { fill: #5b6b8c; } .other { fill: #9aa5b1; }
  .gpu-line { stroke: #2f6f4f; fill: none; stroke-width: 2; }
  .cpu-line { stroke: #b35c1e; fill: none; stroke-width: 2; }
  .link-line { stroke: #5b6b8c; fill: none; stroke-width: 2; }
  .other-line { stroke: #7b8794; fill: none; stroke-width: 2; }
  .arrow { stroke: #52606d; fill: none; marker-end: url(#head); }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; } .small { fill: #9aa5b1; } .box { fill: #1f2933; } .grid { stroke: #323f4b; }
  }
"""


class Svg:
    """A picture of fixed size that collects shapes."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def text(self, x, y, text, css="", anchor="start"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{css}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x, y, width, height, css="box", label="", text="on"):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{css}"/>')
        lines = label.split("\n") if label else []
        for i, line in enumerate(lines):
            middle = y + height / 2 + 4.5 + (i - (len(lines) - 1) / 2) * 16
            self.text(x + width / 2, middle, line, "" if css == "box" else text, "middle")

    def line(self, x1, y1, x2, y2, css="axis"):
        self.parts.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="{css}"/>')

    def path(self, points, css):
        self.parts.append('<path d="M' + "L".join(f"{x:g} {y:g}" for x, y in points) + f'" class="{css}"/>')

    def dot(self, x, y, css):
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" class="{css}"/>')

    def __str__(self):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'role="img" aria-label="{html.escape(self.title)}">\n<style>{STYLE}</style>\n<defs><marker id="head" '
            'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8Z" fill="#52606d"/></marker></defs>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def lines(name):
    with open(RESULTS / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def throughput():
    """Offline throughput beside vLLM's, as a ratio."""
    rows = lines("peers/vllm-0.33-h200-offline.jsonl")
    svg = Svg(760, 60 + 74 * len(rows), "Throughput of Tandem and vLLM 0.33 on one H200")
    svg.text(16, 24, "Throughput on one NVIDIA H200, Llama-3.1-8B shapes, Tandem on the GPU alone", "title")
    for i, row in enumerate(rows):
        y, full = 48 + 74 * i, 560
        svg.text(16, y + 12, f"{row['work']}, {row['unit']}")
        highest = max(row["vllm_0_33"], row["tandem"])
        for j, (name, key, css) in enumerate((("vLLM 0.33", "vllm_0_33", "other"), ("Tandem", "tandem", "gpu"))):
            width = full * row[key] / highest
            svg.box(100, y + 20 + 22 * j, width, 18, css)
            svg.text(92, y + 34 + 22 * j, name, "small", "end")
            svg.text(106, y + 34 + 22 * j, f"{row[key]:,}", "on")
        svg.text(108 + full, y + 56, f"{row['tandem'] / row['vllm_0_33']:.2f}x", "title")
    return svg


def steady(commit, preset, strategy):
    """The last steady line of cuda.jsonl that a commit, a preset and a strategy have."""
    wanted = {"commit": commit, "preset": preset, "strategy": strategy, "window": "steady"}
    return [row for row in lines("cuda.jsonl") if all(row.get(key) == value for key, value in wanted.items())][-1]


def gain_by_preset():
    """README's chart: steady output throughput of a GPU with host attention, as a ratio to GPU-only's."""
    groups = (
        (
            "One H200, Llama-3.1-8B, 1000/400, 26,400 KV tokens",
            "h200-26k",
            {"gpu-only": "223daf0", "adaptive": "223daf0", "neo": "34cf2cf", "apex": "34cf2cf"},
        ),
        (
            "One H100, Llama-2-7B, osc, KV memory of two requests",
            "h200-2req",
            {"gpu-only": "801ac21", "adaptive": "801ac21"},
        ),
        (
            "8 SMs of an H100, Llama-2-7B, osc, KV memory of two requests",
            "h200-8sm-2req",
            dict.fromkeys(("gpu-only", "adaptive", "neo", "apex"), "43a8ef9"),
        ),
        (
            "An L4 imitated on an H200, Llama-3.1-8B, reasoning, 41,952 KV tokens, 160 ms per token",
            "imitated-l4",
            dict.fromkeys(("gpu-only", "adaptive"), "c2071cd"),
        ),
        (
            "An A10G imitated on an H100, Llama-3.1-8B, reasoning, 41,952 KV tokens, 160 ms per token",
            "imitated-a10g",
            dict.fromkeys(("gpu-only", "adaptive"), "43a8ef9"),
        ),
    )
    names = {
        "gpu-only": ("GPU-only", "other"),
        "adaptive": ("default", "cpu"),
        "neo": ("NEO as printed", "link"),
        "apex": ("APEX as printed", "link"),
    }
    bars = sum(len(commits) for *_, commits in groups)
    svg = Svg(760, 46 + 30 * len(groups) + 22 * bars, "Output throughput with host attention over GPU-only's")
    svg.text(16, 24, "Output tokens/s over GPU-only's at equal GPU memory, steady windows", "title")
    left, unit, y = 130, 112, 42
    svg.line(left + 520, 44, left + 520, 58, "other-line")
    svg.text(left + 528, 55, "ideal", "small")
    for title, preset, commits in groups:
        svg.text(16, y + 13, title)
        top = y + 20
        for strategy, commit in commits.items():
            y += 22
            name, css = names[strategy]
            rate = steady(commit, preset, strategy)["output_tokens_per_second"]
            ratio = rate / steady(commit, preset, "gpu-only")["output_tokens_per_second"]
            svg.text(left - 8, y + 14, name, "small", "end")
            svg.box(left, y, unit * ratio, 18, css)
            svg.text(left + 6, y + 14, f"{rate:,.0f}", "on")
            svg.text(left + unit * ratio - 6, y + 14, f"{ratio:.2f}", "on", "end")
        default = steady(commits["adaptive"], preset, "adaptive")
        alone = steady(commits["gpu-only"], preset, "gpu-only")
        ideal = default["ideal_output_tokens_per_second"] / alone["output_tokens_per_second"]
        svg.line(left + unit * ideal, top, left + unit * ideal, y + 20, "other-line")
        svg.text(left + unit * ideal + 6, y + 14, f"{ideal:.2f}", "small")
        y += 30
    return svg


def latency_under_load():
    """Mean time to first token against the arrival rate, 1000/200 with 26,400 KV tokens."""
    series = {
        "vLLM 0.33": ("v-tight", "other"),
        "Tandem, gpu-only": ("t-gpuonly", "gpu"),
        "Tandem, default": ("t-auto", "cpu"),
    }
    rows = [r for r in lines("peers/vllm-0.33-h200-online.jsonl") if r["workload"] == "synthetic:1000/200"]
    tight = {r["rate"] for r in rows if r["label"] == "v-tight"}
    svg = Svg(760, 380, "Mean time to first token under Poisson load")
    svg.text(16, 24, "Mean time to first token under Poisson load, one H200, 1000/200, 26,400 KV tokens", "title")
    left, top, width, height, fastest, slowest = 80, 48, 600, 270, 30, 10000

    def at(rate, ms):
        x = left + width * (rate - 4) / 14
        y = top + height * (1 - math.log(ms / fastest) / math.log(slowest / fastest))
        return x, y

    for ms in (30, 100, 300, 1000, 3000, 10000):
        _, y = at(4, ms)
        svg.line(left, y, left + width, y, "grid")
        svg.text(left - 8, y + 4, f"{ms:,} ms", "small", "end")
    for rate in (5, 10, 13, 17):
        x, _ = at(rate, fastest)
        svg.text(x, top + height + 18, f"{rate}", "small", "middle")
    svg.text(left + width / 2, top + height + 40, "requests per second, open loop", "small", "middle")
    for i, (name, (label, css)) in enumerate(series.items()):
        points = sorted((r["rate"], r["ttft_ms"]["mean"]) for r in rows if r["label"] == label and r["rate"] in tight)
        svg.path([at(*p) for p in points], css + "-line")
        for p in points:
            svg.dot(*at(*p), css)
        svg.box(left + 16, top + 8 + 20 * i, 12, 12, css)
        svg.text(left + 34, top + 18 + 20 * i, name)
    return svg


KV_BYTES_PER_TOKEN = 131_072  # of Llama-3.1-8B in bf16


def throughput_by_kv():
    """Simulated output throughput against the GPU's KV capacity, GPU-only and the default at equal GPU memory."""
    rows = lines("kv-capacity.jsonl")
    svg = Svg(760, 400, "Simulated throughput against KV capacity")
    svg.text(16, 24, "Simulated output throughput against GPU KV capacity, Llama-3.1-8B, 1000/400", "title")
    svg.text(16, 42, "Profile of one H200 and 16 cores of its host; equal GPU memory", "small")
    left, top, width, height, highest = 80, 60, 640, 270, 10000
    fewest, most_tokens = 800 * 16, 24000 * 16

    def at(tokens, rate):
        x = left + width * math.log(tokens / fewest) / math.log(most_tokens / fewest)
        return x, top + height * (1 - rate / highest)

    for rate in range(0, highest + 1, 2000):
        _, y = at(fewest, rate)
        svg.line(left, y, left + width, y, "grid")
        svg.text(left - 8, y + 4, f"{rate:,}", "small", "end")
    by_tokens = {}
    for row in rows:
        tokens = row["gpu_kv_bytes"] // KV_BYTES_PER_TOKEN
        by_tokens.setdefault(tokens, {})[row["strategy"]] = row["output_tokens_per_second"]
    strategies = (("gpu-only", "GPU-only", "gpu"), ("adaptive", "default, guarded", "cpu"))
    for i, (strategy, name, css) in enumerate(strategies):
        points = sorted((tokens, rates[strategy]) for tokens, rates in by_tokens.items())
        svg.path([at(*point) for point in points], css + "-line")
        for point in points:
            svg.dot(*at(*point), css)
        svg.box(left + 16, top + 8 + 20 * i, 12, 12, css)
        svg.text(left + 34, top + 18 + 20 * i, name)
    for tokens, rates in sorted(by_tokens.items()):
        x, y = at(tokens, max(rates.values()))
        svg.text(x, top + height + 18, f"{tokens / 1000:,.0f}k", "small", "middle")
        svg.text(x, y - 10, f"{rates['adaptive'] / rates['gpu-only']:.2f}x", "small", "middle")
    svg.text(
        left + width / 2,
        top + height + 40,
        "tokens of KV that the GPU's memory holds; output tokens/s",
        "small",
        "middle",
    )
    return svg


def gain_by_wait():
    """Simulated gain of the guarded default against the mean time per token, with a target and without."""
    series = {
        "l4-16vcpu": ("NVIDIA L4, Llama-3.1-8B", "gpu"),
        "a10g-16vcpu": ("NVIDIA A10G, Llama-3.1-8B", "cpu"),
        "h100-16vcpu": ("NVIDIA H100, Qwen3-32B", "other"),
    }
    rows = lines("hardware.jsonl")
    svg = Svg(760, 400, "Simulated gain against time per token")
    svg.text(16, 24, "Simulated throughput over GPU-only's against the mean time per token", "title")
    svg.text(16, 42, "Rooflines of one GPU and 16 cores, bf16, reasoning; guarded default, equal GPU memory", "small")
    left, top, width, height, highest, fastest, slowest = 60, 60, 660, 270, 3, 20, 800

    def at(ms, ratio):
        x = left + width * math.log(ms / fastest) / math.log(slowest / fastest)
        return x, top + height * (1 - ratio / highest)

    for ratio in range(highest + 1):
        _, y = at(fastest, ratio)
        svg.line(left, y, left + width, y, "grid")
        svg.text(left - 8, y + 4, f"{ratio}", "small", "end")
    for ms in (25, 50, 100, 250, 500):
        x, _ = at(ms, 0)
        svg.text(x, top + height + 18, f"{ms} ms", "small", "middle")
    for i, (hardware, (name, css)) in enumerate(series.items()):
        # rows that repeat a hardware run have its smaller KV pool; whole runs are no windows
        others = ("--num-gpu-blocks-override", "--requests")
        whole = [row for row in rows if not any(flag in row["flags"] for flag in others)]
        mine = [row for row in whole if row["hardware"] == hardware]
        alone = next(row for row in mine if row["strategy"] == "gpu-only")
        guarded = [row for row in mine if "--guard" in row["flags"]]
        guarded.sort(key=lambda row: "--tpot-target 0 " in row["flags"])
        points = [
            (row["mean_tpot_ms"], row["output_tokens_per_second"] / alone["output_tokens_per_second"])
            for row in [alone, *guarded]
        ]
        svg.path([at(*point) for point in points], css + "-line")
        for (ms, ratio), label in zip(points, ("GPU-only", "target", "no target"), strict=True):
            svg.dot(*at(ms, ratio), css)
            x, y = at(ms, ratio)
            svg.text(x, y + (18 if css == "other" else -10), f"{label} {ratio:.2f}", "small", "middle")
        svg.box(left + 16, top + 8 + 20 * i, 12, 12, css)
        svg.text(left + 34, top + 18 + 20 * i, name)
    svg.text(left + width / 2, top + height + 40, "mean time per output token of a request", "small", "middle")
    return svg


def goodput_by_load():
    """Simulated output throughput and goodput against the load, means over the seeds."""
    rows = lines("goodput.jsonl")
    cells = (
        ("h200-26k", "h200-26k, 1000/400", 5000, 1000, 12, 3),
        ("h200-8sm-2req", "h200-8sm-2req, osc", 200, 50, 3, 1),
    )
    strategies = {
        "gpu-only": ("GPU-only", "gpu"),
        "neo": ("NEO as printed", "link"),
        "apex": ("APEX as printed", "other"),
        "adaptive": ("default, guarded", "cpu"),
    }
    svg = Svg(760, 520, "Simulated output throughput and goodput against the load")
    svg.text(16, 24, "Simulated output throughput and goodput against the load, Poisson arrivals", "title")
    for i, (name, css) in enumerate(strategies.values()):
        svg.box(62 + 160 * i, 38, 12, 12, css)
        svg.text(80 + 160 * i, 48, name)
    width, height, lowest, highest = 290, 170, 60, 140
    for column, (preset, title, *scales) in enumerate(cells):
        mine = [row for row in rows if row["preset"] == preset]
        (saturation,) = [row["requests_per_second"] for row in mine if row["window"] == "steady"]
        left = 62 + 380 * column
        svg.text(left, 74, title)
        panels = (("output_throughput", "output tokens/s"), ("request_goodput", "goodput, requests/s"))
        for i, (figure, unit) in enumerate(panels):
            top, (limit, tick) = 96 + 206 * i, scales[2 * i : 2 * i + 2]

            def at(load, value, left=left, top=top, limit=limit):
                return left + width * (load - lowest) / (highest - lowest), top + height * (1 - value / limit)

            for value in range(0, limit + 1, tick):
                _, y = at(lowest, value)
                svg.line(left, y, left + width, y, "grid")
                svg.text(left - 8, y + 4, f"{value:,}", "small", "end")
            svg.text(left + 4, top - 5, unit, "small")
            for strategy, (_, css) in strategies.items():
                sums = {}
                for row in mine:
                    if row["strategy"] == strategy and row["window"] == "open":
                        sums.setdefault(round(100 * row["request_rate"] / saturation), []).append(row[figure])
                points = [at(load, sum(values) / len(values)) for load, values in sorted(sums.items())]
                svg.path(points, css + "-line")
                for point in points:
                    svg.dot(*point, css)
        for load in range(lowest, highest + 1, 20):
            x, _ = at(load, 0)
            svg.text(x, 490, f"{load} %", "small", "middle")
    svg.text(
        380,
        510,
        "load by GPU-only's saturation; goodput has a first token within 5 s and at most 250 ms per token",
        "small",
        "middle",
    )
    return svg


def peak_by_kernel():
    """Fraction of the measured peak that each part of a decode step reaches."""
    rows = [
        ("GEMMs, 1 token", 4.1 / 4.59),
        ("GEMMs, 64 tokens", 3.9 / 4.59),
        ("attention, 24 tokens", 3.8 / 4.59),
        ("attention, 64 tokens", 4.1 / 4.59),
        ("attention, 256 tokens", 4.4 / 4.59),
        ("host attention, AMX, 16 threads", 0.90),
        ("host attention, AVX-512, 16 threads", 0.85),
    ]
    svg = Svg(760, 50 + 30 * len(rows), "Fraction of peak read bandwidth by kernel")
    svg.text(16, 24, "Fraction of the peak read bandwidth of the same machine (H200: 4.59 TB/s)", "title")
    for i, (name, fraction) in enumerate(rows):
        y = 42 + 30 * i
        svg.text(250, y + 15, name, "", "end")
        svg.box(260, y, 420, 20, "box")
        svg.box(260, y, 420 * fraction, 20, "cpu" if name.startswith("host") else "gpu", f"{fraction:.2f}")
    return svg


def kv_tiers():
    """Where a sequence's KV lives and who attends."""
    svg = Svg(760, 300, "KV on two tiers")
    svg.text(16, 24, "Two KV tiers: each sequence keeps its KV on one of them", "title")
    svg.box(16, 44, 340, 236, "box")
    svg.text(28, 66, "GPU memory: weights and GPU blocks (16 tokens)")
    svg.box(404, 44, 340, 236, "box")
    svg.text(416, 66, "host memory: host blocks (64 tokens)")
    for i, name in enumerate(("sequence A", "sequence B")):
        svg.text(28, 96 + 40 * i, name, "small")
        for j in range(5 - i):
            svg.box(106 + 44 * j, 82 + 40 * i, 38, 22, "gpu", str(17 + 6 * i + j))
    for i, name in enumerate(("sequence C", "sequence D")):
        svg.text(416, 96 + 40 * i, name, "small")
        for j in range(2):
            svg.box(496 + 110 * j, 82 + 40 * i, 100, 22, "cpu", str(3 + 2 * i + j))
    svg.box(28, 180, 316, 34, "gpu", "GPU attends for A and B")
    svg.box(416, 180, 316, 34, "cpu", "CPU threads attend for C and D")
    svg.box(28, 230, 316, 34, "gpu", "linear layers and sampling for all four")
    svg.line(416, 204, 348, 240, "arrow")
    svg.line(348, 222, 412, 190, "arrow")
    svg.text(380, 172, "q, k, v", "small", "middle")
    svg.text(380, 256, "output", "small", "middle")
    return svg


def timeline(title, lanes, note, width=760):
    """Lanes of (start, length, label, css) boxes on one time axis."""
    svg = Svg(width, 76 + 46 * len(lanes), title)
    svg.text(16, 24, title, "title")
    for i, (name, boxes) in enumerate(lanes):
        y = 42 + 46 * i
        svg.text(16, y + 21, name)
        svg.line(70, y + 38, width - 16, y + 38, "grid")
        for start, length, label, css in boxes:
            svg.box(76 + start, y, length - 3, 32, css, label)
    svg.text(16, 62 + 46 * len(lanes), note, "small")
    return svg


def asymmetric_step():
    gpu, cpu = [], []
    for layer in range(3):
        x = 220 * layer
        gpu += [(x, 120, f"linear 0, L{layer}", "gpu"), (x + 120, 100, f"linear 1, L{layer}", "link")]
        cpu += [(x, 116, "attention 1", "cpu"), (x + 120, 96, "attention 0", "cpu")]
    return timeline(
        "Asymmetric pipelining: two sub-batches take turns",
        [("GPU", gpu), ("CPU", cpu)],
        "While the GPU runs the linear layers of one sub-batch (0, 1), the CPU attends for host tokens of the other.",
    )


def async_overlap_step():
    gpu, cpu = [], []
    for layer in range(4):
        x = 165 * layer
        gpu += [(x, 62, f"QKV, L{layer}", "gpu"), (x + 62, 42, "attn", "gpu"), (x + 104, 61, "out, MLP", "gpu")]
        cpu += [(x + 62, 104, f"host, L{layer}", "cpu")]
    return timeline(
        "Async overlap: host tokens leave at attention and rejoin later",
        [("GPU", gpu), ("CPU", cpu[:4])],
        "The GPU never waits. A host token rejoins at its layer once its attention is there, usually one step later.",
    )


def same_layer_step():
    """Layers of a step with same-layer tokens, and of one with two sub-batches, to scale."""
    rows = lines("same-layer.jsonl")
    (row,) = [row for row in rows if (row["machine"], row["workload"]) == ("l4-16vcpu", "1000/400")]
    pair, trip, attention, mine = row["two_sub_batches"], row["trip_us"], row["gpu_attention_us"], row["gpu_tokens"]
    stage = row["window_us"] + trip - attention
    first, second = pair["host_tokens"]
    svg = Svg(760, 330, "A step with same-layer tokens and a step with two sub-batches")
    svg.text(16, 24, "Same-layer tokens, and two sub-batches on the same machine", "title")
    left, scale = 76, 0.147

    def lanes(y, title, gpu, cpu):
        svg.text(16, y, title)
        for i, (name, boxes) in enumerate((("GPU", gpu), ("CPU", cpu))):
            top = y + 10 + 42 * i
            svg.text(16, top + 21, name)
            svg.line(70, top + 36, 744, top + 36, "grid")
            for start, length, label, css in boxes:
                svg.box(left + scale * start, top, scale * length - 2, 32, css, label)

    gpu, cpu, tokens = [], [], mine + row["hidden_tokens"]
    for layer in range(2):
        start = layer * (attention + stage + row["linear_us"])
        gpu.append((start, attention, f"attn of {mine}", "gpu"))
        gpu.append((start + attention + stage, row["linear_us"], f"linear, {tokens} tokens", "gpu"))
        cpu.append((start + trip / 2, row["cpu_attention_us"], f"attn of {row['hidden_tokens']}", "cpu"))
    lanes(
        54,
        f"One batch, two layers: {mine} GPU tokens and {row['hidden_tokens']} same-layer tokens, "
        f"{row['gain']:.2f} times GPU-only",
        gpu,
        cpu,
    )
    linear, attentions = pair["linear_us"], pair["cpu_attention_us"]
    lanes(
        170,
        f"Two sub-batches, one layer: {mine} GPU tokens and {first + second} host tokens, "
        f"{row['two_sub_batches_gain']:.2f} times GPU-only",
        [
            (0, linear[0], f"linear 0, {mine + first} tokens", "gpu"),
            (linear[0], attention, f"attn of {mine}", "gpu"),
            (linear[0] + attention + stage, linear[1], f"linear 1, {second} tokens", "link"),
        ],
        [
            (0, attentions[1], f"attn 1, of {second}", "cpu"),
            (attentions[1], attentions[0], f"attn 0, of {first}", "cpu"),
        ],
    )
    for ms in range(5):
        svg.text(left + scale * 1000 * ms, 278, f"{ms} ms", "small", "middle")
    svg.text(
        16,
        300,
        "Computed from data sheets, not run: NVIDIA L4, 16 vCPU, Llama-3.1-8B, contexts of 1,200 tokens.",
        "small",
    )
    svg.text(
        16,
        318,
        "To scale. Linear: output projection, MLP and QKV. The gain counts sampling and the step's overhead.",
        "small",
    )
    return svg


def selector():
    """The phases of the strategy selector."""
    svg = Svg(760, 330, "The phases of the strategy selector")
    svg.text(16, 24, "The strategy selector: what starts and stops offloading", "title")
    svg.box(20, 70, 180, 70, "gpu", "MEASURE\nGPU-only's goodput")
    svg.box(290, 70, 180, 70, "cpu", "WARM_UP\nthe host tier fills")
    svg.box(560, 70, 180, 70, "cpu", "RUN\ncompared with GPU-only")
    svg.box(560, 220, 180, 70, "link", "DRAIN\nhost tokens leave")
    svg.box(20, 220, 180, 70, "gpu", "PAUSE\nGPU-only")
    svg.line(202, 105, 286, 105, "arrow")
    svg.text(244, 97, "a gain is", "small", "middle")
    svg.text(244, 121, "predicted", "small", "middle")
    svg.line(472, 105, 556, 105, "arrow")
    svg.text(514, 95, "host is full", "small", "middle")
    svg.line(650, 142, 650, 216, "arrow")
    svg.text(642, 184, "goodput below GPU-only's", "small", "end")
    svg.line(380, 142, 556, 240, "arrow")
    svg.text(384, 214, "hopeless while it fills", "small", "middle")
    svg.line(558, 262, 204, 262, "arrow")
    svg.text(380, 280, "host is empty", "small", "middle")
    svg.line(110, 218, 110, 144, "arrow")
    svg.text(120, 184, "pause over; longer after each clear loss", "small")
    svg.text(
        16,
        316,
        "New requests start on the GPU in MEASURE, DRAIN and PAUSE. A changed load leads back to MEASURE.",
        "small",
    )
    return svg


def threads():
    svg = Svg(760, 300, "Threads and what they own")
    svg.text(16, 24, "Threads and what they own", "title")
    svg.box(20, 50, 150, 60, "box", "event loops\nconnections")
    svg.box(20, 200, 150, 60, "box", "tokenizer pool\none prompt each")
    svg.box(280, 50, 200, 210, "gpu", "engine thread\n\nsequences, queues,\nblock tables, KV pools,\nstrategy, plans")
    svg.box(590, 50, 150, 60, "link", "GPU\nkernels, graphs")
    svg.box(590, 200, 150, 60, "cpu", "attention workers\nno shared state")
    svg.line(95, 112, 95, 196, "arrow")
    svg.line(172, 228, 276, 200, "arrow")
    svg.text(226, 236, "requests", "small", "middle")
    svg.line(278, 100, 174, 84, "arrow")
    svg.text(226, 76, "tokens", "small", "middle")
    svg.line(482, 80, 586, 76, "arrow")
    svg.text(534, 66, "plans", "small", "middle")
    svg.line(640, 112, 640, 196, "arrow")
    svg.line(690, 198, 690, 114, "arrow")
    svg.text(698, 158, "queues", "small")
    return svg


def packages():
    """Modules and what each may use; ArchitectureTest enforces it."""
    svg = Svg(760, 350, "Modules: an arrow points to what a module uses")
    svg.text(16, 24, "Modules: an arrow points to what a module uses; app uses all", "title")
    boxes = {
        "library": (560, 44),
        "app": (300, 44),
        "server": (40, 124),
        "bench": (220, 124),
        "cuda": (540, 124),
        "cpu": (400, 204),
        "fetch": (580, 204),
        "grammar": (40, 204),
        "text": (40, 284),
        "engine": (220, 284),
        "model": (400, 284),
    }
    uses = {
        "library": ("app",),
        "app": ("server", "bench", "cuda"),
        "server": ("grammar",),
        "grammar": ("text", "engine"),
        "bench": ("engine",),
        "cuda": ("cpu", "fetch"),
        "cpu": ("model",),
        "model": ("engine",),
    }
    for name, (x, y) in boxes.items():
        label = {"engine": "engine (JDK only)"}.get(name, name)
        svg.box(x, y, 140, 36, "gpu" if name == "engine" else "box", label)
    for name, targets in uses.items():
        x1, y1 = boxes[name]
        for target in targets:
            x2, y2 = boxes[target]
            if y1 == y2:
                svg.line(x1 - 2, y1 + 18, x2 + 144, y2 + 18, "arrow")
            else:
                svg.line(x1 + 70, y1 + 38, x2 + 70, y2 - 4, "arrow")
    return svg


def verdicts():
    """The verdict on each claim of the papers' figures, one square per claim."""
    rows = lines("verdicts.jsonl")
    kinds = {"reproduced": "gpu", "direction only": "link", "not reproduced": "cpu"}
    figures = list(dict.fromkeys((row["paper"], row["figure"]) for row in rows))
    fidelities = list(dict.fromkeys(row["fidelity"] for row in rows))
    svg = Svg(760, 96 + 24 * len(figures), "Verdicts on the claims of NEO's and APEX's figures")
    svg.text(16, 24, "Claims of the papers' figures, simulated: one square per claim", "title")
    for i, (kind, css) in enumerate(kinds.items()):
        svg.box(16 + 200 * i, 38, 16, 16, css)
        svg.text(38 + 200 * i, 51, kind)
    for j, fidelity in enumerate(fidelities):
        svg.text(130 + 210 * j, 82, fidelity, "small")
    for i, (paper, figure) in enumerate(figures):
        y = 90 + 24 * i
        svg.text(16, y + 13, f"{paper.upper()} {figure.removeprefix('fig')}")
        for j, fidelity in enumerate(fidelities):
            claims = [r for r in rows if (r["paper"], r["figure"], r["fidelity"]) == (paper, figure, fidelity)]
            for k, claim in enumerate(claims):
                svg.box(130 + 210 * j + 22 * k, y, 16, 16, kinds[claim["verdict"]])
    return svg


PICTURES = {
    "throughput": throughput,
    "gain-by-preset": gain_by_preset,
    "latency-under-load": latency_under_load,
    "throughput-by-kv": throughput_by_kv,
    "gain-by-wait": gain_by_wait,
    "goodput-by-load": goodput_by_load,
    "peak-by-kernel": peak_by_kernel,
    "kv-tiers": kv_tiers,
    "asymmetric-step": asymmetric_step,
    "async-overlap-step": async_overlap_step,
    "same-layer-step": same_layer_step,
    "selector": selector,
    "threads": threads,
    "packages": packages,
    "verdicts": verdicts,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when a picture is stale; write nothing")
    check = parser.parse_args().check
    OUT.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, draw in PICTURES.items():
        path, text = OUT / (name + ".svg"), str(draw())
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit("stale pictures, run tools/pictures.py: " + ", ".join(stale))


if __name__ == "__main__":
    main()
