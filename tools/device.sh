#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: unpacks the bundle, then runs what is asked for.
# usage: tools/device.sh BUNDLE_FOLDER RESULT_FOLDER PART ...
# Parts:
#   test       every kernel against its scalar twin, small models against transformers
#   steps      decode and prefill steps, one with piggybacked prefill, and time to first token, of Llama-3.1-8B
#   start      seconds to a model that is ready, with and without compiled kernels
#   presets    whole runs of the presets
#   steady     steady windows of two of them
#   hybrid     gpu-only against other strategies in steady windows (PAIRS="preset:workload ...", STRATEGIES, STEADY and
#              WARM_UP seconds, HYBRID_OPTIONS, GUARD=--guard), steps with slots, and traces
#   soak       a server with in-flight tokens, shadow verification and checksums under random load with clients that
#              leave (SOAK seconds, SOAK_OPTIONS, SOAK_LOAD: max clients, words and tokens)
#   faults     tokens of NaN, steps that hang, workers that die, kernels that sleep at random (DELAYS seeds), then the
#              soak of the tests for SOAK seconds with seed SOAK_SEED
#   sanitizer  compute-sanitizer (SANITIZERS) over attention, a small model, sampling and host tokens (SANITIZED); a run
#              takes at most SANITIZER_LIMIT seconds, and none begins after SANITIZER_BUDGET
# Run it in the repository: the small models are read from there. JSON lines go to RESULT_FOLDER/cuda.jsonl.
set -uo pipefail
result=$2
bundle=$1
shift 2
work=/tmp/tandem-device
if [ ! -x "$work/tandem/tandem" ] || [ "$bundle/tandem.tar.xz" -nt "$work/unpacked" ]; then
  rm -rf "$work/tandem" && mkdir -p "$work"
  tar -C "$work" -xJf "$bundle/tandem.tar.xz" && touch "$work/unpacked"
fi
tandem=$work/tandem/tandem
lines=$result/cuda.jsonl
export TANDEM_JAVA_OPTIONS="-Dtandem.families=cpu/src/test/resources/families"

latency() { # batch, prompt, output, iterations, more
  local batch=$1 input=$2 output=$3 iterations=$4
  shift 4
  "$tandem" bench latency --preset h200 --batch-size "$batch" --input-len "$input" --output-len "$output" \
    --num-iters "$iterations" --num-iters-warmup 1 --result-file "$lines" "$@" 2>>"$result/log" |
    grep -E "^(batch_size|input_len|ttft_ms|decode_step_ms|gpu_idle)" | tr '\n' ' '
  echo
}

# a run that hangs ends: SIGTERM may not reach a process whose GPU never answers
throughput() {
  local limit=$((${WARM_UP:-30} + ${STEADY:-20} + 600)) keys="preset|workload|strategy|window|duration|requests_per"
  keys+="|output_tokens_per|ideal_ratio|share_of|total_tokens_per|gpu_idle|host_token|prefill_balance|prediction"
  timeout -k 10 "$limit" "$tandem" bench throughput --result-file "$lines" "$@" 2>>"$result/log" |
    grep -E "^($keys)" | tr -s ' ' | tr '\n' ' ' || printf 'no result, see the log: %s' "$*"
  echo
}

steps() {
  "$tandem" bench steps --preset h200 --result-file "$lines" "$@" 2>>"$result/log" |
    grep -E "^(window|batch_size|step_ms|gemm_ms|attention_ms|row_wise_ms)" |
    awk '{printf "%s %s  ", $1, $2} /row_wise_ms/ {print ""}'
}

for what in "$@"; do
  echo "== $what"
  case $what in
    test)
      "$work/tandem/test-gpu" --select-package dev.tandem.cuda >"$result/tests.log" 2>&1
      grep -E "✘|\[X\]|tests (successful|failed)|=>" "$result/tests.log" | cut -c1-400 | head -60
      ;;
    steps)
      steps --batch 1,8,24,64,128,256 --prefill 1024,2048,8192
      steps --batch 24 --piggybacked 136
      latency 1 2048 4 5
      ;;
    start)
      # seconds from process start to the end of a benchmark of one step; the first time kernels are compiled
      for cache in cold warm; do
        begin=$(date +%s%N)
        TANDEM_CACHE=/tmp/tandem-start "$tandem" bench steps --preset h200 --batch 1 --rounds 1 \
          >/dev/null 2>>"$result/log"
        echo "start, $cache cache: $((($(date +%s%N) - begin) / 1000000)) ms"
      done
      ;;
    presets)
      throughput --preset h200 --workload synthetic:1000/200 --requests 500
      throughput --preset h200-26k --workload synthetic:1000/200 --requests 70
      throughput --preset h200-16sm-26k --workload synthetic:1000/200 --requests 80
      throughput --preset h200-8sm-2req --workload osc --requests 100
      throughput --preset h200-2req --workload osc --requests 100
      ;;
    steady)
      throughput --preset h200-26k --workload synthetic:1000/200 --steady 20
      throughput --preset h200-16sm-26k --workload synthetic:1000/200 --steady 20
      ;;
    hybrid)
      for slots in 0 8 16; do
        "$tandem" bench steps --preset h200 --host-kv 1GiB --strategy async-overlap --batch 24 --slots "$slots" \
          --result-file "$lines" 2>>"$result/log" | grep -E "^(window|step_ms)" | tr '\n' ' '
      done
      echo
      for pair in ${PAIRS:-h200-26k:synthetic:1000/200 h200-2req:osc}; do
        preset=${pair%%:*}
        workload=${pair#*:}
        alone=$(throughput --preset "$preset" --workload "$workload" --steady "${STEADY:-20}")
        for strategy in ${STRATEGIES:-async-overlap}; do
          both=$(throughput --preset "$preset" --workload "$workload" --steady "${STEADY:-20}" \
            --warm-up "${WARM_UP:-30}" --strategy "$strategy" "${GUARD:---no-guard}" \
            --trace "$result/$preset.$strategy.trace.json" --explain ${HYBRID_OPTIONS:-})
          printf '%s\n%s\n' "$alone" "$both" | awk -v strategy="$strategy" '{
              for (i = 1; i < NF; i++) if ($i == "output_tokens_per_second") rate[NR] = $(i + 1)
              print
            } END {if (rate[1] > 0) printf "%s to gpu-only: %.3f\n", strategy, rate[2] / rate[1]}'
          grep -E "^step" "$result/log" | tail -3
          echo "the last 400 steps, by what they were: $(grep -E "^step" "$result/log" | tail -400 |
            sed -E 's/^step [0-9]+: ([a-z-]+), predicted ([0-9.]+) ms, took ([0-9.]+) ms.*/\1 \2 \3/' |
            awk '{n[$1]++; p[$1] += $2; t[$1] += $3} END {
              for (s in n) printf "%d %s, predicted %.2f ms, took %.2f; ", n[s], s, p[s] / n[s], t[s] / n[s]
            }')"
        done
      done
      cp "${TANDEM_CACHE:-$HOME/.cache/tandem}"/profiles/*.txt "$result/" 2>/dev/null
      xz -f "$result"/*.trace.json 2>/dev/null
      ;;
    soak)
      python3 tools/make_dummy_model.py \
        app/src/main/resources/dev/tandem/app/models/Llama-3.1-8B.json "$work/Llama-3.1-8B"
      "$tandem" serve "$work/Llama-3.1-8B" --load-format dummy --port 8123 --num-gpu-blocks-override 1650 \
        --host-kv 24GiB --max-num-seqs 512 --shadow-verification-rate 0.02 --kv-checksums \
        ${SOAK_OPTIONS:---strategy adaptive --no-guard} >>"$result/log" 2>&1 &
      server=$!
      for _ in $(seq 240); do
        curl -s http://127.0.0.1:8123/health >/dev/null && break
        kill -0 "$server" 2>/dev/null || { echo "the server did not start: $(tail -3 "$result/log")"; break; }
        sleep 0.5
      done
      kill -0 "$server" 2>/dev/null || continue
      # shellcheck disable=SC2086
      timeout $((${SOAK:-600} + 120)) \
        python3 tools/soak.py http://127.0.0.1:8123 "${SOAK:-600}" ${SOAK_LOAD:-384 500 500}
      curl -s http://127.0.0.1:8123/metrics |
        grep -E '^tandem:shadow_verification_logprob_difference_bucket' | sed 's/.*le=/le=/' | tr '\n' ' '
      echo
      kill "$server"; wait "$server"; echo "server ended with $?"
      ;;
    faults)
      faults="-Dtandem.delays.seeds=${DELAYS:-2} -Dtandem.soak.seconds=${SOAK:-60}"
      TANDEM_JAVA_OPTIONS="$TANDEM_JAVA_OPTIONS $faults -Dtandem.soak.seed=${SOAK_SEED:-11}" \
        timeout -k 10 $((${SOAK:-60} + 900)) "$work/tandem/test-gpu" --select-class dev.tandem.cuda.CudaFaultTest \
        --select-class dev.tandem.cuda.HybridFaultTest --select-class dev.tandem.cuda.DelayedKernelTest \
        --select-class dev.tandem.cuda.HybridSoakTest >"$result/faults.log" 2>&1
      grep -E "✘|\[X\]|^soak|tests (successful|failed)|=>" "$result/faults.log" | cut -c1-400 | head -60
      ;;
    sanitizer)
      begin=$SECONDS
      for method in ${SANITIZED:-"CudaModelTest#allSamplingParametersAreSupported()" \
        "kernels.GemmKernelTest#wgmmaGemm(dev.tandem.cuda.kernels.ModelShape)" \
        "kernels.AttentionKernelTest#decodeAttention(dev.tandem.cuda.kernels.ModelShape)" \
        "kernels.AttentionKernelTest#prefillAndDecodeAttentionOverlap(dev.tandem.cuda.kernels.ModelShape)" \
        "kernels.KernelTest#sampling(dev.tandem.cuda.kernels.ModelShape)" \
        "HybridModelTest#hostTokensSupportAllSamplingParametersAndCancellationFreesTheirBlocks()"}; do
        for tool in ${SANITIZERS:-memcheck synccheck racecheck}; do
          if [ $((SECONDS - begin)) -gt "${SANITIZER_BUDGET:-1500}" ]; then
            echo "left out, for time: $tool, $method"
            continue
          fi
          echo "$tool, $method"
          # the check of kernel parameters asks for one beyond the last; the refusal is not an error of memory
          options=(--target-processes all)
          [ "$tool" != memcheck ] || options+=(--report-api-errors no)
          timeout -k 10 "${SANITIZER_LIMIT:-300}" compute-sanitizer --tool "$tool" "${options[@]}" \
            "$work/tandem/test-gpu" --select-method "dev.tandem.cuda.$method" >"$work/sanitizer-$tool.log" 2>&1
          grep -E "ERROR SUMMARY|RACECHECK SUMMARY|Program hit|========= +(at |by )|tests (successful|failed)" \
            "$work/sanitizer-$tool.log" | sort | uniq -c | sort -rn | head -20
        done
      done
      ;;
    *) echo "unknown: $what" ;;
  esac
done
