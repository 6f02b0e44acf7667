# What nvcc compiles, or a C++ compiler for the tests.
set(MOERT_CUDA_SOURCES
  Context.cpp
  Cuda.cpp
  Faults.cpp
  Gemm.cpp
  KernelsActivation.cu
  KernelsBias.cu
  KernelsCollective.cu
  KernelsElementwise.cu
  KernelsEmbedding.cu
  KernelsGemm.cpp
  KernelsLoss.cu
  KernelsMissing.cpp
  KernelsMove.cu
  KernelsNorm.cu
  KernelsOptimizer.cu
  KernelsRoute.cu
  KernelsRouteGrad.cu
  KernelsShadow.cu
  KernelsToken.cu
  Ragged.cu
  Ranks.cu)
# The backends, on top of these.
set(MOERT_CUDA_BACKEND_SOURCES
  CudaDevice.cpp
  CudaModule.cpp
  Direct.cpp
  Lanes.cpp
  LocalExchange.cpp
  Loopback.cpp)
list(TRANSFORM MOERT_CUDA_BACKEND_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM MOERT_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
