//===- ShardedState.h - the ranks' values in a sharded checkpoint ---------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
#define MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H

#include "run/Runner.h"
#include "run/checkpoint/ShardLayout.h"
#include "run/checkpoint/ShardedCheckpoint.h"

namespace moert::run {

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
/// plan that wrote them.
Status readShards(Runner &runner, ShardedCheckpoint &checkpoint, const KeepValue &keep);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
