//===- ReducedModel.h - the same model in its smallest sizes ----*- C++ -*-===//
//
// How a plan divides, moves and adds values does not depend on how many columns, heads or tokens there are. So what a
// plan computes is proved on a small model with the same blocks, groups and options.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_REDUCEDMODEL_H
#define MOE_IMPORT_REDUCEDMODEL_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Import/ModelConfig.h"

namespace mlir::moe {

/// What sizes have to be divisible by, besides the groups.
struct ReducedSizes {
  ParallelAttr parallel;
  /// Chunks of a layer's tokens; 1 where there are none.
  int64_t chunks = 1;
  /// How many times as large as necessary sizes are: 1, or a power of two where a smaller model would be divided
  /// otherwise.
  int64_t factor = 1;
  /// Whether the embedding leaves out the row of the padding in training, if the model's does. Its gradient is then not
  /// the loss's derivative.
  bool keepsPadding = true;
};

/// Tokens of a sequence of `seq` tokens in the small model, at most as many.
int64_t reduceSequence(int64_t seq, const ReducedSizes &sizes);

/// `config` with fewer columns, heads, experts and rows of the vocabulary, for sequences of `seq` tokens that become
/// reduceSequence() ones. Each size is at most what it was, and divisible by what it has to be if it was. The blocks
/// stay.
ModelConfig reduceModel(const ModelConfig &config, int64_t seq, const ReducedSizes &sizes);

/// The least max_load with which the experts of `layer` are served in three passes, whatever the routing: as many as
/// show that a pass goes on where the one before it ended.
double getLeastMaxLoad(const LayerSpec &layer, ParallelAttr parallel);

} // namespace mlir::moe

#endif // MOE_IMPORT_REDUCEDMODEL_H
