#!/bin/sh
# Compiles the C kernels on x86-64 Linux. Without a C compiler the Vector API computes decode attention, and there are
# no int8 activations.
# usage: build.sh SOURCE_FOLDER TARGET_FOLDER RELEASE
#   RELEASE   true: fail if a kernel cannot be compiled; anything else: print why and succeed
sources=$1
target=$2
release=$3
compiler=${CC:-cc}
common="-O3 -Wall -Wextra -Werror -fPIC -shared -mavx512f -mavx512bw"

# usage: not_compiled WHAT REASON
not_compiled() {
  echo "$1: not compiled, because $2"
  [ "$release" = true ] || return 0
  echo "$1: a release must contain this; build on x86-64 Linux with GCC 11 or newer, or set CC" >&2
  exit 1
}

# usage: compile KERNEL SOURCE FLAGS
compile() {
  library="$target/libtandem-$1.so"
  rm -f "$library" # an earlier build of an older source
  if "$compiler" $common $3 -o "$library.part" "$sources/$2" 2>"$target/$1.log"; then
    mv "$library.part" "$library"
    rm -f "$target/$1.log"
  else
    not_compiled "kernel $1" "$compiler reported errors, see $target/$1.log"
  fi
}

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
  not_compiled "C kernels" "this system is not x86-64 Linux"
elif ! command -v "$compiler" >/dev/null 2>&1; then
  not_compiled "C kernels" "the C compiler '$compiler' is not installed"
else
  mkdir -p "$target"
  compile amx decode_amx.c "-mavx512bf16 -mamx-tile -mamx-bf16"
  # each rounding of the int8 kernel is meant
  compile int8 int8_gemm.c "-mavx512dq -mavx512vl -mavx512vnni -ffp-contract=off"
fi
