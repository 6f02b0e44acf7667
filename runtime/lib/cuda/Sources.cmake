# Files that nvcc compiles, or a C++ compiler for the tests.
set(MOERT_CUDA_SOURCES
  Context.cpp
  Copies.cpp
  Cuda.cpp
  CudnnAttention.cu
  Faults.cpp
  Gemm.cpp
  HostCounts.cpp
  KernelsActivation.cu
  KernelsAttention.cu
  KernelsAttentionBias.cu
  KernelsAttentionGrad.cu
  KernelsBias.cu
  KernelsCollective.cu
  KernelsDropout.cu
  KernelsElementwise.cu
  KernelsEmbedding.cu
  KernelsGemm.cpp
  KernelsHeads.cu
  KernelsLoss.cu
  KernelsMerge.cu
  KernelsMove.cu
  KernelsNorm.cu
  KernelsOptimizer.cu
  KernelsPositions.cu
  KernelsRoute.cu
  KernelsRouteGrad.cu
  KernelsRouter.cu
  KernelsShadow.cu
  KernelsToken.cu
  KernelsWindow.cu
  Messages.cpp
  Overlaps.cpp
  PeerExchange.cu
  PieceCopies.cu
  ProductTable.cpp
  Ragged.cu
  RaggedCutlass.cpp
  RaggedGroups.cu
  RaggedProducts.cpp
  RaggedTiles.cu
  RaggedWork.cpp
  Ranks.cu
  RoutingTables.cpp)
list(TRANSFORM MOERT_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# cuDNN's graphs, if cuDNN is available.
set(MOERT_CUDNN_SOURCES CudnnGraph.cpp)
list(TRANSFORM MOERT_CUDNN_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# The backends, which use all of the above.
set(MOERT_CUDA_BACKEND_SOURCES
  CallNames.cpp
  Caller.cpp
  CudaDevice.cpp
  CudaModule.cpp
  Direct.cpp
  Lanes.cpp
  LocalExchange.cpp
  Loopback.cpp
  RankDevice.cpp)
list(TRANSFORM MOERT_CUDA_BACKEND_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# Files that need NCCL.
set(MOERT_NCCL_SOURCES
  Nccl.cpp
  NcclMemory.cpp
  Peers.cu)
list(TRANSFORM MOERT_NCCL_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# NCCL's functions, from the library that is loaded at run time.
set(MOERT_NCCL_LOADER_SOURCES ${CMAKE_CURRENT_LIST_DIR}/NcclLibrary.cpp)
