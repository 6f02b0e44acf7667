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

//===----------------------------------------------------------------------===//
// Parts by difference
//===----------------------------------------------------------------------===//

SmallVector<int64_t> mlir::moe::getKinds(const ModelSource &source) {
  SmallVector<int64_t> kinds;
  for (int64_t kind : source.kinds)
    if (!llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  return kinds;
}

namespace {
/// A sample in one micro-batch and, where there are several, in two.
struct SamplePair {
  WholeModel one, two;
  double getEach() const { return two.step.seconds - one.step.seconds; }
  double getOnce() const { return one.step.seconds - getEach(); }
};
} // namespace

static std::optional<SamplePair> measurePair(const GraphReader &read, const CompileOptions &options,
                                             std::string &reason) {
  CompileOptions once = options;
  once.microBatches = 1;
  std::optional<WholeModel> one = measureModel(read, once, reason);
  if (!one)
    return std::nullopt;
  if (options.microBatches == 1) {
    // Nothing is done more often than once: all of it is counted as a micro-batch's.
    WholeModel two = *one;
    two.step.seconds *= 2;
    return SamplePair{*one, two};
  }
  once.microBatches = 2;
  std::optional<WholeModel> two = measureModel(read, once, reason);
  if (!two)
    return std::nullopt;
  return SamplePair{*one, *two};
}

/// What does not come and go with micro-batches: with an optimizer gradients lie in the arena.
static double getHeldBytes(const ProgramMemory &memory) {
  int64_t gradients = memory.states > 0 ? memory.parameters : memory.gradients;
  return static_cast<double>(memory.parameters + gradients + memory.states + memory.getOptimizerStates());
}

static PartCost getPart(const SamplePair &pair) {
  PartCost part;
  part.each = pair.getEach();
  part.once = pair.getOnce();
  part.parameters = static_cast<double>(pair.two.memory.parameters);
  part.held = getHeldBytes(pair.two.memory);
  part.kept = static_cast<double>(pair.two.memory.getDeviceBytes()) - part.held;
  return part;
}

static PartCost subtract(const PartCost &a, const PartCost &b) {
  // Reused memory may make a larger sample's arena no larger.
  auto difference = [](double a, double b) { return std::max(0.0, a - b); };
  return {difference(a.each, b.each), difference(a.once, b.once), difference(a.held, b.held),
          difference(a.kept, b.kept), difference(a.parameters, b.parameters)};
}

std::optional<ModelCost> mlir::moe::sampleModel(const ModelSource &source, ArrayRef<int64_t> kinds, int64_t batch,
                                                const CompileOptions &options, std::string &reason) {
  std::optional<SamplePair> base = measurePair(readBlocks(source, options.parallel, batch, kinds), options, reason);
  if (!base)
    return std::nullopt;
  ModelCost cost;
  PartCost all = cost.rest = getPart(*base);
  for (int64_t kind : kinds) {
    SmallVector<int64_t> blocks(kinds);
    blocks.insert(llvm::find(blocks, kind), kind);
    std::optional<SamplePair> more = measurePair(readBlocks(source, options.parallel, batch, blocks), options, reason);
    if (!more)
      return std::nullopt;
    cost.kinds.push_back(subtract(getPart(*more), all));
    cost.rest = subtract(cost.rest, cost.kinds.back());
  }
  return cost;
}

//===----------------------------------------------------------------------===//
// Their sum
//===----------------------------------------------------------------------===//

/// The first block of each stage such that none takes more than `most`; more stages than asked for where that cannot
/// be. The head is the last stage's.
static SmallVector<size_t> cutAt(const ModelCost &cost, ArrayRef<size_t> kindOf, double most) {
  SmallVector<size_t> first = {0};
  double stage = 0;
  for (auto [block, kind] : llvm::enumerate(kindOf)) {
    bool isLast = block + 1 == kindOf.size();
    double seconds = cost.kinds[kind].each + (isLast ? cost.rest.each : 0);
    if (stage > 0 && stage + seconds > most) {
      first.push_back(block);
      stage = 0;
    }
    stage += seconds;
  }
  return first;
}

PipelineEstimate mlir::moe::estimatePipeline(const ModelCost &cost, ArrayRef<size_t> kindOf, int64_t stages,
                                             int64_t interleave, int64_t microBatches) {
  double total = cost.rest.each;
  for (size_t kind : kindOf)
    total += cost.kinds[kind].each;
  double low = total / static_cast<double>(stages), high = total;
  // The fewest seconds of a stage with which there are no more stages than asked for, to a thousandth.
  for (int step = 0; step < 20; ++step) {
    double middle = (low + high) / 2;
    (cutAt(cost, kindOf, middle).size() <= static_cast<size_t>(stages) ? high : low) = middle;
  }
  SmallVector<size_t> first = cutAt(cost, kindOf, high);
  first.push_back(kindOf.size());
  double slowest = 0, once = 0, bytes = 0;
  for (size_t stage = 0; stage + 1 < first.size(); ++stage) {
    PartCost sum;
    bool isFirst = stage == 0, isLast = stage + 2 == first.size();
    for (size_t kind : kindOf.slice(first[stage], first[stage + 1] - first[stage])) {
      const PartCost &block = cost.kinds[kind];
      sum = {sum.each + block.each, sum.once + block.once, sum.held + block.held, sum.kept + block.kept, 0};
    }
    // Embedding and head are about as large as each other.
    double ends = (isFirst + isLast) / 2.0;
    double underWay = static_cast<double>(std::min(microBatches, stages - static_cast<int64_t>(stage)));
    slowest = std::max(slowest, sum.each + (isLast ? cost.rest.each : 0));
    once = std::max(once, sum.once + cost.rest.once * ends);
    bytes = std::max(bytes, sum.held + cost.rest.held * ends + sum.kept * underWay + cost.rest.kept);
  }
  double bubble = static_cast<double>(stages - 1) / static_cast<double>(interleave);
  return {(static_cast<double>(microBatches) + bubble) * slowest + once, bytes};
}
