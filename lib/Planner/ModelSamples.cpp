//===- ModelSamples.cpp - what a model costs, from a few of its blocks ----===//
#include "ModelSamples.h"

using namespace mlir;
using namespace mlir::moe;

GraphReader mlir::moe::readBlocks(const ModelSource &source, ModelForm form, ArrayRef<int64_t> blocks) {
  form.blocks.assign(blocks.begin(), blocks.end());
  return [&source, form = std::move(form)](MLIRContext &context) { return source.read(context, form); };
}

SmallVector<int64_t> mlir::moe::getKinds(const ModelSource &source) {
  SmallVector<int64_t> kinds;
  for (int64_t kind : source.kinds)
    if (!llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  return kinds;
}

/// Neighbouring parts of one layer. Parts without a layer belong to the layer before them.
static std::vector<SmallVector<SampledPart>> groupByLayer(ArrayRef<SampledPart> parts) {
  std::vector<SmallVector<SampledPart>> layers;
  for (const SampledPart &part : parts) {
    if (layers.empty() || (!part.cost.layer.empty() && layers.back().front().cost.layer != part.cost.layer))
      layers.emplace_back();
    layers.back().push_back(part);
  }
  return layers;
}

std::optional<ModelCost> mlir::moe::sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                const ModelForm &form, const PlanOptions &options,
                                                std::string &reason) {
  std::optional<SmallVector<SampledPart>> sample = sampleParts(readBlocks(source, form, kinds), options, reason);
  if (!sample)
    return std::nullopt;
  std::vector<SmallVector<SampledPart>> layers = groupByLayer(*sample);
  // The embedding takes so little time that it may be in one part with the first block. A model may be blocks alone.
  bool hasBegin = layers.size() == kinds.size() + 2, hasEnd = layers.size() > kinds.size();
  if (layers.size() < kinds.size() || layers.size() > kinds.size() + 2) {
    reason = "expected the parts of a sample to be " + std::to_string(kinds.size()) +
             " blocks and at most one part before and after them, but got " + std::to_string(layers.size()) + " layers";
    return std::nullopt;
  }
  ModelCost cost;
  if (hasBegin)
    cost.begin = std::move(layers.front());
  if (hasEnd)
    cost.end = std::move(layers.back());
  cost.kindParts.assign(std::make_move_iterator(layers.begin() + hasBegin),
                        std::make_move_iterator(layers.end() - hasEnd));
  double widest = 0;
  for (ArrayRef<SampledPart> kind : cost.kindParts)
    widest = std::max(widest, kind.front().receivedBytes);
  cost.mostReceived = 1.1 * widest;
  return cost;
}

//===----------------------------------------------------------------------===//
// By difference
//===----------------------------------------------------------------------===//

namespace {
/// A whole sample as one part.
struct WholeSample {
  double each = 0, once = 0, held = 0, arena = 0;

  WholeSample operator-(const WholeSample &other) const {
    return {each - other.each, once - other.once, held - other.held, arena - other.arena};
  }
  SampledPart get() const { return {{.forward = each, .once = once, .held = held, .kept = arena}}; }
};
} // namespace

/// Measures a sample with the micro-batches of the step or, if there are more than two, from two and three.
static std::optional<WholeSample> measureSample(const GraphReader &read, const PlanOptions &options,
                                                std::string &reason) {
  PlanOptions few = options;
  few.microBatches = std::min<int64_t>(options.microBatches, 2);
  few.sideBySide = 1;
  std::optional<WholeModel> whole = measureModel(read, few, reason);
  if (!whole)
    return std::nullopt;
  double count = static_cast<double>(few.microBatches), each = whole->step.seconds / count;
  if (options.microBatches > 2) {
    few.microBatches = 3;
    std::optional<WholeModel> longer = measureModel(read, few, reason);
    if (!longer)
      return std::nullopt;
    each = longer->step.seconds - whole->step.seconds;
  }
  auto arena = static_cast<double>(whole->memory.arena);
  return WholeSample{each, whole->step.seconds - count * each,
                     static_cast<double>(whole->memory.getDeviceBytes()) - arena, arena};
}

std::optional<ModelCost> mlir::moe::sampleModelByDifference(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                            const ModelForm &form, const PlanOptions &options,
                                                            std::string &reason) {
  // The order that a search finds for one block alone may be unlike those of many.
  SmallVector<int64_t> twice;
  for (int64_t kind : kinds)
    twice.append(2, kind);
  std::optional<WholeSample> base = measureSample(readBlocks(source, form, twice), options, reason);
  if (!base)
    return std::nullopt;
  ModelCost cost;
  WholeSample rest = *base;
  for (int64_t kind : kinds) {
    SmallVector<int64_t> blocks(twice);
    blocks.insert(llvm::find(blocks, kind), kind);
    std::optional<WholeSample> more = measureSample(readBlocks(source, form, blocks), options, reason);
    if (!more)
      return std::nullopt;
    WholeSample block = *more - *base;
    cost.kindParts.push_back({block.get()});
    rest = rest - block - block;
  }
  cost.end.push_back(rest.get());
  return cost;
}
