#!/usr/bin/env bash
# Simulates the presets and workloads of tools/cells.txt, over the profiles of docs/results/profiles.
# usage: [JOBS=N] tools/simulate.sh RESULT_FILE [strategies|hosts]
#   strategies   simulate every strategy, and some of them with the guard
#   hosts        simulate the guarded default with a host tier that hardly helps: a pool of two blocks, targets of 60
#                and 20 ms per token, a host that is lost; fails if any has less than 0.99 of gpu-only's throughput
# Without a second argument it does both. It writes JSON lines to RESULT_FILE and prints the ratios to gpu-only.
# JOBS is how many cells run at a time; the default is the number of cores.
set -euo pipefail
cd "$(dirname "$0")/.."
file=$1
part=${2:-all}
jobs=${JOBS:-$(nproc)}
case $part in
  all | strategies | hosts) ;;
  *) echo "simulate.sh: '$part' is not known; use strategies or hosts" >&2 && exit 2 ;;
esac
rm -f "$file" "$file".*
./tandem --version >/dev/null

run() { # number, profile, preset, workload, steady seconds, strategy and options
  local number=$1 profile=$2 preset=$3 workload=$4 steady=$5
  shift 5
  ./tandem bench simulate --profile "docs/results/profiles/$profile.txt" --preset "$preset" --workload "$workload" \
    --strategy "$@" --warm-up 600 --steady "$steady" --result-file "$file.$number" >/dev/null 2>"$file.$number.log" ||
    { cat "$file.$number.log" >&2; return 1; }
}

cell() { # number, profile, preset, workload, steady seconds
  if [ "$part" = hosts ]; then
    run "$@" gpu-only
  else
    local papers=swiftllm,simple-offload,symmetric,fastdecode-plus,neo,apex
    run "$@" "gpu-only,$papers,asymmetric,async-overlap,adaptive-pipelining,adaptive"
    run "$@" gpu-only,async-overlap,adaptive-pipelining,adaptive --guard
  fi
  if [ "$part" != strategies ]; then
    local pool=16MiB # two blocks of 64 tokens
    case $3 in h200-8sm-2req | h200-2req) pool=64MiB ;; esac
    run "$@" adaptive --guard --host-kv "$pool"
    run "$@" adaptive --guard --tpot-target 60
    run "$@" adaptive --guard --tpot-target 20
    run "$@" adaptive --guard --lose-host-at 0
  fi
}

number=0
running=()
# waits for the cells under way; a cell that fails ends the script, because an incomplete table is of no use
await() {
  for pid in "${running[@]}"; do wait "$pid"; done
  running=()
}
# prompts that bind a cell come in waves of minutes, so its window is longer
while read -r profile preset workload steady; do
  number=$((number + 1))
  cell "$number" "$profile" "$preset" "$workload" "$steady" &
  running+=($!)
  [ $((number % jobs)) -ne 0 ] || await
done <tools/cells.txt
await
rm -f "$file".*.log
sed 's/ --result-file [^"]*"/"/' "$file".[0-9]* >"$file"
rm -f "$file".[0-9]*
python3 - "$file" <<'P'
import json
import sys

LIMIT = 0.99
HOSTS = {"--host-kv": "pool of two blocks", "--tpot-target 60": "60 ms per token",
         "--tpot-target 20": "20 ms per token", "--lose-host-at": "host lost"}
cells, hosts = {}, {}
for line in open(sys.argv[1]):
    run = json.loads(line)
    cell, rate, flags = (run["preset"], run["workload"]), run["output_tokens_per_second"], run["flags"]
    host = next((name for flag, name in HOSTS.items() if flag in flags), None)
    if host:
        hosts.setdefault(cell, {})[host] = rate
    else:
        guarded = "--guard" in flags and run["strategy"] != "gpu-only"
        cells.setdefault(cell, {})[run["strategy"] + (" guarded" if guarded else "")] = rate


def row(cell, rates, digits):
    alone = cells[cell]["gpu-only"]
    ratios = " | ".join(f"{rate / alone:.{digits}f}" for name, rate in rates.items() if not name.startswith("gpu-only"))
    print(f"| `{cell[0]}`, {cell[1].replace('synthetic:', '')} | {alone:.0f} | {ratios} |")


for cell, rates in cells.items():
    if len(rates) > 1:
        row(cell, rates, 2)
if hosts:
    print("| | gpu-only | " + " | ".join(HOSTS.values()) + " |")
short = []
for cell, rates in hosts.items():
    row(cell, rates, 3)
    short += [f"{cell}: {name}" for name, rate in rates.items() if rate < LIMIT * cells[cell]["gpu-only"]]
if short:
    sys.exit(f"less than {LIMIT} of gpu-only: " + ", ".join(short))
P
