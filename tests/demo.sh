#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on checkpoints made for it, in a repository that is a directory. usage: demo.sh BUILD_FOLDER
set -euo pipefail

build=$(cd "$1" && pwd)
export PATH="$build:$PATH"
place="$build/demo"
rm -rf "$place"
mkdir -p "$place"
cd "$place"
export WDELTA_STATE_DIR="$place/state"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' plain=$'\e[0m'; else bold='' dim='' green='' plain=''; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() { printf '%s$%s' "$dim" "$(printf ' %q' "$@")"; printf '%s\n' "$plain"; "$@" 2>&1; }

say "1. A post-training run saves five checkpoints: fp32 masters, AdamW-sized steps, rounded to bf16, sharded"
"$build/tests/make-run" run --steps 5 --size 128M --shards 3
ls run/step-0001

say "2. Push each as it is saved"
for step in 1 2 3 4 5; do
  show wdelta push "run/step-000$step" repo --step "$step" -m "step $step of the demo"
done

say "3. The history, and what the repository takes on disk"
show wdelta log repo
printf 'five checkpoints: %s, the repository: %s\n' "$(du -sh run | cut -f1)" "$(du -sh repo | cut -f1)"

say "4. Pull the newest, as an inference server does"
show wdelta pull repo weights
(cd run/step-0005 && find . -type f -exec b3sum {} + | sort -k2) >step-0005.b3
show diff -r --exclude .wdelta run/step-0005 weights
(cd weights && b3sum --check ../step-0005.b3)

say "5. Roll back to the first, in place"
show wdelta pull repo@step:1 weights
for file in run/step-0001/*; do
  cmp "$file" "weights/$(basename "$file")" && printf 'identical  %s\n' "$(basename "$file")"
done

say "6. Prove it: the directory against the commit, and every object of the repository"
show wdelta verify weights repo@step:1
show wdelta verify repo

say "7. A byte flips on disk: it is noticed, and nothing is built upon it"
printf '\377' | dd of=weights/model-00002-of-00003.safetensors bs=1 seek=5000000 conv=notrunc status=none
show wdelta verify weights repo@step:1 || printf '(exit status %s)\n' "$?"
show wdelta pull --force repo weights
show wdelta verify weights repo

printf '\n%sEvery file came back bit for bit.%s The repository is in %s\n' "$green" "$plain" "$place/repo"
