#!/usr/bin/env python3
"""Measures the time to the first token of prompts whose prefix is cached: not at all, in GPU blocks, in host blocks.

    ./tandem serve MODEL --load-format dummy --preset h200-26k
    tools/prefix_ttft.py http://127.0.0.1:8000

One request runs at a time. Prompts are random token ids; the first nine tenths of a prompt are the prefix. A cold
prompt is new. For a hit in GPU blocks its prefix comes again at once, with another end. For a hit in host blocks so
many other prompts come in between that the GPU's pool holds the prefix no more; give --pool its tokens. The server
says in usage how much of a prompt hit and in its metrics how much was copied, and other hits than meant are an error.
The clock starts when the request is sent on an open connection. Requests of another prompt come first, because the
server's Java code is interpreted until it is compiled (--warm-up 0 measures that too).
Prints one line of JSON per length with medians in milliseconds: the time to the first token, the part of it from the
engine's queue to the sampled token, and of that the steps that computed the prompt. Needs the standard library only.
"""

import argparse
import http.client
import json
import random
import statistics
import time
import urllib.parse


class Server:
    def __init__(self, url, vocabulary, seed):
        self.address = urllib.parse.urlparse(url).netloc
        self.random = random.Random(seed)
        self.vocabulary = vocabulary

    def tokens(self, count):
        return [self.random.randrange(1000, self.vocabulary) for _ in range(count)]

    def ask(self, prompt, max_tokens=24):
        """Milliseconds to the first token, and the prompt tokens that hit."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}
        connection = http.client.HTTPConnection(self.address)
        text = json.dumps(body).encode()
        connection.connect()
        start = time.monotonic()
        connection.request("POST", "/v1/completions", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"status {answer.status}: {answer.read().decode()}")
        first = None
        cached = 0
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            first = first or time.monotonic()
            usage = json.loads(line[6:]).get("usage")
            if usage:
                cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        connection.close()
        return (first - start) * 1e3, cached

    def get(self, path):
        connection = http.client.HTTPConnection(self.address)
        connection.request("GET", path)
        answer = connection.getresponse().read().decode()
        connection.close()
        return answer

    def metrics(self):
        """Prompt tokens whose KV has been copied from the host, and the engine's seconds to first tokens, so far."""
        copied = seconds = 0.0
        for line in self.get("/metrics").splitlines():
            if line.startswith("tandem:prefix_cache_hits_total") and 'source="copied"' in line:
                copied += float(line.split()[-1])
            if line.startswith("vllm:time_to_first_token_seconds_sum"):
                seconds += float(line.split()[-1])
        return copied, seconds

    def prompt_steps(self):
        """Milliseconds of the steps that computed the last prompt; decodes follow it and the one before."""
        steps = json.loads(self.get("/tandem/engine"))["steps"]
        while not steps[-1]["prefill"]:
            steps.pop()
        millis = 0
        while steps and steps[-1]["prefill"]:
            millis += steps.pop()["ms"]
        return millis

    def measure(self, prompt):
        """Milliseconds to the first token, in the engine and in steps; prompt tokens that hit, and copied ones."""
        copied, seconds = self.metrics()
        ttft, cached = self.ask(prompt)
        copied_after, seconds_after = self.metrics()
        return (ttft, (seconds_after - seconds) * 1e3, self.prompt_steps()), cached, copied_after - copied


def check(cached, low, high, what):
    if not low <= cached <= high:
        raise SystemExit(f"{what}: {cached} prompt tokens hit instead of {low} to {high}")


def measure(server, length, options):
    prefix_length = length * 9 // 10
    times = {"cold": [], "gpu": [], "host": []}
    warm = server.tokens(length)
    for _ in range(options.warm_up):
        server.ask(warm, max_tokens=1)
    for turn in range(options.turns + 1):
        prefix = server.tokens(prefix_length)
        cold, cached, _ = server.measure(prefix + server.tokens(length - prefix_length))
        check(cached, 0, 0, "a new prompt")
        gpu, cached, _ = server.measure(prefix + server.tokens(length - prefix_length))
        check(cached, prefix_length - 16, prefix_length, "a prefix in GPU blocks")
        for _ in range(options.pool // length + 2):
            server.ask(server.tokens(length))
        host, cached, copied = server.measure(prefix + server.tokens(length - prefix_length))
        # The first turn loads kernels and records graphs. And the server copies prefixes to the host only once a
        # request has come back for one that was dropped.
        if turn > 0:
            check(cached, prefix_length - 64, prefix_length, "a prefix in host blocks")
            check(copied, prefix_length - 64, prefix_length, "a prefix in host blocks, copied")
            for name, value in (("cold", cold), ("gpu", gpu), ("host", host)):
                times[name].append(value)
    result = {"prompt_tokens": length, "prefix_tokens": prefix_length, "turns": options.turns,
              "warm_up": options.warm_up}
    medians = {}
    for name, measured in times.items():
        medians[name], engine, steps = (statistics.median(part) for part in zip(*measured))
        result |= {f"{name}_ttft_ms": round(medians[name], 2), f"{name}_engine_ms": round(engine, 2),
                   f"{name}_steps_ms": round(steps, 2)}
    return result | {f"{name}_per_cold": round(medians[name] / medians["cold"], 3) for name in ("gpu", "host")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server's address, such as http://localhost:8000")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192], help="prompt tokens (%(default)s)")
    parser.add_argument("--pool", type=int, default=26400, help="tokens that the GPU's pool holds (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="measured requests of each kind (%(default)s)")
    # With 9 ms per step the time beyond it was 8 ms for requests 11 to 20 on a busy machine, 2 ms for 321 to 640. It
    # was 2.4 ms after 500 on an H100's machine, and 1.5 ms after 3,000 on an H200's.
    parser.add_argument("--warm-up", type=int, default=3000,
                        help="requests before the first measured one, per length (%(default)s)")
    parser.add_argument("--vocabulary", type=int, default=32000, help="token ids are below this (%(default)s)")
    parser.add_argument("--seed", type=int, default=34, help="of the token ids (%(default)s)")
    options = parser.parse_args()
    server = Server(options.url, options.vocabulary, options.seed)
    for length in options.lengths:
        print(json.dumps(measure(server, length, options)), flush=True)


if __name__ == "__main__":
    main()
