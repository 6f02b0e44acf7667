//===- Safetensors.h - reading and writing .safetensors files -------------===//
#ifndef MOERT_RUN_CHECKPOINT_SAFETENSORS_H
#define MOERT_RUN_CHECKPOINT_SAFETENSORS_H

#include "run/Tensor.h"

#include <fstream>

namespace moert::run {

/// Open file with a checked header: every tensor lies inside it, and they cover its data without overlap.
class SafetensorsFile {
public:
  struct Entry {
    std::string dtype; ///< name in the format, "F32"
    std::vector<int64_t> shape;
    int64_t begin = 0; ///< offset in bytes from the start of the data
    int64_t end = 0;
  };

  Status open(const std::string &path);
  const std::map<std::string, Entry> &entries() const { return tensors; }
  /// Reads tensor `value.name`, which must have the dtype and global shape of `value`.
  Status read(const Value &value, Tensor &tensor);
  /// Reads `count` bytes of the data, which begin at byte `begin`.
  Status readBytes(int64_t begin, int64_t count, char *bytes);
  /// Bytes before the data: the header's length and the header.
  const std::string &head() const { return prefix; }

private:
  Status parseHeader(const std::string &text, int64_t dataBytes);

  std::string path;
  std::ifstream file;
  std::string prefix;
  std::map<std::string, Entry> tensors;
};

/// Checks that a tensor of the checkpoint `name` has the dtype and global shape of `value`.
Status checkType(const std::string &name, const Value &value, const SafetensorsFile::Entry &entry);

/// Bytes of an element; 0 for an unknown dtype.
int64_t fileDtypeSize(const std::string &dtype);
/// Name of a moert_dtype in files.
const char *fileDtype(int32_t dtype);
/// Bytes before the data of a file whose header is the JSON `header`: the data begins at a multiple of 8.
std::string headOf(std::string header);

/// Writes all tensors in the order of their names.
Status writeSafetensors(const std::string &path, const Tensors &tensors);
/// The same, so that the old file or the whole new one exists at any moment, even if the process or the machine stops.
/// `path` is no link.
Status writeSafetensorsAtomically(const std::string &path, const Tensors &tensors);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SAFETENSORS_H
