#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Peak resident memory of every command on a pair of checkpoints of SIZE, with two threads. usage: memory.sh BUILD_FOLDER SIZE
set -euo pipefail
build=$(cd "$1" && pwd)
size=$2
place="$build/memory"
rm -rf "$place"
mkdir -p "$place"
trap 'rm -rf "$place"' EXIT
cd "$place"
export WDELTA_STATE_DIR="$place/state"
"$build/tests/make-run" run --steps 2 --size "$size" --shards 3 --quiet
largest=0
measure() {
  /usr/bin/time -v "$build/wdelta" --quiet -j2 "$@" >/dev/null 2>time || { cat time; exit 1; }
  kib=$(awk '/Maximum resident/ { print $NF }' time)
  printf '%8.1f MiB  %8s  %s\n' "$(echo "$kib / 1024" | bc -l)" "$(awk '/Elapsed/ { print $NF }' time)" "wdelta -j2 $*"
  [ "$kib" -le "$largest" ] || largest=$kib
}
echo "peak resident memory and wall time, two checkpoints of $size:"
measure diff run/step-0001 run/step-0002 -o delta
measure apply run/step-0001 delta -o rebuilt
rm -rf rebuilt
# There and back again, for a chain of any length.
measure diff run/step-0002 run/step-0001 -o back
measure apply run/step-0001 delta $(printf 'back delta %.0s' {1..20}) -o rebuilt
rm -rf rebuilt delta back
measure push run/step-0001 repo --step 1
measure push run/step-0002 repo --step 2
measure pull repo@step:1 weights
measure pull repo weights
measure verify weights repo
measure verify repo@main
measure verify repo
[ "$largest" -le $((512 * 1024)) ] || { echo "more than 512 MiB"; exit 1; }
