//===- Workspace.h - memory between the kernels of one call ---------------===//
#ifndef MOERT_CUDA_WORKSPACE_H
#define MOERT_CUDA_WORKSPACE_H

#include "cuda/Cuda.h"

#include <algorithm>
#include <array>
#include <vector>

namespace moert::cuda {

/// Memory of one stream, which its calls use one after the other. It only grows. Smaller blocks are kept, because
/// enqueued work may still use them. Each block is twice as large as the one before, which bounds their sum.
template <class Memory, Status (*Allocate)(int64_t, const std::string &, Memory &)> class GrowingMemory {
public:
  /// Reserves `bytes` bytes until the next call, aligned to 256.
  Status reserve(int64_t bytes, void *&data) {
    if (bytes > newest) {
      const int64_t size = std::max({bytes, 2 * newest, int64_t(64) << 10});
      Memory memory;
      MOERT_RETURN_IF_ERROR(Allocate(size, "the workspace of a stream", memory));
      blocks.push_back(std::move(memory));
      newest = size;
    }
    data = blocks.empty() ? nullptr : blocks.back().get();
    return {};
  }
  template <class T> Status reserve(int64_t count, T *&data) {
    void *memory = nullptr;
    MOERT_RETURN_IF_ERROR(reserve(count * static_cast<int64_t>(sizeof(T)), memory));
    data = static_cast<T *>(memory);
    return {};
  }

private:
  std::vector<Memory> blocks;
  int64_t newest = 0;
};

/// Hands out consecutive pieces of memory, each aligned to 16 bytes.
class Regions {
public:
  explicit Regions(void *memory) : begin(static_cast<char *>(memory)) {}

  template <class T> T *take(int64_t count) {
    char *piece = begin ? begin + used : nullptr;
    used += (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
    return reinterpret_cast<T *>(piece);
  }
  int64_t bytes() const { return used; }

private:
  char *begin;
  int64_t used = 0;
};

using Workspace = GrowingMemory<DeviceMemory, allocateDevice>;
/// Staging memory of the host. The host waits for the stream before it writes there again. The stream's own accesses,
/// including its functions on the host, come one after the other.
using Staging = GrowingMemory<PinnedMemory, allocatePinned>;

/// Pinned memory from which a stream copies. The host fills it again while earlier copies may be under way.
class Tables {
public:
  /// Reserves `count` values that no copy reads any more.
  template <class T> Status reserve(int64_t count, T *&data) {
    Table &table = tables[next];
    if (table.copied)
      MOERT_RETURN_IF_ERROR(check(cudaEventSynchronize(table.copied.get()), "a copy of operands failed"));
    return table.memory.reserve(count, data);
  }
  /// Reserves the first memory of all tables before anything runs, because allocating pinned memory waits.
  Status reserveAll() {
    void *data = nullptr;
    for (Table &table : tables)
      MOERT_RETURN_IF_ERROR(table.memory.reserve(1, data));
    return {};
  }
  /// Notes that the copy of the last reserved memory is enqueued.
  Status noteCopied(cudaStream_t stream) {
    Table &table = tables[next];
    next = (next + 1) % tables.size();
    return recordEvent(table.copied, stream);
  }

private:
  struct Table {
    Staging memory;
    Event copied;
  };
  std::array<Table, 16> tables; ///< one for each copy that may wait for the device
  size_t next = 0;
};

/// Reserves memory for all pieces that `take` takes of its argument. `take` is called twice, first to add up the sizes.
template <class Take> Status reservePieces(Workspace &workspace, Take take) {
  Regions sizes(nullptr);
  take(sizes);
  void *memory = nullptr;
  MOERT_RETURN_IF_ERROR(workspace.reserve(sizes.bytes(), memory));
  Regions pieces(memory);
  take(pieces);
  return {};
}

} // namespace moert::cuda

#endif // MOERT_CUDA_WORKSPACE_H
