#!/usr/bin/env python3
"""Writes a man page for each command of Tandem, from what it prints with --help.

usage: tools/man_pages.py TANDEM VERSION FOLDER
  TANDEM    the program
  FOLDER    gets man1/tandem.1, man1/tandem-serve.1, man1/tandem-bench-serve.1 and so on

Exit status: 0 written, 1 a command does not print its help. Standard library only.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HEADING = re.compile(r"(\S[^:]*):")
# a term of a list begins in the third or the seventh column, and what it means after two blanks or on the next line
TERM = re.compile(r" {2,6}(\S.*?)(?: {2,}(\S.*))?")
LITERAL = {"Examples"}


def help_of(program, path):
    command = [str(program), *path, "--help"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def subcommands(text):
    """Names listed under "Commands:" of a help text."""
    tail = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    return [name for name in re.findall(r"^ {2}([a-z][a-z-]*)", tail, flags=re.MULTILINE) if name != "help"]


def roff(text):
    """Text as roff's own: a hyphen that can be searched for and copied, and no line that is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def sections_of(text):
    """(heading, lines) of each section; the part before the first heading has none."""
    sections = [("", [])]
    for line in text.splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            sections.append((heading.group(1), []))
        else:
            sections[-1][1].append(line)
    return sections


def items(lines):
    """(term, text) of a list; text before the first term has an empty one."""
    found = []
    for line in lines:
        term = TERM.fullmatch(line)
        if term:
            found.append([term.group(1), term.group(2) or ""])
        elif line.strip():
            if not found:
                found.append(["", ""])
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return found


def listed(lines):
    for term, text in items(lines):
        if term:
            yield f".TP\n.B {roff(term)}"
        if text:
            yield roff(text)


def page(path, text, version, names):
    """The page of the command; names are those of all pages."""
    name = "-".join(["tandem", *path])
    first, *sections = sections_of(text)
    synopsis, rest = [], []
    for line in first[1]:
        more = synopsis and not rest and line.startswith("  ") and "  " not in line.strip()
        usage = line.startswith("Usage: ") or more
        (synopsis if usage else rest).append(line.removeprefix("Usage: ").strip() if usage else line)
    description = [line for line in rest if line and not line.startswith(" ")]
    parameters = [line for line in rest if line.startswith(" ")]
    sentence = " ".join(description).partition(". ")[0].rstrip(".")
    out = [f'.TH {name.upper()} 1 "" "tandem {version}"', ".SH NAME", f"{roff(name)} \\- {roff(sentence)}"]
    out += [".SH SYNOPSIS", roff(" ".join(synopsis))]
    out += [".SH DESCRIPTION", roff(" ".join(description)), *listed(parameters)]
    for heading, lines in sections:
        out.append(f".SH {heading.upper()}")
        if heading in LITERAL:
            out += [".nf", *(roff(line.removeprefix("  ")) for line in lines if line.strip()), ".fi"]
        else:
            out += listed(lines)
    others = [other for other in names if other != name]
    if others:
        out += [".SH SEE ALSO", ",\n".join(f"{roff(other)}(1)" for other in others)]
    return name, "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="TANDEM", type=pathlib.Path)
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    arguments = parser.parse_args()
    texts = {}

    def collect(path):
        texts[path] = help_of(arguments.program, path)
        for name in subcommands(texts[path]):
            collect((*path, name))

    collect(())
    names = ["-".join(["tandem", *path]) for path in texts]
    folder = arguments.folder / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        name, roffed = page(path, text, arguments.version, names)
        (folder / f"{name}.1").write_text(roffed, encoding="utf-8")
    print(f"{len(texts)} man pages")


if __name__ == "__main__":
    main()
