#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target for some seconds, from its corpus. New inputs stay in the build folder. usage: run.sh BUILD_FOLDER SECONDS
set -euo pipefail
corpora=$(cd "$(dirname "$0")/corpus" && pwd)
cd "$1/tests"
for target in *_fuzz; do
  name=${target%_fuzz}
  mkdir -p "corpus/$name"
  seeds=()
  [ ! -d "$corpora/$name" ] || seeds=("$corpora/$name")
  "./$target" -max_total_time="$2" -print_final_stats=1 "corpus/$name" "${seeds[@]}" >"$target.log" 2>&1 || {
    tail -n 40 "$target.log"
    echo "$target: failed"
    exit 1
  }
  printf '%-20s %s executions\n' "$target" "$(awk '/number_of_executed_units/ { print $2 }' "$target.log")"
done
