#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Large files have the digest that b3sum gives them, whatever the number of threads, read or mapped, copied or not. usage: b3sum_test.sh HASH_FILE_PROGRAM
set -euo pipefail
command -v b3sum >/dev/null || { echo "b3sum_test: skipped: no b3sum here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
segment=$((4 << 20))
for size in 0 1 $((segment - 1)) $segment $((segment + 1)) $((8 * segment)) $((23 * segment + 12345)); do
  head -c "$size" /dev/urandom >"$folder/$size"
done
for threads in 1 2 5; do
  "$1" "$threads" "$folder"/* | b3sum --check
done
for what in hash copy; do
  for way in read map; do
    for file in "$folder"/*; do "$1" "$what" "$way" "$file" | b3sum --check --quiet; done
  done
done
# The kernels must agree on a file that no buffer holds.
truncate -s 3G "$folder/sparse"
"$1" 2 "$folder/sparse" | b3sum --check
