//===- NcclLibrary.h - NCCL, loaded when several ranks need it ------------===//
//
// The backend's library is not linked with NCCL, so that plans of one rank run where it is not installed.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_NCCLLIBRARY_H
#define MOERT_CUDA_NCCLLIBRARY_H

#include "core/View.h"

#include <nccl.h>
#include <nccl_device/core.h>

namespace moert::cuda {

/// Loads libnccl.so.2, or finds the one that the process has loaded, and all of its functions that the runtime calls.
/// No function of NCCL may be called before. The error says what is missing.
Status loadNccl();

/// ncclAlltoAll of the loaded library. Null before NCCL 2.28.
using AllToAllFunction = ncclResult_t(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                                      cudaStream_t stream);
AllToAllFunction *findAllToAll();

/// Functions for memory of other devices. Null before NCCL 2.28.
struct PeerFunctions {
  ncclResult_t (*windowRegister)(ncclComm_t comm, void *data, size_t bytes, ncclWindow_t *window, int flags);
  ncclResult_t (*windowDeregister)(ncclComm_t comm, ncclWindow_t window);
  ncclTeam_t (*teamLsa)(ncclComm_t comm);
};
const PeerFunctions *findPeerFunctions();

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCLLIBRARY_H
