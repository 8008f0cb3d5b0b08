#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Looks at a package as who installs it would: its list of files, and the program that comes out of it.
#   package_test.sh deb|tarball FOLDER
set -eu

kind=$1
sources=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "package-$kind: $*"; exit 1; }
skip() { echo "skipped: package-$kind: $*"; exit 77; }

# Files that there must be, and no others, links marked; with the places of the three things that differ.
expect_files() { # PREFIX MANUAL_SUFFIX ZSH DOCUMENT...
  prefix=$1 suffix=$2 zsh=$3
  shift 3
  {
    printf '%s\n' "${prefix}bin/wdelta" "${prefix}share/bash-completion/completions/wdelta" \
      "${prefix}share/zsh/$zsh/_wdelta" "${prefix}share/fish/vendor_completions.d/wdelta.fish" "$@"
    for page in "$sources"/man/*.[157]; do
      echo "${prefix}share/man/man${page##*.}/${page##*/}$suffix"
    done
  } | LC_ALL=C sort >"$scratch/expected"
  (cd "$scratch/root" && find . -type f -printf '%P\n' -o -type l -printf '%P -> %l\n' | LC_ALL=C sort) >"$scratch/found"
  diff "$scratch/expected" "$scratch/found" || fail "its files are not those expected (<) but others (>)"
  (cd "$scratch/root" && find . ! -type l -perm /022) | grep . && fail "these may be written by anyone"
  return 0
}

expect_version() {
  version=$("$scratch/root/$1" --version) || fail "the program does not run"
  case $package in
    *"${version#wdelta }"*) ;;
    *) fail "the program of $package says $version" ;;
  esac
}

check_deb() {
  command -v dpkg-deb >/dev/null || skip "there is no dpkg-deb"
  dpkg-deb -x "$package" "$scratch/root"
  # Built for /usr, the library is where Debian has those of several architectures.
  lib=$(cd "$scratch/root" && find usr/lib -name 'libwdelta.so.0')
  lib=${lib%/*}
  so=${package##*/wdelta_}
  so=libwdelta.so.${so%%[-_]*}
  expect_files usr/ .gz vendor-completions usr/share/doc/wdelta/README.md usr/share/doc/wdelta/changelog.gz \
    usr/share/doc/wdelta/copyright usr/include/wdelta.h "$lib/$so" "$lib/libwdelta.so.0 -> $so" \
    "$lib/libwdelta.so -> libwdelta.so.0" "$lib/libwdelta.a" "$lib/pkgconfig/wdelta.pc" \
    usr/share/man/man3/wdelta-library.3.gz usr/share/wdelta/python/wdelta.py \
    'usr/lib/python3/dist-packages/wdelta.py -> ../../../share/wdelta/python/wdelta.py'
  expect_version usr/bin/wdelta
  gzip -t "$scratch"/root/usr/share/man/man?/*.gz || fail "a manual page is damaged"
  for needed in libc6 'libstdc\+\+6' libzstd1 libcurl4 libssl3; do
    dpkg-deb -f "$package" Depends | grep -Eq "$needed" || fail "does not depend on $needed"
  done
  dpkg-deb -e "$package" "$scratch/control"
  grep -q ldconfig "$scratch"/control/* || fail "the loader is not told of the library"
  grep -q '^libwdelta 0 wdelta' "$scratch/control/shlibs" || fail "no one is told what libwdelta.so.0 is in"
  exported=$(nm -D --defined-only "$scratch/root/$lib/$so" | awk '$2 != "A" {print $3}' | grep -v '^wdelta_.*@@WDELTA_') &&
    fail "the library shows more than wdelta.h: $exported"
  "$sources/tests/library_example.sh" "$scratch/root/usr" || fail "the library in it does not work"
}

# A machine with nothing on it: no libraries, no users, no shell.
bare() { env -i USER=someone WDELTA_STATE_DIR=/tmp "$(command -v chroot)" "$scratch/root" /bin/wdelta "$@"; }

check_on_a_bare_machine() {
  # A checkpoint with one tensor of four bytes: the size of the header, the header, the bytes.
  header='{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
  mkdir "$scratch/root/a" "$scratch/root/tmp"
  for bytes in 1234 1243; do
    printf '\065\0\0\0\0\0\0\0%s%s' "$header" $bytes >"$scratch/root/a/w.safetensors"
    bare push -q a repo >/dev/null 2>"$scratch/said" || fail "cannot push: $(cat "$scratch/said")"
  done
  bare show repo | grep -q '^author  someone@' || fail "does not know who pushes"
  bare pull -q repo b && bare verify -q b repo && cmp "$scratch/root/a/w.safetensors" "$scratch/root/b/w.safetensors" ||
    fail "pulls something else than was pushed"
}

check_tarball() {
  mkdir "$scratch/root"
  tar -xzf "$package" -C "$scratch/root" --strip-components 1 --no-same-owner
  expect_files "" "" site-functions README.md CHANGELOG.md LICENSE
  expect_version bin/wdelta
  if command -v readelf >/dev/null; then
    readelf -d "$scratch/root/bin/wdelta" | grep -q 'no dynamic section' || fail "the program needs shared libraries"
  fi
  if [ "$(id -u)" = 0 ] && chroot "$scratch/root" /bin/wdelta --version >/dev/null 2>&1; then
    check_on_a_bare_machine
  else
    echo "package-$kind: not tried on a bare machine: that takes root"
  fi
}

case $kind in
  deb) set -- "$2"/wdelta_*.deb ;;
  tarball) set -- "$2"/wdelta-*.tar.gz ;;
esac
package=$1
[ -f "$package" ] || skip "there is none; make $kind makes one"
"check_$kind"
echo "$package: ok, $(wc -c <"$package") bytes"
