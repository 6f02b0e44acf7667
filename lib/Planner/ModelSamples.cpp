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

/// Adds the seconds by which a block takes longer than `like` to a part beside it.
static void addDifference(PartCost &beside, ArrayRef<PartCost> block, ArrayRef<PartCost> like) {
  for (double PartCost::*member :
       {&PartCost::forward, &PartCost::backward, &PartCost::forwardExposed, &PartCost::backwardExposed}) {
    for (const PartCost &part : block)
      beside.*member += part.*member;
    for (const PartCost &part : like)
      beside.*member -= part.*member;
  }
}

std::optional<ModelCost> mlir::moe::sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                const ModelForm &form, const PlanOptions &options, SampleSize size,
                                                std::string &reason) {
  // Parameters that the last block gathers stay from its forward to its backward, so that the last one does not count.
  size_t times = size == SampleSize::Large ? 3 : options.zero >= 2 ? 2 : 1, count = times * kinds.size();
  std::optional<SampledParts> sample = sampleParts(readBlocks(source, form, repeat(kinds, times)), options, reason);
  if (!sample)
    return std::nullopt;
  std::vector<SmallVector<PartCost>> layers = groupByLayer(sample->parts);
  // The embedding takes so little time that it may be in one part with the first block. A model may be blocks alone.
  bool hasBegin = layers.size() == count + 2, hasEnd = layers.size() > count;
  if (layers.size() < count || layers.size() > count + 2) {
    reason = "expected the parts of a sample to be " + std::to_string(count) +
             " blocks and at most one part before and after them, but got " + std::to_string(layers.size()) + " layers";
    return std::nullopt;
  }
  ModelCost cost;
  cost.measured = sample->measured;
  if (hasBegin)
    cost.begin = layers.front();
  if (hasEnd)
    cost.end = layers.back();
  if (size == SampleSize::Large && hasBegin && hasEnd) {
    addDifference(cost.begin.back(), layers[1], layers[2]);
    addDifference(cost.end.front(), layers[count], layers[count - 1]);
  }
  for (size_t block = (times - 1) / 2; block < count; block += times)
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
    std::optional<ModelCost> whole = sampleModel(source, kinds, form, options, SampleSize::Small, reason);
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

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Seconds of a further micro-batch, after those that fill the step.
static std::optional<double> measureWindow(const GraphReader &read, const PlanOptions &options, std::string &reason) {
  constexpr int64_t filled = 4, further = 2;
  PlanOptions few = options;
  few.microBatches = filled;
  std::optional<WholeModel> whole = measureModel(read, few, reason);
  if (!whole)
    return std::nullopt;
  few.microBatches = filled + further;
  std::optional<WholeModel> longer = measureModel(read, few, reason);
  if (!longer)
    return std::nullopt;
  return (longer->step.seconds - whole->step.seconds) / further;
}

std::optional<WindowCost> mlir::moe::sampleWindows(const ModelSource &source, ArrayRef<int64_t> kinds,
                                                   const ModelForm &form, const PlanOptions &options,
                                                   std::string &reason) {
  constexpr int64_t times = 2, further = 2;
  SmallVector<int64_t> blocks = repeat(kinds, times);
  std::optional<double> base = measureWindow(readBlocks(source, form, blocks), options, reason);
  if (!base)
    return std::nullopt;
  WindowCost cost{{}, *base};
  for (int64_t kind : kinds) {
    SmallVector<int64_t> longer(blocks);
    longer.insert(llvm::find(longer, kind), further, kind);
    std::optional<double> more = measureWindow(readBlocks(source, form, longer), options, reason);
    if (!more)
      return std::nullopt;
    cost.kinds.push_back((*more - *base) / further);
    cost.rest -= times * cost.kinds.back();
  }
  return cost;
}

/// Divides the seconds of a window among parts by the time that they take alone.
static void divideWindow(ArrayRef<PartCost *> parts, double seconds) {
  double alone = 0;
  for (const PartCost *part : parts)
    alone += part->forward + part->backward;
  for (PartCost *part : parts)
    part->window = alone > 0 ? seconds * (part->forward + part->backward) / alone : 0;
}

void WindowCost::addTo(ModelCost &cost) const {
  for (auto [parts, seconds] : llvm::zip_equal(cost.kindParts, kinds))
    divideWindow(llvm::to_vector(llvm::make_pointer_range(parts)), seconds);
  auto others = llvm::to_vector(llvm::make_pointer_range(cost.begin));
  llvm::append_range(others, llvm::make_pointer_range(cost.end));
  divideWindow(others, std::max(0.0, rest));
}
