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

install PREFIX="$scratch/a prefix"
check "$scratch/a prefix"
tests/library_example.sh "$scratch/a prefix"
install PREFIX=/opt/x DESTDIR="$scratch/staged here"
check "$scratch/staged here/opt/x"
[ "$(ls "$scratch/staged here")" = opt ] || fail "something is outside PREFIX"
[ ! -e /opt/x ] || fail "something is outside DESTDIR"
echo "install: ok"
