//===- Replace.h - files that one job at a time replaces ------------------===//
#ifndef MOERT_RUN_CHECKPOINT_REPLACE_H
#define MOERT_RUN_CHECKPOINT_REPLACE_H

#include "core/OutputFile.h"

#include <functional>
#include <vector>

namespace moert::run {

/// Finds the file that `path` names through symbolic links, so that replacing it leaves the links as they are. Fails if
/// links form a circle, or if the target is not a file.
Status targetOf(const std::string &path, std::string &target);

/// End of the names of files that will replace others.
const inline std::string kPartial = ".partial";

/// Writes the file `path` + kPartial beside `path`, which is no link, and flushes it to the disk. Removes it after an
/// error.
Status writePartial(const std::string &path, const std::function<Status(OutputFile &)> &write);
/// Renames the file of writePartial to `path`.
Status renamePartial(const std::string &path);

/// Flushes changes of a folder's entries to the disk.
Status syncFolder(const std::string &path);

/// Keeps other processes from writing the same files for its lifetime. The system frees the locks of a process that is
/// killed. The file `path` + ".lock" that such a process leaves means nothing.
class FileLocks {
public:
  FileLocks() = default;
  FileLocks(const FileLocks &) = delete;
  FileLocks &operator=(const FileLocks &) = delete;
  ~FileLocks();

  /// Locks `path`, which is no link. An error names the holder of the lock. If the file system has no locks, `log`
  /// reports it.
  Status take(const std::string &path, std::ostream &log);

private:
  struct Lock {
    int file;
    std::string path;
  };

  std::vector<Lock> locks;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_REPLACE_H
