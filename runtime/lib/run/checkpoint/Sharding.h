//===- Sharding.h - from global values to the ranks' parts and back -------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDING_H
#define MOERT_RUN_CHECKPOINT_SHARDING_H

#include "run/Tensor.h"
#include "run/checkpoint/Region.h"

#include <functional>

namespace moert::run {

/// Place of a rank's part of a value, in bytes from the start of its part of the argument or result. A rank may have a
/// part of a piece of a divided bucket, or none.
struct PartBytes {
  int64_t begin, count;
};
PartBytes partOf(const Value &value, const std::vector<Group> &groups, int64_t rank);

/// Copies `rank`'s part of `global` into `local`, which holds partOf().count bytes.
void cutPart(const Tensor &global, const Value &value, const std::vector<Group> &groups, int64_t rank, char *local);

/// Elements of a tensor that a rank holds, which are dense in its part of a value from element `at` on.
struct PartBlock {
  std::string tensor;
  std::vector<int64_t> shape; ///< shape of the tensor
  Region region;
  int64_t at = 0;
};

/// Blocks of `rank`'s part of `value`, in the order of its elements: the whole part, or the pieces of a bucket.
std::vector<PartBlock> blocksOfPart(const Value &value, const std::vector<Group> &groups, int64_t rank);

/// Assembles a value from its parts.
class Assembler {
public:
  Assembler(const Value &value, const std::vector<Group> &groups, Tensor &global);

  /// Adds `rank`'s part. The first of several replicas is kept, the others are compared with it.
  void add(int64_t rank, const char *local);
  /// Largest norm of a replica's difference to the first one.
  double disagreement() const;
  /// Whether every part was added.
  bool complete() const;

private:
  const Value &value;
  const std::vector<Group> &groups;
  Tensor &global;
  std::vector<bool> seen; ///< whether a part was added
  double largest = 0;     ///< largest difference, squared
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDING_H
