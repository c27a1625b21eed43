#!/usr/bin/env bash
# Measures the CPU's decode attention with several numbers of threads, from an unpacked bundle.
# usage: tools/device_attention.sh BUNDLE_FOLDER RESULT_FOLDER
#   BUNDLE_FOLDER   has tandem.tar.xz, made by tools/bundle.sh
#   RESULT_FOLDER   gets attention.jsonl; results are appended
set -uo pipefail
result=$2
work=$(mktemp -d)
tar -C "$work" -xJf "$1/tandem.tar.xz"
tandem=$work/tandem/tandem
lscpu | grep -E "Model name|^CPU\(s\)|L2|L3"
for size in "256 1000" "24 16000"; do
  set -- $size
  "$tandem" bench attention --threads 1,8,12,16 --batch "$1" --context "$2" --dtype bfloat16 --rounds 11 \
    --result-file "$result/attention.jsonl" | tail -1 >/dev/null
done
"$tandem" bench attention --threads 8,16 --batch 256 --context 1000 --dtype float16 --rounds 11 \
  --result-file "$result/attention.jsonl" | tail -1 >/dev/null
