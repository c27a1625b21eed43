#!/usr/bin/env bash
# Runs random load with injected faults. The exit status is 0 if nothing went wrong.
#
# usage: tools/soak.sh cpu SECONDS SEED [ROUND]
#          Runs the real engine on the CPU executor, in one process, with throwing sinks and decoders, damaged KV, hung
#          steps and more. A request without a fault must get the answer that it gets alone. With ROUND it runs only
#          that round, again and again.
#        tools/soak.sh http SECONDS SEED
#          Starts a server with a small model on the CPU and sends random and malformed requests to it.
#
# The summary is printed, and appended to docs/results/soak.jsonl or the file that SOAK_RESULT names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
what=${1:?cpu or http} seconds=${2:?seconds} seed=${3:?seed}
result=$(realpath -m "${SOAK_RESULT:-$root/docs/results/soak.jsonl}")
cd "$root"
JAVA_HOME=$(./tandem java-home)
export JAVA_HOME

case "$what" in
  cpu)
    # together with test-compile, so that the class path has the modules that this build compiles
    mvn -q -B test-compile dependency:build-classpath -pl cpu -am -Dmdep.outputFile=target/soak.classpath
    cd cpu
    classpath=target/test-classes:target/classes:$(cat target/soak.classpath)
    exec "$JAVA_HOME/bin/java" "@$root/tools/java.options" -ea -cp "$classpath" \
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
    until grep -q '^address' "$folder/out"; do
      kill -0 "$server" || { cat "$folder/err" >&2; exit 1; }
      sleep 0.2
    done
    address=$(sed -n 's/^address *\(http[^ ]*\).*/\1/p' "$folder/out")
    code=0
    python3 tools/soak.py "$address" "$seconds" 48 120 60 --malformed 0.3 --exact --seed "$seed" --result "$result" ||
      code=$?
    if grep -E ' (ERROR|SEVERE) |Exception' "$folder/err" >&2; then
      echo "soak.sh: the server's log has the errors above" >&2
      code=1
    fi
    kill "$server"
    wait "$server" || { echo "soak.sh: the server ended with status $?" >&2; code=1; }
    exit "$code"
    ;;
  *)
    echo "tools/soak.sh: '$what' is not known; use cpu or http" >&2
    exit 2
    ;;
esac
