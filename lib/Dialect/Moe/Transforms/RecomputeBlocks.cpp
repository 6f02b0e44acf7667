//===- RecomputeBlocks.cpp - keep only what blocks hand over --------------===//
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOERECOMPUTEBLOCKS
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Whether two sizes are about equal. Scalars that pass from layer to layer make small differences.
static bool isAbout(int64_t size, int64_t other) { return std::abs(size - other) <= other / 10; }

/// Whether the bytes that cross are more, or 0, on both sides of a cut. Each side counts where it first differs. No
/// block ends between q, k and v and the attention: the same bytes cross for some ops there, but fewer after them.
static bool isLowPoint(ArrayRef<int64_t> crossing, size_t cut) {
  auto isWider = [&](auto sizes) {
    auto it = llvm::find_if(sizes, [&](int64_t size) { return size != crossing[cut]; });
    return it == sizes.end() || *it == 0 || *it > crossing[cut];
  };
  return isWider(llvm::reverse(crossing.take_front(cut))) && isWider(crossing.drop_front(cut));
}

/// Whether the same bytes cross at all places from one cut to another.
static bool isPlateau(ArrayRef<int64_t> crossing, size_t from, size_t to) {
  return llvm::all_equal(crossing.slice(from, to - from + 1));
}

/// Cuts between blocks: the low points at which the most common number of bytes crosses.
static SmallVector<size_t> findBlocks(const ProgramCuts &program) {
  SmallVector<size_t> narrow, most;
  // The first of neighbouring cuts with equal bytes counts.
  for (size_t cut : program.cuts)
    if (program.crossing[cut] > 0 && isLowPoint(program.crossing, cut) &&
        (narrow.empty() || !isPlateau(program.crossing, narrow.back(), cut)))
      narrow.push_back(cut);
  for (size_t cut : narrow) {
    SmallVector<size_t> alike;
    for (size_t other : narrow)
      if (isAbout(program.crossing[other], program.crossing[cut]))
        alike.push_back(other);
    if (alike.size() > most.size())
      most = alike;
  }
  return most;
}

/// Whether the op only moves memory, so that computing it again takes little time.
static bool movesMemory(Operation *op) {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  return priced && priced.getOpCost().resource == Resource::Memory;
}

static bool hasOtherStage(Operation *op, Operation *user) {
  return op->getAttr(kStageAttrName) != user->getAttr(kStageAttrName);
}

/// Bytes of an op's results that would be kept.
static int64_t countResultBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getResultTypes())
    bytes += getByteSize(type);
  return bytes;
}

namespace {
struct MoeRecomputeBlocks : moe::impl::MoeRecomputeBlocksBase<MoeRecomputeBlocks> {
  using Base::Base;

  void runOnOperation() override {
    ProgramCuts program = findCuts(getOperation());
    SmallVector<size_t> blocks = findBlocks(program);
    if (blocks.empty())
      return;
    OpTimer timer(getOperation());
    double bytesPerSecond = getClusterRates(getOperation()).memoryBytes;
    auto isCostly = [&](Operation *op) {
      double seconds = timer.getSeconds(op), written = static_cast<double>(countResultBytes(op)) / bytesPerSecond;
      return keepFrom > 0 && seconds >= keepFrom * written;
    };
    // Results that another stage received are kept: it need not wait until this stage has computed them again. All
    // parts are on one device if stages only mark parts.
    bool hasStages = !getOperation()->hasAttr(kPartBytesAttrName);
    /// Block of an op.
    auto getBlock = [&](size_t number) { return llvm::upper_bound(blocks, number) - blocks.begin(); };
    for (size_t number = 0; number < blocks.back(); ++number) {
      Operation *op = program.ops[number];
      bool isHandedOver = llvm::any_of(op->getUsers(), [&](Operation *user) {
        auto it = program.numbers.find(user);
        return it != program.numbers.end() &&
               (getBlock(it->second) != getBlock(number) || (hasStages && hasOtherStage(op, user)));
      });
      auto kernel = dyn_cast<MoeKernelOpInterface>(op);
      bool isKept = isCostly(op) || (selective && !movesMemory(op));
      if (isHandedOver || !kernel || op->hasAttr(kResidualAttrName) || isKept)
        continue;
      Residual residual = kernel.isCollective() ? Residual::recommunicate : Residual::recompute;
      op->setAttr(kResidualAttrName, ResidualAttr::get(&getContext(), residual));
    }
  }
};
} // namespace
