//===- Exported.cpp - the emulation for callers in other languages --------===//
//
// The library of the emulated backends exports these functions, so that a test in Python can share streams and
// communicators with the runtime, as PyTorch does. Pointers are null and numbers are not 0 after an error.
//
//===----------------------------------------------------------------------===//

#include "Emulation.h"

#include <cuda_runtime.h>
#include <nccl.h>

extern "C" {

cudaStream_t emulation_make_stream() {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess ? stream : nullptr;
}

int emulation_set_device(int device) { return cudaSetDevice(device); }
int emulation_get_device() {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

/// Waits until all work on a stream has ended.
int emulation_synchronize(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
/// Returns 1 if work on the stream has not ended.
int emulation_is_busy(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }
/// Memory in the order of a stream.
void *emulation_allocate(size_t bytes, cudaStream_t stream) {
  void *data = nullptr;
  return cudaMallocAsync(&data, bytes, stream) == cudaSuccess ? data : nullptr;
}
int emulation_free(void *data, cudaStream_t stream) { return cudaFreeAsync(data, stream); }

int emulation_make_id(ncclUniqueId *id) { return ncclGetUniqueId(id); }
ncclComm_t emulation_make_communicator(int size, const ncclUniqueId *id, int rank) {
  ncclComm_t comm = nullptr;
  return ncclCommInitRank(&comm, size, *id, rank) == ncclSuccess ? comm : nullptr;
}
/// Makes NCCL find an error in the background.
void emulation_fail_communicator(ncclComm_t comm) { moert::emulation::failCommunicator(comm); }
int emulation_abort_communicator(ncclComm_t comm) { return ncclCommAbort(comm); }
int emulation_destroy_communicator(ncclComm_t comm) { return ncclCommDestroy(comm); }

} // extern "C"
