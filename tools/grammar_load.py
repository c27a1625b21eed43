#!/usr/bin/env python3
"""Measures what requests with a grammar cost the others.

    ./tandem serve
    tools/grammar_load.py http://127.0.0.1:8000

The grammar is a JSON schema of a list, or the expression of --regex. A run has REQUESTS answers of TOKENS tokens
without a grammar, and as many beside them: with a grammar in every second run, without in the others. The runs come by
turns, those of several servers too. The throughput of a run is that of the answers that never have a grammar, until the
last of them is complete. The ratio is the median, over the turns, of the throughput beside grammars divided by that of
the run before. Prints one line of JSON per server. Needs the standard library only.
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


def ask(url, index, options, grammar):
    """Waits for one answer of exactly this many tokens."""
    tokens = options.tokens
    body = {"prompt": f"Story {index}: once", "max_tokens": tokens, "temperature": options.temperature, "seed": index}
    of = {"regex": options.regex} if options.regex else {"json": SCHEMA}
    body |= {"structured_outputs": of} if grammar else {"ignore_eos": True}
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        count = json.load(answer)["usage"]["completion_tokens"]
    assert count == tokens, f"an answer has {count} tokens instead of {tokens}"
    return time.monotonic()


def throughput(url, options, grammars):
    """Tokens per second of the answers without a grammar."""
    with concurrent.futures.ThreadPoolExecutor(2 * options.requests) as pool:
        start = time.monotonic()
        others = [
            pool.submit(ask, url, options.requests + i, options, grammars)
            for i in range(options.requests)
        ]
        plain = [pool.submit(ask, url, i, options, False) for i in range(options.requests)]
        end = max(answer.result() for answer in plain)
        for other in others:
            other.result()
    return options.requests * options.tokens / (end - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="+", help="a server's address, such as http://localhost:8000")
    parser.add_argument("--requests", type=int, default=32, help="answers of each kind per run (%(default)s)")
    parser.add_argument("--tokens", type=int, default=128, help="per answer (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="pairs of runs (%(default)s)")
    parser.add_argument("--regex", help="matches texts of at least this many tokens, such as ([a-z]{2,9} ){2000}")
    parser.add_argument("--temperature", type=float, default=1, help="of all answers (%(default)s)")
    options = parser.parse_args()
    for url in options.url:
        throughput(url, options, True)  # warms both kinds up
    pairs = {url: [] for url in options.url}
    for _ in range(options.turns):
        for url in options.url:
            pairs[url].append((throughput(url, options, False), throughput(url, options, True)))
    for url in options.url:
        line = {
            "benchmark": "grammar-load",
            "url": url,
            "requests": options.requests,
            "tokens": options.tokens,
            "temperature": options.temperature,
            "without_grammars": [round(without, 1) for without, _ in pairs[url]],
            "beside_grammars": [round(beside, 1) for _, beside in pairs[url]],
            "ratio": round(statistics.median(beside / without for without, beside in pairs[url]), 3),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
