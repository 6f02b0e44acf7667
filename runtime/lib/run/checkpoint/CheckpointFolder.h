//===- CheckpointFolder.h - the checkpoints of a training, in one folder --===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H

#include "core/View.h"

#include <ostream>
#include <string>
#include <vector>

namespace moert::run {

/// A folder with a folder for each step of which a checkpoint is kept. Its file `latest` names the one to go on from,
/// and is replaced once all of a new one is on the disk: a process that is killed at any moment leaves the one before.
class CheckpointFolder {
public:
  /// Whether --checkpoint=PATH means a folder: PATH ends with '/', or is one.
  static bool isMeant(const std::string &path);

  /// The folder of the checkpoint that `path` means: itself, or the latest of those in it; empty where it means none.
  static Status find(const std::string &path, std::string &checkpoint);

  /// Finds the latest checkpoint, if there is one.
  Status open(const std::string &path);
  /// The folder of the latest checkpoint; empty where there is none.
  const std::string &latest() const { return current; }
  /// The file that names it.
  std::string latestFile() const;
  /// Where the checkpoint of a step goes.
  std::string folderOf(int64_t step) const;
  /// Of what else there is to go on from, in words; empty where there is nothing.
  std::string otherText() const;

  /// Makes the empty folder of a step. What a process that was killed left there is removed.
  Status begin(int64_t step);
  /// Removes what was written there before an error, which would fill the disk.
  void discard(int64_t step) const;
  /// Makes the checkpoint of the step, which is whole, the latest. Then removes those that are not whole, and of the
  /// steps up to this one all but the last `keep`. Says on `log` if something cannot be removed.
  Status commit(int64_t step, int64_t keep, std::ostream &log);

private:
  struct Entry {
    int64_t step;
    std::string path;
    bool isWhole; ///< it has an index, which is written last
  };
  std::vector<Entry> list() const;

  std::string folder, current;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H
