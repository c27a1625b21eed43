#!/usr/bin/env python3
"""Checks the documents of this repository and the words of all its files.

usage: tools/check_docs.py [--list-pages]

Of each tracked Markdown page:
  - words: at most 900 in README.md, 1,300 in ARCHITECTURE.md, 400 in a decision, none in CHANGELOG.md,
    1,500 elsewhere
  - one sentence per line, at most 30 words per sentence, 20 per table cell, 8 columns per table
  - relative links and their anchors lead somewhere
  - a class that is named in code type exists (decisions and the changelog may name what is gone)
GLOSSARY.md has fewer than 40 rows.
Of each tracked file: no name of tools/dead-names.txt. The list itself says how it is written.
Of each source file: no line over 120 columns; the formatter of Java does not break strings.
Of each line of a hybrid strategy in docs/results/cuda, hardware, online and steady.jsonl: gpu_kv_bytes, the ratio to
gpu-only in the same run and the share of the ideal, unless the table of docs/performance/method.md has its number.
docs/archive keeps the words of its time and is not checked.

Exit status: 0 nothing found, 1 something found; each finding is one line "file:line: what, limit, remedy".
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEAD_NAMES = "tools/dead-names.txt"
ARCHIVE = "docs/archive/"
# Tests write these pages; their lines are the tests'.
WRITTEN_BY_CODE = {
    "docs/api-fields.md",
    "docs/message-fields.md",
    "docs/reference/metrics.md",
    "docs/reference/models.md",
    "docs/reference/recorder-events.md",
}
# Pages that may name classes of the past.
HISTORY = ("docs/adr/", "CHANGELOG.md")
MAX_SENTENCE, MAX_CELL, MAX_COLUMNS, MAX_GLOSSARY_ROWS = 30, 20, 8, 39
MAX_LINE = 120

METHOD = "docs/performance/method.md"
COMPARED = ("cuda.jsonl", "hardware.jsonl", "online.jsonl", "steady.jsonl")
HYBRID_KEYS = ("gpu_kv_bytes", "ratio_to_gpu_only", "share_of_ideal")
RATES = ("output_tokens_per_second", "output_throughput")
ON_THE_GPU_ALONE = ("gpu-only", "swiftllm")
LISTED = re.compile(r"^\| \[([\w-]+\.jsonl)\]\([^)]*\) \| ([\d, -]+) \|", re.MULTILINE)

FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]*`")
TYPE_NAME = re.compile(r"`(?:[a-z][a-z0-9]*\.)*([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)(?:\.[a-z][A-Za-z0-9]*)?`")
SENTENCE_END = re.compile(r"[.!?][)\"*]*\s+(?=[A-Z`\"(\[*])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|et al|vs|cf|No|Fig)\.(?=\s)")
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
LABEL = re.compile(r"^\*\*[^*]+\*\*\s*")
SOURCE = (".java", ".cu", ".c", ".py", ".sh")


def tracked():
    # also what is new and not ignored: a page is checked before it is committed
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return sorted({name for name in output.decode().split("\0") if name and (ROOT / name).is_file()})


def read(name):
    """The text of a file; empty when it is not text."""
    data = (ROOT / name).read_bytes()
    if b"\0" in data:
        return ""
    return data.decode("utf-8", errors="replace")


def words(text):
    """Number of words: what holds a letter or a digit, link targets left out."""
    text = LINK.sub(r"\1", text)
    return sum(1 for word in text.split() if re.search(r"\w", word))


def max_words(name):
    if name == "README.md":
        return 900
    if name == "ARCHITECTURE.md":
        return 1300
    if name.startswith("docs/adr/"):
        return 400
    if name == "CHANGELOG.md":
        return float("inf")  # it is searched, not read
    return 1500


def prose(text):
    """(line number, line) outside fenced code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def cells(line):
    masked = CODE.sub(lambda match: match.group().replace("|", "\x01"), line.strip().strip("|")).replace("\\|", "\x01")
    return [cell.strip() for cell in masked.split("|")]


def anchors(text):
    """What headings are called in links, by GitHub's rule."""
    found = {}
    result = set()
    for _, line in prose(text):
        heading = HEADING.match(line)
        if heading:
            title = LINK.sub(r"\1", heading.group(2)).replace("`", "").strip().lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            result.add(slug if count == 0 else f"{slug}-{count}")
    return result


def check_sentences(name, text, report):
    lines = list(prose(text))
    for position, (number, line) in enumerate(lines):
        stripped = line.strip()
        if not stripped or HEADING.match(stripped) or stripped.startswith(("|", "<!--", "![")):
            continue
        plain = CODE.sub("code", LINK.sub(r"\1", LABEL.sub("", ITEM.sub("", stripped))))
        plain = ABBREVIATION.sub(r"\1", plain)
        parts = SENTENCE_END.split(plain)
        if len(parts) > 1:
            report(name, number, "more than one sentence on a line; begin a new line after each")
        for part in parts:
            if words(part) > MAX_SENTENCE:
                report(name, number, f"a sentence of {words(part)} words; at most {MAX_SENTENCE}, split it")
        following = lines[position + 1][1] if position + 1 < len(lines) and lines[position + 1][0] == number + 1 else ""
        goes_on = following.strip() and not ITEM.match(following) and not HEADING.match(following)
        goes_on = goes_on and not following.strip().startswith(("|", "![", "<!--"))
        if goes_on and not re.search(r"[.!?:;][)\"*`]*(\\)?$", stripped):
            report(name, number, "a sentence goes on in the next line; put it on one line")


def check_tables(name, text, report):
    for number, line in prose(text):
        if not line.strip().startswith("|"):
            continue
        row = cells(line)
        if len(row) > MAX_COLUMNS:
            report(name, number, f"a table of {len(row)} columns; at most {MAX_COLUMNS}, split it")
        for cell in row:
            if words(cell) > MAX_CELL:
                report(name, number, f"a table cell of {words(cell)} words; at most {MAX_CELL}, move text below it")


def check_links(name, text, pages, report):
    own = anchors(text)
    for number, line in prose(text):
        for _, target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            if not path:
                if anchor not in own:
                    report(name, number, f"link to #{anchor}: this page has no such heading")
                continue
            file = (ROOT / name).parent.joinpath(path).resolve()
            if not file.exists():
                report(name, number, f"link to {path}: no such file")
            elif anchor and file.suffix == ".md":
                other = file.relative_to(ROOT).as_posix()
                if anchor not in anchors(pages.get(other) or file.read_text(encoding="utf-8")):
                    report(name, number, f"link to {target}: the page has no such heading")


def check_types(name, text, known, report):
    for number, line in prose(text):
        for word in TYPE_NAME.findall(line):
            if re.search(r"[a-z][A-Z]", word) and word not in known:
                report(name, number, f"`{word}` is in no source file; name what is there today")


def check_pages(files, report):
    pages = {name: read(name) for name in files if name.endswith(".md") and not name.startswith(ARCHIVE)}
    known = set()
    for file in files:
        if file.endswith(SOURCE) and file != "tools/check_docs.py":
            known.update(re.findall(r"\b[A-Z][A-Za-z0-9]*\b", read(file)))
    for name, text in pages.items():
        if name.startswith(".github/"):
            continue
        count = sum(words(re.sub(r"[|]|:?-{3,}:?", " ", line)) for _, line in prose(text))
        limit = max_words(name)
        if count > limit:
            report(name, 1, f"{count} words; at most {limit}, cut it or move part of it to another page")
        if name not in WRITTEN_BY_CODE:
            check_sentences(name, text, report)
        check_tables(name, text, report)
        check_links(name, text, pages, report)
        if not name.startswith(HISTORY):
            check_types(name, text, known, report)
    rows = sum(1 for _, line in prose(pages.get("GLOSSARY.md", "")) if line.startswith("|")) - 2
    if rows > MAX_GLOSSARY_ROWS:
        report("GLOSSARY.md", 1, f"{rows} rows; at most {MAX_GLOSSARY_ROWS}, drop words that the field defines")
    return pages


def dead_names():
    """Dead names, each with the only file ending it is dead in, or the empty string."""
    names = {}
    for line in read(DEAD_NAMES).splitlines():
        entry = line.split("#")[0].split()
        for word in entry:
            name, _, ending = word.partition("@")
            names[name] = ending
    return names


def check_names(files, report):
    names = dead_names()
    hyphened = {name for name in names if re.search(r"[^A-Za-z0-9_]", name)}
    pattern = "|".join(re.escape(name) for name in sorted(hyphened, key=len, reverse=True))
    hyphened = re.compile(r"(?<![A-Za-z0-9_-])(?:" + pattern + r")(?![A-Za-z0-9_-])") if pattern else None
    plain = re.compile(r"[A-Za-z0-9_]+")
    for file in files:
        if file.startswith(ARCHIVE) or file == DEAD_NAMES:
            continue
        for number, line in enumerate([file] + read(file).splitlines()):
            found = [word for word in plain.findall(line) if word in names]
            found += hyphened.findall(line) if hyphened else []
            for word in found:
                if file.endswith(names[word]):
                    report(file, number or 1, f"dead name {word}; {DEAD_NAMES} says what it became")


def check_lines(files, report):
    for file in files:
        if file.endswith(SOURCE):
            for number, line in enumerate(read(file).splitlines(), 1):
                if len(line) > MAX_LINE:
                    report(file, number, f"{len(line)} columns; at most {MAX_LINE}, break the line")


def listed_lines():
    """Numbers of the lines without a comparison, by file, as the page about the method lists them."""
    result = {}
    for name, numbers in LISTED.findall(read(METHOD)):
        for part in numbers.split(","):
            first, _, last = part.strip().partition("-")
            result.setdefault(name, set()).update(range(int(first), int(last or first) + 1))
    return result


def check_hybrid_lines(report):
    listed = listed_lines()
    for name in COMPARED:
        for number, line in enumerate(read(f"docs/results/{name}").splitlines(), 1):
            run = json.loads(line)
            hybrid = run.get("strategy", "gpu-only") not in ON_THE_GPU_ALONE and any(rate in run for rate in RATES)
            missing = [key for key in HYBRID_KEYS if key not in run] if hybrid else []
            known = number in listed.get(name, ())
            if missing and not known:
                remedy = f"run gpu-only in the same command, or list the line in {METHOD}"
                report(f"docs/results/{name}", number, f"a hybrid's line without {', '.join(missing)}; {remedy}")
            if known and not missing:
                report(METHOD, 1, f"line {number} of {name} is listed as incomplete, and it is not; take it out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list-pages", action="store_true", help="print each page's number of words and its limit")
    arguments = parser.parse_args()
    files = tracked()
    findings = []
    pages = check_pages(files, lambda name, number, text: findings.append(f"{name}:{number}: {text}"))
    if arguments.list_pages:
        for name, text in pages.items():
            count = sum(words(re.sub(r"[|]|:?-{3,}:?", " ", line)) for _, line in prose(text))
            print(f"{count:6} of {max_words(name):>5} words  {name}")
    check_names(files, lambda name, number, text: findings.append(f"{name}:{number}: {text}"))
    check_lines(files, lambda name, number, text: findings.append(f"{name}:{number}: {text}"))
    check_hybrid_lines(lambda name, number, text: findings.append(f"{name}:{number}: {text}"))
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(f"{len(findings)} findings")


if __name__ == "__main__":
    main()
