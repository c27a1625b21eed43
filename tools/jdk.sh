#!/usr/bin/env bash
# Prints the home of the JDK that tools/jdk.txt pins. It lies in Tandem's cache; where it does not, it is fetched after
# one yes. Needs no root; fetching needs curl or wget, and tar.
# usage: tools/jdk.sh [--cached]
#   --cached   does not fetch
# TANDEM_FETCH_JDK=yes is the yes where nobody can be asked.
# Exit status: 0 printed, 1 there is none, 2 it could not be fetched; a line says why.
set -euo pipefail
tools=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)

fail() {
  echo "tandem: $*" >&2
  exit 2
}

platform=$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
read -r expected url < <(sed -n "s/^$platform //p" "$tools/jdk.txt") || exit 1 # no JDK is pinned for this platform
cache=${TANDEM_CACHE:-$HOME/.cache/tandem}
home=$cache/jdk-${expected:0:16}

if [ -x "$home/bin/javac" ]; then
  echo "$home"
  exit 0
fi
[ "${1:-}" != --cached ] || exit 1

answer=${TANDEM_FETCH_JDK:-}
if [ -z "$answer" ] && [ -t 0 ]; then # standard input may be a prompt, so only a terminal is asked
  printf 'tandem needs a JDK and found none. Fetch %s into %s? [y/N] ' "$(basename "$url")" "$cache" >&2
  read -r answer || answer=
fi
case "$answer" in
  y | Y | yes | Yes | YES) ;;
  *) exit 1 ;;
esac

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl -fSL --retry 2 --progress-bar -o "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    wget -O "$2" "$1"
  else
    fail "neither curl nor wget is installed, so the JDK cannot be fetched. Install one of them, or a JDK."
  fi
}

sha256() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d' ' -f1
  else
    shasum -a 256 "$1" | cut -d' ' -f1
  fi
}

mkdir -p "$cache"
work=$(mktemp -d "$home.XXXXXX")
trap 'rm -rf "$work"' EXIT
fetch "$url" "$work/jdk.tar.gz" || fail "$url cannot be fetched. Check the network, or install a JDK."
actual=$(sha256 "$work/jdk.tar.gz")
[ "$actual" = "$expected" ] ||
  fail "$url has the SHA-256 $actual, and $expected is expected. Do not use it; install a JDK by other means."
mkdir "$work/jdk"
tar -xzf "$work/jdk.tar.gz" -C "$work/jdk" --strip-components=1
[ -x "$work/jdk/bin/javac" ] || fail "$url has no bin/javac, so it is no JDK; correct tools/jdk.txt."
# one rename, so that a second start sees all of it or nothing; the first to finish wins
mv -T "$work/jdk" "$home" 2>/dev/null || [ -x "$home/bin/javac" ] || fail "$work/jdk cannot be moved to $home."
echo "$home"
