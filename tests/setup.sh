#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the Makefile needs of the machine.
#   setup.sh packages [MORE...]         install what is lacking to build and test, and MORE
#   setup.sh python MODULE              name a Python that has the module: the first in PATH, or the system's
#   setup.sh configure FOLDER PRESET OPTION...
#                                       run CMake with a preset (CMakePresets.json), quietly unless it fails
#   setup.sh pack KIND FOLDER INTO      run CPack over a build, quietly unless it fails
#   setup.sh format                     check that clang-format would change nothing
set -eu

packages() {
  # What a program of the tests can do without is left to the tests: they skip by name.
  wanted="build-essential cmake ninja-build pkg-config libcli11-dev libfmt-dev nlohmann-json3-dev libzstd-dev \
libcurl4-openssl-dev libssl-dev doctest-dev libbenchmark-dev python3 python3-venv zstd b3sum mandoc \
clang-format qemu-user-static zsh fish jq $*"
  command -v dpkg-query >/dev/null || { echo "setup: no dpkg here: install by hand: $wanted"; return; }
  missing=""
  for package in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "installing:$missing"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086
  { $sudo apt-get update -q && $sudo apt-get install -q -y --no-install-recommends $missing; } >/tmp/wdelta-setup.$$ 2>&1 || {
    cat /tmp/wdelta-setup.$$
    echo "setup: could not install:$missing"
    exit 1
  }
  rm -f /tmp/wdelta-setup.$$
}

# Packages go to the system's Python, which need not be the one in PATH.
python() {
  if python3 -c "import $1" 2>/dev/null; then echo python3; else echo /usr/bin/python3; fi
}

configure() {
  folder=$1
  preset=$2
  shift 2
  log=$(mktemp)
  cmake -S . -B "$folder" --preset "$preset" "$@" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; exit 1; }
  rm -f "$log"
}

pack() {
  log=$(mktemp)
  cpack -G "$1" --config "$2/CPackConfig.cmake" -B "$3" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; exit 1; }
  rm -rf "$log" "$3/_CPack_Packages"
}

format() {
  git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.c' '*.h' | xargs clang-format --dry-run --Werror
  echo "format: ok"
}

task=$1
shift
"$task" "$@"
