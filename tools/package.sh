#!/usr/bin/env bash
# Makes a package that runs on any Linux with glibc of this kind of machine, without JDK, Maven or root. Needs zip,
# python3, a C compiler (x86-64) and cargo.
# usage: [TANDEM_RELEASES=ADDRESS] tools/package.sh FOLDER [MACHINE JMODS]
#   writes FOLDER/tandem-VERSION-linux-MACHINE.tar.gz, its line in FOLDER/SHA256SUMS, and FOLDER/install.sh, which
#   installs from ADDRESS: where FOLDER will be published
#   MACHINE JMODS   assembles a package for another kind of machine, as tools/layout.sh says; it has not been started,
#                   so it is marked by a file UNTESTED, and has no start.aot
# In the package: runtime/ and lib/, tandem (start it), install.sh, tandem.service (for systemd), share/man,
# sbom.cdx.json, licences/, and start.aot: classes as a start has them, so that starts are shorter.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
machine=${2:-$(uname -m)}
if [ "$(uname -s)" != Linux ]; then
  echo "tools/package.sh makes packages for Linux, on Linux; this is $(uname -s)." >&2
  exit 2
fi
"$root/tandem" build # with llguidance, which ./tandem alone leaves for later
version=$("$root/tandem" --version | sed -n 's/^tandem \([^ ]*\).*/\1/p')
name=tandem-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/tools/layout.sh" "$work/$name" "${@:2}"
cp "$root/LICENSE" "$root/NOTICE" "$root/deploy/systemd/tandem.service" "$work/$name/"
case "${TANDEM_RELEASES:-}" in
  *[!0-9A-Za-z:/._~%+-]*) echo "TANDEM_RELEASES $TANDEM_RELEASES is no address of packages." >&2; exit 2 ;;
esac
sed "s|^releases=''\$|releases='${TANDEM_RELEASES:-}'|" "$root/deploy/install.sh" > "$work/$name/install.sh"
chmod +x "$work/$name/install.sh"
python3 "$root/tools/sbom.py" "$version" "$work/$name"
python3 "$root/tools/man_pages.py" "$root/tandem" "$version" "$work/$name/share/man"
if [ "$machine" != "$(uname -m)" ]; then
  echo "This package was assembled on $(uname -m), and nobody has started it on $machine." > "$work/$name/UNTESTED"
fi
# whole seconds, which is what the archive keeps: the archive of classes compares the times of the jars
time=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
find "$work/$name" -exec touch -h -d "@$time" {} +
if [ "$machine" = "$(uname -m)" ]; then
  python3 "$root/tools/make_dummy_model.py" "$root/cpu/src/test/resources/families/qwen3small/config.json" "$work/model"
  if ! TANDEM_JAVA_OPTIONS="-XX:AOTCacheOutput=$work/start.aot" "$work/$name/tandem" \
    generate "$work/model" --load-format dummy --prompt w5 --max-tokens 8 >"$work/start.log" 2>&1; then
    cat "$work/start.log" >&2
    echo "The package does not start; the lines above say why." >&2
    exit 1
  fi
  cp "$work/start.aot" "$work/$name/start.aot"
fi
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
cp "$work/$name/install.sh" "$out/"
touch "$out/SHA256SUMS"
sed -i "/  $name\.tar\.gz$/d" "$out/SHA256SUMS"
(cd "$out" && sha256sum "$name.tar.gz" >> SHA256SUMS)
if [ "$machine" = "$(uname -m)" ]; then
  "$out/install.sh" --from "$out" --version "$version" --prefix "$work/prefix"
fi
ls -l "$out/$name.tar.gz"
