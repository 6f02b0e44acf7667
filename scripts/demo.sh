#!/usr/bin/env bash
# Plans Mixtral 8x7B on 64 GPUs. Then compiles one MoE layer of google/switch-base-8 for 8 ranks, runs it forward and
# backward, verifies it against one rank, and simulates it on GPUs. Builds only these programs, in build/demo, for this
# machine's processors: without CUDA, MPI and tests, and with -O1, which compiles faster and runs slower than
# build/release.
# Usage: scripts/demo.sh [BUILD]: with the build folder BUILD, it shows that folder's programs and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

build=${1:-build/demo}
if [ $# -eq 0 ]; then
  moe_install_packages "${moe_build_packages[@]}"
  moe_configure demo --preset demo
  cmake --build "$build" --target moe-plan moe-import moe-compile moe-run moe-sim
fi
bin=$build/bin
out=$build/demo
mkdir -p "$out"

show() { printf '\n$ %s\n' "${*#"$bin/"}" >&2; "$@"; }
show "$bin"/moe-plan mixtral-8x7b 64 hgx-h100
show "$bin"/moe-import share/models/switch-base-8.json --batch=4 -o "$out/switch.mlir"
show "$bin"/moe-compile "$out/switch.mlir" --parallel=dp=4,mp=2,ep=4,esp=2 -o "$out/switch.so"
show "$bin"/moe-run "$out/switch.so" --iters=3 --verify --trace="$out/switch.trace.json"
show "$bin"/moe-sim "$out/switch.mlir" --parallel=dp=4,mp=2,ep=4,esp=2 --cluster=hgx-h100 --html="$out/switch.html"
cat <<EOF

The timeline of the run is $out/switch.trace.json: open it in ui.perfetto.dev or chrome://tracing.
The page $out/switch.html shows what the same plan would do on eight H100.

Try next:

  export PATH=$(realpath "$bin"):\$PATH
  moe-plan qwen3-235b-a22b 512 hgx-h100 --html=plan.html                   # plan a larger model, with all candidates as a page
  moe-compile switch-base-8 --parallel=dp=8,ep=8 --schedule=auto --cluster=hgx-h100 --explain=- -o auto.so   # choose a schedule
  moe-compile gpt2-moe --whole-model --layers=2 --seq=64 --parallel=pp=2,dp=2,ep=2 --micro-batches=4 --optimizer=adam -o gpt.so &&
    moe-run gpt.so --train --data=README.md --steps=3                      # train a small GPT with experts on the bytes of a file
EOF
