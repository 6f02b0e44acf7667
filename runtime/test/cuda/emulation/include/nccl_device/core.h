//===- core.h - the part of NCCL's device API that runtime/lib/cuda uses, emulated ===//
#ifndef MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_CORE_H
#define MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_CORE_H

#include <nccl.h>

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

/// Members whose memory this process maps: all of the communicator.
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer);

#endif // MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_CORE_H
