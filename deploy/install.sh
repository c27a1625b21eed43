#!/bin/sh
# Installs a package of Tandem for one user, without root.
# usage: install.sh [--from PLACE] [--version VERSION] [--prefix FOLDER]
#        install.sh --uninstall [--prefix FOLDER]
#   --from PLACE       where the packages and SHA256SUMS are: a folder, or an address (https, http or file); default:
#                      the variable TANDEM_PACKAGES, else the address of the releases that this script is from
#   --version VERSION  default: the newest that PLACE has for this machine
#   --prefix FOLDER    default: ~/.local; Tandem goes to FOLDER/lib/tandem, a link to FOLDER/bin/tandem, and links to
#                      its man pages to FOLDER/share/man/man1
# A package whose SHA-256 is not the one in SHA256SUMS is not installed. Models stay in ~/.cache/tandem.
set -eu

fail() {
  echo "install.sh: $*" >&2
  exit 2
}

# tools/package.sh writes the address of the releases here
releases=''
from=${TANDEM_PACKAGES:-$releases} version='' prefix=${HOME:?is not set}/.local uninstall=
while [ $# -gt 0 ]; do
  case "$1" in
    --from | --version | --prefix)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case "$1" in
        --from) from=$2 ;;
        --version) version=$2 ;;
        --prefix) prefix=$2 ;;
      esac
      shift 2
      ;;
    --uninstall) uninstall=yes; shift ;;
    --help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "$1 is not known; see install.sh --help" ;;
  esac
done
mkdir -p "$prefix" || fail "--prefix $prefix cannot be made; choose a folder that you may write"
prefix=$(cd "$prefix" && pwd)
home=$prefix/lib/tandem link=$prefix/bin/tandem man=$prefix/share/man/man1

# Whether the link is ours or absent; never a file of somebody else.
own_link() {
  [ ! -e "$link" ] && [ ! -L "$link" ] && return 0
  case "$(readlink "$link" || true)" in "$home"/*) return 0 ;; esac
  fail "$link is there and was not made by install.sh; remove it, or choose another --prefix"
}

# Removes the links to man pages of ours.
remove_man_pages() {
  for page in "$man"/tandem*.1; do
    case "$(readlink "$page" || true)" in "$home"/*) rm -f "$page" ;; esac
  done
}

if [ -n "$uninstall" ]; then
  own_link
  remove_man_pages
  rm -rf "$home"
  rm -f "$link"
  echo "Tandem is removed from $prefix. Its models and compiled kernels are in ${TANDEM_CACHE:-$HOME/.cache/tandem}."
  exit 0
fi

[ -n "$from" ] ||
  fail "this script is from no release; name the folder or address of packages by --from or TANDEM_PACKAGES"
[ "$(uname -s)" = Linux ] || fail "there are packages for Linux only, and this is $(uname -s); build from source"
platform=linux-$(uname -m)
own_link
mkdir -p "$home" "$prefix/bin"
work=$(mktemp -d "$home/.install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# usage: get NAME: copies a file of the place into $work
get() {
  case "$from" in
    http://* | https://* | file://*)
      if command -v curl >/dev/null 2>&1; then
        curl -fsSL --retry 2 -o "$work/$1" "${from%/}/$1"
      elif command -v wget >/dev/null 2>&1; then
        wget -q -O "$work/$1" "${from%/}/$1"
      else
        fail "neither curl nor wget is installed; install one of them, or give --from a folder"
      fi
      ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "${from%/}/$1 cannot be read"
}

get SHA256SUMS
names=$(sed -n "s/^[0-9a-f]\{64\}  \(tandem-[0-9A-Za-z.+-]*-$platform\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
if [ -n "$version" ]; then
  name=$(printf '%s\n' "$names" | grep -Fx "tandem-$version-$platform.tar.gz" || true)
else
  # ~ comes before the end of a version, so that 1.0-rc1 is older than 1.0
  newest=$(printf '%s\n' "$names" | sed "s/^tandem-//; s/-$platform\.tar\.gz\$//; s/-/~/g" | sort -V | tail -1)
  name=${newest:+tandem-$(printf '%s\n' "$newest" | sed 's/~/-/g')-$platform.tar.gz}
fi
[ -n "$name" ] || fail "$from has no package ${version:+of version $version }for $platform; it has: $(echo $names)"
get "$name"
(cd "$work" && grep "  $name\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
  fail "$name has another SHA-256 than SHA256SUMS says; do not use it"
package=${name%.tar.gz}
tar -xzf "$work/$name" -C "$work"
"$work/$package/tandem" --version >"$work/version" 2>"$work/errors" ||
  fail "$package does not start on this machine: $(cat "$work/errors")"
rm -rf "${home:?}/$package"
mv "$work/$package" "$home/$package"
ln -sfn "$home/$package/tandem" "$link"
remove_man_pages
for page in "$home/$package"/share/man/man1/*.1; do
  target=$man/${page##*/}
  # a package may have none, and a page of somebody else stays
  if [ -e "$page" ] && [ ! -e "$target" ]; then
    mkdir -p "$man"
    ln -sfn "$page" "$target"
  fi
done
for old in "$home"/tandem-*; do
  [ "$old" = "$home/$package" ] || rm -rf "$old"
done
echo "$(cat "$work/version") is installed: $link"
[ ! -f "$home/$package/UNTESTED" ] || cat "$home/$package/UNTESTED"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "$prefix/bin is not on the path; add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
