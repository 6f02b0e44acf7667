//===- ModelSamples.cpp - what a model costs, from a few of its blocks ----===//
#include "ModelSamples.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

GraphReader mlir::moe::readBlocks(const ModelSource &source, ParallelAttr parallel, int64_t batch,
                                  ArrayRef<int64_t> blocks) {
  return [&source, dp = parallel.getDp(), batch, blocks](MLIRContext &context) {
    return source.read(context, dp, batch, blocks);
  };
}

SmallVector<int64_t> mlir::moe::getKinds(const ModelSource &source) {
  SmallVector<int64_t> kinds;
  for (int64_t kind : source.kinds)
    if (!llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  return kinds;
}

/// Neighbouring parts of one layer. What has no layer belongs to the one before it.
static std::vector<SmallVector<SampledPart>> groupByLayer(ArrayRef<SampledPart> parts) {
  std::vector<SmallVector<SampledPart>> layers;
  for (const SampledPart &part : parts) {
    if (layers.empty() || (!part.cost.layer.empty() && layers.back().front().cost.layer != part.cost.layer))
      layers.emplace_back();
    layers.back().push_back(part);
  }
  return layers;
}

std::optional<ModelCost> mlir::moe::sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds, int64_t batch,
                                                const CompileOptions &options, std::string &reason) {
  std::optional<SampledParts> sample = sampleParts(readBlocks(source, options.parallel, batch, kinds), options, reason);
  if (!sample)
    return std::nullopt;
  std::vector<SmallVector<SampledPart>> layers = groupByLayer(sample->parts);
  // The embedding takes so little time that it may be in one part with the first block. A model may be blocks alone.
  bool hasBegin = layers.size() == kinds.size() + 2, hasEnd = layers.size() > kinds.size();
  if (layers.size() < kinds.size() || layers.size() > kinds.size() + 2) {
    reason = "expected the parts of a sample to be of " + std::to_string(kinds.size()) +
             " blocks and what is before and after them, but got " + std::to_string(layers.size()) + " layers";
    return std::nullopt;
  }
  ModelCost cost;
  if (hasBegin)
    cost.begin = std::move(layers.front());
  if (hasEnd)
    cost.end = std::move(layers.back());
  cost.kindParts.assign(std::make_move_iterator(layers.begin() + hasBegin),
                        std::make_move_iterator(layers.end() - hasEnd));
  cost.tailPeak = sample->tailPeak;
  return cost;
}
