#!/usr/bin/env bash
# One MoE layer of google/switch-base-8 on 8 ranks: compile, run forward and backward, verify against one rank.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

moe_install_packages
moe_build release moe-import moe-compile moe-run moe-sim
bin=build/release/bin
out=build/release/demo
mkdir -p "$out"

show() { printf '\n$ %s\n' "${*#build/release/bin/}" >&2; "$@"; }
show $bin/moe-import share/models/switch-base-8.json --batch=4 -o "$out/switch.mlir"
show $bin/moe-compile "$out/switch.mlir" --parallel=dp=4,mp=2,ep=4,esp=2 -o "$out/switch.so"
show $bin/moe-run "$out/switch.so" --iters=3 --verify --trace="$out/switch.trace.json"
show $bin/moe-sim "$out/switch.mlir" --parallel=dp=4,mp=2,ep=4,esp=2 --cluster=hgx-h100 --html="$out/switch.html"
printf '\nThe timeline of that run is %s: open it in ui.perfetto.dev or chrome://tracing.\n' "$out/switch.trace.json"
printf 'What the same plan would do on eight H100s is %s.\n' "$out/switch.html"
