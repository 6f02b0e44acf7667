//===- CutStages.cpp - which stage of a pipeline does what ----------------===//
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

#include <limits>

namespace mlir::moe {
#define GEN_PASS_DEF_MOECUTSTAGES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Where a program can be cut, and what its parts take.
class Cutter {
public:
  explicit Cutter(func::FuncOp function);

  /// The first op of each stage, such that the slowest takes as little time as possible; empty where there are too few
  /// places to cut.
  SmallVector<size_t> cut(int64_t stages);
  ArrayRef<Operation *> getOps() const { return program.ops; }
  size_t getMostStages() const { return program.cuts.size() - 1; }

private:
  /// Leaves out the cuts that would make a stage without work, a program that launches nothing.
  void dropIdleCuts();
  double getSeconds(Operation *op) const;
  /// How much of what its cost says a ragged op does where tokens choose evenly: its memory is for more.
  double getUse(Operation *op, const OpCost &cost) const;
  double getExchangeSeconds(GroupAttr group, const OpCost &cost) const;
  /// Of the ops from one cut to another, with what the first one's stage receives.
  double getSeconds(size_t from, size_t to) const {
    size_t first = program.cuts[from];
    return before[program.cuts[to]] - before[first] + static_cast<double>(program.crossing[first]) / rates.outsideBytes;
  }

  ProgramCuts program;
  ClusterRates rates;
  int64_t world = 0;
  double rowsOfCount = 0; ///< of one expert's count, by the last op that routes
  /// By op, and once more behind the last: the seconds of all before it.
  SmallVector<double> before;
};
} // namespace

static double getNumElements(Value value) {
  return static_cast<double>(cast<ShapedType>(value.getType()).getNumElements());
}

Cutter::Cutter(func::FuncOp function) : program(findCuts(function)), rates(getClusterRates(function)) {
  if (auto module = function->getParentOfType<ModuleOp>())
    if (auto parallel = module->getAttrOfType<ParallelAttr>(kParallelAttrName))
      world = parallel.getWorld();
  before.push_back(0);
  for (Operation *op : program.ops) {
    if (auto counted = dyn_cast<MoeCountsOpInterface>(op))
      for (const CountsRule &rule : counted.getCountsRules())
        if (std::optional<int64_t> choices = rule.getNumChoices())
          rowsOfCount = static_cast<double>(*choices) / getNumElements(op->getResult(rule.output));
    before.push_back(before.back() + getSeconds(op));
  }
  dropIdleCuts();
}

void Cutter::dropIdleCuts() {
  SmallVector<size_t> kept = {0};
  for (size_t cut : ArrayRef(program.cuts).drop_front().drop_back())
    if (before[cut] > before[kept.back()] && before[cut] < before.back())
      kept.push_back(cut);
  kept.push_back(program.cuts.back());
  program.cuts.assign(kept.begin(), kept.end());
}

double Cutter::getUse(Operation *op, const OpCost &cost) const {
  if (cost.raggedRows == 0)
    return 1;
  Value counts = cast<MoeKernelOpInterface>(op).getKernelInputs()[cost.countsInput];
  return std::min(1.0, getNumElements(counts) * rowsOfCount / static_cast<double>(cost.getCountedRows()));
}

double Cutter::getExchangeSeconds(GroupAttr group, const OpCost &cost) const {
  double rate = group.isInsideNode(rates.nodeRanks, world) ? rates.insideBytes : rates.outsideBytes;
  return static_cast<double>(cost.getBytesSent(group.getSize())) / rate;
}

double Cutter::getSeconds(Operation *op) const {
  auto priced = dyn_cast<MoeCostOpInterface>(op);
  if (!priced)
    return 0;
  OpCost cost = priced.getOpCost();
  double seconds =
      cost.resource == Resource::Network
          ? getExchangeSeconds(priced.getCostGroup(), cost)
          : std::max(cost.flops / rates.flops, static_cast<double>(cost.getBytesMoved()) / rates.memoryBytes);
  return seconds * getUse(op, cost);
}

SmallVector<size_t> Cutter::cut(int64_t stages) {
  if (getMostStages() < static_cast<size_t>(stages))
    return {};
  ArrayRef<size_t> cuts = program.cuts;
  // best[k][to]: the slowest of k + 1 stages of what is before `to`; from[k][to]: where the last of them begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages, std::vector<double>(cuts.size(), never));
  std::vector<std::vector<size_t>> from(stages, std::vector<size_t>(cuts.size(), 0));
  for (size_t to = 1; to < cuts.size(); ++to)
    best[0][to] = getSeconds(0, to);
  for (int64_t stage = 1; stage < stages; ++stage)
    for (size_t to = stage + 1; to < cuts.size(); ++to)
      for (size_t begin = stage; begin < to; ++begin)
        if (double slowest = std::max(best[stage - 1][begin], getSeconds(begin, to)); slowest < best[stage][to]) {
          best[stage][to] = slowest;
          from[stage][to] = begin;
        }
  SmallVector<size_t> first(stages, 0);
  size_t to = cuts.size() - 1;
  for (int64_t stage = stages - 1; stage > 0; --stage) {
    to = from[stage][to];
    first[stage] = cuts[to];
  }
  return first;
}

namespace {
struct MoeCutStages : moe::impl::MoeCutStagesBase<MoeCutStages> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (stages < 1 || !function.getBody().hasOneBlock()) {
      function.emitError() << "expected a body of one block and at least one stage but got " << int64_t(stages);
      return signalPassFailure();
    }
    Cutter cutter(function);
    SmallVector<size_t> first = cutter.cut(stages);
    if (first.empty()) {
      function.emitError() << "expected at most " << cutter.getMostStages()
                           << " stages, since the model can be cut in no more places, but got " << int64_t(stages);
      return signalPassFailure();
    }
    size_t stage = 0;
    for (auto [number, op] : llvm::enumerate(cutter.getOps())) {
      while (stage + 1 < first.size() && number >= first[stage + 1])
        ++stage;
      op->setAttr(kStageAttrName, StageAttr::get(&getContext(), static_cast<int64_t>(stage), /*backward=*/false));
    }
  }
};
} // namespace
