//===- CutStages.cpp - which stage of a pipeline does what ----------------===//
#include "Stages.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Scheduling/StageCut.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOECUTSTAGES
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// Places where a program can be cut, and times of its parts.
class Cutter {
public:
  explicit Cutter(func::FuncOp function);

  /// First op of each stage, or none if there are too few places to cut.
  SmallVector<size_t> cut(int64_t stages) const;
  SmallVector<size_t> cutAt(ArrayRef<int64_t> boundaries) const {
    return llvm::map_to_vector(boundaries.drop_back(), [&](int64_t part) { return program.cuts[part]; });
  }
  /// Writes the bytes that each part receives on the function.
  void describeParts(func::FuncOp function) const;
  ArrayRef<Operation *> getOps() const { return program.ops; }
  size_t getMostStages() const { return program.cuts.size() - 1; }

private:
  /// Leaves out the cuts that would make a stage without work, a program that launches nothing.
  void dropIdleCuts();
  ProgramCuts program;
  double receivedBytes; ///< bytes a second
  /// Seconds of all ops before each op, and of all ops at the end.
  SmallVector<double> before;
};
} // namespace

Cutter::Cutter(func::FuncOp function)
    : program(findCuts(function)), receivedBytes(getClusterRates(function).outsideBytes) {
  OpTimer timer(function);
  before.push_back(0);
  for (Operation *op : program.ops)
    before.push_back(before.back() + timer.getSeconds(op));
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

void Cutter::describeParts(func::FuncOp function) const {
  auto bytes = llvm::map_to_vector(ArrayRef(program.cuts).drop_back(),
                                   [&](size_t cut) { return static_cast<double>(program.crossing[cut]); });
  function->setAttr(kPartBytesAttrName, Builder(function.getContext()).getDenseF64ArrayAttr(bytes));
}

SmallVector<size_t> Cutter::cut(int64_t stages) const {
  StageCutProblem problem{{}, {}, stages};
  for (auto [from, to] : llvm::zip(program.cuts, ArrayRef(program.cuts).drop_front())) {
    problem.seconds.push_back(before[to] - before[from]);
    problem.receive.push_back(static_cast<double>(program.crossing[from]) / receivedBytes);
  }
  if (!problem.check().empty())
    return {};
  return llvm::map_to_vector(cutIntoStages(problem), [&](size_t part) { return program.cuts[part]; });
}

namespace {
struct MoeCutStages : moe::impl::MoeCutStagesBase<MoeCutStages> {
  using Base::Base;

  /// Checks that boundaries rise from 0 to the number of parts.
  LogicalResult checkBoundaries(const Cutter &cutter) {
    ArrayRef<int64_t> given = boundaries;
    auto parts = static_cast<int64_t>(cutter.getMostStages());
    if (given.size() == static_cast<size_t>(stages) + 1 && given.front() == 0 && given.back() == parts &&
        std::is_sorted(given.begin(), given.end(), std::less_equal<>()))
      return success();
    InFlightDiagnostic error = getOperation().emitError()
                               << "expected boundaries of " << int64_t(stages) << " stages that rise from 0 to "
                               << parts << ", the number of parts, but got ";
    llvm::interleaveComma(given, error);
    return error;
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (stages < 0 || !function.getBody().hasOneBlock()) {
      function.emitError() << "expected a body of one block and at least 0 stages but got " << int64_t(stages);
      return signalPassFailure();
    }
    Cutter cutter(function);
    if (!boundaries.empty() && failed(checkBoundaries(cutter)))
      return signalPassFailure();
    SmallVector<size_t> first =
        boundaries.empty() ? cutter.cut(stages ? int64_t(stages) : static_cast<int64_t>(cutter.getMostStages()))
                           : cutter.cutAt(boundaries);
    if (first.empty()) {
      function.emitError() << "expected at most " << cutter.getMostStages()
                           << " stages, since the model has no more places for a cut, but got " << int64_t(stages);
      return signalPassFailure();
    }
    if (stages == 0)
      cutter.describeParts(function);
    size_t stage = 0;
    for (auto [number, op] : llvm::enumerate(cutter.getOps())) {
      while (stage + 1 < first.size() && number >= first[stage + 1])
        ++stage;
      op->setAttr(kStageAttrName, StageAttr::get(&getContext(), static_cast<int64_t>(stage), StageWork::forward));
    }
  }
};
} // namespace
