//===- Cuda.h - CUDA's runtime with errors and owners ---------------------===//
#ifndef MOERT_CUDA_CUDA_H
#define MOERT_CUDA_CUDA_H

#include "core/View.h"

#include <cuda_runtime.h>
#include <memory>
#include <type_traits>

namespace moert::cuda {

/// Returns an error with the failed action, CUDA's message, and a remedy if one is known.
Status check(cudaError_t error, const std::string &what);

/// Gives each stream a queue of its own on the device, up to 32, which is CUDA's most. By default streams share 8
/// queues, and work of one stream waits for transfers of another. Takes effect before the process uses CUDA. The user's
/// own setting is kept.
void useAllQueues();

/// Calls `Destroy` and ignores its errors.
template <auto Destroy> struct Destroyer {
  template <class Handle> void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
};
template <class Handle, auto Destroy> using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;

/// Argument for a function that makes a handle. `owner` gets what the function writes.
template <class Owner> class OutHandle {
public:
  explicit OutHandle(Owner &owner) : owner(owner) {}
  ~OutHandle() { owner.reset(handle); }
  operator typename Owner::pointer *() { return &handle; }

private:
  Owner &owner;
  typename Owner::pointer handle = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using DeviceMemory = std::unique_ptr<void, Destroyer<cudaFree>>;
using PinnedMemory = std::unique_ptr<void, Destroyer<cudaFreeHost>>;

/// Bytes of the current device that are available, and its total.
Status askMemory(int64_t &available, int64_t &total);

/// Makes later work on `stream` wait for the work on `before`.
Status follow(cudaStream_t stream, cudaStream_t before);
/// Records an event, and makes it first if there is none.
Status recordEvent(Event &event, cudaStream_t stream);
Status awaitEvent(cudaStream_t stream, const Event &event);
/// Whether the work before the event's record still runs. Leaves no error for a later cudaGetLastError.
bool isPending(const Event &event);

/// Enqueue a copy, unless there are no bytes or both addresses are the same, and zeros. `failure` begins an error's
/// text.
Status copyBytes(cudaStream_t stream, void *to, const void *from, int64_t bytes,
                 const std::string &failure = "cannot copy");
Status clearBytes(cudaStream_t stream, void *to, int64_t bytes, const std::string &failure = "cannot clear memory");

/// Priority of a stream's kernels. Blocks of urgent kernels start before waiting blocks of others.
enum class Priority { Usual, Urgent };

/// Create objects on the current device. Streams do not wait for the default stream.
Status createStream(Stream &stream, Priority priority = Priority::Usual);
Status createEvent(bool isTimed, Event &event);
/// Allocates `bytes`, which may be 0. `what` is for the message. Unlike cudaMalloc, this does not wait for streams
/// ("Stream-Ordered Memory Allocator", CUDA Programming Guide): a stream may wait in a transfer for a rank that in turn
/// waits for this rank's next launch. Devices without memory pools use cudaMalloc. During a capture the memory is not
/// part of the graph and lives on after it.
Status allocateDevice(int64_t bytes, const std::string &what, DeviceMemory &memory);
/// Allocates as allocateDevice does, and fills the memory with zeros.
Status allocateZeros(int64_t bytes, const std::string &what, DeviceMemory &memory);
/// Makes the current device's pool keep freed memory, so that a later allocation need not ask the driver.
Status keepPool();
/// Allocates by cudaMalloc. This is for memory that is allocated while no step runs. Freed memory is available to
/// others at once.
Status allocateArena(int64_t bytes, const std::string &what, DeviceMemory &memory);
/// Allocates memory of the host that devices access under the same address. CUDA may wait for all streams, so this is
/// for memory that is allocated while no step runs.
Status allocatePinned(int64_t bytes, const std::string &what, PinnedMemory &memory);

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDA_H
