"""Loads one server per strategy with the same Poisson arrivals and writes the lines of docs/results/online.jsonl.

    python3 tools/online.py MODEL --preset h200-26k --workload synthetic:1000/400 --ideal 3634 \\
        --gpu-kv-bytes 3460300800 --profile FILE --cells 4.2:12:20:6,6.3:18:25:8 \\
        --strategies gpu-only,neo,apex,adaptive --commit COMMIT --out FILE

MODEL is a directory that tools/make_dummy_model.py wrote. A cell is RATE:WARM_UP:DURATION:COOL_DOWN, in requests per
second and seconds. neo and apex run as printed and without the guard, with --fidelity printed --no-guard. gpu-only must
be the first strategy: a line's ratio_to_gpu_only is its output tokens in the window by gpu-only's of the same cell and
seed.
share_of_ideal is by --ideal, the ideal output tokens per second that `tandem bench throughput` printed for this GPU.
--gpu-kv-bytes and --commit, of the build, go into the lines as they are.
host_tokens are the tokens whose attention the host computed from a cell's start to its end.
The exit status is 1 if a server did not start. Needs the standard library only.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PAPERS = {"neo", "apex"}
START_SECONDS = 120

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--tandem", default="./tandem")
parser.add_argument("--preset", required=True)
parser.add_argument("--workload", required=True)
parser.add_argument("--profile", required=True)
parser.add_argument("--ideal", type=float, required=True)
parser.add_argument("--gpu-kv-bytes", type=int, required=True)
parser.add_argument("--cells", required=True)
parser.add_argument("--strategies", required=True)
parser.add_argument("--commit", required=True)
parser.add_argument("--seeds", default="7",
                    help="of arrivals and prompts; each cell runs with each, plus 1000 per cell before (%(default)s)")
parser.add_argument("--max-drain", default="15")
parser.add_argument("--port", default="8123")
parser.add_argument("--out", required=True)
arguments = parser.parse_args()
strategies = arguments.strategies.split(",")
if strategies[0] != "gpu-only":
    parser.error(f"--strategies {arguments.strategies} must begin with gpu-only, which ratios are by")
url = f"http://127.0.0.1:{arguments.port}"


def metric(names):
    """The sum of the server's metrics whose names match the pattern."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(rf"^(?:{names})(?:\{{[^}}]*\}})? (\S+)", text, re.M))


def host_tokens():
    return metric("tandem:host_decode_tokens_total")


def ready(server):
    """Waits until the server answers /health with 200; false if it ended or took too long."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False


gpu = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
alone = {}
for strategy in strategies:
    flags = ["--load-format", "dummy", "--preset", arguments.preset, "--strategy", strategy]
    flags += ["--profile", arguments.profile] + (["--fidelity", "printed", "--no-guard"] if strategy in PAPERS else [])
    server = subprocess.Popen([arguments.tandem, "serve", arguments.model, "--port", arguments.port, *flags],
                              stdout=open(f"{arguments.out}.{strategy}.log", "a"), stderr=subprocess.STDOUT)
    try:
        if not ready(server):
            sys.exit(f"the server with --strategy {strategy} did not start; see {arguments.out}.{strategy}.log")
        cells = enumerate(arguments.cells.split(","))
        for (number, cell), seed in itertools.product(cells, arguments.seeds.split(",")):
            rate, warm_up, duration, cool_down = cell.split(":")
            # a cell with the prompts of the one before would find them in the prefix cache
            seed = str(int(seed) + 1000 * number)
            before = host_tokens()
            with tempfile.NamedTemporaryFile() as result:
                bench = ["bench", "serve", "--base-url", url, "--workload", arguments.workload, "--request-rate", rate,
                         "--warm-up", warm_up, "--duration", duration, "--cool-down", cool_down, "--max-drain",
                         arguments.max_drain, "--goodput", "tpot:250", "--seed", seed,
                         "--ideal-output-tokens-per-second", str(arguments.ideal)]
                ran = subprocess.run([arguments.tandem, *bench, "--result-file", result.name],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                written = open(result.name).read().splitlines()
                if not written:
                    sys.exit(f"bench serve at {rate} requests/s wrote no result; it said:\n{ran.stdout}")
                measured = json.loads(written[-1])
            tokens = measured["output_throughput"]
            measured["flags"] = " ".join(bench)
            shown = [os.path.basename(f) if f == arguments.profile else f for f in flags]
            line = {"commit": arguments.commit, "machine": measured.pop("machine", ""),
                    "server_machine": ", ".join(sorted(set(gpu.stdout.splitlines()))),
                    "server_flags": " ".join(["serve MODEL", *shown]),
                    "preset": arguments.preset, "strategy": strategy,
                    "model": os.path.basename(arguments.model.rstrip("/")), "gpu_kv_bytes": arguments.gpu_kv_bytes,
                    "ratio_to_gpu_only": round(tokens / alone.setdefault((rate, seed), tokens), 3),
                    "host_tokens": int(host_tokens() - before)}
            line.update((k, v) for k, v in measured.items() if k not in line and k not in ("base_url", "model_id"))
            with open(arguments.out, "a") as out:
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
            print(strategy, rate, seed, {k: line.get(k) for k in (
                "valid", "completed", "unfinished", "failed", "output_throughput", "mean_ttft_ms",
                "mean_tpot_ms", "p99_itl_ms", "p99_e2el_ms", "host_tokens")}, flush=True)
            # a cell that left requests unfinished must not load the next one
            end = time.monotonic() + 30
            while time.monotonic() < end and metric("vllm:num_requests_running|vllm:num_requests_waiting") > 0:
                time.sleep(0.5)
    finally:
        server.terminate()
        server.wait(30)
