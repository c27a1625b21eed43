#!/usr/bin/env bash
# Simulates what each deviation of a strategy brings: the strategy as it is, then with one deviation at a time set to
# the value of another fidelity.
# usage: [JOBS=N] tools/deviations.sh RESULT_FILE STRATEGY PROFILE PRESET WORKLOAD STEADY_SECONDS [NAME=VALUE...]
# Without NAME=VALUE it takes every deviation that `DEVIATIONS` lists for the strategy. It writes JSON lines to
# RESULT_FILE and prints a table: output tokens per second, and the ratio to the strategy as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
file=$1 strategy=$2 profile=$3 preset=$4 workload=$5 steady=$6
shift 6
# from Tandem's value to the paper's
PIPELINE="room-to-grow=false chunked-prefill=false rotation=false reserved-host-tokens=false whole-tiles=false
longest-waiting-first=false alternating-step-4=true waits-for-host-tokens=false step-5-keeps=none
step-5-keeps=128-tokens same-layer=false step-ends=false stage-overhead=0 stage-overhead=0.8"
ASYNC="room-to-grow=false chunked-prefill=false rotation=false longest-waiting-first=false piggybacked-prefill=false
spread-host-tokens=false limited-host-prompts=false returns-in-flight=false"
case $strategy in
  adaptive-pipelining) DEVIATIONS="$PIPELINE step-6-strips-prompts=true step-6-counts-context=false" ;;
  async-overlap) DEVIATIONS=$ASYNC ;;
  adaptive)
    DEVIATIONS="$PIPELINE piggybacked-prefill=false queue-bypass=false spread-host-tokens=false
limited-host-prompts=false returns-in-flight=false step-6-counts-context=false min-cpu-ratio=8 compares-with-async=false
partial-progress=some measured-arms=false" ;;
  gpu-only) DEVIATIONS="room-to-grow=false piggybacked-prefill=false queue-bypass=false" ;;
  *) DEVIATIONS="" ;;
esac
read -r -a list <<<"$(tr '\n' ' ' <<<"$DEVIATIONS")"
[ $# -eq 0 ] || list=("$@")
[ ${#list[@]} -gt 0 ] || { echo "deviations.sh: name the deviations of $strategy, as NAME=VALUE" >&2 && exit 2; }
rm -f "$file" "$file".*
./tandem --version >/dev/null

run() { # number, options
  local number=$1
  shift
  ./tandem bench simulate --profile "docs/results/profiles/$profile.txt" --preset "$preset" --workload "$workload" \
    --strategy "$strategy" --warm-up 600 --steady "$steady" "$@" --result-file "$file.$number" >/dev/null
}

jobs=${JOBS:-$(nproc)} running=()
run 000 &
running+=($!)
for i in "${!list[@]}"; do
  [ ${#running[@]} -lt "$jobs" ] || { wait "${running[0]}" && running=("${running[@]:1}"); }
  run "$(printf '%03d' $((i + 1)))" --deviation "${list[$i]}" &
  running+=($!)
done
for pid in "${running[@]}"; do wait "$pid"; done
sed 's/ --result-file [^"]*"/"/' "$file".[0-9]* >"$file"
rm -f "$file".[0-9]*
python3 - "$file" <<'P'
import json
import sys

runs = [json.loads(line) for line in open(sys.argv[1])]
base = runs[0]["output_tokens_per_second"]
first = runs[0]
print(f"| {first['strategy']}, `{first['preset']}`, {first['workload']} | tokens/s | ratio |\n| --- | --- | --- |")
for run in runs:
    changed = ", ".join(f"`{name}={value}`" for name, value in run.get("deviations", {}).items())
    rate = run["output_tokens_per_second"]
    print(f"| {changed or 'as it is'} | {rate:,.0f} | {rate / base:.2f} |")
P
