#!/usr/bin/env python3
"""Simulates the newest recorded throughput run of each cell and compares the two.

usage: tools/check_simulator.py [--error SPEC|SEED] [--tandem COMMAND] [--recorded COMMIT ...] [RESULTS]

RESULTS is a file of recorded lines; the default is docs/results/cuda.jsonl. Each line is simulated with its own flags
and the profile that it measured, or else that of its GPU and preset. Lines without one, and lines that ran with another
profile, are left out.
Throughput holds within 10 %, mean and p99 TPOT within 20 %. The p99 of fewer than 100 requests is the slowest of them,
so a window in which fewer ended is held to its p90.
A steady window depends on which requests are in progress at its start. Lines without the field first_requests began
with others than today's simulator draws; --tandem names a build that draws theirs (docs/performance/method.md).
Exit status: 0 all hold, 1 some do not.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# By GPU and preset; a profile must reach the contexts of its preset, because a longer one is extrapolated.
PROFILES = {
    ("NVIDIA H200", "h200"): "h200-all-kv",
    ("NVIDIA H200", "h200-26k"): "h200",
    ("NVIDIA H200", "h200-16sm-26k"): "h200-16sm-26k",
    ("NVIDIA H200", "h200-8sm-2req"): "h200-8sm-2req",
    ("NVIDIA H200", "h200-2req"): "h200-2req",
    ("NVIDIA H200", "imitated-l4"): "h200-imitated-l4",
    ("NVIDIA H100 80GB HBM3", "h200-26k"): "h100-26k",
    ("NVIDIA H100 80GB HBM3", "h200"): "h100-all-kv",
    ("NVIDIA H100 80GB HBM3", "imitated-l4"): "h100-imitated-l4",
    ("NVIDIA H100 80GB HBM3", "imitated-a10g"): "h100-imitated-a10g",
    ("NVIDIA H100 80GB HBM3", "h200-16sm-26k"): "h100-16sm-26k",
    ("NVIDIA H100 80GB HBM3", "h200-2req"): "h100-2req",
    ("NVIDIA H100 80GB HBM3", "h200-8sm-2req"): "h100-8sm-2req",
}
# The size that serve chooses with this preset, for runs that did not set one.
BLOCKS = {("NVIDIA H200", "h200"): "56250", ("NVIDIA H100 80GB HBM3", "h200"): "27752"}
LIMITS = {"output_tokens_per_second": 0.10, "mean_tpot_ms": 0.20, "p99_tpot_ms": 0.20}
# Of fewer requests the 99th percentile is the slowest alone.
REQUESTS_OF_A_P99 = 100


def profile(run):
    """The name of the run's own profile, if it is kept under its commit, else of its GPU and preset; None for none."""
    gpu = run.get("machine", "").split(",")[0]
    name = PROFILES.get((gpu, run.get("preset")))
    own = f"{name}-{run.get('commit')}"
    return own if (ROOT / f"docs/results/profiles/{own}.txt").exists() else name


def without(words, options):
    """Words of a command line without these options and their values."""
    kept, dropped = [], False
    for word in words:
        dropped = word in options or dropped and not word.startswith("--")
        if not dropped:
            kept.append(word)
    return kept


def ran_with(run):
    """The name of the profile that the run's flags give; None where the run measured one itself."""
    words = shlex.split(run["flags"])
    return pathlib.Path(words[words.index("--profile") + 1]).stem if "--profile" in words else None


def limits(run):
    """The figures that are compared, and their limits."""
    few = run["completed"] < REQUESTS_OF_A_P99
    return {"p90_tpot_ms" if few and figure == "p99_tpot_ms" else figure: limit for figure, limit in LIMITS.items()}


def cells(file):
    newest = {}
    for line in open(file):
        run = json.loads(line)
        if "output_tokens_per_second" not in run or profile(run) is None:
            continue
        if ran_with(run) in (None, profile(run)):
            gpu = run["machine"].split(",")[0]
            # a run with a rule of its strategy changed is a cell of its own, and so is one without the guard
            changed = [f"{rule}={value}" for rule, value in run.get("deviations", {}).items()]
            if run.get("fidelity", "tandem") == "tandem" and "--no-guard" in run["flags"]:
                changed.append("no guard")
            newest[gpu, run["preset"], run["workload"], run["strategy"], *changed, run["window"]] = run
    return newest


def simulated(run, error, tandem):
    # --explain prints decisions to standard output
    words = without(shlex.split(run["flags"]), {"--profile", "--result-file", "--explain"})
    command = [str(pathlib.Path(tandem).resolve()), "bench", "simulate", *words[2:], "--json", "--error", error]
    command += ["--profile", f"docs/results/profiles/{profile(run)}.txt"]
    blocks = BLOCKS.get((run["machine"].split(",")[0], run["preset"]))
    if blocks and "--num-gpu-blocks-override" not in words:
        command += ["--num-gpu-blocks-override", blocks]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--error", default="none")
    parser.add_argument("results", nargs="?", default=str(ROOT / "docs/results/cuda.jsonl"))
    parser.add_argument("--tandem", default=str(ROOT / "tandem"), help="the command that simulates")
    parser.add_argument("--recorded", nargs="+", help="only lines of these commits")
    parser.add_argument("--result-file", help="file to which the simulated lines are appended")
    given = parser.parse_args()
    broken = 0
    print("| cell | commit | figure | recorded | simulated | difference | holds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for cell, run in cells(given.results).items():
        if given.recorded and run["commit"] not in given.recorded:
            continue
        if run["window"] == "steady" and "first_requests" not in run:
            print(f"check_simulator.py: {' '.join(cell)} of {run['commit']} began with other requests than"
                  " today's windows", file=sys.stderr)
        try:
            result = simulated(run, given.error, given.tandem)
        except subprocess.CalledProcessError as failure:
            why = failure.stderr.strip()
            print(f"check_simulator.py: {' '.join(cell)} cannot be simulated: {why}", file=sys.stderr)
            broken += 1
            continue
        if given.result_file:
            with open(given.result_file, "a") as lines:
                lines.write(json.dumps({"recorded": run["commit"], **result}, separators=(",", ":")) + "\n")
        for figure, limit in limits(run).items():
            difference = result[figure] / run[figure] - 1
            broken += abs(difference) > limit
            print(f"| {', '.join(cell)} | {run['commit']} | {figure} | {run[figure]:.1f} | {result[figure]:.1f}"
                  f" | {difference:+.1%} | {'yes' if abs(difference) <= limit else 'no'} |", flush=True)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
