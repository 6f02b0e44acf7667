//===- SearchSpace.cpp - what the planner chooses from --------------------===//
#include "moe/Planner/SearchSpace.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

bool mlir::moe::mayExchangeByNode(const ParsedSchedule &schedule, ParallelAttr parallel, int64_t devicesPerNode,
                                  bool isDropless) {
  bool hasNodes = !parallel.getGroup("ep_esp").isInsideNode(devicesPerNode, parallel.getWorld());
  if (schedule.hierRanks)
    return hasNodes && !isDropless;
  if (schedule.once)
    return isDropless && (schedule.once->hasNodes ? hasNodes && parallel.getEsp() == 1 : parallel.getEp() > 1);
  return true;
}

SmallVector<Strategy> mlir::moe::getStrategies(const ClusterProfile &cluster) {
  SmallVector<Strategy> strategies = {Strategy::None, Strategy::S4};
  // Copies to a host have no known time without a link.
  if (cluster.hostBytesPerSecond > 0)
    llvm::append_range(strategies, ArrayRef(kMpipeStrategies).drop_back());
  return strategies;
}

static SmallVector<int64_t> getDivisors(int64_t number) {
  SmallVector<int64_t> divisors;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0)
      divisors.push_back(divisor);
  return divisors;
}

SmallVector<int64_t> mlir::moe::getContextSizes(int64_t tokens) {
  // Devices train whole sequences of that length without cp. Shorter parts make small products.
  constexpr int64_t fewest = 4096;
  SmallVector<int64_t> sizes = {1};
  while (tokens / (2 * sizes.back()) >= fewest)
    sizes.push_back(2 * sizes.back());
  return sizes;
}

std::vector<ParallelAttr> mlir::moe::getParallelSpace(MLIRContext *context, int64_t world, int64_t maxStages,
                                                      int64_t maxExperts, int64_t devicesPerNode,
                                                      ArrayRef<int64_t> contextSizes) {
  context->loadDialect<MoeDialect>();
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  auto refuse = [&] { return emitError(UnknownLoc::get(context)); };
  // Cutting single products over more ranks gains nothing. Nodes of few devices are no limit.
  int64_t mostCuts = std::max<int64_t>(8, devicesPerNode);
  std::vector<ParallelAttr> space;
  auto add = [&](int64_t pp, int64_t cp, int64_t mp) {
    if (world / pp % (cp * mp) != 0 || mp > mostCuts)
      return;
    for (int64_t ep : getDivisors(world / pp))
      for (int64_t esp : getDivisors(world / pp / ep))
        if (ep <= maxExperts && esp <= mostCuts)
          if (auto one = ParallelAttr::getChecked(refuse, context, world, pp, world / pp / cp / mp, mp, ep, esp, cp))
            space.push_back(one);
  };
  for (int64_t pp : getDivisors(world)) {
    if (pp > maxStages)
      break;
    for (int64_t cp : contextSizes)
      for (int64_t mp : getDivisors(world / pp))
        add(pp, cp, mp);
  }
  return space;
}
