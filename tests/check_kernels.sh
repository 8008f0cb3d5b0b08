#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_kernels.sh BUILD_FOLDER_OR_OBJECT...
#
# Objects compiled for newer processors (*_avx2, *_avx512) must hold no weak symbol. The linker keeps one copy of each
# and takes whichever comes first; were it the AVX copy of some shared inline function, the program would die on
# processors without AVX in code that has nothing to do with kernels.
set -eu

if [ $# -eq 0 ]; then
  echo "usage: $0 BUILD_FOLDER_OR_OBJECT..." >&2
  exit 2
fi

objects=$(find "$@" -type f \( -name '*_avx2*.o' -o -name '*_avx512*.o' \) | sort)
if [ -z "$objects" ]; then
  echo "check_kernels: no kernel objects under $*" >&2
  exit 1
fi

failed=0
count=0
for object in $objects; do
  count=$((count + 1))
  # nm: W and w, V and v are weak, u is unique across the program.
  weak=$(nm --demangle "$object" | grep -E '^[0-9a-f ]* [WwVvu] ' || true)
  if [ -n "$weak" ]; then
    printf 'check_kernels: %s holds weak symbols:\n%s\n' "$object" "$weak" >&2
    failed=1
  fi
done
[ "$failed" -eq 0 ] && echo "check_kernels: $count kernel objects, no weak symbols"
exit "$failed"
