# Finds CUDA's compiler and libraries, in an ordinary toolkit or in NVIDIA's Python wheels, whose libraries have no
# plain names (lib/libcublasLt.so.13). Sets MOERT_HAS_CUDA, and then the targets moert-cudart, moert-cublas and
# moert-cublasLt.
set(MOERT_CUDA_ROOT "" CACHE PATH "Where CUDA is: a toolkit, or the folder of its wheels, site-packages/nvidia/cu13")
option(MOERT_CUDA "Build CUDA's backend where a compiler for it is found" ON)
option(MOERT_CUDA_CHECK "Compile CUDA code fast, to check it: with few optimisations, and the syntax of one unused kernel of CUTLASS" OFF)
set(MOERT_HAS_CUDA FALSE)

if(NOT MOERT_CUDA)
  message(STATUS "CUDA: left out, as MOERT_CUDA is OFF")
  return()
endif()
if(MOE_SANITIZE)
  message(STATUS "CUDA: left out, as nvcc has no sanitizers; its kernels are tested on the CPU")
  return()
endif()
if(MOERT_CUDA_ROOT AND NOT CMAKE_CUDA_COMPILER)
  find_program(MOERT_NVCC nvcc PATHS ${MOERT_CUDA_ROOT}/bin NO_DEFAULT_PATH REQUIRED)
  set(CMAKE_CUDA_COMPILER ${MOERT_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(MOERT_CUDA_DEFAULTS TRUE)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
# nvcc looks in lib64, which wheels lack, and CMake's test of the compiler links a program.
if(EXISTS ${MOERT_CUDA_ROOT}/lib/libcudart_static.a)
  string(APPEND CMAKE_CUDA_FLAGS " -L${MOERT_CUDA_ROOT}/lib")
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  if(MOERT_CUDA_DEFAULTS AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 100-real)
  endif()
  # CMake 3.25 does not know nvcc's option for C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA: no compiler found, so its backend is left out; -DMOERT_CUDA_ROOT=FOLDER says where one is")
  return()
endif()

get_filename_component(MOERT_CUDA_BIN ${CMAKE_CUDA_COMPILER} REALPATH)
get_filename_component(MOERT_CUDA_BIN ${MOERT_CUDA_BIN} DIRECTORY)
get_filename_component(MOERT_CUDA_FOUND ${MOERT_CUDA_BIN} DIRECTORY)
find_path(MOERT_CUDA_INCLUDE cuda_runtime.h HINTS ${MOERT_CUDA_FOUND}/include ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
  REQUIRED)

# With these headers, calls have names in NVIDIA's tools. They are in a toolkit, or in a wheel of their own beside
# CUDA's.
find_path(MOERT_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${MOERT_CUDA_INCLUDE} ${MOERT_CUDA_FOUND}/../nvtx/include)

# Headers of CUTLASS, from its source tree or its wheel, site-packages/cutlass_library/source.
set(MOERT_CUTLASS_ROOT "" CACHE PATH "Where CUTLASS is: the folder that has include/cutlass")
find_path(MOERT_CUTLASS_INCLUDE cutlass/gemm/group_array_problem_shape.hpp HINTS ${MOERT_CUTLASS_ROOT}/include)
if(MOERT_CUTLASS_INCLUDE)
  message(STATUS "CUTLASS: ${MOERT_CUTLASS_INCLUDE}")
else()
  message(STATUS "CUTLASS: not found, so products of experts use own tiles; -DMOERT_CUTLASS_ROOT=FOLDER says where it is")
endif()

# Headers of cuDNN, which itself is loaded when it is needed. Those of cudnn-frontend are in its source tree, its wheel
# or Debian's libcudnn-frontend-dev. Those of cuDNN are in a toolkit, or in a wheel of its own beside CUDA's.
set(MOERT_CUDNN_FRONTEND_ROOT "" CACHE PATH "Where cudnn-frontend is: the folder that has include/cudnn_frontend.h")
find_path(MOERT_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${MOERT_CUDNN_FRONTEND_ROOT}/include)
find_path(MOERT_CUDNN_INCLUDE cudnn_graph.h HINTS ${MOERT_CUDA_INCLUDE} ${MOERT_CUDA_FOUND}/../cudnn/include)
if(MOERT_CUDNN_FRONTEND_INCLUDE AND MOERT_CUDNN_INCLUDE)
  message(STATUS "cuDNN: ${MOERT_CUDNN_INCLUDE}, by ${MOERT_CUDNN_FRONTEND_INCLUDE}")
else()
  message(STATUS "cuDNN: not found, so attention uses own kernels; -DMOERT_CUDNN_FRONTEND_ROOT=FOLDER says where cudnn-frontend is")
endif()

# moert_cuda_library(NAME FILE...): the target moert-NAME, for the first of the files that exists.
function(moert_cuda_library name)
  find_library(MOERT_CUDA_${name} NAMES ${ARGN} REQUIRED
    HINTS ${MOERT_CUDA_FOUND} PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib lib/x64)
  add_library(moert-${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(moert-${name} PROPERTIES
    IMPORTED_LOCATION ${MOERT_CUDA_${name}} INTERFACE_INCLUDE_DIRECTORIES ${MOERT_CUDA_INCLUDE})
endfunction()
moert_cuda_library(cudart libcudart_static.a)
target_link_libraries(moert-cudart INTERFACE Threads::Threads ${CMAKE_DL_LIBS} rt)
foreach(name cublas cublasLt)
  moert_cuda_library(${name} lib${name}.so.13 lib${name}.so.12 ${name})
endforeach()
set(MOERT_HAS_CUDA TRUE)
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} in ${MOERT_CUDA_FOUND}")
