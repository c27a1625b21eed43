#!/usr/bin/env python3
"""Measures what it saves that tokens which a grammar forces are computed as one chunk.

    ./tandem serve
    tools/forced_tokens.py http://127.0.0.1:8000

Asks for the same answers one after another, by turns as usual and with log-probabilities, which need the model for each
token. The answers must be equal. Prints one line of JSON: tokens, steps and seconds of the answers, of each kind.
Needs the standard library only.
"""

import argparse
import json
import statistics
import time
import urllib.request

SCHEMA = {
    "type": "object",
    "properties": {
        "planet_name": {"type": "string", "maxLength": 20},
        "number_of_moons": {"type": "integer", "minimum": 0, "maximum": 200},
        "has_a_solid_surface": {"type": "boolean"},
        "kind_of_planet": {"enum": ["terrestrial planet", "gas giant", "ice giant"]},
    },
    "required": ["planet_name", "number_of_moons", "has_a_solid_surface", "kind_of_planet"],
    "additionalProperties": False,
}
PLANETS = ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"]


def steps(url):
    """Steps so far, if nobody else uses the server."""
    with urllib.request.urlopen(url + "/metrics") as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("vllm:iteration_tokens_total_count"):
                return int(float(line.split()[-1]))
    return 0


def ask(url, planet, compact, logprobs):
    """The text and the number of tokens of an answer."""
    body = {
        "messages": [{"role": "user", "content": f"Describe the planet {planet} as JSON."}],
        "temperature": 0,
        "max_tokens": 200,
        "structured_outputs": {"json": SCHEMA, "disable_any_whitespace": compact},
    }
    body |= {"logprobs": True} if logprobs else {}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        document = json.load(answer)
    return document["choices"][0]["message"]["content"], document["usage"]["completion_tokens"]


def run(url, compact, logprobs):
    """Answers, tokens, steps and seconds of one turn."""
    before, start = steps(url), time.monotonic()
    answers = [ask(url, planet, compact, logprobs) for planet in PLANETS]
    seconds = time.monotonic() - start
    return [text for text, _ in answers], sum(count for _, count in answers), steps(url) - before, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server's address, such as http://localhost:8000")
    parser.add_argument("--turns", type=int, default=5, help="pairs of runs (%(default)s)")
    parser.add_argument("--compact", action="store_true", help="fix the whitespace in JSON")
    options = parser.parse_args()
    run(options.url, options.compact, False)  # warms up
    pairs = [(run(options.url, options.compact, True), run(options.url, options.compact, False))
             for _ in range(options.turns)]
    assert all(one[0] == chunk[0] for one, chunk in pairs), "the answers differ"
    print(
        json.dumps(
            {
                "benchmark": "forced-tokens",
                "compact": options.compact,
                "answers": len(PLANETS),
                "tokens": pairs[0][1][1],
                "steps_one_by_one": pairs[0][0][2],
                "steps_in_chunks": pairs[0][1][2],
                "seconds_one_by_one": [round(one[3], 2) for one, _ in pairs],
                "seconds_in_chunks": [round(chunk[3], 2) for _, chunk in pairs],
                "ratio": round(statistics.median(chunk[3] / one[3] for one, chunk in pairs), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
