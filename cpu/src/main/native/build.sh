#!/bin/sh
# Compiles the AMX kernel where a C compiler for x86-64 Linux is found; without one the Vector API does its work.
# usage: build.sh SOURCE_FOLDER TARGET_FOLDER RELEASE       RELEASE true: fails where the kernel cannot be compiled
compiler=${CC:-cc}
flags="-O3 -Wall -Wextra -Werror -fPIC -shared -mavx512f -mavx512bw -mavx512bf16 -mamx-tile -mamx-bf16"

# reason, whether this is a release
not_compiled() {
  echo "AMX kernel: not compiled, $1"
  [ "$2" = true ] || exit 0
  echo "AMX kernel: a release must have it; build on x86-64 Linux with GCC 11 or newer, or set CC" >&2
  exit 1
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || not_compiled "this is no x86-64 Linux" "$3"
command -v "$compiler" >/dev/null 2>&1 || not_compiled "there is no C compiler ($compiler)" "$3"
mkdir -p "$2"
rm -f "$2/libtandem-amx.so" # of another source
if "$compiler" $flags -o "$2/libtandem-amx.so.part" "$1/decode_amx.c" 2>"$2/amx.log"; then
  mv "$2/libtandem-amx.so.part" "$2/libtandem-amx.so"
  rm -f "$2/amx.log"
else
  not_compiled "$compiler refused it, see $2/amx.log" "$3"
fi
