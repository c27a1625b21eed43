#!/bin/sh
# Builds the C library of the crate llguidance with cargo. Without cargo, or where the crates cannot be fetched, the
# server runs and refuses requests for structured output.
# usage: build.sh SOURCE_FOLDER CARGO_FOLDER TARGET_FOLDER RELEASE
#   RELEASE   true: fail if the library cannot be built; anything else: print why and succeed
library=$3/libtandem-grammar.so

# usage: not_built REASON RELEASE
not_built() {
  echo "llguidance: not built, because $1"
  [ "$2" = true ] || exit 0
  echo "llguidance: a release must contain it; install Rust 1.87 or newer from https://rustup.rs" >&2
  exit 1
}

newest=$(ls -t "$library" "$1/Cargo.toml" "$1/Cargo.lock" "$1/src/lib.rs" 2>/dev/null | head -1)
[ "$newest" = "$library" ] && exit 0
command -v cargo >/dev/null 2>&1 || not_built "cargo is not installed" "$4"
mkdir -p "$2" "$3"
rm -f "$library" # of other sources: a server that looks for it meanwhile must not load it
# without a registry it must fail soon
export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=10
if cargo build --quiet --release --locked --manifest-path "$1/Cargo.toml" --target-dir "$2" >"$2/build.log" 2>&1; then
  cp "$(ls "$2"/release/libtandem_grammar.so "$2"/release/libtandem_grammar.dylib 2>/dev/null)" "$library.$$"
  mv "$library.$$" "$library" # in one step: a server looks for it meanwhile
else
  not_built "cargo reported errors, see $2/build.log" "$4"
fi
