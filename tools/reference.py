#!/usr/bin/env python3
"""Writes the reference page of the command line, docs/reference/cli.md.

usage: tools/reference.py

It is what the commands print with --help, so this builds Tandem first where its sources have changed.
The page is not tracked; ./tandem docs calls this before it builds the site. Standard library only.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "reference"
NOTE = "This page is written by `tools/reference.py`; do not edit it.\n"


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


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "cli.md").write_text(cli(), encoding="utf-8")


if __name__ == "__main__":
    main()
