//===- SimPrograms.h - programs that can be timed in the head ---*- C++ -*-===//
//
// Programs for clusters on which a byte of memory, of the host link and of a payload takes one second.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_TEST_UNIT_SIMPROGRAMS_H
#define MOE_TEST_UNIT_SIMPROGRAMS_H

#include "moe/Simulator/Simulator.h"

#include <gtest/gtest.h>

namespace mlir::moe {

inline ClusterProfile makeProfile(int64_t devicesPerNode, int64_t nodes = 1) {
  ClusterProfile profile;
  profile.name = "toy";
  profile.maxNodes = nodes;
  profile.devicesPerNode = devicesPerNode;
  profile.memoryBytesPerSecond = 1;
  profile.hostBytesPerSecond = 1;
  profile.algorithms.fill(Algorithm::Pairwise);
  for (unsigned collective = 1; collective < kNumCollectives; ++collective) {
    CollectiveFit fit;
    fit.collective = static_cast<Collective>(collective);
    fit.minMembers = fit.minPerNode = 1;
    fit.maxMembers = fit.maxPerNode = 1024;
    fit.beta = 1;
    profile.collectives.push_back(fit);
  }
  return profile;
}

/// Adds a switch as the only path on a node.
inline void addSwitch(ClusterProfile &profile) {
  profile.collectives.clear();
  profile.links.push_back({"device*", "switch", 1, 1, 0});
  profile.links.push_back({"switch", "network", 1, 1, 0});
}

inline void addInterference(ClusterProfile &profile, bool compute, bool communication, bool copy, double computeSpeed,
                            double communicationSpeed, double copySpeed) {
  Interference set;
  set.compute = compute;
  set.communication = communication;
  set.copy = copy;
  set.computeSpeed = computeSpeed;
  set.communicationSpeed = communicationSpeed;
  set.copySpeed = copySpeed;
  profile.interference.push_back(set);
}

/// Writes a program op by op.
class Maker {
public:
  explicit Maker(int64_t numRanks, int64_t firstRank = 0) {
    program.name = "rank";
    program.firstRank = firstRank;
    program.numRanks = numRanks;
  }

  uint32_t stream(const char *name) {
    program.streams.push_back(name);
    return program.streams.size() - 1;
  }
  int32_t group(const char *name, int64_t size, int64_t stride) {
    program.groups.push_back({name, size, stride});
    return static_cast<int32_t>(program.groups.size()) - 1;
  }
  int32_t counts(int64_t rows, int64_t columns) {
    SimBuffer buffer;
    buffer.dtype = "i32";
    buffer.shape = {rows, columns};
    program.buffers.push_back(buffer);
    return static_cast<int32_t>(program.buffers.size()) - 1;
  }

  SimLaunch &launch(uint32_t stream, const char *kernel, Resource resource) {
    program.ops.push_back({SimOp::Kind::Launch, stream, static_cast<uint32_t>(program.launches.size())});
    SimLaunch &it = program.launches.emplace_back();
    it.kernel = kernel;
    it.dtype = "f32";
    it.stream = stream;
    it.cost.resource = resource;
    return it;
  }
  SimLaunch &compute(uint32_t stream, int64_t seconds) {
    SimLaunch &it = launch(stream, "activation", Resource::Memory);
    it.cost.bytesRead = seconds;
    return it;
  }
  SimLaunch &copy(uint32_t stream, int64_t seconds) {
    SimLaunch &it = launch(stream, "offload", Resource::HostLink);
    it.cost.bytesRead = seconds;
    return it;
  }
  SimLaunch &exchange(uint32_t stream, int32_t group, Collective collective, int64_t seconds) {
    SimLaunch &it = launch(stream, getName(collective).data(), Resource::Network);
    it.cost.collective = collective;
    it.cost.payload = seconds;
    it.group = group;
    return it;
  }
  void record(uint32_t event, uint32_t stream) { program.ops.push_back({SimOp::Kind::Record, stream, event}); }
  void wait(uint32_t event, uint32_t stream) { program.ops.push_back({SimOp::Kind::Wait, stream, event}); }

  SimProgram program;
};

inline llvm::Expected<SimResult> run(std::vector<SimProgram> programs, const ClusterProfile &profile,
                                     const SimOptions &options = {}, CostForm form = CostForm::ClosedForm) {
  int64_t ranks = 0;
  for (const SimProgram &program : programs)
    ranks += program.numRanks;
  auto model = CostModel::create(profile, ranks, form);
  if (!model)
    return model.takeError();
  return simulate(std::move(programs), **model, options);
}

/// Result of a run that must not fail.
inline SimResult get(llvm::Expected<SimResult> result) {
  if (result)
    return std::move(*result);
  ADD_FAILURE() << llvm::toString(result.takeError());
  return {};
}

inline std::string getError(llvm::Expected<SimResult> result) {
  if (result)
    return "no error";
  return llvm::toString(result.takeError());
}

inline SimOptions allRanks() {
  SimOptions options;
  options.allRanks = true;
  return options;
}

/// A launch's time on a simulated rank.
inline const SimTime &getTime(const SimResult &result, uint32_t rank, uint32_t launch) {
  for (const SimTime &time : result.times)
    if (time.rank == rank && time.launch == launch)
      return time;
  ADD_FAILURE() << "launch " << launch << " of rank " << rank << " did not run";
  static const SimTime none{};
  return none;
}

inline void expectTime(const SimResult &result, uint32_t rank, uint32_t launch, double begin, double end) {
  EXPECT_DOUBLE_EQ(getTime(result, rank, launch).begin, begin) << "launch " << launch << " of rank " << rank;
  EXPECT_DOUBLE_EQ(getTime(result, rank, launch).end, end) << "launch " << launch << " of rank " << rank;
}

/// Expects that a launch waited for another one last. `causeLaunch` is -1 for its own issue.
inline void expectCause(const SimResult &result, uint32_t rank, uint32_t launch, uint32_t causeRank, int causeLaunch) {
  int32_t cause = getTime(result, rank, launch).cause;
  if (causeLaunch < 0) {
    EXPECT_EQ(cause, -1);
    return;
  }
  ASSERT_GE(cause, 0);
  ASSERT_LT(cause, static_cast<int32_t>(result.times.size()));
  EXPECT_EQ(result.times[cause].rank, causeRank);
  EXPECT_EQ(result.times[cause].launch, static_cast<uint32_t>(causeLaunch));
}

inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected '" << part << "' in: " << text;
}

inline SimProgram makeGroupProgram(int64_t ranks, int64_t size, int64_t stride) {
  Maker maker(ranks);
  uint32_t s = maker.stream("comm");
  maker.compute(s, 2);
  maker.exchange(s, maker.group("ep", size, stride), Collective::AllToAll, 12);
  return maker.program;
}

/// A dropless layer on 2 x 2 ranks: esp of 2 neighbours, ep of 2 at distance 2, one expert each. Each rank routes 4
/// choices. Blocks have 8 rows of one byte, and the experts have room for 12 rows.
struct Dropless {
  enum Launch : uint32_t { Route, Gather, Exchange, ToExperts, Experts, FromExperts };

  Dropless() : maker(4) {
    uint32_t s = maker.stream("compute");
    int32_t esp = maker.group("esp", 2, 1), ep = maker.group("ep", 2, 2);
    int32_t routed = maker.counts(1, 2), blocks = maker.counts(2, 2), experts = maker.counts(4, 1);
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{0, counts::Route{4, 1}}};
    route.outputs = {routed};
    maker.program.routedLayers = {"layer0"};
    move(maker.exchange(s, esp, Collective::AllGather, 1), counts::Gather{0, 0}, routed, blocks);
    move(maker.exchange(s, ep, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, 1}, blocks, experts);
    ragged(maker.exchange(s, ep, Collective::AllToAll, 8), 8, blocks).cost.peerDim = 1;
    ragged(maker.compute(s, 12), 12, experts).cost.flops = 24;
    ragged(maker.exchange(s, ep, Collective::AllToAll, 8), 8, experts).cost.peerDim = 0;
  }

  static void move(SimLaunch &launch, CountsRule::Variant how, int32_t from, int32_t to) {
    launch.inputs = {from};
    launch.outputs = {to};
    launch.counts = {{0, std::move(how)}};
  }
  static SimLaunch &ragged(SimLaunch &launch, int64_t rows, int32_t counts) {
    launch.cost.raggedRows = rows;
    launch.cost.countsInput = 1;
    launch.inputs = {-1, counts};
    return launch;
  }

  Maker maker;
};

inline RoutingTrace makeTrace(int64_t ranks, int64_t experts, std::vector<int32_t> counts) {
  RoutingTrace trace;
  trace.setCounts(0, 0, ranks, experts, std::move(counts));
  return trace;
}

inline SimOptions withTrace(const RoutingTrace &trace) {
  SimOptions options;
  options.routing = &trace;
  return options;
}

/// A dropless layer of Parm's S2 on 4 ranks. All route the 4 choices of their pair of neighbours. Each takes half of
/// the packed rows, of one byte, and sends them to both of the neighbours that hold the expert. There is room for 8
/// rows.
struct Copies {
  enum Launch : uint32_t { Route, Slice, Exchange, ToExperts, Experts, FromExperts };

  /// `dumped`: the counts are repeated for the neighbours in memory, and exchanged as if each had its own part.
  explicit Copies(bool dumped = false) : maker(4) {
    uint32_t s = maker.stream("compute");
    int32_t mp = maker.group("mp", 2, 1), all = maker.group("ep_esp", 4, 1);
    int32_t routed = maker.counts(1, 2), part = maker.counts(1, 2), experts = maker.counts(4, 1);
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{0, counts::Route{4, 1}}};
    route.outputs = {routed};
    maker.program.routedLayers = {"layer0"};
    SimLaunch &slice = maker.compute(s, 1);
    slice.partGroup = mp;
    Dropless::move(slice, counts::SliceRows{0, 4}, routed, part);
    if (dumped) {
      int32_t sent = maker.counts(1, 4);
      SimLaunch &dump = maker.compute(s, 0);
      Dropless::move(dump, counts::Repeat{0, 1, 2}, part, sent);
      part = sent;
    }
    int64_t copies = dumped ? 1 : 2;
    Dropless::move(maker.exchange(s, all, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, copies}, part, experts);
    addRagged(s, all, part, 1, copies);
    Dropless::ragged(maker.compute(s, 8), 8, experts);
    addRagged(s, all, experts, 0, copies);
  }

  void addRagged(uint32_t stream, int32_t group, int32_t counts, int64_t peerDim, int64_t copies) {
    OpCost &cost = Dropless::ragged(maker.exchange(stream, group, Collective::AllToAll, 4), 4, counts).cost;
    cost.peerDim = peerDim;
    cost.copies = copies;
  }

  Maker maker;
};

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_SIMPROGRAMS_H
