#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make install` puts everything below PREFIX, all of that below DESTDIR, and nothing elsewhere.
#   install_test.sh BUILD_FOLDER
set -eu

build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "install: $*"; exit 1; }

# What was built is taken as it is (-o all): this runs among the tests of a build.
install() { make -s -o all install BUILD="$build" "$@" >"$scratch/log" || { cat "$scratch/log"; fail "make install $*"; }; }

check() { # FOLDER
  for file in bin/wdelta share/man/man1/wdelta.1 share/man/man1/wdelta-push.1 share/man/man5/wdelta-delta.5 \
    share/man/man3/wdelta-library.3 include/wdelta.h \
    share/bash-completion/completions/wdelta share/zsh/site-functions/_wdelta \
    share/fish/vendor_completions.d/wdelta.fish share/doc/wdelta/LICENSE share/wdelta/python/wdelta.py; do
    [ -f "$1/$file" ] || fail "$1/$file is not there"
  done
  "$1/bin/wdelta" --version >/dev/null || fail "the installed program does not run"
}

# The example of wdelta-library(3) is a program against what was installed, shared and (where CMake made one) static.
check_library() { # FOLDER
  command -v pkg-config >/dev/null || { echo "skipped: the library, for want of pkg-config"; return; }
  example="$scratch/example.c"
  sed -n '/^#include <stdio.h>/,/^\.Ed/p' man/wdelta-library.3 | sed '/^\.Ed/d; s/\\e/\\/g' >"$example"
  pc=$(find "$1" -name wdelta.pc)
  folder=$(dirname "$(dirname "$pc")")
  export PKG_CONFIG_PATH="$(dirname "$pc")"
  eval "${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror '$example' -o '$scratch/shared' $(pkg-config --cflags --libs wdelta)"
  eval "${CXX:-c++} -x c -std=c11 '$example' -x none -o '$scratch/static' $(pkg-config --cflags wdelta) \
    '$folder/libwdelta.a' $(pkg-config --static --libs wdelta | sed 's/-lwdelta//')"
  for kind in shared static; do
    WDELTA_STATE_DIR="$scratch/state" LD_LIBRARY_PATH="$folder" "$scratch/$kind" "$scratch/repository-$kind" >"$scratch/ids" ||
      fail "the example does not run: $kind"
    [ "$(wc -l <"$scratch/ids")" = 3 ] || fail "the example does not push three commits: $kind"
    "$1/bin/wdelta" verify --deep "$scratch/repository-$kind" >/dev/null || fail "what the example pushed is not right: $kind"
  done
}

install PREFIX="$scratch/a prefix"
check "$scratch/a prefix"
check_library "$scratch/a prefix"
install PREFIX=/opt/x DESTDIR="$scratch/staged here"
check "$scratch/staged here/opt/x"
[ "$(ls "$scratch/staged here")" = opt ] || fail "something is outside PREFIX"
[ ! -e /opt/x ] || fail "something is outside DESTDIR"
echo "install: ok"
