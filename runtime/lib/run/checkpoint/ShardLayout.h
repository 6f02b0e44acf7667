//===- ShardLayout.h - which rank writes what of a sharded checkpoint -----===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDLAYOUT_H
#define MOERT_RUN_CHECKPOINT_SHARDLAYOUT_H

#include "run/checkpoint/ShardIndex.h"
#include "run/checkpoint/Sharding.h"

#include <span>

namespace moert::run {

/// File of one rank.
struct ShardFile {
  /// Bytes of the rank's part of an argument.
  struct Block {
    std::string tensor;
    Region region;
    std::string dtype;
    int64_t argument = 0; ///< index in the rank's program
    int64_t begin = 0;    ///< offset in bytes from the start of the part
    int64_t bytes = 0;
  };

  std::string name; ///< name in the folder of the checkpoint
  int64_t rank = 0;
  std::vector<Block> blocks; ///< blocks ordered by their bytes
};

struct ShardLayout {
  std::vector<ShardFile> files; ///< files, as in the index
  ShardIndex index;
};

/// Whether a checkpoint has the argument.
using KeepValue = std::function<bool(const Value &)>;

/// Lays out files of at most `fileBytes` bytes of data, or one element, for the arguments that `keep` takes. One of the
/// ranks that hold an element writes it, and ranks that hold the same write about as many bytes each. The result
/// depends on the arguments alone, so all processes find the same without communication.
ShardLayout layOutShards(std::span<const Program> programs, const std::vector<Group> &groups, int64_t ranks,
                         int64_t fileBytes, const KeepValue &keep);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDLAYOUT_H
