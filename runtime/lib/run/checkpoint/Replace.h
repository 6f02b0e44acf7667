//===- Replace.h - files that one job at a time replaces ------------------===//
#ifndef MOERT_RUN_CHECKPOINT_REPLACE_H
#define MOERT_RUN_CHECKPOINT_REPLACE_H

#include "core/OutputFile.h"

#include <functional>
#include <vector>

namespace moert::run {

/// The file that `path` names, through symbolic links: what is put in its place leaves the links as they are. An error
/// where links go round in a circle, or where there is something else than a file.
Status targetOf(const std::string &path, std::string &target);

/// What the names of files end with that are to replace others.
const inline std::string kPartial = ".partial";

/// Writes beside `path`, which is no link, and brings that to the disk: `path` + kPartial. Removes it after an error.
Status writePartial(const std::string &path, const std::function<Status(OutputFile &)> &write);
/// Gives what writePartial wrote the name `path`.
Status renamePartial(const std::string &path);

/// Brings what was made, renamed and removed in a folder to the disk.
Status syncFolder(const std::string &path);

/// Keeps other processes from writing the same files as long as it lives. The system frees the locks of a process that
/// is killed; the file `path` + ".lock" that it leaves means nothing.
class FileLocks {
public:
  FileLocks() = default;
  FileLocks(const FileLocks &) = delete;
  FileLocks &operator=(const FileLocks &) = delete;
  ~FileLocks();

  /// Locks `path`, which is no link. An error says who has it. Where the file system has no locks, `log` says so.
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
