#!/bin/sh
# Compiles the AMX kernel where a C compiler for x86-64 Linux is found; without one the Vector API does its work.
# usage: build.sh SOURCE_FOLDER TARGET_FOLDER
compiler=${CC:-cc}
flags="-O3 -fPIC -shared -mavx512f -mavx512bw -mavx512bf16 -mamx-tile -mamx-bf16"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "AMX kernel: not compiled, this is no x86-64 Linux"; exit 0; }
command -v "$compiler" >/dev/null 2>&1 || { echo "AMX kernel: not compiled, there is no C compiler"; exit 0; }
mkdir -p "$2"
if "$compiler" $flags -o "$2/libtandem-amx.so.part" "$1/decode_amx.c" 2>"$2/amx.log"; then
  mv "$2/libtandem-amx.so.part" "$2/libtandem-amx.so"
  rm -f "$2/amx.log"
else
  echo "AMX kernel: not compiled, $compiler refused it, see $2/amx.log (GCC 11 or newer is needed)"
fi
