//===- ReducedModel.h - the same model in its smallest sizes ----*- C++ -*-===//
//
// A plan divides, moves and adds values in the same way for any number of columns, heads and tokens. A proof of a plan
// therefore runs a small model with the same blocks, groups and options.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_IMPORT_REDUCEDMODEL_H
#define MOE_IMPORT_REDUCEDMODEL_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Import/ModelConfig.h"

namespace mlir::moe {

/// Constraints on the sizes of the small model.
struct ReducedSizes {
  ParallelAttr parallel;
  /// Number of chunks of a layer's tokens; 1 without chunks.
  int64_t chunks = 1;
  /// Multiple of the smallest sizes: 1, or a power of two if a smaller model would be divided in another way.
  int64_t factor = 1;
  /// Does not train the padding's row of the embedding, as in the model. Its gradient is then no derivative of the
  /// loss.
  bool keepsPadding = true;
};

/// Length that a sequence of `seq` tokens has in the small model. It is at most `seq`.
int64_t reduceSequence(int64_t seq, const ReducedSizes &sizes);

/// Returns `config` with fewer columns, heads, experts and rows of the vocabulary, for sequences of reduceSequence(seq)
/// tokens. No size grows, and every size keeps its necessary divisors. The blocks stay.
ModelConfig reduceModel(const ModelConfig &config, int64_t seq, const ReducedSizes &sizes);

/// Least max_load with which three passes serve the experts of `layer`, for any routing. Three passes show that each
/// begins where the one before it ended.
double getLeastMaxLoad(const LayerSpec &layer, ParallelAttr parallel);

} // namespace mlir::moe

#endif // MOE_IMPORT_REDUCEDMODEL_H
