//===- CheckpointWriter.h - parameters back into a checkpoint's layout ----===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H

#include "run/checkpoint/Checkpoint.h"
#include "run/checkpoint/Replace.h"

#include <functional>

namespace moert::run {

/// Reads `count` elements of the final value of an argument, which begin at element `first` of the whole.
using ReadValue = std::function<Status(const Value &argument, int64_t first, int64_t count, char *elements)>;

struct WriterOptions {
  /// Most bytes of data in a file of a new checkpoint, unless one tensor has more.
  int64_t fileBytes = INT64_MAX;
  /// Number of this process, and of all that write the files of a checkpoint together.
  int64_t process = 0, processes = 1;
};

/// File to write.
struct CheckpointFile {
  std::string path; ///< path, or the name in a folder that is not known yet
  std::string head; ///< bytes before the data
  std::vector<std::pair<std::string, SafetensorsFile::Entry>> tensors; ///< ordered by their bytes
  SafetensorsFile *original = nullptr;                                 ///< file that it takes bytes from, or null
};

/// Lays out a new checkpoint of tensors whose dtype and shape are given. Files have at most `fileBytes` bytes of data,
/// in the order of names; a larger tensor has a file of its own. Names and index are those of transformers. The index
/// stays empty if there is one file.
std::vector<CheckpointFile> layOutCheckpoint(const std::map<std::string, SafetensorsFile::Entry> &tensors,
                                             int64_t fileBytes, std::string &indexText);

/// Writes the checkpoint of `--save-checkpoint`.
class CheckpointWriter {
public:
  /// Checks, before anything is computed, that every parameter has its place in a checkpoint: the loaded one, or a new
  /// one if none was loaded or if it is quantised, which `log` reports. Makes the folder of `path`, which is a file
  /// "*.safetensors" or a folder. Process 0 locks the files in it for the life of the writer.
  Status open(const std::string &path, const std::vector<Value> &arguments, Loads &loads, std::ostream &log,
              const WriterOptions &options = {});

  /// Writes the files of this process beside the old ones. Copies tensors byte for byte if no step changed them, or if
  /// the plan does not use them. One tensor at a time is in memory.
  Status writeFiles(const ReadValue &read);
  /// Names the files in process 0, once all processes have written, the index last. Removes the files of an older
  /// checkpoint, which `log` reports.
  Status giveNames(std::ostream &log);
  /// Writes and names the files in one process.
  Status write(const ReadValue &read, std::ostream &log);

  /// Folder beside the files for data that processes exchange.
  std::string scratchFolder() const { return outputs.at(0).path + ".parts"; }

private:
  struct Use {
    Piece piece;
    const Value *value;
  };
  Status addParameter(const Value &value, const Value &kept, Checkpoint *checkpoint);
  Status leaveQuantised(const std::string &path, const std::vector<Value> &arguments, std::ostream &log);
  Status choosePaths(const std::string &path);
  Status lockFiles(std::ostream &log);
  Status layOutNew(int64_t fileBytes);
  void reportLarge(std::ostream &log) const;
  void layOut(Checkpoint::File &file, const std::string &path);
  Status removeOld(std::ostream &log) const;
  Status writeTensor(const CheckpointFile &output, const std::string &name, const SafetensorsFile::Entry &entry,
                     std::ostream &file, const ReadValue &read);
  Status put(const Use &use, const RowBlock &block, const std::string &dtype, const ReadValue &read,
             std::vector<char> &values) const;

  Checkpoint *loaded = nullptr;
  std::map<std::string, std::vector<Use>> uses; ///< values to put into each tensor
  std::map<std::string, int32_t> dtypes;        ///< types of a new checkpoint, by tensor
  std::vector<CheckpointFile> outputs;
  std::string indexPath, indexText;
  std::string oldFolder; ///< folder that may have an older checkpoint
  WriterOptions options;
  FileLocks locks;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H
