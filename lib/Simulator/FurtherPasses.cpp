//===- FurtherPasses.cpp - passes that a routing demands ------------------===//
#include "FurtherPasses.h"

#include "Counts.h"

#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

/// Most runs of a subprogram on any rank, by program and op.
using PassCounts = std::map<std::pair<StringRef, uint32_t>, int64_t>;

static bool runsSubprogram(const SimLaunch &launch) { return launch.kernel == plan::kRepeatKernel; }

static llvm::Expected<PassCounts> countPasses(const SimWorld &world, Counts &counts) {
  PassCounts most;
  for (const SimProgram &program : world.programs)
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      if (!runsSubprogram(launch))
        continue;
      int64_t &passes = most[{program.name, launch.op}];
      for (int64_t rank = program.firstRank; rank < program.firstRank + program.numRanks; ++rank) {
        llvm::Expected<int64_t> further = counts.getFurtherPasses(rank, index);
        if (!further)
          return further.takeError();
        passes = std::max(passes, *further);
      }
    }
  return most;
}

llvm::Expected<OwningOpRef<ModuleOp>> mlir::moe::writeFurtherPasses(ModuleOp plan, const CostModel &model,
                                                                    const SimOptions &options) {
  bool hasSome = llvm::any_of(plan.getOps<func::FuncOp>(), plan::isSubprogram);
  if (!hasSome || !options.routing)
    return OwningOpRef<ModuleOp>();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan);
  if (!programs)
    return programs.takeError();
  llvm::Expected<SimWorld> world = SimWorld::create(*programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, options.routing, options.iteration);
  if (!counts)
    return counts.takeError();
  llvm::Expected<PassCounts> most = countPasses(*world, *counts);
  if (!most)
    return most.takeError();
  OwningOpRef<ModuleOp> written = plan.clone();
  std::map<Operation *, int64_t> times;
  for (auto function : written->getOps<func::FuncOp>())
    for (auto [op, number] : numberOps(function))
      if (auto found = most->find({function.getName(), number}); found != most->end())
        times[op] = found->second;
  if (failed(plan::inlineSubprograms(*written, [&](plan::LaunchOp launch) { return times[launch]; })))
    return llvm::createStringError("expected launches that suit the subprograms that they run");
  return written;
}
