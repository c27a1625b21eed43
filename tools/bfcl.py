#!/usr/bin/env python3
"""Measures function calling with single-turn cases of the Berkeley Function Calling Leaderboard.

    pip download --no-deps bfcl-eval==2026.3.23
    tools/bfcl.py bfcl_eval-2026.3.23-py3-none-any.whl --cases 200 --journal cases.jsonl

The wheel is read as data; none of its code runs. The cases are an equal number of each category, drawn by the seed,
and the categories come by turns. Each case is asked with each tool_choice; the second finds its prompt cached.
A case is correct when the calls are the expected ones, in any order: equal names, and each argument one of the
allowed values. Text is compared by its letters and digits without case. In the category irrelevance no call is
expected, so it is asked with auto alone. The score is Tandem's own and not the leaderboard's, whose checker knows
more of Python's types.
The journal has a line per answer. A run that finds one goes on after its answers, so a run may be ended at any time.
An answer that fewer tokens than --max-tokens cut is asked for again. The results count answers that are cut on their
own: a call that is cut has no meaning, so it does not count as unparsable. The default is five times the 400 tokens
that sufficed for 344 of 350 recorded answers (docs/results/bfcl.jsonl).
--schemas FILE writes a line with each schema of all tools of these categories, and asks nothing.
The last lines printed are a JSON line with the results per tool_choice, over all answers of the journal.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import random
import sys
import threading
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
    """A list of (id, category, question, functions, expected calls), in which the categories come by turns."""
    chosen = []
    with zipfile.ZipFile(path) as wheel:
        for category in CATEGORIES:
            questions = lines(wheel, f"bfcl_eval/data/BFCL_v4_{category}.json")
            expected = {}
            if category != "irrelevance":
                answers = lines(wheel, f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json")
                expected = {answer["id"]: answer["ground_truth"] for answer in answers}
            sample = random.Random(seed).sample(questions, cases // len(CATEGORIES))
            chosen.append(
                [(case["id"], category, case["question"][0], case["function"], expected.get(case["id"], []))
                 for case in sample]
            )
    return list(itertools.chain.from_iterable(zip(*chosen)))


def write_schemas(path, file):
    """Writes the schemas of all tools, of which some are equal, as JSON lines."""
    with zipfile.ZipFile(path) as wheel, open(file, "w") as out:
        for category in CATEGORIES:
            for case in lines(wheel, f"bfcl_eval/data/BFCL_v4_{category}.json"):
                for function in case["function"]:
                    out.write(json.dumps({"schema": schema(function["parameters"])}) + "\n")


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


def ask(options, messages, functions, tool_choice):
    """The choice of the answer, greedily decoded."""
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
    body = {"messages": messages, "tools": tools, "tool_choice": tool_choice, "temperature": 0}
    body["max_tokens"] = options.max_tokens
    if options.model:
        body["model"] = options.model
    request = urllib.request.Request(
        options.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
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


class Journal:
    """The answers so far, by case and tool_choice; a line of the file per answer."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.answers = {}
        if path and os.path.exists(path):
            with open(path) as file:
                for line in file:
                    answer = json.loads(line)
                    self.answers[answer["id"], answer["tool_choice"]] = answer
        self.file = open(path, "a") if path else None

    def has(self, key, max_tokens):
        """Whether there is an answer that as many tokens do not change. The last line of a case counts."""
        answer = self.answers.get(key)
        return answer is not None and (answer["finish_reason"] != "length" or answer["max_tokens"] >= max_tokens)

    def add(self, answer):
        with self.lock:
            self.answers[answer["id"], answer["tool_choice"]] = answer
            if self.file:
                self.file.write(json.dumps(answer) + "\n")
                self.file.flush()


def run_case(case, choices, options, journal, deadline):
    """Asks one case with each tool_choice that the journal has not."""
    name, category, messages, functions, expected = case
    for choice in choices:
        if category == "irrelevance" and choice == "required" or journal.has((name, choice), options.max_tokens):
            continue
        if time.monotonic() > deadline:
            return
        answer = ask(options, messages, functions, choice)
        calls, broken = read_calls(answer)
        right = not broken and correct(calls, expected)
        journal.add(
            {
                "id": name,
                "category": category,
                "tool_choice": choice,
                "right": right,
                "unparsable": broken,
                "finish_reason": answer["finish_reason"],
                "max_tokens": options.max_tokens,
                "calls": calls,
                "content": answer["message"].get("content"),
            }
        )
        print(f"{name} {choice}: {'right' if right else 'wrong'} {calls} expected {expected}", flush=True)


def result(answers, options, choice):
    """The line for the results of one tool_choice."""
    counts = {c: [a["right"] for a in answers if a["category"] == c] for c in CATEGORIES}
    cut = [a for a in answers if a["finish_reason"] == "length"]
    return {
        "benchmark": "bfcl",
        "data": options.wheel.rsplit("/", 1)[-1],
        "seed": options.seed,
        "max_tokens": options.max_tokens,
        "tool_choice": choice,
        "correct": {category: sum(rights) for category, rights in counts.items() if rights},
        "cases": {category: len(rights) for category, rights in counts.items() if rights},
        "unparsable": sum(a["unparsable"] for a in answers if a not in cut),
        "cut": len(cut),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", help="bfcl_eval-*.whl")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="", help="of the server; its only one when left out")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--max-tokens", type=int, default=2000, help="per answer")
    parser.add_argument("--tool-choice", choices=["auto", "required"], nargs="+", default=["auto", "required"])
    parser.add_argument("--concurrency", type=int, default=8, help="cases at a time")
    parser.add_argument("--journal", help="file of the answers; left out, they are not kept")
    parser.add_argument("--schemas", help="file of the tools' schemas to write")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no request is sent after that")
    options = parser.parse_args()
    if options.schemas:
        write_schemas(options.wheel, options.schemas)
        return
    start = time.monotonic()
    journal = Journal(options.journal)
    cases = load(options.wheel, options.cases, options.seed)
    with concurrent.futures.ThreadPoolExecutor(options.concurrency) as pool:
        runs = [
            pool.submit(run_case, case, options.tool_choice, options, journal, start + options.seconds)
            for case in cases
        ]
        for run in concurrent.futures.as_completed(runs):
            run.result()
    for choice in options.tool_choice:
        answers = [
            journal.answers[case[0], choice] for case in cases if (case[0], choice) in journal.answers
        ]
        print(json.dumps(result(answers, options, choice)))


if __name__ == "__main__":
    main()
