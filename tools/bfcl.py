#!/usr/bin/env python3
"""Measures function calling with single-turn cases of the Berkeley Function Calling Leaderboard.

    pip download --no-deps bfcl-eval==2026.3.23
    tools/bfcl.py bfcl_eval-2026.3.23-py3-none-any.whl --cases 200 --tool-choice auto

The wheel is read as data; none of its code runs. The cases are an equal number of each category, drawn by the seed.
A case is correct when the calls are the expected ones, in any order: equal names, and each argument one of the
allowed values. Text is compared by its letters and digits without case. In the category irrelevance no call is
expected. The score is Tandem's own and not the leaderboard's, whose checker knows more of Python's types.
The last line printed is a JSON line with the results.
"""

import argparse
import json
import random
import sys
import time
import urllib.error
import urllib.request
import zipfile

CATEGORIES = ["simple_python", "multiple", "parallel", "irrelevance"]
KEYWORDS = {"type", "description", "properties", "required", "items", "enum"}
TYPES = {"dict": "object", "float": "number", "tuple": "array"}


def lines(wheel, name):
    return [json.loads(line) for line in wheel.read(name).decode().splitlines()]


def load(path, cases, seed):
    """A list of (category, question, functions, expected calls)."""
    chosen = []
    with zipfile.ZipFile(path) as wheel:
        for category in CATEGORIES:
            questions = lines(wheel, f"bfcl_eval/data/BFCL_v4_{category}.json")
            expected = {}
            if category != "irrelevance":
                answers = lines(wheel, f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json")
                expected = {answer["id"]: answer["ground_truth"] for answer in answers}
            for case in random.Random(seed).sample(questions, cases // len(CATEGORIES)):
                chosen.append((category, case["question"][0], case["function"], expected.get(case["id"], [])))
    return chosen


def schema(node):
    """The JSON schema of a parameter, whose types the cases name as Python does."""
    result = {key: value for key, value in node.items() if key in KEYWORDS}
    kind = TYPES.get(node.get("type"), node.get("type"))
    if kind == "any":
        del result["type"]
    elif kind:
        result["type"] = kind
    if "items" in result:
        result["items"] = schema(result["items"])
    if "properties" in result:
        result["properties"] = {name: schema(value) for name, value in result["properties"].items()}
    return result


def ask(url, model, messages, functions, tool_choice):
    """The message of the answer, greedily decoded."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": function["name"],
                "description": function["description"],
                "parameters": schema(function["parameters"]),
            },
        }
        for function in functions
    ]
    body = {"messages": messages, "tools": tools, "tool_choice": tool_choice, "temperature": 0, "max_tokens": 400}
    if model:
        body["model"] = model
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {error.read().decode()}")


def matches(value, allowed):
    """Whether a value is the allowed one."""
    if isinstance(allowed, str) and isinstance(value, str):
        return [c for c in value.lower() if c.isalnum()] == [c for c in allowed.lower() if c.isalnum()]
    if isinstance(allowed, dict) and isinstance(value, dict):
        return arguments_match(value, allowed)
    if isinstance(allowed, list) and isinstance(value, list):
        return len(value) == len(allowed) and all(map(matches, value, allowed))
    return value == allowed and isinstance(value, bool) == isinstance(allowed, bool)


def arguments_match(arguments, allowed):
    """Whether each argument has one of its allowed values; an empty text allows to leave it out."""
    return arguments.keys() <= allowed.keys() and all(
        any(matches(arguments[name], value) for value in values) if name in arguments else "" in values
        for name, values in allowed.items()
    )


def correct(calls, expected):
    """Whether the calls are the expected ones, in any order."""
    if len(calls) != len(expected):
        return False
    open_calls = list(calls)
    for one in expected:
        [(name, allowed)] = one.items()
        found = next((c for c in open_calls if c[0] == name and arguments_match(c[1], allowed)), None)
        if found is None:
            return False
        open_calls.remove(found)
    return True


def read_calls(choice):
    """The calls of an answer, and the number of those that no client could read."""
    calls, unparsable = [], 0
    for call in choice["message"].get("tool_calls") or []:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except json.JSONDecodeError:
            arguments = None
        if isinstance(arguments, dict):
            calls.append((call["function"]["name"], arguments))
        else:
            unparsable += 1
    return calls, unparsable


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", help="bfcl_eval-*.whl")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="", help="of the server; its only one when left out")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--tool-choice", choices=["auto", "required"], default="auto")
    options = parser.parse_args()
    score = {category: [0, 0] for category in CATEGORIES}
    unparsable = cut = 0
    start = time.monotonic()
    for category, messages, functions, expected in load(options.wheel, options.cases, options.seed):
        if category == "irrelevance" and options.tool_choice == "required":
            continue
        choice = ask(options.url, options.model, messages, functions, options.tool_choice)
        calls, broken = read_calls(choice)
        if choice["finish_reason"] == "length":
            cut += 1
        else:
            unparsable += broken
        right = not broken and correct(calls, expected)
        score[category][0] += right
        score[category][1] += 1
        print(f"{category}: {'right' if right else 'wrong'} {calls} expected {expected}", flush=True)
    result = {
        "benchmark": "bfcl",
        "data": options.wheel.rsplit("/", 1)[-1],
        "seed": options.seed,
        "tool_choice": options.tool_choice,
        "correct": {category: right for category, (right, all_) in score.items() if all_},
        "cases": {category: all_ for category, (_, all_) in score.items() if all_},
        "unparsable": unparsable,
        "cut": cut,
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
