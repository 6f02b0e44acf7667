# Installs packages for building and testing on Debian 12, if they are missing. The other scripts source this file.

moe_build_packages=(
  cmake g++ git ninja-build python3
  libmlir-19-dev mlir-19-tools llvm-19-dev liblld-19-dev
  libcli11-dev libdnnl-dev libopenblas-pthread-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler
)
moe_test_packages=(
  ccache chromium python3-numpy python3-dev python3-protobuf python3-venv llvm-19-tools clang-format-19
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

# moe_fetch_headers NAME VERSION FOLDER: fetches headers from a wheel of PyPI to build/NAME, unless they exist. Prints
# FOLDER in it.
moe_fetch_headers() {
  local folder=build/$1
  if [ ! -d "$folder/$3/include" ]; then
    rm -rf "$folder"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder" "$1==$2" >&2 &&
      python3 -m zipfile -e "$folder"/*.whl "$folder" || return 1
  fi
  echo "$PWD/$folder/$3"
}

# moe_gpu_headers: prints options for CMake with the folders of CUTLASS and cudnn-frontend, if they can be fetched.
moe_gpu_headers() {
  local root
  if root=$(moe_fetch_headers nvidia-cutlass 4.2.0.0 cutlass_library/source); then
    echo "-DMOERT_CUTLASS_ROOT=$root"
  else
    echo "warning: CUTLASS could not be fetched, so its kernels are left out" >&2
  fi
  if root=$(moe_fetch_headers nvidia-cudnn-frontend 1.32.0 .); then
    echo "-DMOERT_CUDNN_FRONTEND_ROOT=$root"
  else
    echo "warning: cudnn-frontend could not be fetched, so attention by cuDNN is left out" >&2
  fi
}

# moe_cuda_from_pypi: prints the folder of a CUDA with nvcc, made of NVIDIA's packages in the virtual environment build/cuda13-env.
moe_cuda_from_pypi() {
  local env=build/cuda13-env packages=(nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-nvtx)
  [ -x "$env/bin/python" ] || python3 -m venv "$env" >&2 || return 1
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]/%/==13.0.*}" "nvidia-cublas==13.1.*" \
    "nvidia-nccl-cu13==2.28.*" "nvidia-cudnn-cu13==9.19.*" >&2 || return 1
  echo "$PWD"/$env/lib/python3*/site-packages/nvidia/cu13
}

# moe_python_env: prints the Python for which the package moeplan is built: MOE_PYTHON if it is set, otherwise that of
# the virtual environment build/python-env, which this function makes.
moe_python_env() {
  if [ -n "${MOE_PYTHON:-}" ]; then
    echo "$MOE_PYTHON"
    return 0
  fi
  local env=build/python-env packages=(nanobind numpy mypy) python=python3
  [ ! -x /usr/bin/python3 ] || python=/usr/bin/python3
  [ -x "$env/bin/python" ] || "$python" -m venv "$env" >&2 || return 1
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2 || return 1
  echo "$PWD/$env/bin/python"
}

# moe_install_torch PYTHON: installs PyTorch, which takes minutes and 6 GB. Most of its modules are never imported.
moe_install_torch() {
  "$1" -m pip install --quiet --no-compile --disable-pip-version-check torch==2.15.0 transformers==5.24.0 safetensors >&2
}

# moe_configure NAME OPTION..: configures build/NAME, quietly unless that fails.
moe_configure() {
  local name=$1 log
  shift
  mkdir -p build
  log=build/$name.configure.log
  cmake -B "build/$name" "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}
