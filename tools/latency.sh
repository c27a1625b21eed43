#!/usr/bin/env bash
# Simulates latency under Poisson load: the guarded default beside gpu-only, with the same arrivals.
# usage: [JOBS=N] [SEEDS="1 2 3"] [LOADS="60 90 110"] tools/latency.sh RESULT_FILE load|cold-start [PRESET:WORKLOAD...]
#   load         rates of LOADS per cent of gpu-only's saturation, the requests per second of its steady window
#   cold-start   90 % of the hybrid's requests per second from the first second on: p99 TTFT in windows of 30 s
# Without PRESET:WORKLOAD it takes all cells of tools/cells.txt. It writes JSON lines to RESULT_FILE and prints tables.
# JOBS is how many simulations run at a time; the default is the number of cores.
set -euo pipefail
cd "$(dirname "$0")/.."
file=$1
part=$2
shift 2
case $part in
  load | cold-start) ;;
  *) echo "latency.sh: '$part' is not known; use load or cold-start" >&2 && exit 2 ;;
esac
rm -rf "$file" "$file.parts"
mkdir -p "$file.parts"
./tandem --version >/dev/null

simulate() { # number, profile, preset, workload, options
  local number=$1 profile=$2 preset=$3 workload=$4
  shift 4
  ./tandem bench simulate --profile "docs/results/profiles/$profile.txt" --preset "$preset" --workload "$workload" \
    "$@" --result-file "$file.parts/$number" >/dev/null 2>"$file.parts/$number.log" ||
    { cat "$file.parts/$number.log" >&2; return 1; }
}

# The rest of the lines: rates and times from the requests per second of the steady window, one simulation per line.
plan() { # number, profile, preset, workload
  python3 - "$file.parts/$1" "$part" "$@" <<'P'
import json
import os
import sys

MIN_REQUESTS, MIN_SECONDS = 480, 120  # measured at the lowest load; with Poisson arrivals 400 is five deviations below
LOWEST_LOAD = 0.6
# Cold start: windows of the first minutes, then the steady value. Each is a simulation of its own with equal arrivals.
COLD_WINDOWS = [(start, 30) for start in range(0, 180, 30)] + [(600, 300)]
COOL_DOWN_SECONDS = 10
window, part, number, *cell = sys.argv[1:]
saturation = json.loads(open(window).readlines()[-1])["requests_per_second"]
for seed in os.environ.get("SEEDS", "1 2 3").split():
    if part == "load":
        duration = max(MIN_SECONDS, round(MIN_REQUESTS / LOWEST_LOAD / saturation))
        times = ["--warm-up", max(MIN_SECONDS, duration // 2), "--duration", duration, "--cool-down", duration // 4]
        rates = ",".join(f"{saturation * float(load) / 100:.4g}" for load in os.environ["LOADS"].split())
        print(f"{number}-{seed}", *cell, "--strategy gpu-only,adaptive --guard --goodput tpot:250 --request-rate",
              rates, "--seed", seed, *times)
        continue
    for start, duration in COLD_WINDOWS:
        print(f"{number}-{seed}-{start:03}", *cell, "--strategy adaptive --guard --request-rate",
              f"{saturation * 0.9:.4g} --seed {seed} --warm-up {start} --duration {duration} --cool-down",
              COOL_DOWN_SECONDS)
P
}

closed() { # number, profile, preset, workload, steady seconds
  local strategy=(gpu-only)
  [ "$part" = load ] || strategy=(adaptive --guard)
  simulate "$1" "$2" "$3" "$4" --strategy "${strategy[@]}" --warm-up 600 --steady "$5" && plan "$1" "$2" "$3" "$4"
}

export -f simulate plan closed
export LOADS=${LOADS:-60 90 110}
export file part
jobs=${JOBS:-$(nproc)}
number=100
while read -r profile preset workload steady; do
  number=$((number + 1))
  [ $# -eq 0 ] || [[ " $* " == *" $preset:$workload "* ]] || continue
  echo "$number $profile $preset $workload $steady"
done <tools/cells.txt >"$file.parts/cells"
xargs -P "$jobs" -L 1 bash -c 'closed "$@"' - <"$file.parts/cells" >"$file.parts/plan"
xargs -P "$jobs" -L 1 bash -c 'simulate "$@"' - <"$file.parts/plan"
rm "$file.parts/"*.log "$file.parts/plan" "$file.parts/cells"
cat "$file.parts/"* | sed 's/ --result-file [^"]*"/"/' >"$file"
rm -r "$file.parts"
python3 - "$file" <<'P'
import json
import os
import sys

LOADS = [float(load) for load in os.environ["LOADS"].split()]
MIN_GAIN = 0.02  # as bench simulate: of a smaller ideal gain no share is taken
LIMITS = {"mean_ttft_ms": 1.05, "mean_tpot_ms": 1.05, "p99_itl_ms": 1.10}
runs = {}
for line in open(sys.argv[1]):
    run = json.loads(line)
    cell = run["preset"], run["workload"]
    if run["window"] == "open" and "--cool-down" in run["flags"]:
        runs.setdefault(cell, {}).setdefault((run["strategy"], run["seed"]), []).append(run)


def name(cell):
    return f"`{cell[0]}`, {cell[1].replace('synthetic:', '')}"


def ratio(pairs, figure):
    return sum(adaptive[figure] for _, adaptive in pairs) / sum(alone[figure] for alone, _ in pairs)


def load():
    below, above, broken = [], [], 0
    for cell, found in runs.items():
        seeds = sorted({seed for _, seed in found})
        for index, percent in enumerate(LOADS):
            pairs = [(found["gpu-only", seed][index], found["adaptive", seed][index]) for seed in seeds]
            if percent < 100:
                means = [ratio(pairs, figure) for figure in LIMITS]
                holds = all(value <= limit for value, limit in zip(means, LIMITS.values()))
                broken += not holds
                values = " | ".join(f"{value:.2f}" for value in means)
                below.append(f"| {name(cell)} | {percent:.0f} % | {values} | {'yes' if holds else 'no'} |")
                continue
            gain, *others = [ratio(pairs, figure) for figure in
                             ("output_throughput", "request_goodput", "mean_ttft_ms", "p99_e2el_ms")]
            ideal = pairs[0][1]["ideal_ratio"]
            reached = f"{(gain - 1) / (ideal - 1):.2f}" if ideal - 1 >= MIN_GAIN else "none"
            share = sum(adaptive["share_of_ideal"] for _, adaptive in pairs) / len(pairs)
            values = " | ".join(f"{value:.2f}" for value in others)
            above.append(f"| {name(cell)} | {gain:.2f} | {ideal:.2f} | {reached} | {share:.2f} | {values} |")
    if below:
        print("| preset, workload | load | mean TTFT | mean TPOT | ITL p99 | holds |")
        print("| --- | --- | --- | --- | --- | --- |\n" + "\n".join(below))
        print(f"\n{broken} of {len(below)} rows do not hold")
    if above:
        print("\n| preset, workload | throughput | the ideal's | share of its gain | share of ideal | goodput"
              " | mean TTFT | E2E p99 |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |\n" + "\n".join(above))
    print("\nratios are those of the means over the seeds")


def cold_start():
    print("| preset, workload | seed | p99 TTFT, ms, of the first windows of 30 s | later |")
    print("| --- | --- | --- | --- |")
    for cell, found in runs.items():
        for (_, seed), parts in sorted(found.items(), key=lambda item: item[0][1]):
            *first, later = [f"{part['p99_ttft_ms']:.0f}" for part in parts]
            print(f"| {name(cell)} | {seed} | {', '.join(first)} | {later} |")


if any(strategy == "gpu-only" for found in runs.values() for strategy, _ in found):
    load()
else:
    cold_start()
P
