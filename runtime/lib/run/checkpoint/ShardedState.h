//===- ShardedState.h - the ranks' values in a sharded checkpoint ---------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
#define MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H

#include "run/Runner.h"
#include "run/checkpoint/ShardLayout.h"
#include "run/checkpoint/ShardedCheckpoint.h"

namespace moert::run {

/// What training needs to go on: all that a step changes, and the parameters.
bool isTrainingState(const Value &value);

/// Writes the arguments that `keep` takes to `folder`, which is there and empty, and brings them to the disk. All
/// processes call it: each writes the files of its ranks, of at most `fileBytes` bytes, and process 0 the index when
/// all files are whole. Nothing is gathered, and a few MB of a value at a time are in memory.
Status writeShards(Runner &runner, const std::string &folder, const KeepValue &keep, int64_t fileBytes,
                   const TrainingPosition &position);

/// An error unless the checkpoint has each of the arguments that `keep` takes, in its type and shape. Says on `log`
/// what of the checkpoint the plan has no use for.
Status checkShards(const Runner &runner, const ShardedCheckpoint &checkpoint, const KeepValue &keep, std::ostream &log);

/// Gives the ranks of this process their parts of the arguments that `keep` takes, which were checked, whatever the
/// layout of the plan that wrote them.
Status readShards(Runner &runner, ShardedCheckpoint &checkpoint, const KeepValue &keep);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDEDSTATE_H
