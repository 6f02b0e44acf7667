//===- Cuda.h - CUDA's runtime with errors and owners ---------------------===//
#ifndef MOERT_CUDA_CUDA_H
#define MOERT_CUDA_CUDA_H

#include "core/View.h"

#include <cuda_runtime.h>
#include <memory>
#include <type_traits>

namespace moert::cuda {

/// An error that says what was done, what CUDA says about it, and what to do where that is known.
Status check(cudaError_t error, const std::string &what);

/// Destroys what `Destroy` destroys; nobody hears of its errors.
template <auto Destroy> struct Destroyer {
  template <class Handle> void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
};
template <class Handle, auto Destroy> using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using DeviceMemory = std::unique_ptr<void, Destroyer<cudaFree>>;
using PinnedMemory = std::unique_ptr<void, Destroyer<cudaFreeHost>>;

/// Bytes of the current device that are to be had, and that it has.
Status askMemory(int64_t &available, int64_t &total);

/// What is enqueued on `stream` from here on comes after what is on `before`.
Status follow(cudaStream_t stream, cudaStream_t before);

/// All are of the current device. Streams do not wait for the default stream.
Status createStream(Stream &stream);
Status createEvent(bool isTimed, Event &event);
/// `bytes` may be 0, `what` is for the message. Does not wait for what streams do, as cudaMalloc does ("Stream-Ordered
/// Memory Allocator", CUDA Programming Guide): one may wait in a transfer for a rank that in turn waits for what this
/// one launches next. A device without memory pools has nothing better.
Status allocateDevice(int64_t bytes, const std::string &what, DeviceMemory &memory);
/// The same by cudaMalloc, for memory that is allocated while no step runs: what is freed is there for others at once.
Status allocateArena(int64_t bytes, const std::string &what, DeviceMemory &memory);
/// Memory of the host that devices can access under the same address.
Status allocatePinned(int64_t bytes, const std::string &what, PinnedMemory &memory);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDA_H
