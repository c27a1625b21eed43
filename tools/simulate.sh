#!/usr/bin/env bash
# Every strategy on every preset and workload, simulated over the profiles of docs/results/profiles: the tables of docs/benchmarks.md.
# usage: tools/simulate.sh RESULT_FILE        JSON lines go there; ratios to gpu-only are printed last
set -euo pipefail
cd "$(dirname "$0")/.."
file=$1
rm -f "$file" "$file".*
./tandem --version >/dev/null
strategies="gpu-only simple-offload symmetric fastdecode-plus asymmetric async-overlap neo apex"

cell() { # number, profile, preset, workload, steady seconds
  for strategy in $strategies "async-overlap --guard" "neo --guard" "apex --guard"; do
    # shellcheck disable=SC2086
    ./tandem bench simulate --profile "docs/results/profiles/$2.txt" --preset "$3" --workload "$4" --strategy $strategy \
      --warm-up 600 --steady "$5" --result-file "$file.$1" >/dev/null 2>"$file.$1.log" || { cat "$file.$1.log" >&2; return 1; }
  done
}

# prompts come in waves of minutes where they are what a machine is short of
cells="t4-class:t4-class:osc:400
t4-tight:t4-tight:osc:400
a10g-class:a10g-class:synthetic:1000/200:2000
a10g-class:a10g-class:synthetic:1000/400:2000
a10g-class:a10g-class:synthetic:1000/800:2000
a10g-class:a10g-class:reasoning:2000
h200:h200-tight:synthetic:1000/200:400
h200:h200-tight:synthetic:1000/400:400
h200:h200-tight:azure-code:400
h200:h200-tight:osc:400
a10g-class:a10g-class:osc:2000"
number=0
running=()
# a cell that fails ends the script: a table with holes is none
await() {
  for pid in "${running[@]}"; do wait "$pid"; done
  running=()
}
while read -r line; do
  number=$((number + 1))
  profile=${line%%:*} rest=${line#*:}
  preset=${rest%%:*} rest=${rest#*:}
  cell "$number" "$profile" "$preset" "${rest%:*}" "${rest##*:}" &
  running+=($!)
  [ $((number % $(nproc))) -ne 0 ] || await
done <<<"$cells"
await
rm -f "$file".*.log
sed 's/ --result-file [^"]*"/"/' "$file".[0-9]* >"$file"
rm -f "$file".[0-9]*
python3 - "$file" <<'P'
import json, sys

cells = {}
for line in open(sys.argv[1]):
    run = json.loads(line)
    name = run["strategy"] + (" guarded" if "--guard" in run["flags"] else "")
    cells.setdefault((run["preset"], run["workload"]), {})[name] = run["output_tokens_per_second"]
for (preset, workload), rates in cells.items():
    alone = rates["gpu-only"]
    ratios = " | ".join(f"{rate / alone:.2f}" for name, rate in rates.items() if name != "gpu-only")
    print(f"| `{preset}`, {workload.replace('synthetic:', '')} | {alone:.0f} | {ratios} |")
P
