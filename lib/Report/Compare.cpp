//===- Compare.cpp - a measured step beside the predicted one -------------===//
#include "moe/Report/SimOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::Twine;

static std::string describe(const MeasuredOp &op) {
  return "op " + std::to_string(op.op) + " of rank " + std::to_string(op.rank);
}

/// The program of each rank of the cluster.
using Programs = std::vector<const SimProgram *>;

static Programs getPrograms(const SimResult &result) {
  Programs programs;
  for (const SimRank &rank : result.ranks) {
    programs.resize(std::max<size_t>(programs.size(), rank.rank + rank.count));
    std::fill_n(programs.begin() + rank.rank, rank.count, &result.programs[rank.program]);
  }
  return programs;
}

void mlir::moe::numberLaunches(const SimResult &result, std::vector<MeasuredOp> &measured) {
  std::map<std::pair<const SimProgram *, int64_t>, llvm::SmallVector<uint32_t, 1>> launchesOf; // by op
  for (const SimProgram &program : result.programs)
    for (auto [number, launch] : llvm::enumerate(program.launches))
      launchesOf[{&program, launch.op}].push_back(number);
  Programs programs = getPrograms(result);
  std::map<std::pair<int64_t, int64_t>, size_t> calls; // so far, by rank and op
  auto inTime = llvm::to_vector(llvm::make_pointer_range(measured));
  llvm::stable_sort(inTime, [](const MeasuredOp *a, const MeasuredOp *b) { return a->begin < b->begin; });
  for (MeasuredOp *op : inTime) {
    if (op->rank < 0 || op->rank >= static_cast<int64_t>(programs.size()))
      continue;
    llvm::ArrayRef<uint32_t> launches = launchesOf[{programs[op->rank], op->op}];
    if (size_t call = calls[{op->rank, op->op}]++; call < launches.size())
      op->op = launches[call];
  }
}

static llvm::Error makeMismatch(const Twine &expected) {
  return llvm::createStringError("the trace is of another plan: expected " + expected);
}

static llvm::Error checkOp(const Programs &programs, const MeasuredOp &op) {
  if (op.rank < 0 || op.rank >= static_cast<int64_t>(programs.size()))
    return makeMismatch(Twine(programs.size()) + " ranks but got rank " + Twine(op.rank));
  const SimProgram &program = *programs[op.rank];
  if (op.op < 0 || op.op >= static_cast<int64_t>(program.launches.size()))
    return makeMismatch(Twine(program.launches.size()) + " ops but got " + describe(op));
  std::string name = getLaunchName(program, static_cast<uint32_t>(op.op));
  if (op.name != name)
    return makeMismatch("'" + name + "' as " + describe(op) + " but got '" + op.name + "'");
  int64_t stream = program.launches[op.op].stream;
  if (op.stream != stream)
    return makeMismatch(describe(op) + " on stream " + Twine(stream) + " but got stream " + Twine(op.stream));
  return llvm::Error::success();
}

/// Checks that each rank has each op exactly once.
static llvm::Error checkTrace(const Programs &programs, ArrayRef<MeasuredOp> measured) {
  std::vector<std::vector<bool>> seen;
  for (const SimProgram *program : programs)
    seen.emplace_back(program->launches.size());
  for (const MeasuredOp &op : measured) {
    if (llvm::Error error = checkOp(programs, op))
      return error;
    auto isSeen = seen[op.rank][op.op];
    if (isSeen)
      return llvm::createStringError("expected a trace of one step but got " + describe(op) + " twice");
    isSeen = true;
  }
  for (auto [rank, ops] : llvm::enumerate(seen))
    if (auto missing = llvm::find(ops, false); missing != ops.end())
      return makeMismatch("op " + Twine(missing - ops.begin()) + " of rank " + Twine(rank) + " but got none");
  return llvm::Error::success();
}

llvm::Expected<Comparison> mlir::moe::compare(const SimResult &result, ArrayRef<MeasuredOp> measured) {
  if (llvm::Error error = checkTrace(getPrograms(result), measured))
    return error;
  Comparison comparison;
  llvm::StringMap<size_t> numbers;
  auto getKernel = [&](const std::string &name) -> KernelComparison & {
    auto [entry, isNew] = numbers.try_emplace(name, comparison.kernels.size());
    if (isNew)
      comparison.kernels.push_back({name});
    return comparison.kernels[entry->second];
  };
  int64_t ranks = 0;
  for (const SimRank &rank : result.ranks)
    ranks += rank.count;
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const MeasuredOp &op : measured) {
    KernelComparison &kernel = getKernel(op.name);
    kernel.launches += 1.0 / static_cast<double>(ranks);
    kernel.measuredSeconds += (op.end - op.begin) / static_cast<double>(ranks);
    first = std::min(first, op.begin);
    last = std::max(last, op.end);
  }
  for (const SimTime &time : result.times) {
    const SimRank &rank = result.ranks[time.rank];
    KernelComparison &kernel = getKernel(getLaunchName(result.programs[rank.program], time.launch));
    kernel.predictedSeconds += (time.end - time.begin) * static_cast<double>(rank.count) / static_cast<double>(ranks);
  }
  comparison.step = {"step", 1, measured.empty() ? 0 : last - first, result.seconds};
  llvm::stable_sort(comparison.kernels, [](const KernelComparison &a, const KernelComparison &b) {
    return a.measuredSeconds > b.measuredSeconds;
  });
  return comparison;
}
