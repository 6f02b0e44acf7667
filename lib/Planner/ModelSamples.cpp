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
static std::vector<SmallVector<PartCost>> groupByLayer(ArrayRef<PartCost> parts) {
  std::vector<SmallVector<PartCost>> layers;
  for (const PartCost &part : parts) {
    if (layers.empty() || (!part.layer.empty() && layers.back().front().layer != part.layer))
      layers.emplace_back();
    layers.back().push_back(part);
  }
  return layers;
}

static SmallVector<int64_t> repeat(ArrayRef<int64_t> kinds, size_t times) {
  SmallVector<int64_t> blocks;
  for (int64_t kind : kinds)
    blocks.append(times, kind);
  return blocks;
}

std::optional<ModelCost> mlir::moe::sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                const ModelForm &form, const PlanOptions &options,
                                                std::string &reason) {
  // Parameters that the last block gathers stay from its forward to its backward, so that each kind's first counts.
  size_t times = options.zero >= 2 ? 2 : 1, count = times * kinds.size();
  std::optional<SmallVector<PartCost>> sample =
      sampleParts(readBlocks(source, form, repeat(kinds, times)), options, reason);
  if (!sample)
    return std::nullopt;
  std::vector<SmallVector<PartCost>> layers = groupByLayer(*sample);
  // The embedding takes so little time that it may be in one part with the first block. A model may be blocks alone.
  bool hasBegin = layers.size() == count + 2, hasEnd = layers.size() > count;
  if (layers.size() < count || layers.size() > count + 2) {
    reason = "expected the parts of a sample to be " + std::to_string(count) +
             " blocks and at most one part before and after them, but got " + std::to_string(layers.size()) + " layers";
    return std::nullopt;
  }
  ModelCost cost;
  if (hasBegin)
    cost.begin = std::move(layers.front());
  if (hasEnd)
    cost.end = std::move(layers.back());
  for (size_t block = 0; block < count; block += times)
    cost.kindParts.push_back(std::move(layers[hasBegin + block]));
  double widest = 0;
  for (ArrayRef<PartCost> kind : cost.kindParts)
    widest = std::max(widest, kind.front().received);
  cost.mostReceived = 1.1 * widest;
  return cost;
}

//===----------------------------------------------------------------------===//
// By difference
//===----------------------------------------------------------------------===//

/// The difference of the costs that measureSample() sets.
static PartCost subtract(const PartCost &a, const PartCost &b) {
  return {.forward = a.forward - b.forward, .once = a.once - b.once, .held = a.held - b.held, .kept = a.kept - b.kept};
}

/// Measures a whole sample as one part, with the micro-batches of the step or, if there are more than two, from two and
/// three.
static std::optional<PartCost> measureSample(const GraphReader &read, const PlanOptions &options, std::string &reason) {
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
  return PartCost{.forward = each,
                  .once = whole->step.seconds - count * each,
                  .held = static_cast<double>(whole->memory.getDeviceBytes()) - arena,
                  .kept = arena};
}

/// Replaces differences of arenas by the bytes that last. Parameters that ZeRO gathers pass, but those of a few buckets
/// are alive together, so that the arena of a sample grows by other bytes than that of a model.
static void setLasting(MutableArrayRef<PartCost> blocks, const ModelCost &sample) {
  for (auto [block, parts] : llvm::zip_equal(blocks, sample.kindParts)) {
    double lasting = 0;
    for (const PartCost &part : parts)
      lasting += part.held + part.kept + part.gradients;
    block.kept = std::max(0.0, lasting - block.held);
  }
}

/// The most bytes of an arena that do not last: those of samples with each kind of block twice, and then with one kind
/// three times.
static double getPassing(ArrayRef<PartCost> samples, ArrayRef<PartCost> blocks) {
  double twice = 0, most = 0;
  for (const PartCost &block : blocks)
    twice += 2 * block.kept;
  for (auto [index, sample] : llvm::enumerate(samples))
    most = std::max(most, sample.kept - twice - (index > 0 ? blocks[index - 1].kept : 0));
  return most;
}

std::optional<ModelCost> mlir::moe::sampleModelByDifference(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                            const ModelForm &form, const PlanOptions &options,
                                                            std::string &reason) {
  // Search may choose another order for one block than for many.
  SmallVector<int64_t> twice = repeat(kinds, 2);
  std::optional<PartCost> base = measureSample(readBlocks(source, form, twice), options, reason);
  if (!base)
    return std::nullopt;
  SmallVector<PartCost> blocks, samples = {*base};
  PartCost rest = *base;
  for (int64_t kind : kinds) {
    SmallVector<int64_t> longer(twice);
    longer.insert(llvm::find(longer, kind), kind);
    std::optional<PartCost> more = measureSample(readBlocks(source, form, longer), options, reason);
    if (!more)
      return std::nullopt;
    samples.push_back(*more);
    blocks.push_back(subtract(*more, *base));
    rest = subtract(subtract(rest, blocks.back()), blocks.back());
  }
  if (options.zero >= 2) {
    std::optional<ModelCost> whole = sampleModel(source, kinds, form, options, reason);
    if (!whole)
      return std::nullopt;
    setLasting(blocks, *whole);
    rest.kept = getPassing(samples, blocks);
  }
  ModelCost cost;
  for (const PartCost &block : blocks)
    cost.kindParts.push_back({block});
  cost.end.push_back(rest);
  return cost;
}
