#!/usr/bin/env bash
# Random load with faults injected; the exit status says whether all was well, the last line of output is the summary.
#
#   tools/soak.sh cpu SECONDS SEED [ROUND]
#                                      the engine on the CPU executor, in one process, with sinks and decoders that
#                                      throw, damaged KV, hung steps and more; a request without a fault must get the
#                                      answer that it gets alone; with ROUND, that round alone, again and again
#   tools/soak.sh http SECONDS SEED    random and malformed requests to a server with a small model on the CPU
#
# The summary is appended to docs/results/soak.jsonl as well, or to the file that SOAK_RESULT names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
what=${1:?cpu or http} seconds=${2:?seconds} seed=${3:?seed}
result=$(realpath -m "${SOAK_RESULT:-$root/docs/results/soak.jsonl}")
cd "$root"
JAVA_HOME=$(./tandem java-home)
export JAVA_HOME

case "$what" in
  cpu)
    # with the phase, so that the modules are those compiled just now
    mvn -q -B test-compile dependency:build-classpath -pl cpu -am -Dmdep.outputFile=target/soak.classpath
    cd cpu
    exec "$JAVA_HOME/bin/java" "@$root/tools/java.options" -ea \
      -cp "target/test-classes:target/classes:$(cat target/soak.classpath)" \
      dev.tandem.cpu.FaultSoak "$seconds" "$seed" "$result" ${4:+"$4"}
    ;;
  http)
    folder=$(mktemp -d)
    python3 tools/make_dummy_model.py cpu/src/test/resources/families/deep/config.json "$folder/dummy"
    touch "$folder/out" "$folder/err"
    ./tandem serve "$folder/dummy" --load-format dummy --device cpu --port 0 --max-num-seqs 16 \
      --num-gpu-blocks-override 40 --max-queued-requests 256 >"$folder/out" 2>"$folder/err" &
    server=$!
    trap 'kill "$server" 2>/dev/null; wait "$server" || true; rm -rf "$folder"' EXIT
    until grep -q '^address ' "$folder/out"; do
      kill -0 "$server" || { cat "$folder/err" >&2; exit 1; }
      sleep 0.2
    done
    address=$(awk '$1 == "address" {print $2}' "$folder/out")
    code=0
    python3 tools/soak.py "$address" "$seconds" 48 120 60 --malformed 0.3 --exact --seed "$seed" \
      --result "$result" || code=$?
    grep -E ' (ERROR|SEVERE) |Exception' "$folder/err" >&2 && { echo "the server's log has errors" >&2; code=1; }
    kill "$server"
    wait "$server" || { echo "the server ended with $?" >&2; code=1; }
    exit "$code"
    ;;
  *)
    echo "tools/soak.sh: '$what' is not known; use cpu or http" >&2
    exit 2
    ;;
esac
