#!/usr/bin/env python3
"""Writes what a package contains: sbom.cdx.json (CycloneDX 1.6) and the licence texts of the jars.

usage: tools/sbom.py VERSION PACKAGE
  PACKAGE   a folder that tools/layout.sh has made; gets sbom.cdx.json and licences/

Jars are found in the local Maven repository by their names, and their licences in their POMs and those of the parents.
The crates of the grammar library and their licences come from cargo, the runtime from its file release.
Exit status: 0 written, 1 a component has no licence or cannot be found. Standard library only.
"""

import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = pathlib.Path.home() / ".m2" / "repository"
CRATES = ROOT / "grammar" / "src" / "main" / "native" / "Cargo.toml"
POM = "{http://maven.apache.org/POM/4.0.0}"
LICENCE_FILE = re.compile(r"(?:META-INF/)?(?:LICENSE|LICENCE|NOTICE)[^/]*", re.IGNORECASE)


def own(jar):
    return jar.name.startswith("tandem-")


def coordinates(jar, repository):
    """Group, artifact, version and POM of a jar by its place in the local repository."""
    if jar.name not in repository:
        sys.exit(f"{jar.name} is not in {REPOSITORY}; build on this machine first (./tandem build)")
    version = repository[jar.name].parent
    group = ".".join(version.parent.parent.relative_to(REPOSITORY).parts)
    artifact = version.parent.name
    return group, artifact, version.name, version / f"{artifact}-{version.name}.pom"


def licences(pom):
    """Names of the licences in a POM, else in its parent's."""
    root = xml.parse(pom).getroot()
    names = [node.text.strip() for node in root.iterfind(f"{POM}licenses/{POM}license/{POM}name")]
    parent = root.find(f"{POM}parent")
    if names or parent is None:
        return names
    group, artifact, version = (parent.findtext(POM + tag).strip() for tag in ("groupId", "artifactId", "version"))
    return licences(REPOSITORY.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.pom"))


def component(name, version, purl, names, **more):
    if not names:
        sys.exit(f"{name} {version} names no licence; find out, and add it to tools/sbom.py")
    shown = [{"license": {"name": text}} for text in names]
    return {"type": "library", "name": name, "version": version, "purl": purl, "licenses": shown, **more}


def jars(package):
    repository = {file.name: file for file in REPOSITORY.rglob("*.jar")}
    for jar in sorted((package / "lib").glob("*.jar")):
        if own(jar):
            continue
        group, artifact, version, pom = coordinates(jar, repository)
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        yield component(
            artifact,
            version,
            f"pkg:maven/{group}/{artifact}@{version}",
            licences(pom),
            group=group,
            hashes=[{"alg": "SHA-256", "content": digest}],
        )
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if LICENCE_FILE.fullmatch(entry):
                    text = package / "licences" / artifact / pathlib.PurePosixPath(entry).name
                    text.parent.mkdir(parents=True, exist_ok=True)
                    text.write_bytes(archive.read(entry))


def crates():
    """The crates of the grammar library on this machine, and those that its macros are made of."""
    command = ["cargo", "tree", "--offline", "--locked", f"--manifest-path={CRATES}", "--edges=normal", "--prefix=none"]
    result = subprocess.run([*command, "--format={p}\t{l}"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"cargo tree ended with {result.returncode}: {result.stderr.strip()}")
    for line in sorted({line.removesuffix(" (*)") for line in result.stdout.splitlines()}):
        crate, _, licence = line.partition("\t")
        name, version, *rest = crate.split(" ")
        if not rest:  # else it is our own, or a macro that only the compiler runs
            version = version.removeprefix("v")
            yield component(name, version, f"pkg:cargo/{name}@{version}", [licence] if licence else [])


def runtime(package):
    lines = (package / "runtime" / "release").read_text(encoding="utf-8").splitlines()
    release = dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
    version = release.get("JAVA_RUNTIME_VERSION", release["JAVA_VERSION"])
    return component(
        "OpenJDK",
        version,
        f"pkg:generic/openjdk@{version}",
        ["GPL-2.0 with Classpath-exception-2.0"],
        description=f"{release.get('IMPLEMENTOR', 'OpenJDK')}; modules {release['MODULES']}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("package", type=pathlib.Path)
    arguments = parser.parse_args()
    components = [runtime(arguments.package), *jars(arguments.package), *crates()]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "tandem",
                "version": arguments.version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }
    (arguments.package / "sbom.cdx.json").write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")
    print(f"sbom.cdx.json: {len(components)} components")


if __name__ == "__main__":
    main()
