#!/usr/bin/env bash
# Builds everything and runs every test through ctest. With CI=true, unit tests of the runtime run under ASan and UBSan.
# Usage: scripts/test.sh [preset [ctest option..]] (dev unless given; release, asan, tsan), e.g. scripts/test.sh asan -L quick
#        scripts/test.sh lint|compiler|runtime|python    one part of the tests of CI, each of which builds what it needs
#        scripts/test.sh warnings                        builds with every other preset, where a warning is an error
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

what=${1:-dev}
shift $(($# > 0))
case $what in
dev | release | asan | tsan) preset=$what ;;
lint | compiler | runtime | python | warnings) preset=dev ;;
*)
  echo "error: expected a preset (dev, release, asan or tsan) or a part (lint, compiler, runtime, python or warnings), but got '$what'" >&2
  echo "usage: scripts/test.sh [preset|part [ctest option..]]" >&2
  exit 2
  ;;
esac
moe_install_packages "${moe_build_packages[@]}" "${moe_test_packages[@]}"

# A cache that nobody keeps only costs time.
if [ "${CI:-}" = true ] && [ -z "${CCACHE_DIR:-}" ]; then
  export CCACHE_DISABLE=1
fi

# run_tests NAME [ctest option..]: without options all tests but the twins (test/CMakeLists.txt).
torch=
run_tests() {
  [ -z "$torch" ] || wait "$torch" || { echo "error: CI needs PyTorch, which could not be installed" >&2; exit 1; }
  torch=
  local options=("${@:2}")
  [ ${#options[@]} -gt 0 ] || options=(-LE twin)
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$(nproc)" "${options[@]}"
}

# build NAME TARGET: with CI=true a warning is an error, after everything is built.
build() {
  cmake --build "build/$1" --target "$2" 2>&1 | tee "build/$1.log"
  if [ "${CI:-}" = true ] && grep -q 'warning[: ]' "build/$1.log"; then
    echo "error: the build prints warnings:" >&2
    grep 'warning[: ]' "build/$1.log" | sort -u >&2
    return 1
  fi
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
  # PyTorch arrives during the build.
  if [ "${CI:-}" = true ] && [ -z "${MOE_PYTHON:-}" ] && [[ $what == dev || $what == python ]]; then
    moe_install_torch "$found" &
    torch=$!
  fi
elif [ "${CI:-}" = true ]; then
  echo "error: CI needs build/python-env, which could not be made" >&2
  exit 1
else
  echo "warning: build/python-env could not be made, so the Python package is left out; MOE_PYTHON may name a Python with nanobind" >&2
fi

# The compiler under sanitizers would take too long: `scripts/test.sh asan -L quick` tests both. Profiles that
# runtime-cuda-calibrate writes are inputs of other tests.
unit_tests='^runtime-(core|kernels|net|shadows|calibrate|run|mpi|cuda-(emulation|kernels|kernels-device|caller))[/_]'
test_runtime_under_asan() {
  moe_configure asan --preset asan
  build asan runtime/all
  run_tests asan -L quick -R '^runtime-'
}

if [ "$what" = warnings ]; then
  for preset in demo release asan tsan; do
    moe_configure "$preset" --preset "$preset" "${python[@]}"
    CI=true build "$preset" all
  done
  exit
fi
# CI runs the program of wheels, which also starts faster.
ci=()
[ "${CI:-}" != true ] || [ "$preset" != dev ] || ci=(-DMOERT_UNIT_TESTS=OFF -DMOE_STANDALONE=ON)
moe_configure "$preset" --preset "$preset" "${headers[@]}" "${python[@]}" "${ci[@]}"
case $what in
lint)
  run_tests dev -L lint "$@"
  ;;
compiler)
  build dev all
  run_tests dev -LE 'lint|python|twin' -E '^runtime-' "$@"
  ;;
runtime)
  build dev runtime/all
  run_tests dev -R '^runtime-' -E "$unit_tests" "$@"
  test_runtime_under_asan
  ;;
python)
  build dev all
  run_tests dev -L python "$@"
  ;;
*)
  build "$preset" all
  if [ "${CI:-}" = true ] && [ "$preset" = dev ]; then
    run_tests dev -LE twin -E "$unit_tests" "$@"
    test_runtime_under_asan
  else
    run_tests "$preset" "$@"
  fi
  ;;
esac
