#!/usr/bin/env bash
# Builds what a machine without JDK, Maven or network needs to run Tandem and its GPU tests: a jlink runtime, the
# jars, the test classes and a launcher, packed into one file. Of the tokenizer library (18 MB) it packs only the part
# for this kind of machine. Needs zip.
# usage: tools/bundle.sh FOLDER        writes FOLDER/tandem.tar.xz
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
"$root/tandem" build
"$root/tandem" console
java_home=$("$root/tandem" java-home)
if ! "$java_home/bin/jar" tf "$root"/app/target/lib/tandem-cpu-*.jar | grep -q native/libtandem-amx.so; then
  echo "The build has no AMX kernel; $root/cpu/target/classes/native/amx.log has the reason." >&2
  echo "A bundle needs GCC 11 or newer on x86-64 Linux." >&2
  echo "Install it (apt-get install gcc), then: touch $root/cpu/pom.xml; $0 $1" >&2
  exit 1
fi
if ! "$java_home/bin/jar" tf "$root"/app/target/lib/tandem-grammar-*.jar | grep -q native/libtandem-grammar.so; then
  echo "The build has no llguidance; $root/grammar/target/cargo/build.log has the reason." >&2
  echo "A bundle needs cargo (Rust 1.87 or newer): https://rustup.rs. Then: touch $root/grammar/pom.xml; $0 $1" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tandem/lib"
modules=java.base,java.logging,java.management,java.naming,java.net.http,java.xml
modules+=,jdk.incubator.vector,jdk.management,jdk.unsupported
"$java_home/bin/jlink" --output "$work/tandem/runtime" --strip-debug --no-header-files --no-man-pages \
  --add-modules "$modules"
cp "$root"/app/target/tandem-app.jar "$root"/app/target/lib/*.jar "$work/tandem/lib/"
cp "$root/tools/java.options" "$work/tandem/"
mkdir -p "$work/tandem/test"
cp -r "$root"/cuda/target/test-classes "$work/tandem/test/classes"
cp "$root"/engine/target/tandem-engine-*-tests.jar "$work/tandem/test/"
for jar in org/junit/platform/junit-platform-console-standalone org/assertj/assertj-core net/bytebuddy/byte-buddy; do
  found=$(ls "$HOME/.m2/repository/$jar"/*/*.jar | grep -v sources | tail -1)
  cp "$found" "$work/tandem/test/"
done
zip -qd "$work"/tandem/lib/tokenizers-*.jar 'native/lib/win-*' 'native/lib/osx-*' 'native/lib/linux-aarch64*' 'nlp/*'
cat > "$work/tandem/tandem" <<'L'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
collector=
# as ./tandem does: the serial collector's pauses would count as the server's latency
[ "${1:-} ${2:-}" != "bench serve" ] || collector="-XX:-UseSerialGC -XX:+UseZGC"
exec "$here/runtime/bin/java" "@$here/java.options" $collector \
  ${TANDEM_JAVA_OPTIONS:-} -cp "$here/lib/*" dev.tandem.app.Main "$@"
L
cat > "$work/tandem/test-gpu" <<'L'
#!/bin/sh
# JUnit's console over the tests that need a GPU; arguments go to it
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/runtime/bin/java" --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED \
  ${TANDEM_JAVA_OPTIONS:-} -cp "$here/test/classes:$here/test/*:$here/lib/*" \
  org.junit.platform.console.ConsoleLauncher execute --include-tag gpu --disable-banner --details=tree "$@"
L
chmod +x "$work/tandem/tandem" "$work/tandem/test-gpu"
tar -C "$work" -cf - tandem | xz -T0 -6 > "$out/tandem.tar.xz"
ls -l "$out/tandem.tar.xz"
