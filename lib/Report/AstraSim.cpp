//===- AstraSim.cpp - a cluster as ASTRA-sim's files ----------------------===//
#include "moe/Report/AstraSim.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir::moe;

namespace {
/// A level of switches: `members` devices or nodes below each.
struct Level {
  int64_t members = 1;
  double bytesPerSecond = 1e9; ///< rate of a device
  double latency = 0;          ///< seconds of a link
};
} // namespace

/// Finds the exchange whose rates the network takes; null if the step has none.
static const SimLaunch *findLargest(const SimResult &step) {
  const SimLaunch *largest = nullptr;
  auto getOrder = [](const SimLaunch &launch) {
    return std::pair(launch.cost.collective == Collective::AllToAll, launch.cost.payload);
  };
  for (const SimProgram &program : step.programs)
    for (const SimLaunch &launch : program.launches)
      if (launch.cost.resource == Resource::Network && (!largest || getOrder(*largest) < getOrder(launch)))
        largest = &launch;
  return largest;
}

/// Computes the rates of an all_to_all of one member after another, as ASTRA-sim's `direct1` sends it: each of the
/// n - 1 messages takes two links of a switch.
static llvm::Expected<Level> makeLevel(const CostModel &model, const SimLaunch *launch, int64_t members,
                                       int64_t stride) {
  Level level{members};
  if (!launch || members == 1)
    return level;
  llvm::SmallVector<int64_t> ranks;
  for (int64_t member : llvm::seq<int64_t>(0, members))
    ranks.push_back(member * stride);
  auto rates =
      model.getAlphaBeta(Collective::AllToAll, ranks, launch->dtype, std::max<int64_t>(1, launch->cost.payload));
  if (!rates)
    return rates.takeError();
  auto others = static_cast<double>(members - 1);
  if (rates->beta > 0)
    level.bytesPerSecond = others / static_cast<double>(members) / rates->beta;
  level.latency = rates->alpha / others / 2;
  return level;
}

static std::string makeNetwork(llvm::ArrayRef<Level> levels) {
  auto list = [&](llvm::StringRef key, auto get) {
    std::string text = (key + ": [").str();
    for (const Level &level : levels)
      text += (&level == levels.begin() ? "" : ", ") + llvm::formatv("{0}", get(level)).str();
    return text + "]\n";
  };
  constexpr double gibibyte = 1 << 30; // ASTRA-sim's GB
  return list("topology", [](const Level &) { return "Switch"; }) +
         list("npus_count", [](const Level &it) { return it.members; }) +
         list("bandwidth",
              [](const Level &it) { return llvm::formatv("{0:f3}", it.bytesPerSecond / gibibyte).str(); }) +
         list("latency", [](const Level &it) { return llvm::formatv("{0:f1}", it.latency * 1e9).str(); });
}

static std::string print(llvm::json::Object object) {
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object))).str();
}

static std::string makeMemory(const ClusterProfile &profile) {
  if (!profile.hostBytesPerSecond)
    return print(llvm::json::Object{{"memory-type", "NO_MEMORY_EXPANSION"}});
  return print(llvm::json::Object{{"memory-type", "PER_NPU_MEMORY_EXPANSION"},
                                  {"remote-mem-latency", std::llround(profile.hostLatency * 1e9)},
                                  {"remote-mem-bw", std::llround(*profile.hostBytesPerSecond / 1e9)}});
}

static std::string makeSystem(const ClusterProfile &profile, llvm::StringRef dtype, size_t levels, bool replays) {
  auto each = [&](llvm::StringRef algorithm) {
    return llvm::json::Array(std::vector<std::string>(levels, algorithm.str()));
  };
  const DeviceRate *rate = profile.getRate(dtype);
  if (!rate && !profile.rates.empty())
    rate = &profile.rates.front();
  return print(llvm::json::Object{{"scheduling-policy", "FIFO"},
                                  {"endpoint-delay", 1},
                                  {"active-chunks-per-dimension", 1},
                                  {"preferred-dataset-splits", 1},
                                  {"all-reduce-implementation", each("ring")},
                                  {"all-gather-implementation", each("ring")},
                                  {"reduce-scatter-implementation", each("ring")},
                                  {"all-to-all-implementation", each("direct1")},
                                  {"collective-optimization", "localBWAware"},
                                  {"peak-perf", rate ? std::llround(rate->flopsPerSecond / 1e12) : 0},
                                  {"local-mem-bw", std::llround(profile.memoryBytesPerSecond / 1e9)},
                                  {"roofline-enabled", 0},
                                  {"replay-only", replays ? 1 : 0}});
}

llvm::Expected<std::vector<AstraSimFile>> mlir::moe::makeAstraSimFiles(const SimResult &step, const CostModel &model) {
  const ClusterProfile &profile = model.getProfile();
  const SimLaunch *largest = findLargest(step);
  int64_t ranks = model.getNumRanks(), inside = std::min(ranks, profile.devicesPerNode);
  if (ranks % inside != 0)
    inside = 1;
  llvm::SmallVector<Level> levels;
  for (auto [members, stride] : {std::pair(inside, int64_t(1)), std::pair(ranks / inside, inside)}) {
    if (members == 1 && ranks > 1)
      continue;
    llvm::Expected<Level> level = makeLevel(model, largest, members, stride);
    if (!level)
      return level.takeError();
    levels.push_back(*level);
    if (ranks == 1)
      break;
  }
  llvm::StringRef dtype = largest ? llvm::StringRef(largest->dtype) : llvm::StringRef();
  return std::vector<AstraSimFile>{{"network.yml", makeNetwork(levels)},
                                   {"memory.json", makeMemory(profile)},
                                   {"system.json", makeSystem(profile, dtype, levels.size(), /*replays=*/false)},
                                   {"replay.json", makeSystem(profile, dtype, levels.size(), /*replays=*/true)}};
}
