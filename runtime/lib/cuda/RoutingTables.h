//===- RoutingTables.h - tables that kernels make of a routing ------------===//
#ifndef MOERT_CUDA_ROUTINGTABLES_H
#define MOERT_CUDA_ROUTINGTABLES_H

#include "core/Call.h"
#include "cuda/Cuda.h"

#include <deque>
#include <mutex>

namespace moert::cuda {

/// Tables on the device that several ops of a layer need. Each is made once, and each rank has one object of this
/// class. A table belongs to the memory of the value from which it was made. It is forgotten when a call writes there,
/// and its own memory is then reused. Calls must come in an order that respects their dependences.
class RoutingTables {
public:
  enum class Table {
    Offsets, ///< int64 [E+1] of counts: first row of each expert. Parameter: the rows of the buffer
    Sources, ///< int32 [R] of slots: the choice that fills a row, or -1. Parameter: R
    Loads,   ///< int32 [groups, E] of experts: the number of choices of each expert. Parameter: the groups
    /// arrays of counts for grouped kernels (RaggedGroups.h). Parameter: the rows of the buffers, or the number of the
    /// array
    Groups,
  };
  struct Key {
    Table table;
    View of;
    int64_t parameter;
  };
  /// Memory of a table.
  struct Block {
    DeviceMemory memory;
    int64_t bytes = 0;
    Event event;               ///< recorded after the kernel that fills it, or after its last readers
    cudaStream_t on = nullptr; ///< stream of the event. Null: no wait is needed
    bool isUsed = false;
  };

  /// Finds the table. If it exists, `stream` may read it.
  Status find(cudaStream_t stream, const Key &key, const void *&data);
  /// Reserves memory of at least `bytes` for a table that is enqueued on `stream`.
  Status reserve(cudaStream_t stream, int64_t bytes, Block *&block);
  /// Publishes the table. The work that fills its block is enqueued on `stream`.
  Status publish(cudaStream_t stream, const Key &key, Block *block);

  /// Forgets the tables of values that a call writes. To be called before the call is enqueued on `stream`.
  Status note(const Call &call, cudaStream_t stream);
  /// Forgets all tables. Work that was enqueued before must come before later work.
  void clear();

private:
  struct Entry {
    Key key;
    Block *block;
  };
  Status retire(Block &block, cudaStream_t stream);

  std::mutex mutex; ///< guards the members below
  std::deque<Block> blocks;
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_ROUTINGTABLES_H
