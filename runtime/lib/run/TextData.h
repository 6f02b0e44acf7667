//===- TextData.h - a text file as batches of a byte-level model *- C++ -*-===//
#ifndef MOERT_RUN_TEXTDATA_H
#define MOERT_RUN_TEXTDATA_H

#include "run/Tensor.h"

namespace moert::run {

/// The bytes of a file, cut into sequences at random places: which ones is a function of seed, step and the sequence's
/// number in the step alone, so that training can be resumed at any step and does not depend on the ranks.
class TextData {
public:
  /// Sequences have `length` tokens. Fails where the file cannot be read or is shorter than a sequence and one byte.
  static Status open(const std::string &path, int64_t length, uint64_t seed, TextData &data);

  /// Fills i32 values of one shape, a multiple of the length: the bytes of the sequences of step `step`, and for each
  /// the one that follows it.
  void fill(int64_t step, Tensor &tokens, Tensor &labels) const;

private:
  std::string bytes;
  int64_t length = 1;
  uint64_t seed = 0;
};

} // namespace moert::run

#endif // MOERT_RUN_TEXTDATA_H
