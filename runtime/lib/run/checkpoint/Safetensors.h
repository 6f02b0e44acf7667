//===- Safetensors.h - reading and writing .safetensors files -------------===//
#ifndef MOERT_RUN_CHECKPOINT_SAFETENSORS_H
#define MOERT_RUN_CHECKPOINT_SAFETENSORS_H

#include "run/Tensor.h"

#include <fstream>

namespace moert::run {

/// An open file whose header has been checked: every tensor lies inside it, and they cover its data without overlap.
class SafetensorsFile {
public:
  struct Entry {
    std::string dtype; ///< as the format names it, "F32"
    std::vector<int64_t> shape;
    int64_t begin = 0; ///< in bytes, from the start of the data
    int64_t end = 0;
  };

  Status open(const std::string &path);
  const std::map<std::string, Entry> &entries() const { return tensors; }
  /// Reads tensor `value.name`, which must have the dtype and global shape of `value`.
  Status read(const Value &value, Tensor &tensor);
  /// Reads `count` bytes from byte `begin` of the data on.
  Status readBytes(int64_t begin, int64_t count, char *bytes);
  /// What comes before the data: the header's length and the header, byte for byte.
  const std::string &head() const { return prefix; }

private:
  Status parseHeader(const std::string &text, int64_t dataBytes);

  std::string path;
  std::ifstream file;
  std::string prefix;
  std::map<std::string, Entry> tensors;
};

/// An error unless a tensor of the checkpoint `name` has the dtype and global shape of `value`.
Status checkType(const std::string &name, const Value &value, const SafetensorsFile::Entry &entry);

/// Bytes of an element, 0 for a dtype that is not known.
int64_t fileDtypeSize(const std::string &dtype);
/// The name of a moert_dtype in files.
const char *fileDtype(int32_t dtype);
/// What comes before the data of a file whose header is the JSON `header`: the data begins at a multiple of 8.
std::string headOf(std::string header);

/// Writes all tensors, in the order of their names.
Status writeSafetensors(const std::string &path, const Tensors &tensors);
/// The same, so that there is the old file or the whole new one at any moment, whatever stops the process or machine.
/// `path` is no link.
Status writeSafetensorsAtomically(const std::string &path, const Tensors &tensors);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SAFETENSORS_H
