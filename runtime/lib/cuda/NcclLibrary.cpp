//===- NcclLibrary.cpp - NCCL, loaded when several ranks need it ----------===//

#include "cuda/NcclLibrary.h"

#include <dlfcn.h>
#include <string>

namespace moert::cuda {
namespace {

/// Result of dlopen. If a caller such as PyTorch has loaded NCCL, this is its library, because both have one name.
struct Library {
  void *handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  std::string error = handle ? "" : ::dlerror();
};

const Library &library() {
  static const Library library;
  return library;
}

void *find(const char *name) { return library().handle ? ::dlsym(library().handle, name) : nullptr; }

/// A function of NCCL. loadNccl() has checked that it exists.
template <class Function> Function *find(Function &, const char *name) {
  return reinterpret_cast<Function *>(find(name));
}

} // namespace
} // namespace moert::cuda

/// Names, parameters and arguments of the functions that the runtime calls.
#define MOERT_NCCL_FUNCTIONS(RESULT)                                                                                   \
  RESULT(ncclGetVersion, (int *version), (version))                                                                    \
  RESULT(ncclGetUniqueId, (ncclUniqueId * id), (id))                                                                   \
  RESULT(ncclCommInitRankConfig, (ncclComm_t * comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config),       \
         (comm, size, id, rank, config))                                                                               \
  RESULT(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *created, ncclConfig_t *config),              \
         (comm, color, key, created, config))                                                                          \
  RESULT(ncclCommCount, (ncclComm_t comm, int *count), (comm, count))                                                  \
  RESULT(ncclCommUserRank, (ncclComm_t comm, int *rank), (comm, rank))                                                 \
  RESULT(ncclCommDestroy, (ncclComm_t comm), (comm))                                                                   \
  RESULT(ncclCommAbort, (ncclComm_t comm), (comm))                                                                     \
  RESULT(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error), (comm, error))                                \
  RESULT(ncclMemAlloc, (void **data, size_t bytes), (data, bytes))                                                     \
  RESULT(ncclMemFree, (void *data), (data))                                                                            \
  RESULT(ncclCommRegister, (ncclComm_t comm, void *data, size_t bytes, void **handle), (comm, data, bytes, handle))    \
  RESULT(ncclCommDeregister, (ncclComm_t comm, void *handle), (comm, handle))                                          \
  RESULT(ncclGroupStart, (), ())                                                                                       \
  RESULT(ncclGroupEnd, (), ())                                                                                         \
  RESULT(ncclSend,                                                                                                     \
         (const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),        \
         (data, count, type, peer, comm, stream))                                                                      \
  RESULT(ncclRecv, (void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),    \
         (data, count, type, peer, comm, stream))                                                                      \
  RESULT(ncclAllGather,                                                                                                \
         (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream),         \
         (in, out, count, type, comm, stream))                                                                         \
  RESULT(                                                                                                              \
      ncclBroadcast,                                                                                                   \
      (const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream),  \
      (in, out, count, type, root, comm, stream))                                                                      \
  RESULT(ncclReduce,                                                                                                   \
         (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,     \
          cudaStream_t stream),                                                                                        \
         (in, out, count, type, op, root, comm, stream))                                                               \
  RESULT(ncclAllReduce,                                                                                                \
         (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,               \
          cudaStream_t stream),                                                                                        \
         (in, out, count, type, op, comm, stream))                                                                     \
  RESULT(ncclReduceScatter,                                                                                            \
         (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,               \
          cudaStream_t stream),                                                                                        \
         (in, out, count, type, op, comm, stream))

// The functions themselves, which call those of the loaded library. The backend's library exports none of them.
extern "C" {
#define MOERT_DEFINE(name, parameters, arguments)                                                                      \
  ncclResult_t name parameters {                                                                                       \
    static auto *const function = moert::cuda::find(name, #name);                                                      \
    return function arguments;                                                                                         \
  }
MOERT_NCCL_FUNCTIONS(MOERT_DEFINE)
#undef MOERT_DEFINE

const char *ncclGetErrorString(ncclResult_t result) {
  static auto *const function = moert::cuda::find(ncclGetErrorString, "ncclGetErrorString");
  return function(result);
}

const char *ncclGetLastError(ncclComm_t comm) {
  static auto *const function = moert::cuda::find(ncclGetLastError, "ncclGetLastError");
  return function(comm);
}
}

namespace moert::cuda {

#define MOERT_NAME(name, parameters, arguments) #name,
constexpr const char *kNames[] = {MOERT_NCCL_FUNCTIONS(MOERT_NAME) "ncclGetErrorString", "ncclGetLastError"};
#undef MOERT_NAME

Status loadNccl() {
  constexpr const char *kRemedy =
      "; install NCCL 2.19 or newer (for CUDA 13 pip install nvidia-nccl-cu13), or name its folder in LD_LIBRARY_PATH";
  if (!library().handle)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "NCCL, which several ranks need, cannot be loaded: ", library().error,
                         kRemedy);
  for (const char *name : kNames)
    if (!find(name))
      return Status::error(MOERT_ERROR_UNSUPPORTED, "the NCCL of this machine has no ", name, kRemedy);
  return {};
}

const PeerFunctions *findPeerFunctions() {
  static const PeerFunctions functions = {
      reinterpret_cast<decltype(PeerFunctions::windowRegister)>(find("ncclCommWindowRegister")),
      reinterpret_cast<decltype(PeerFunctions::windowDeregister)>(find("ncclCommWindowDeregister")),
      reinterpret_cast<decltype(PeerFunctions::teamLsa)>(find("ncclTeamLsa"))};
  return functions.windowRegister && functions.windowDeregister && functions.teamLsa ? &functions : nullptr;
}

AllToAllFunction *findAllToAll() { return reinterpret_cast<AllToAllFunction *>(find("ncclAlltoAll")); }

} // namespace moert::cuda
