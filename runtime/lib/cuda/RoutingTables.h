//===- RoutingTables.h - tables that kernels make of a routing ------------===//
#ifndef MOERT_CUDA_ROUTINGTABLES_H
#define MOERT_CUDA_ROUTINGTABLES_H

#include "core/Call.h"
#include "cuda/Cuda.h"

#include <deque>
#include <mutex>

namespace moert::cuda {

/// Tables on the device that several ops of a layer need, each made once: a rank has one object of this class. A table
/// belongs to the memory of the value that it was made of. It is forgotten when a call writes there, and its own memory
/// is then used again. Calls must come in an order in which each comes after those that it depends on.
class RoutingTables {
public:
  enum class Table {
    Offsets, ///< int64 [E+1] of counts: where each expert's rows start; parameter: the rows of the buffer
    Sources, ///< int32 [R] of slots: the choice that fills a row, or -1; parameter: R
    Loads,   ///< int32 [groups, E] of experts: the choices of each expert; parameter: the groups
    Groups, ///< arrays of counts for grouped kernels (RaggedGroups.h); parameter: the rows of the buffers, or which one
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
    Event event;               ///< after what fills it, or after its last readers
    cudaStream_t on = nullptr; ///< where the event was recorded; null: nothing needs to wait
    bool isUsed = false;
  };

  /// The table, where it is known; `stream` may read it then.
  Status find(cudaStream_t stream, const Key &key, const void *&data);
  /// Memory of at least `bytes` for a table that is enqueued on `stream`.
  Status reserve(cudaStream_t stream, int64_t bytes, Block *&block);
  /// What fills the block is enqueued on `stream`.
  Status publish(cudaStream_t stream, const Key &key, Block *block);

  /// Before a call is enqueued on `stream`: forgets the tables of what it writes.
  Status note(const Call &call, cudaStream_t stream);
  /// Forgets all. What was enqueued before must come before what will be.
  void clear();

private:
  struct Entry {
    Key key;
    Block *block;
  };
  Status retire(Block &block, cudaStream_t stream);

  std::mutex mutex; ///< of what follows
  std::deque<Block> blocks;
  std::vector<Entry> entries;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_ROUTINGTABLES_H
