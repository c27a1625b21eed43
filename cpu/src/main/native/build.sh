#!/bin/sh
# Compiles the AMX kernel on x86-64 Linux. Without a C compiler the Vector API computes decode attention instead.
# usage: build.sh SOURCE_FOLDER TARGET_FOLDER RELEASE
#   RELEASE   true: fail if the kernel cannot be compiled; anything else: print why and succeed
compiler=${CC:-cc}
flags="-O3 -Wall -Wextra -Werror -fPIC -shared -mavx512f -mavx512bw -mavx512bf16 -mamx-tile -mamx-bf16"

# usage: not_compiled REASON RELEASE
not_compiled() {
  echo "AMX kernel: not compiled, because $1"
  [ "$2" = true ] || exit 0
  echo "AMX kernel: a release must contain it; build on x86-64 Linux with GCC 11 or newer, or set CC" >&2
  exit 1
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || not_compiled "this system is not x86-64 Linux" "$3"
command -v "$compiler" >/dev/null 2>&1 || not_compiled "the C compiler '$compiler' is not installed" "$3"
mkdir -p "$2"
rm -f "$2/libtandem-amx.so" # an earlier build of an older source
if "$compiler" $flags -o "$2/libtandem-amx.so.part" "$1/decode_amx.c" 2>"$2/amx.log"; then
  mv "$2/libtandem-amx.so.part" "$2/libtandem-amx.so"
  rm -f "$2/amx.log"
else
  not_compiled "$compiler reported errors, see $2/amx.log" "$3"
fi
