#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example of wdelta-library(3) is a program against what was installed, shared and static, and Python finds the
# library too.
#   library_example.sh PREFIX
set -eu

prefix=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "library-example: $*"; exit 1; }

pc=$(find "$prefix" -name wdelta.pc)
folder=$(dirname "$(dirname "$pc")")
if grep -q -e __asan_init -e __tsan_init "$folder/libwdelta.so"; then
  echo "skipped: the library's example: a sanitized library is for sanitized programs"
  exit 0
fi
export WDELTA_STATE_DIR="$scratch/state"
said=$(env -u WDELTA_LIBRARY PYTHONPATH="$prefix/share/wdelta/python" PYTHONDONTWRITEBYTECODE=1 python3 -c '
import wdelta
wdelta.push({"weights": bytearray(b"1234")}, "'"$scratch"'/from-python", create=True)
print(wdelta._library()._name, "wdelta", wdelta.library_version())') || fail "the library for Python does not push"
[ "$said" = "$folder/libwdelta.so $("$prefix/bin/wdelta" --version)" ] || fail "Python finds $said"
"$prefix/bin/wdelta" verify "$scratch/from-python" >/dev/null || fail "what Python pushed is not right"

command -v pkg-config >/dev/null || { echo "skipped: the example, for want of pkg-config"; exit 0; }
example="$scratch/example.c"
sed -n '/^#include <stdio.h>/,/^\.Ed/p' man/wdelta-library.3 | sed '/^\.Ed/d; s/\\e/\\/g' >"$example"
export PKG_CONFIG_PATH="$(dirname "$pc")"
eval "${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror '$example' -o '$scratch/shared' $(pkg-config --cflags --libs wdelta)"
eval "${CXX:-c++} -x c -std=c11 '$example' -x none -o '$scratch/static' $(pkg-config --cflags wdelta) \
  '$folder/libwdelta.a' $(pkg-config --static --libs wdelta | sed 's/-lwdelta//')"
for kind in shared static; do
  LD_LIBRARY_PATH="$folder" "$scratch/$kind" "$scratch/repository-$kind" >"$scratch/ids" ||
    fail "the example does not run: $kind"
  [ "$(wc -l <"$scratch/ids")" = 3 ] || fail "the example does not push three commits: $kind"
  "$prefix/bin/wdelta" verify --deep "$scratch/repository-$kind" >/dev/null || fail "what the example pushed is not right: $kind"
done
