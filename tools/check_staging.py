#!/usr/bin/env python3
"""Checks a folder of staged artifacts for what Maven Central asks of each of them.

usage: tools/check_staging.py [--signed] FOLDER

FOLDER is a Maven repository that `mvn deploy` has written; docs/internals/release.md has the command.
Of each POM:
  - no parent, no property, no snapshot
  - name, description, url, licence, developer, scm; no address that is a placeholder
  - each dependency on Tandem is in the folder
Of each artifact that is not a POM: a jar, its sources, its Javadoc; none of them empty.
Of each file: MD5 and SHA-1, which are right; with --signed also a signature.

Exit status: 0 nothing found, 1 something found; each finding is one line "file: what, remedy".
"""

import argparse
import hashlib
import pathlib
import sys
import xml.etree.ElementTree as xml
import zipfile

SPACE = "{http://maven.apache.org/POM/4.0.0}"
GROUP = "dev.tandem"
REQUIRED = [
    "name",
    "description",
    "url",
    "licenses/license/name",
    "licenses/license/url",
    "developers/developer/name",
    "scm/connection",
    "scm/developerConnection",
    "scm/url",
]
DIGESTS = {".md5": hashlib.md5, ".sha1": hashlib.sha1}
BESIDE = (*DIGESTS, ".sha256", ".sha512", ".asc")


def text(element, path):
    """The text of an element of a POM; empty where there is none."""
    found = element.find("/".join(SPACE + name for name in path.split("/")))
    return "" if found is None or found.text is None else found.text.strip()


def check_pom(pom, staged):
    content = pom.read_text(encoding="utf-8")
    root = xml.fromstring(content)
    if root.find(SPACE + "parent") is not None:
        yield "has a parent; build with -Prelease, which flattens POMs"
    if "${" in content.replace("${project.version}", ""):  # the POM itself has this one
        yield "has a property in it; build with -Prelease, which flattens POMs"
    if text(root, "version").endswith("-SNAPSHOT"):
        yield "is a snapshot; set <revision> in pom.xml"
    for path in REQUIRED:
        if not text(root, path):
            yield f"has no {path}; add it to pom.xml"
    if ".invalid" in content:
        yield "has a placeholder for an address; name the real one with -Dtandem.url=URL"
    for dependency in root.iter(SPACE + "dependency"):
        name = text(dependency, "artifactId")
        if text(dependency, "groupId") == GROUP and name not in staged:
            yield f"depends on {name}, which is not in the folder; stage it too"


def check_jar(jar):
    if not jar.is_file():
        yield "is missing; build with -Prelease"
        return
    with zipfile.ZipFile(jar) as archive:
        if not any(not name.endswith("/") and not name.startswith("META-INF/") for name in archive.namelist()):
            yield "has no file but its manifest; build it with sources"


def check_file(file, signed):
    for ending, digest in DIGESTS.items():
        beside = file.with_name(file.name + ending)
        if not beside.is_file():
            yield f"has no {ending}; stage it again"
        elif beside.read_text(encoding="ascii").split()[:1] != [digest(file.read_bytes()).hexdigest()]:
            yield f"does not have the digest of its {ending}; stage it again"
    if signed and not file.with_name(file.name + ".asc").is_file():
        yield "is not signed; build with -Dgpg.keyname=KEY"


def findings(folder, signed):
    poms = sorted(folder.rglob("*.pom"))
    if not poms:
        yield folder, "has no POM; see --help"
    staged = {pom.parent.parent.name for pom in poms}
    for pom in poms:
        for what in check_pom(pom, staged):
            yield pom, what
        root = xml.fromstring(pom.read_text(encoding="utf-8"))
        if text(root, "packaging") != "pom":
            for ending in (".jar", "-sources.jar", "-javadoc.jar"):
                jar = pom.with_name(pom.stem + ending)
                for what in check_jar(jar):
                    yield jar, what
        for file in sorted(pom.parent.iterdir()):
            if file.is_file() and not file.name.endswith(BESIDE):
                for what in check_file(file, signed):
                    yield file, what


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="\n".join(__doc__.split("\n")[4:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--signed", action="store_true", help="every file must have a signature")
    arguments = parser.parse_args()
    found = list(findings(arguments.folder, arguments.signed))
    for file, what in found:
        print(f"{file}: {what}")
    artifacts = sorted({pom.parent.parent.name for pom in arguments.folder.rglob("*.pom")})
    print(f"{len(artifacts)} artifacts: {' '.join(artifacts)}")
    if not arguments.signed:
        print("signatures were not checked; they are made at a release, and --signed checks them")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
