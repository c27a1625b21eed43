#!/usr/bin/env python3
"""Checks structured output against the JSON Schema Test Suite (draft 2020-12).

usage: tools/json_schema_suite.py

The suite comes with the source archive of the Python package jsonschema, which is downloaded into target/. A Java test
compiles each schema, lets its grammar make random outputs, and says which of the suite's instances it accepts. The
Python package then judges the outputs. Counts go to standard output. The exit status is 1 if an output or an accepted
instance is invalid. Grammars reject some valid instances: tools/json_schema_rejections.json lists each with the keyword
and the cause. The exit status is 1 too if another one is rejected, or if a listed one is accepted.
"""

import collections
import fractions
import json
import os
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "json-schema-suite"
PACKAGE = "jsonschema==4.26.0"
RESULTS = WORK / "results.jsonl"
REJECTIONS = ROOT / "tools" / "json_schema_rejections.json"


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", *arguments, "--quiet", PACKAGE], check=True)


def fetch():
    """The folder of the suite's files of draft 2020-12."""
    if not (WORK / "suite").exists():
        pip("download", "--no-binary", "jsonschema", "--no-deps", "--dest", str(WORK))
        with tarfile.open(next(WORK.glob("jsonschema-*.tar.gz"))) as archive:
            archive.extractall(WORK / "suite", filter="data")
        pip("install", "--target", str(WORK / "python"))
    return next((WORK / "suite").glob("*/json/tests/draft2020-12"))


def run(suite):
    maven = os.environ.get("MAVEN", str(ROOT / "mvnw"))
    command = [maven, "-q", "-B", "test", "-pl", "grammar", "-am", "-Dtest=JsonSchemaSuiteTest"]
    command += ["-Dsurefire.failIfNoSpecifiedTests=false", f"-Dtandem.schema.suite={suite}"]
    subprocess.run([*command, f"-Dtandem.schema.results={RESULTS}"], cwd=ROOT, check=True)


def number(text):
    """Exact unless its exponent is huge: as floats, 4128.1212 is no multiple of 0.0001."""
    approximate = abs(float(text))
    return fractions.Fraction(text) if 1e-99 < approximate < 1e99 else float(text)


def unlisted(rejected):
    """Prints where the rejected valid instances differ from the list; returns the number of differences."""
    groups = json.loads(REJECTIONS.read_text(encoding="utf-8"))
    listed = {tuple(instance) for group in groups for instance in group["instances"]}
    for file, description, data in sorted(rejected - listed):
        print(f"rejected valid instance that {REJECTIONS.name} does not list, of {file}: {description}: {data}")
    for file, description, data in sorted(listed - rejected):
        print(f"{REJECTIONS.name} lists an instance that is not rejected, of {file}: {description}: {data}")
    return len(rejected ^ listed)


def judge():
    """Prints the counts; returns the number of violations."""
    sys.path.insert(0, str(WORK / "python"))
    from jsonschema import Draft202012Validator  # installed by fetch

    counts = collections.Counter()
    rejected = set()
    for line in RESULTS.read_text(encoding="utf-8").strip().split("\n"):
        case = json.loads(line, parse_float=number)
        where = f"{case['file']}: {case['description']}"
        if "refused" in case:
            counts["schemas refused"] += 1
            continue
        counts["schemas compiled"] += 1
        validator = Draft202012Validator(case["schema"])
        for output in case["outputs"]:
            valid = validator.is_valid(json.loads(output, parse_float=number))
            counts["outputs valid" if valid else "outputs INVALID"] += 1
            if not valid:
                print(f"invalid output of {where}: {output}")
        for instance in case["instances"]:
            kind = "valid" if instance["valid"] else "invalid"
            accepted = "accepted" if instance["accepted"] else "rejected"
            counts[f"{kind} instances {accepted}"] += 1
            if kind == "valid" and accepted == "rejected":
                rejected.add((case["file"], case["description"], instance["data"]))
            if kind == "invalid" and accepted == "accepted":
                print(f"accepted invalid instance of {where}: {instance['data']}")
    for name, count in sorted(counts.items()):
        print(f"{count:6d} {name}")
    return counts["outputs INVALID"] + counts["invalid instances accepted"] + unlisted(rejected)


if __name__ == "__main__":
    run(fetch())
    sys.exit(1 if judge() else 0)
