#!/usr/bin/env bash
# Lays out what a machine without JDK, Maven or network needs to run Tandem: a jlink runtime, the jars with the native
# libraries, and a launcher. Of the tokenizer library (18 MB) it keeps only the part for this kind of machine. Needs
# zip, and a build (./tandem build). tools/package.sh and tools/bundle.sh call it.
# usage: tools/layout.sh FOLDER [MACHINE JMODS]
#   FOLDER    is made, and must not exist
#   MACHINE   another kind of machine, as uname -m says there; default: this one
#   JMODS     the folder of the modules (*.jmod) of a JDK for Linux on MACHINE
# For another machine it needs that machine's cross compiler of GCC and Rust's standard library.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$1
java_home=$("$root/tandem" java-home)
machine=${2:-$(uname -m)} jmods=${3:-}
foreign=
[ "$machine" = "$(uname -m)" ] || foreign=yes
if [ -n "$foreign" ]; then
  platform=$("$java_home/bin/jmod" describe "$jmods/java.base.jmod" 2>/dev/null | sed -n 's/^platform //p' || true)
  if [ "$platform" != "linux-$machine" ]; then
    echo "${jmods:-JMODS, not given,} has no java.base.jmod of linux-$machine${platform:+, but of $platform}." >&2
    echo "Unpack there the jmods of a JDK of this version: $("$java_home/bin/jlink" --version 2>/dev/null)" >&2
    exit 2
  fi
  if ! command -v "$machine-linux-gnu-gcc" >/dev/null; then
    echo "$machine-linux-gnu-gcc is not on the path. Install it: apt-get install gcc-$machine-linux-gnu" >&2
    exit 2
  fi
fi
for kernel in amx int8; do
  if [ -z "$foreign" ] && [ "$machine" = x86_64 ] &&
    ! "$java_home/bin/jar" tf "$root"/app/target/lib/tandem-cpu-*.jar | grep -q "native/libtandem-$kernel.so"; then
    echo "The build has no kernel $kernel; $root/cpu/target/classes/native/$kernel.log has the reason." >&2
    echo "It needs GCC 11 or newer on x86-64 Linux." >&2
    echo "Install it (apt-get install gcc), then: touch $root/cpu/pom.xml; $root/tandem build" >&2
    exit 1
  fi
done
if ! "$java_home/bin/jar" tf "$root"/app/target/lib/tandem-grammar-*.jar | grep -q native/libtandem-grammar.so; then
  echo "The build has no llguidance; $root/grammar/target/cargo/build.log has the reason." >&2
  echo "It needs cargo (Rust 1.87 or newer): https://rustup.rs." >&2
  echo "Then: touch $root/grammar/pom.xml; $root/tandem build" >&2
  exit 1
fi
if [ -n "$foreign" ]; then
  target=$machine-unknown-linux-gnu
  if ! (export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER=$machine-linux-gnu-gcc"
    cargo build --quiet --release --locked --target "$target" --target-dir "$root/grammar/target/cargo" \
      --manifest-path "$root/grammar/src/main/native/Cargo.toml"); then
    echo "llguidance is not built for $machine; the lines above say why." >&2
    echo "Rust's library for it comes from: rustup target add $target" >&2
    exit 1
  fi
fi
mkdir "$folder"
mkdir "$folder/lib"
modules=java.base,java.logging,java.management,java.naming,java.net.http,java.xml
modules+=,jdk.incubator.vector,jdk.jfr,jdk.management,jdk.unsupported
link=(--strip-debug)
# the objcopy of this machine cannot strip programs of another one
[ -z "$foreign" ] || link=(--strip-java-debug-attributes '--exclude-files=**.debuginfo' --module-path "$jmods")
"$java_home/bin/jlink" --output "$folder/runtime" "${link[@]}" --no-header-files --no-man-pages \
  --add-modules "$modules"
cp "$root"/app/target/tandem-app.jar "$root"/app/target/lib/*.jar "$folder/lib/"
cp "$root/tools/java.options" "$folder/"
others=(linux-x86_64 linux-aarch64)
zip -qd "$folder"/lib/tokenizers-*.jar 'native/lib/win-*' 'native/lib/osx-*' 'nlp/*' \
  $(printf "native/lib/%s*\n" "${others[@]}" | grep -v "linux-$machine")
if [ -n "$foreign" ]; then
  zip -qd "$folder"/lib/tandem-cpu-*.jar 'native/*.so' # kernels for x86-64
  mkdir "$folder/native"
  cp "$root/grammar/target/cargo/$target/release/libtandem_grammar.so" "$folder/native/libtandem-grammar.so"
  (cd "$folder" && zip -q lib/tandem-grammar-*.jar native/libtandem-grammar.so)
  rm -r "$folder/native"
fi
cat > "$folder/tandem" <<'L'
#!/bin/sh
# Runs Tandem with the runtime beside it. TANDEM_JAVA_OPTIONS are passed to Java.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
LC_ALL=C # one order of the jars everywhere, because the archive of classes demands it
classes=
for jar in "$here"/lib/*.jar; do classes=$classes${classes:+:}$jar; done
options=
if [ "${1:-} ${2:-}" = "bench serve" ]; then
  # the serial collector's pauses would count as the server's latency
  options="-XX:-UseSerialGC -XX:+UseZGC"
elif [ -f "$here/start.aot" ]; then
  options="-XX:AOTCache=$here/start.aot"
fi
# standard output is the command's own
exec "$here/runtime/bin/java" "@$here/java.options" -Xlog:disable -Xlog:all=warning:stderr $options \
  ${TANDEM_JAVA_OPTIONS:-} -cp "$classes" dev.tandem.app.Main "$@"
L
chmod +x "$folder/tandem"
