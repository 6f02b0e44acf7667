#!/usr/bin/env bash
# Builds everything and runs every test through ctest. With CI=true, also the runtime's tests under ASan and UBSan.
# Usage: scripts/test.sh [preset [ctest option..]] (dev unless given; release, asan, tsan), e.g. scripts/test.sh asan -L quick
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

preset=${1:-dev}
shift $(($# > 0))
case $preset in
dev | release | asan | tsan) ;;
*)
  echo "error: expected a preset, dev, release, asan or tsan, but got '$preset'" >&2
  echo "usage: scripts/test.sh [preset [ctest option..]]" >&2
  exit 2
  ;;
esac
moe_install_packages "${moe_build_packages[@]}" "${moe_test_packages[@]}"

run_tests() {
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$(nproc)" "${@:2}"
}

# If there is a compiler for CUDA, CUTLASS's kernels and cuDNN's calls are compiled, too.
headers=()
if [ "$preset" = dev ] && command -v nvcc >/dev/null; then
  mapfile -t headers < <(moe_gpu_headers)
  [ "${CI:-}" != true ] || [ ${#headers[@]} -eq 2 ] || { echo "error: CI needs the headers of CUTLASS and cudnn-frontend" >&2; exit 1; }
fi

# The Python package. If its packages cannot be fetched, its tests are skipped with a message, and CI fails.
python=()
if found=$(moe_python_env); then
  python=("-DMOE_PYTHON=$found")
elif [ "${CI:-}" = true ]; then
  echo "error: CI needs build/python-env, which could not be made" >&2
  exit 1
else
  echo "warning: build/python-env could not be made, so the Python package is left out; MOE_PYTHON may name a Python with nanobind" >&2
fi

moe_configure "$preset" --preset "$preset" "${headers[@]}" "${python[@]}"
cmake --build "build/$preset" --target all
run_tests "$preset" "$@"
if [ "${CI:-}" = true ] && [ "$preset" = dev ]; then
  # With the compiler this would take too long. `scripts/test.sh asan -L quick` tests both.
  moe_configure asan --preset asan
  cmake --build build/asan --target runtime/all
  run_tests asan -L quick -R '^runtime-'
fi
