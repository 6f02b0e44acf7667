//===- CheckpointFolder.h - the checkpoints of a training, in one folder --===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H

#include "core/View.h"

#include <ostream>
#include <string>
#include <vector>

namespace moert::run {

/// Folder with a folder for each step whose checkpoint is kept. Its file `latest` names the one to resume from, and is
/// replaced once a new one is on the disk. A process that is killed at any moment leaves the one before.
class CheckpointFolder {
public:
  /// Whether --checkpoint=PATH names a folder: PATH is an existing folder, or ends with '/'.
  static bool isMeant(const std::string &path);

  /// Finds the folder of the checkpoint that `path` names: itself, or the latest of those in it; empty if there is
  /// none.
  static Status find(const std::string &path, std::string &checkpoint);

  /// Finds the latest checkpoint, if there is one.
  Status open(const std::string &path);
  /// Folder of the latest checkpoint; empty if there is none.
  const std::string &latest() const { return current; }
  /// File that names the latest checkpoint.
  std::string latestFile() const;
  /// Folder for the checkpoint of a step.
  std::string folderOf(int64_t step) const;
  /// Text about other checkpoints to resume from; empty if there are none.
  std::string otherText() const;

  /// Makes the empty folder of a step. Removes the remains of a process that was killed.
  Status begin(int64_t step);
  /// Removes what was written for the step before an error, which would fill the disk.
  void discard(int64_t step) const;
  /// Makes the whole checkpoint of the step the latest. Then removes those that are not whole, and of the steps up to
  /// this one all but the last `keep`. Reports on `log` if something cannot be removed.
  Status commit(int64_t step, int64_t keep, std::ostream &log);

private:
  struct Entry {
    int64_t step;
    std::string path;
    bool isWhole; ///< whether it has an index, which is written last
  };
  std::vector<Entry> list() const;

  std::string folder, current;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTFOLDER_H
