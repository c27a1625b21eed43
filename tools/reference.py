#!/usr/bin/env python3
"""Writes the reference pages that come from the code: docs/reference/cli.md and docs/reference/metrics.md.

usage: tools/reference.py

cli.md is what the commands print with --help, so this builds Tandem first where its sources have changed.
metrics.md is the names, types and descriptions in the source of the class ServerMetrics.
Neither page is tracked; ./tandem docs calls this before it builds the site. Standard library only.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "reference"
METRICS = "server/src/main/java/dev/tandem/server/metrics/ServerMetrics.java"
NOTE = "This page is written by `tools/reference.py`; do not edit it.\n"
TYPES = {"histogram": "histogram", "counter": "counter", "gauge": "gauge", "info": "info"}


def help_of(*command):
    environment = dict(os.environ, COLUMNS="110")
    result = subprocess.run(
        [str(ROOT / "tandem"), *command, "--help"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if result.returncode != 0:
        sys.exit(f"./tandem {' '.join(command)} --help ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def subcommands(text):
    """Names listed under "Commands:" of a help text."""
    tail = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    return [name for name in re.findall(r"^ {2}([a-z][a-z-]*)", tail, flags=re.MULTILINE) if name != "help"]


def cli():
    page = ["# Command line\n", NOTE]

    def add(path):
        text = help_of(*path)
        page.append(f"## tandem {' '.join(path)}".rstrip() + "\n")
        page.append("```text\n" + text.rstrip() + "\n```\n")
        for name in subcommands(text):
            add((*path, name))

    add(())
    return "\n".join(page)


def metrics():
    source = (ROOT / METRICS).read_text(encoding="utf-8")
    literal = r'"((?:[^"\\]|\\.)*)"'
    rows = []
    for match in re.finditer(r'"((?:vllm|tandem):[a-z0-9_]+)"', source):
        name = match.group(1)
        tail = re.match(r"\s*\)?\s*,?\s*(?:\.help\(\s*)?((?:" + literal + r"\s*\+?\s*)+)", source[match.end() :])
        if not tail:
            sys.exit(f"{METRICS}: {name} has no description where one is expected, right after its name")
        text = "".join(re.findall(literal, tail.group(1)))
        kinds = re.findall(
            r"\b(histogram|counter|gauge|info)\w*\b",
            source[max(0, match.start() - 120) : match.start()],
            flags=re.IGNORECASE,
        )
        kind = TYPES[kinds[-1].lower()] if kinds else "gauge"
        rows.append((name + ("_total" if kind == "counter" else ""), kind, text))
    if not rows:
        sys.exit(f"{METRICS}: no metric was found; tell tools/reference.py where they are")
    page = ["# Metrics\n", NOTE, "All have the labels `model_name` and `engine`.\n"]
    for title, prefix in (("Under vLLM's names", "vllm:"), ("Tandem's own", "tandem:")):
        page.append(f"## {title}\n\n| metric | type | meaning |\n| --- | --- | --- |")
        page += [f"| `{name}` | {kind} | {text} |" for name, kind, text in sorted(rows) if name.startswith(prefix)]
        page.append("")
    return "\n".join(page)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "metrics.md").write_text(metrics(), encoding="utf-8")
    (OUT / "cli.md").write_text(cli(), encoding="utf-8")


if __name__ == "__main__":
    main()
