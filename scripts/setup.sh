# Installs what building and testing need, on Debian 12; sourced by the other scripts. Does nothing where all is there.

moe_build_packages=(
  ccache cmake g++ git ninja-build python3
  libmlir-19-dev mlir-19-tools llvm-19-dev
  libdnnl-dev libopenblas-pthread-dev nlohmann-json3-dev
)
moe_test_packages=(
  chromium python3-numpy llvm-19-tools clang-format-19
  libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev libbenchmark-dev
)

# moe_install_packages PACKAGE..
moe_install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: going on as if these were installed: $*" >&2
    return 0
  fi
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing ${missing[*]}" >&2
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "error: run as root or install sudo to install ${missing[*]}" >&2; return 1; }
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# moe_fetch_cutlass: CUTLASS's headers to build/cutlass, from its wheel on PyPI, unless they are there; prints their folder.
moe_fetch_cutlass() {
  local folder=build/cutlass version=4.2.0.0
  if [ ! -f "$folder/cutlass_library/source/include/cutlass/cutlass.h" ]; then
    python3 -m pip download --quiet --no-deps --dest "$folder" "nvidia-cutlass==$version" >&2 &&
      python3 -m zipfile -e "$folder/nvidia_cutlass-$version-py3-none-any.whl" "$folder" || return 1
  fi
  echo "$PWD/$folder/cutlass_library/source"
}

# moe_configure NAME OPTION..: configures build/NAME, quietly unless that fails.
moe_configure() {
  local name=$1 log
  shift
  mkdir -p build
  log=build/$name.configure.log
  cmake -B "build/$name" "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}

# moe_build PRESET TARGET..: configures and builds.
moe_build() {
  moe_configure "$1" --preset "$1" && cmake --build "build/$1" --target "${@:2}"
}
