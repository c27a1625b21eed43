#!/usr/bin/env python3
"""Prints the score of a mutation run as one JSON line, and the mutants that survived.

usage: tools/mutants.py PACKAGE [Maven's arguments of the run]

Reads engine/target/pit-reports/mutations.xml, which ./tandem mutants has PIT write. A mutant is killed when a test
fails or does not end with it. The score is the fraction of killed mutants among all, those that no test runs included.
Standard library only.
"""

import collections
import datetime
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "engine" / "target" / "pit-reports" / "mutations.xml"


def git(*command):
    return subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True).stdout.strip()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    mutants = xml.parse(REPORT).getroot().findall("mutation")
    status = collections.Counter(mutant.get("status") for mutant in mutants)
    killed = sum(mutant.get("detected") == "true" for mutant in mutants)
    for mutant in mutants:
        if mutant.get("detected") != "true":
            place = f"{mutant.findtext('mutatedClass')}.{mutant.findtext('mutatedMethod')}"
            print(
                f"{place}:{mutant.findtext('lineNumber')}: {mutant.findtext('description')} "
                f"({mutant.get('status').lower()})",
                file=sys.stderr,
            )
    line = {
        "date": datetime.date.today().isoformat(),
        "classes": sys.argv[1] + "*",
        "arguments": sys.argv[2:],
        "mutants": len(mutants),
        "killed": killed,
        "timed_out": status["TIMED_OUT"],
        "no_coverage": status["NO_COVERAGE"],
        "score": round(killed / len(mutants), 3),
        "commit": git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain") else ""),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
