//===- NcclLibrary.cpp - the emulation as the loaded NCCL -----------------===//
//
// CUDA_EMULATION_NCCL=none stands for a machine without NCCL, and another value for its version, such as 22700.
//
//===----------------------------------------------------------------------===//

#include "cuda/NcclLibrary.h"

#include <cstdlib>
#include <string>

namespace moert::cuda {

Status loadNccl() {
  const char *given = std::getenv("CUDA_EMULATION_NCCL");
  return given && std::string(given) == "none"
             ? Status::error(MOERT_ERROR_UNSUPPORTED, "NCCL, which several ranks need, cannot be loaded")
             : Status();
}

static bool isOlderThan228() {
  const char *given = std::getenv("CUDA_EMULATION_NCCL");
  return given && std::atoi(given) < NCCL_VERSION(2, 28, 0);
}

AllToAllFunction *findAllToAll() { return isOlderThan228() ? nullptr : ncclAlltoAll; }

const PeerFunctions *findPeerFunctions() {
  static const PeerFunctions functions{ncclCommWindowRegister, ncclCommWindowDeregister, ncclTeamLsa};
  return isOlderThan228() ? nullptr : &functions;
}

} // namespace moert::cuda
