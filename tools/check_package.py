#!/usr/bin/env python3
"""Checks a package on a bare Debian, by the steps of deploy/container/Containerfile.

usage: tools/check_package.py PACKAGES [--root FOLDER]
  PACKAGES        the folder that tools/package.sh has written
  --root FOLDER   a minimal Debian; default: one is made by debootstrap in a temporary folder

No container builder is needed: COPY, RUN and ENV are carried out in folders by chroot, as root on Linux. Then it
checks that the image is small enough, that the program starts from its archive of classes, that a server answers as
the user of the image and ends in order on SIGTERM, and that systemd finds no fault in the unit.
Exit status: 0 all is well, 1 something is not, 2 it cannot run.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"
UNIT = ROOT / "deploy" / "systemd" / "tandem.service"
CONFIG = ROOT / "cpu" / "src" / "test" / "resources" / "families" / "qwen3small" / "config.json"
MAX_IMAGE_BYTES = 250_000_000
# what debian:bookworm-slim leaves out of a minimal Debian, and mounted folders
NOT_IN_IMAGE = (
    "proc dev tmp var/cache/apt var/lib/apt/lists usr/share/doc usr/share/man usr/share/locale usr/share/info"
).split()
PORT = 18765
WAIT_SECONDS = 180


def instructions():
    """(name, rest) of each instruction, lines joined."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def copy_tree(source, target):
    """Copies a folder as it is, with owners, links and times."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=True)


class Image:
    """Folders in which the instructions are carried out, one for each stage."""

    def __init__(self, debian, context, work):
        self.debian, self.context, self.work = debian, context, work
        self.stages, self.mounts, self.root = {}, [], debian
        self.environment, self.user, self.entrypoint, self.command = {}, "root", [], []

    def begin(self, rest):
        """Begins a stage, which has nothing of those before: FROM IMAGE [AS NAME]."""
        _, _, name = rest.partition(" AS ")
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.root = self.work / f"stage-{len(self.stages)}"
        self.stages[name] = self.root
        copy_tree(self.debian, self.root)
        for folder in ("proc", "dev"):
            subprocess.run(["mount", "--rbind", f"/{folder}", str(self.root / folder)], check=True)
            self.mounts.append(self.root / folder)
            # else unmounting it would unmount the same folders of this machine
            subprocess.run(["mount", "--make-rslave", str(self.root / folder)], check=True)

    def unmount(self):
        for folder in reversed(self.mounts):
            subprocess.run(["umount", "--recursive", "--lazy", str(folder)], check=False)

    def copy(self, rest):
        *sources, target = rest.split()
        folder = self.root / target.lstrip("/")
        if sources[0].startswith("--from="):
            stage = self.stages[sources[0].removeprefix("--from=")]
            copy_tree(stage / sources[1].lstrip("/"), folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in sources:
            found = sorted(self.context.glob(pattern))
            if not found:
                sys.exit(f"COPY {pattern}: {self.context} has no such file; run tools/package.sh {self.context}")
            for file in found:
                shutil.copy(file, folder)

    def chroot(self, user, *command):
        return ["chroot", f"--userspec={user}", str(self.root), *command]

    def run(self, rest):
        subprocess.run(self.chroot("root", "/bin/sh", "-c", rest), check=True, env=self.environment)

    def carry_out(self):
        for name, rest in instructions():
            print(f"{name} {rest[:100]}", flush=True)
            match name:
                case "VOLUME" | "EXPOSE":
                    pass
                case "FROM":
                    self.begin(rest)
                case "COPY":
                    self.copy(rest)
                case "RUN":
                    self.run(rest)
                case "ENV":
                    self.environment.update(pair.split("=", 1) for pair in shlex.split(rest))
                case "USER":
                    self.user = rest
                case "ENTRYPOINT":
                    self.entrypoint = json.loads(rest)
                case "CMD":
                    self.command = json.loads(rest)
                case _:
                    sys.exit(f"{CONTAINERFILE}: {name} is not known to this check")

    def start(self, *arguments, **more):
        return subprocess.Popen(
            self.chroot(self.user, *self.entrypoint, *arguments), env=self.environment | {"HOME": "/tmp"}, **more
        )


def check_size(image):
    """No file is removed by a later step of the last stage, so the layers are as large as the folder."""
    left_out = [f"--exclude={image.root / folder}/*" for folder in NOT_IN_IMAGE]
    command = ["du", "--bytes", "--summarize", "--one-file-system", *left_out, str(image.root)]
    size = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])
    print(f"the image has {size / 1e6:.0f} MB")
    if size >= MAX_IMAGE_BYTES:
        sys.exit(f"the image has {size} bytes; less than {MAX_IMAGE_BYTES} are allowed, so find what has grown")


def check_start(image):
    """The archive of classes must be used: with AOTMode=on a start without it is an error."""
    image.environment["TANDEM_JAVA_OPTIONS"] = "-XX:AOTMode=on"
    result = image.start("--version", stdout=subprocess.PIPE, text=True)
    out, _ = result.communicate()
    del image.environment["TANDEM_JAVA_OPTIONS"]
    if result.returncode != 0 or not out.startswith("tandem "):
        sys.exit(f"the program does not start from its archive of classes: status {result.returncode}, '{out}'")
    print(f"starts from its archive of classes: {out.strip()}")


def check_server(image):
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_dummy_model.py"), str(CONFIG), str(image.root / "tmp/model")],
        check=True,
    )
    arguments = [*image.command, "/tmp/model", "--load-format", "dummy", "--port", str(PORT)]
    server = image.start(*arguments)
    try:
        base = f"http://127.0.0.1:{PORT}"
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{base}/health", timeout=10).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the server is not there; its status is {server.poll()}")
                time.sleep(0.5)
        body = json.dumps({"prompt": "w5 w6", "max_tokens": 4}).encode()
        request = urllib.request.Request(f"{base}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            tokens = json.load(answer)["usage"]["completion_tokens"]
        print(f"the server answers with {tokens} tokens as {image.user}")
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=60)
        if status != 0:
            sys.exit(f"the server ended with status {status} after SIGTERM; 0 is expected")
        print("it ends with status 0 after SIGTERM")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def check_unit():
    if not shutil.which("systemd-analyze"):
        print("systemd-analyze is not on the path; the unit is not checked")
        return
    # it looks for the program, which is installed in the folder and not on this machine
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, UNIT.name)
        text = UNIT.read_text(encoding="utf-8")
        unit.write_text(text.replace("=/usr/local/bin/tandem ", "=/bin/true "), encoding="utf-8")
        result = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    if result.returncode != 0 or result.stderr.strip():
        sys.exit(f"systemd-analyze verify {UNIT}:\n{result.stderr}")
    print("systemd finds no fault in the unit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path)
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        print("chroot needs root on Linux", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.root
        if root is None:
            if not shutil.which("debootstrap"):
                print("debootstrap is not on the path; install it, or name a Debian with --root", file=sys.stderr)
                sys.exit(2)
            root = pathlib.Path(temporary) / "root"
            subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root)], check=True)
        image = Image(root.resolve(), arguments.packages.resolve(), pathlib.Path(temporary))
        try:
            image.carry_out()
            check_size(image)
            check_start(image)
            check_server(image)
        finally:
            image.unmount()
        check_unit()


if __name__ == "__main__":
    main()
