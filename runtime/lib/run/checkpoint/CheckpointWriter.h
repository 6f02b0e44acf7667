//===- CheckpointWriter.h - parameters back into a checkpoint's layout ----===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H

#include "run/checkpoint/Checkpoint.h"
#include "run/checkpoint/Replace.h"

#include <functional>

namespace moert::run {

/// Gives `count` elements of the value that an argument has at the end, from element `first` of the whole on.
using ReadValue = std::function<Status(const Value &argument, int64_t first, int64_t count, char *elements)>;

struct WriterOptions {
  /// The most bytes of data in a file of a new checkpoint, unless a tensor alone has more.
  int64_t fileBytes = INT64_MAX;
  /// Of several processes that write the files of a checkpoint together: which one this is, of how many.
  int64_t process = 0, processes = 1;
};

/// Of `--save-checkpoint`.
class CheckpointWriter {
public:
  /// Checks, before anything is computed, that every parameter has its place in a checkpoint: the one that was loaded,
  /// or a new one where none was, or a quantised one, of which `log` is told. Makes the folder of `path`, which is a
  /// file "*.safetensors" or a folder. Process 0 locks the files in it, as long as the writer lives.
  Status open(const std::string &path, const std::vector<Value> &arguments, Loads &loads, std::ostream &log,
              const WriterOptions &options = {});

  /// Writes the files of this process beside what is there. Tensors that no step changed and the plan does not use are
  /// copied byte for byte. A tensor at a time is in memory.
  Status writeFiles(const ReadValue &read);
  /// In process 0, once all have written: gives the files their names, the index last, and removes those of a
  /// checkpoint that was there before, of which `log` is told.
  Status giveNames(std::ostream &log);
  /// Both, in one process.
  Status write(const ReadValue &read, std::ostream &log);

  /// A place beside the files for what processes tell each other.
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
  Status writeFile(const CheckpointFile &output, const ReadValue &read);
  Status renameAll() const;
  Status removeOld(std::ostream &log) const;
  Status writeTensor(const CheckpointFile &output, const std::string &name, const SafetensorsFile::Entry &entry,
                     std::ostream &file, const ReadValue &read);
  Status put(const Use &use, const RowBlock &block, const std::string &dtype, const ReadValue &read,
             std::vector<char> &values) const;

  Checkpoint *loaded = nullptr;
  std::map<std::string, std::vector<Use>> uses; ///< by tensor: what is put into it
  std::map<std::string, int32_t> dtypes;        ///< of a new checkpoint, by tensor
  std::vector<CheckpointFile> outputs;
  std::string indexPath, indexText;
  std::string oldFolder; ///< where there may be a checkpoint from before
  WriterOptions options;
  FileLocks locks;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTWRITER_H
