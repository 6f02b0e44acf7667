//===- ShardedState.h - the ranks' values in a sharded checkpoint ---------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
#define MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H

#include "run/Runner.h"
#include "run/checkpoint/ShardedCheckpoint.h"
#include "run/checkpoint/Sharding.h"

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

/// Whether training needs the value to resume: parameters, and everything that a step changes.
bool isTrainingState(const Value &value);

/// Writes the arguments that `keep` takes to the empty folder `folder`, and brings them to the disk. All processes call
/// it. Each writes the files of its ranks, of at most `fileBytes` bytes, and process 0 writes the index when all files
/// are whole. Nothing is gathered, and a few MB of a value at a time are in memory.
Status writeShards(Runner &runner, const std::string &folder, const KeepValue &keep, int64_t fileBytes,
                   const TrainingPosition &position);

/// Checks that the checkpoint has each of the arguments that `keep` takes, in its type and shape. Reports on `log` what
/// the plan does not use.
Status checkShards(const Runner &runner, const ShardedCheckpoint &checkpoint, const KeepValue &keep, std::ostream &log);

/// Reads the parts of the checked arguments that `keep` takes for the ranks of this process, whatever the layout of the
/// plan that wrote them. A NaN or an infinity is an error unless `allowNan`.
Status readShards(Runner &runner, ShardedCheckpoint &checkpoint, const KeepValue &keep, bool allowNan);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
