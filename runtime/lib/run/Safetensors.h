//===- Safetensors.h - reading and writing .safetensors files -------------===//
#ifndef MOERT_RUN_SAFETENSORS_H
#define MOERT_RUN_SAFETENSORS_H

#include "run/Tensor.h"

#include <fstream>

namespace moert::run {

/// An open file whose header has been checked: every tensor lies inside it, and they cover its data without overlap.
class SafetensorsFile {
public:
  struct Entry {
    std::string dtype; ///< "F32", "F64", "I32", "BF16" or "F16"
    std::vector<int64_t> shape;
    int64_t begin = 0; ///< in bytes, from the start of the data
    int64_t end = 0;
  };

  Status open(const std::string &path);
  const std::map<std::string, Entry> &entries() const { return tensors; }
  /// Reads tensor `value.name`, which must have the dtype and global shape of `value`.
  Status read(const Value &value, Tensor &tensor);

private:
  Status parseHeader(const std::string &text, int64_t dataBytes);

  std::string path;
  std::ifstream file;
  int64_t dataStart = 0;
  std::map<std::string, Entry> tensors;
};

/// Writes all tensors, in the order of their names.
Status writeSafetensors(const std::string &path, const Tensors &tensors);

} // namespace moert::run

#endif // MOERT_RUN_SAFETENSORS_H
