//===- InOrder.cpp - exchanges for which computation waits ----------------===//
#include "InOrder.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir::moe;

namespace {
bool computes(const SimLaunch &launch) {
  return launch.cost.resource == Resource::Matrix || launch.cost.resource == Resource::Memory;
}

/// Whether a unit goes on after launches of another unit, as in a window.
bool hasWindows(const SimProgram &program) {
  llvm::SmallSet<std::pair<int32_t, int32_t>, 8> left[2]; // units that others have interrupted, by direction
  std::pair<int32_t, int32_t> last = {-1, -1};
  bool wasBackward = false;
  for (const SimLaunch &launch : program.launches) {
    std::pair<int32_t, int32_t> unit = {launch.stage, launch.microBatch};
    if (launch.stage < 0 || launch.isOfWeights || (unit == last && launch.isBackward == wasBackward))
      continue;
    if (left[launch.isBackward].contains(unit))
      return true;
    left[wasBackward].insert(last);
    last = unit;
    wasBackward = launch.isBackward;
  }
  return false;
}

/// Launches that each launch waits for in addition.
class Waits {
public:
  Waits(const SimProgram &program, const llvm::StringSet<> &kernels);

  const llvm::SmallVector<uint32_t, 1> &of(uint32_t launch) const { return before[launch]; }
  bool isAwaited(uint32_t launch) const { return awaited[launch]; }

private:
  void add(uint32_t launch, int32_t other);

  std::vector<llvm::SmallVector<uint32_t, 1>> before;
  llvm::BitVector awaited;
};
} // namespace

Waits::Waits(const SimProgram &program, const llvm::StringSet<> &kernels)
    : before(program.launches.size()), awaited(program.launches.size()) {
  bool windows = hasWindows(program);
  llvm::BitVector exchanges(program.streams.size()); // streams of exchanges, and of the sums of their results
  for (const SimLaunch &launch : program.launches)
    if (launch.cost.resource == Resource::Network)
      exchanges.set(launch.stream);
  std::array<int32_t, 2> exchange = {-1, -1}, computation = {-1, -1}; // the last ones, by direction
  for (auto [index, launch] : llvm::enumerate(program.launches)) {
    if (kernels.contains(launch.kernel)) {
      add(index, computation[launch.isBackward]);
      exchange[launch.isBackward] = static_cast<int32_t>(index);
    } else if (computes(launch) && !exchanges.test(launch.stream) && !(windows && launch.isOfWeights)) {
      // Launches after this one follow it on its stream.
      add(index, std::exchange(exchange[launch.isBackward], -1));
      computation[launch.isBackward] = static_cast<int32_t>(index);
    }
  }
}

void Waits::add(uint32_t launch, int32_t other) {
  if (other < 0)
    return;
  before[launch].push_back(other);
  awaited.set(other);
}

void mlir::moe::orderExchanges(SimProgram &program, const llvm::StringSet<> &kernels) {
  if (kernels.empty())
    return;
  Waits waits(program, kernels);
  std::vector<SimOp> ops;
  ops.reserve(program.ops.size());
  std::vector<uint32_t> events(program.launches.size());
  for (const SimOp &op : program.ops) {
    if (op.kind != SimOp::Kind::Launch) {
      ops.push_back(op);
      continue;
    }
    for (uint32_t other : waits.of(op.index))
      ops.push_back({SimOp::Kind::Wait, op.stream, events[other]});
    ops.push_back(op);
    if (waits.isAwaited(op.index))
      ops.push_back({SimOp::Kind::Record, op.stream, events[op.index] = program.numEvents++});
  }
  program.ops = std::move(ops);
  // An iteration of a loop waits for the last exchange of the one before.
  program.loop.reach = std::max<int64_t>(program.loop.reach, 1);
}
