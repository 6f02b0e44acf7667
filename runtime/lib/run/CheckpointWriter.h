//===- CheckpointWriter.h - parameters back into a checkpoint's layout ----===//
#ifndef MOERT_RUN_CHECKPOINTWRITER_H
#define MOERT_RUN_CHECKPOINTWRITER_H

#include "run/Checkpoint.h"
#include "run/Replace.h"

#include <functional>

namespace moert::run {

/// The value that an argument has at the end.
using ReadValue = std::function<Status(const Value &argument, const Tensor *&value)>;

/// Of `--save-checkpoint`.
class CheckpointWriter {
public:
  /// Checks, before anything is computed, that every parameter has its place in a checkpoint: the one that was loaded,
  /// or a new one where none was, or a quantised one, of which `log` is told. Makes the folder of `path`, which is a
  /// file "*.safetensors" or a folder, and locks the files in it, as long as the writer lives.
  Status open(const std::string &path, const std::vector<Value> &arguments, Loads &loads, std::ostream &log);

  /// Writes all files beside what is there, and then gives them their names, the index last. Tensors that no step
  /// changed and the plan does not use are copied byte for byte.
  Status write(const ReadValue &read);

private:
  struct Use {
    Piece piece;
    const Value *value;
  };
  /// A file of the checkpoint to write.
  struct Output {
    std::string path, head;
    std::vector<std::pair<std::string, SafetensorsFile::Entry>> tensors; ///< in the order of their bytes
    SafetensorsFile *original = nullptr;
  };

  Status addParameter(const Value &value, const Value &kept, Checkpoint *checkpoint);
  Status leaveQuantised(const std::string &path, const std::vector<Value> &arguments, std::ostream &log);
  Status choosePaths(const std::string &path);
  Status lockFiles(std::ostream &log);
  Status layOutNew();
  void layOut(Checkpoint::File &file, const std::string &path);
  Status writeFile(const Output &output, const ReadValue &read);
  Status writeTensor(const Output &output, const std::string &name, const SafetensorsFile::Entry &entry,
                     std::ostream &file, const ReadValue &read);

  Checkpoint *loaded = nullptr;
  std::map<std::string, std::vector<Use>> uses; ///< by tensor: what is put into it
  std::map<std::string, int32_t> dtypes;        ///< of a new checkpoint, by tensor
  std::vector<Output> outputs;
  std::string indexPath;
  FileLocks locks;
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINTWRITER_H
