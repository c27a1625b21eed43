#!/usr/bin/env bash
# Lays out what a machine without JDK, Maven or network needs to run Tandem: a jlink runtime, the jars with the native
# libraries, and a launcher. Of the tokenizer library (18 MB) it keeps only the part for this kind of machine. Needs
# zip, and a build (./tandem build). tools/package.sh and tools/bundle.sh call it.
# usage: tools/layout.sh FOLDER        FOLDER is made, and must not exist
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$1
java_home=$("$root/tandem" java-home)
machine=$(uname -m)
for kernel in amx int8; do
  if [ "$machine" = x86_64 ] &&
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
mkdir "$folder"
mkdir "$folder/lib"
modules=java.base,java.logging,java.management,java.naming,java.net.http,java.xml
modules+=,jdk.incubator.vector,jdk.jfr,jdk.management,jdk.unsupported
"$java_home/bin/jlink" --output "$folder/runtime" --strip-debug --no-header-files --no-man-pages \
  --add-modules "$modules"
cp "$root"/app/target/tandem-app.jar "$root"/app/target/lib/*.jar "$folder/lib/"
cp "$root/tools/java.options" "$folder/"
others=(linux-x86_64 linux-aarch64)
zip -qd "$folder"/lib/tokenizers-*.jar 'native/lib/win-*' 'native/lib/osx-*' 'nlp/*' \
  $(printf "native/lib/%s*\n" "${others[@]}" | grep -v "linux-$machine")
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
