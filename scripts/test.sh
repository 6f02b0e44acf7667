#!/usr/bin/env bash
# Builds everything and runs every test through ctest. With CI=true, also the quick suite under ASan and UBSan.
# Usage: scripts/test.sh [preset] (dev unless given; release, asan, tsan)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

moe_install_packages
preset=${1:-dev}
moe_build "$preset" all
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)"

if [ "${CI:-}" = true ] && [ "$preset" = dev ]; then
  moe_build asan all
  ctest --test-dir build/asan --output-on-failure --no-tests=error -j "$(nproc)" -L quick
fi
