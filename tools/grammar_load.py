#!/usr/bin/env python3
"""Measures what requests with a grammar cost the others.

    ./tandem serve
    tools/grammar_load.py http://127.0.0.1:8000

A run has REQUESTS answers of TOKENS tokens without a grammar, and as many beside them: with a grammar in every second
run, without in the others. The runs come by turns. The throughput of a run is that of the answers that never have a
grammar, until the last of them is complete. The ratio is the median, over the turns, of the throughput beside grammars
divided by that of the run before. Prints one line of JSON. Needs the standard library only.
"""

import argparse
import concurrent.futures
import json
import statistics
import time
import urllib.request

# a list without an end before max_tokens, so that answers with a grammar are as long as the others
SCHEMA = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
              "required": ["name", "count"], "additionalProperties": False},
    "minItems": 1000,
}


def ask(url, index, tokens, grammar):
    """Waits for one answer of exactly this many tokens."""
    body = {"prompt": f"Story {index}: once", "max_tokens": tokens, "temperature": 1, "seed": index}
    body |= {"structured_outputs": {"json": SCHEMA}} if grammar else {"ignore_eos": True}
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        count = json.load(answer)["usage"]["completion_tokens"]
    assert count == tokens, f"an answer has {count} tokens instead of {tokens}"
    return time.monotonic()


def throughput(options, grammars):
    """Tokens per second of the answers without a grammar."""
    with concurrent.futures.ThreadPoolExecutor(2 * options.requests) as pool:
        start = time.monotonic()
        others = [
            pool.submit(ask, options.url, options.requests + i, options.tokens, grammars)
            for i in range(options.requests)
        ]
        plain = [pool.submit(ask, options.url, i, options.tokens, False) for i in range(options.requests)]
        end = max(answer.result() for answer in plain)
        for other in others:
            other.result()
    return options.requests * options.tokens / (end - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server's address, such as http://localhost:8000")
    parser.add_argument("--requests", type=int, default=32, help="answers of each kind per run (%(default)s)")
    parser.add_argument("--tokens", type=int, default=128, help="per answer (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="pairs of runs (%(default)s)")
    options = parser.parse_args()
    throughput(options, True)  # warms both kinds up
    pairs = [(throughput(options, False), throughput(options, True)) for _ in range(options.turns)]
    print(
        json.dumps(
            {
                "benchmark": "grammar-load",
                "requests": options.requests,
                "tokens": options.tokens,
                "without_grammars": [round(without, 1) for without, _ in pairs],
                "beside_grammars": [round(beside, 1) for _, beside in pairs],
                "ratio": round(statistics.median(beside / without for without, beside in pairs), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
