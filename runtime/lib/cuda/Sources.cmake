# What nvcc compiles, or a C++ compiler for the tests.
set(MOERT_CUDA_SOURCES
  Context.cpp
  Cuda.cpp
  Faults.cpp
  Gemm.cpp
  KernelsActivation.cu
  KernelsBias.cu
  KernelsElementwise.cu
  KernelsGemm.cpp
  KernelsMissing.cpp
  KernelsMove.cu
  KernelsOptimizer.cu
  KernelsToken.cu
  Ragged.cu)
list(TRANSFORM MOERT_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
