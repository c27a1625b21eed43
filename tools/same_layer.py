#!/usr/bin/env python3
"""Counts the host tokens that hide behind the GPU's attention of the same layer, per machine and workload.

usage: tools/same_layer.py > FILE

It takes decode steps of a full GPU pool, all sequences at the workload's mean context, from the profiles of
docs/results/profiles and from the data sheets of the hardware files. It prints JSON lines: the window T_ga + stage -
trip, the tokens that it holds, their gain over the GPU alone, the best gain of two sub-batches in the same steps, and
the number of host tokens from which two sub-batches do more. The times of one layer are those of a step with the hidden
tokens, and of the best step of two sub-batches.
"""

import bisect
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARDWARE = ROOT / "bench/src/main/resources/dev/tandem/bench/hardware"
PROFILES = ROOT / "docs/results/profiles"
# mean context of a sequence that decodes, by workload: the prompt and half of the output
CONTEXTS = {"osc": 330, "1000/200": 1100, "1000/400": 1200, "1000/800": 1400, "reasoning": 1600}
LAYERS = 32  # of both Llama-2-7B and Llama-3.1-8B
MAX_TOKENS = 120
PRESETS = {
    "h200": ("h200", 950_000),
    "h200-26k": ("h200", 26_400),
    "h100-26k": ("h100-26k", 26_400),
    "h200-16sm-26k": ("h200-16sm-26k", 26_400),
    "h200-2req": ("h200-2req", 864),
    "h200-8sm-2req": ("h200-8sm-2req", 864),
    "h100-8sm-2req": ("h100-8sm-2req", 864),
}
SHEETS = ["l4-16vcpu", "a10g-16vcpu", "a10g-g5.4xlarge", "a10g-g5.16xlarge", "rtx4090-threadripper-pro", "h100-16vcpu"]


class Curve:
    """Seconds by size, as engine.cost.Curve has them."""

    def __init__(self, points):
        self.sizes = [size for size, _ in points]
        self.seconds = []
        for _, seconds in points:
            self.seconds.append(max(seconds, self.seconds[-1] if self.seconds else 0))

    def __call__(self, size):
        if size <= self.sizes[0]:
            return self.seconds[0] if size > 0 else 0
        right = min(len(self.sizes) - 1, bisect.bisect_left(self.sizes, size))
        low, high = self.sizes[right - 1], self.sizes[right]
        slope = (self.seconds[right] - self.seconds[right - 1]) / (high - low)
        return self.seconds[right - 1] + slope * (size - low)


class Measured:
    def __init__(self, path):
        curves, values = {}, {}
        for line in path.read_text().splitlines():
            words = line.split()
            if line.startswith(("#", "name")):
                continue
            if len(words) == 3:
                curves.setdefault(words[0], []).append((float(words[1]), float(words[2])))
            else:
                values[words[0]] = float(words[1])
        self.linear, self.gpu = Curve(curves["linear"]), Curve(curves["gpu-attention"])
        self.post = Curve(curves["post-layer"])
        self.cpus = {int(k.split("/")[1]): Curve(v) for k, v in curves.items() if k.startswith("cpu-attention")}
        self.stage, self.trip, self.step = (values[k] for k in ("stage-overhead", "trip-overhead", "step-overhead"))

    def cpu(self, rows, context):
        if rows <= 0:
            return 0
        counts = sorted(self.cpus)
        right = min(len(counts) - 1, bisect.bisect_left(counts, rows))
        at = self.cpus[counts[right]](context)
        if right == 0 or counts[right] == rows or rows > counts[-1]:
            return at * max(1, rows / counts[right])
        low = self.cpus[counts[right - 1]](context)
        return low + max(0, at - low) / (counts[right] - counts[right - 1]) * (rows - counts[right - 1])


class DataSheet:
    """Llama-3.1-8B in bf16 by the roofline of bench.hardware.Roofline."""

    def __init__(self, path):
        sheet = json.loads(path.read_text())
        gpu, host, part = sheet["gpu"], sheet["host"], sheet["efficiency"]
        layer = 4096 * 48 * 128 + 4096 * 4096 + 3 * 4096 * 14336
        head, self.bytes = 128_256 * 4096, 131_072
        bandwidth = gpu["bandwidth_gb_per_second"] * 1e9
        flops = gpu["dense_16_bit_tflops"] * 1e12 * part["gpu_flops"]
        cores = host["cores"] / (1 / (host["core_load_gb_per_second"] * 1e9) + 4 / (host["core_gflops"] * 1e9))
        reads = host["memory_bandwidth_gb_per_second"] * 1e9 * part["host_bandwidth"] * part["host_attention"]
        self.host = min(reads, cores)
        self.pool = (gpu["memory_gb"] * 0.95e9 - 2 * (LAYERS * layer + 2 * head) - 1e9) / self.bytes
        read = bandwidth * part["gpu_bandwidth"]
        self.linear = lambda n: ((2 * layer / read) ** 4 + (2 * n * layer / flops) ** 4) ** 0.25 if n else 0
        self.post = lambda n: ((2 * head / read) ** 4 + (2 * n * head / flops) ** 4) ** 0.25
        self.gpu = lambda tokens: tokens * self.bytes / LAYERS / bandwidth / part["gpu_attention"]
        self.stage, self.trip, self.step = 5e-6, 10e-6, 0.25e-3

    def cpu(self, rows, context):
        return 10e-6 + rows * context * self.bytes / LAYERS / self.host if rows > 0 else 0


def micros(seconds):
    return round(seconds * 1e6)


def count(name, machine, pool, workload):
    context = CONTEXTS[workload]
    rows = max(1, int(pool // context))
    gpu = machine.gpu(rows * context)
    window = gpu + machine.stage - machine.trip

    def rate(tokens, layer):
        return tokens / (LAYERS * layer + machine.post(tokens) + machine.step)

    alone = rate(rows, machine.linear(rows) + gpu)

    def one(tokens):
        attention = max(gpu + machine.stage, machine.cpu(tokens, context) + machine.trip)
        return rate(rows + tokens, machine.linear(rows + tokens) + attention) / alone if tokens else 1

    def two(tokens):
        """The best gain of two sub-batches with this many host tokens, and the times of one of its layers."""
        best, times = 0, None
        for second in range(1, tokens + 1):
            cpu0, cpu1 = machine.cpu(tokens - second, context), machine.cpu(second, context)
            stage0, stage1 = machine.linear(rows + tokens - second), machine.linear(second) + gpu
            path0 = stage0 + cpu0 + machine.trip if cpu0 else 0
            layer = max(2 * machine.stage + stage0 + stage1, cpu0 + cpu1, path0, stage1 + cpu1 + machine.trip)
            gain = rate(rows + tokens, layer) / alone
            if gain > best:
                best = gain
                times = {
                    "host_tokens": [tokens - second, second],
                    "linear_us": [micros(stage0), micros(stage1 - gpu)],
                    "cpu_attention_us": [micros(cpu0), micros(cpu1)],
                    "layer_us": micros(layer),
                }
        return best, times

    hidden = 0
    while hidden < MAX_TOKENS and machine.cpu(hidden + 1, context) <= window:
        hidden += 1
    pairs = [two(tokens) for tokens in range(1, MAX_TOKENS + 1)]
    crossing = next((n for n, (gain, _) in enumerate(pairs, 1) if gain > max(1, one(min(n, hidden)))), None)
    best, times = max(pairs, key=lambda pair: pair[0])
    print(
        json.dumps(
            {
                "machine": name,
                "workload": workload,
                "context": context,
                "gpu_tokens": rows,
                "gpu_attention_us": micros(gpu),
                "trip_us": micros(machine.trip),
                "window_us": micros(window),
                "cpu_attention_of_one_us": micros(machine.cpu(1, context)),
                "hidden_tokens": hidden,
                "linear_us": micros(machine.linear(rows + hidden)),
                "cpu_attention_us": micros(machine.cpu(hidden, context)),
                "gain": round(one(hidden), 3),
                "two_sub_batches_gain": round(best, 3),
                "two_sub_batches_better_from": crossing,
                "two_sub_batches": times,
            }
        )
    )


for preset, (profile, tokens) in PRESETS.items():
    for workload in ["osc"] if "2req" in preset else CONTEXTS:
        count(preset, Measured(PROFILES / f"{profile}.txt"), tokens, workload)
for sheet in SHEETS:
    described = DataSheet(HARDWARE / f"{sheet}.json")
    for workload in ["1000/400", "reasoning"]:
        count(sheet, described, described.pool, workload)
