//===- Sharding.h - from global values to the ranks' parts and back -------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDING_H
#define MOERT_RUN_CHECKPOINT_SHARDING_H

#include "run/Tensor.h"
#include "run/checkpoint/Region.h"

#include <functional>

namespace moert::run {

/// Where `rank` has its part of a value: bytes from the start of its part of the argument or result, and how many. Of a
/// piece of a bucket that is divided a rank may have a part, or nothing.
struct PartBytes {
  int64_t begin, count;
};
PartBytes partOf(const Value &value, const std::vector<Group> &groups, int64_t rank);

/// Copies `rank`'s part of `global` into `local`, which holds partOf().count bytes.
void cutPart(const Tensor &global, const Value &value, const std::vector<Group> &groups, int64_t rank, char *local);

/// Elements of a tensor that a rank holds: they lie one after another from element `at` of its part of a value on.
struct PartBlock {
  std::string tensor;
  std::vector<int64_t> shape; ///< of the tensor
  Region region;
  int64_t at = 0;
};

/// What `rank`'s part of `value` consists of, in the order of its elements: all of them, or of a bucket those of its
/// pieces.
std::vector<PartBlock> blocksOfPart(const Value &value, const std::vector<Group> &groups, int64_t rank);

/// Puts the parts of a value together again.
class Assembler {
public:
  Assembler(const Value &value, const std::vector<Group> &groups, Tensor &global);

  /// Takes `rank`'s part. The first of several replicas is kept, the others are compared with it.
  void add(int64_t rank, const char *local);
  /// The largest norm of a replica's difference to the first one.
  double disagreement() const;
  /// Whether every part was given.
  bool complete() const;

private:
  const Value &value;
  const std::vector<Group> &groups;
  Tensor &global;
  std::vector<bool> seen; ///< by part
  double largest = 0;     ///< squared
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDING_H
