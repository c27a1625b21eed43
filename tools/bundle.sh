#!/usr/bin/env bash
# Builds what a machine without JDK, Maven or network needs to run Tandem and its GPU tests: the layout of
# tools/layout.sh and the test classes, packed into one file. Needs zip.
# usage: tools/bundle.sh FOLDER        writes FOLDER/tandem.tar.xz
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
"$root/tandem" build
"$root/tandem" console
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/tools/layout.sh" "$work/tandem"
mkdir -p "$work/tandem/test"
cp -r "$root"/cuda/target/test-classes "$work/tandem/test/classes"
cp "$root"/engine/target/tandem-engine-*-tests.jar "$work/tandem/test/"
for jar in org/junit/platform/junit-platform-console-standalone org/assertj/assertj-core net/bytebuddy/byte-buddy; do
  found=$(ls "$HOME/.m2/repository/$jar"/*/*.jar | grep -v sources | tail -1)
  cp "$found" "$work/tandem/test/"
done
cat > "$work/tandem/test-gpu" <<'L'
#!/bin/sh
# JUnit's console over the tests that need a GPU; arguments go to it
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/runtime/bin/java" --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED \
  ${TANDEM_JAVA_OPTIONS:-} -cp "$here/test/classes:$here/test/*:$here/lib/*" \
  org.junit.platform.console.ConsoleLauncher execute --include-tag gpu --disable-banner --details=tree "$@"
L
chmod +x "$work/tandem/test-gpu"
tar -C "$work" -cf - tandem | xz -T0 -6 > "$out/tandem.tar.xz"
ls -l "$out/tandem.tar.xz"
