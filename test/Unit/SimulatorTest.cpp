//===- SimulatorTest.cpp - plans in virtual time, by hand -----------------===//
#include "SimPrograms.h"

#include <random>

using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Launches of one stream follow each other, each waiting for the one before.
TEST(Simulator, SerialChain) {
  Maker maker(1);
  uint32_t s = maker.stream("compute");
  for (int64_t seconds : {2, 3, 4})
    maker.compute(s, seconds);
  SimResult result = get(run({maker.program}, makeProfile(1)));
  EXPECT_DOUBLE_EQ(result.seconds, 9);
  EXPECT_EQ(result.events, 3u);
  expectTime(result, 0, 0, 0, 2);
  expectTime(result, 0, 1, 2, 5);
  expectTime(result, 0, 2, 5, 9);
  expectCause(result, 0, 0, 0, -1);
  expectCause(result, 0, 1, 0, 0);
  expectCause(result, 0, 2, 0, 1);
}

/// A wait only holds its stream, until the record's stream has reached the record.
TEST(Simulator, RecordAndWait) {
  ClusterProfile profile = makeProfile(1);
  addInterference(profile, true, false, true, 1, 1, 1);
  Maker maker(1);
  uint32_t a = maker.stream("compute"), b = maker.stream("copy");
  maker.compute(a, 5);
  maker.record(0, a);
  maker.copy(b, 2);
  maker.wait(0, b);
  maker.copy(b, 4);
  maker.compute(a, 3);
  SimResult result = get(run({maker.program}, profile));
  EXPECT_DOUBLE_EQ(result.seconds, 9);
  expectTime(result, 0, 1, 0, 2);
  expectTime(result, 0, 2, 5, 9);
  expectTime(result, 0, 3, 5, 8);
  expectCause(result, 0, 2, 0, 0);
  EXPECT_EQ(result.events, 6u);
}

/// A record also stands for the waits before it on its stream, and a wait means the last record before it.
TEST(Simulator, RecordsPassOnWhatTheyWaitFor) {
  ClusterProfile profile = makeProfile(1);
  addInterference(profile, true, false, true, 1, 1, 1);
  Maker maker(1);
  uint32_t a = maker.stream("a"), b = maker.stream("b"), c = maker.stream("c");
  maker.compute(a, 5);
  maker.record(0, a);
  maker.wait(0, b);
  maker.record(1, b);
  maker.record(0, c);
  maker.wait(1, c);
  maker.copy(c, 1);
  maker.wait(0, b); // recorded at the beginning of c
  maker.copy(b, 1);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 1, 5, 7); // two copies share the host link
  expectTime(result, 0, 2, 5, 7);
  expectCause(result, 0, 1, 0, 0);
}

/// Two launches of one kind on one device share it: 4 s at half speed, then the other's last 2 s alone.
TEST(Simulator, OneKindShares) {
  Maker maker(1);
  uint32_t a = maker.stream("a"), b = maker.stream("b");
  maker.compute(a, 4);
  maker.compute(b, 6);
  SimResult result = get(run({maker.program}, makeProfile(1)));
  expectTime(result, 0, 0, 0, 8);
  expectTime(result, 0, 1, 0, 10);
}

/// Two kinds slow each other: a copy of 4 s at 0.8 takes 5 s, in which the computation does 2.5 of its 10.
TEST(Simulator, TwoKindsSlowEachOther) {
  ClusterProfile profile = makeProfile(1);
  addInterference(profile, true, false, true, 0.5, 1, 0.8);
  Maker maker(1);
  uint32_t a = maker.stream("compute"), b = maker.stream("copy");
  maker.compute(a, 10);
  maker.copy(b, 4);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 1, 0, 5);
  expectTime(result, 0, 0, 0, 12.5);
}

/// The error for a set of kinds that the profile lacks names the set.
TEST(Simulator, UnknownInterference) {
  Maker maker(1);
  uint32_t a = maker.stream("compute"), b = maker.stream("copy");
  maker.compute(a, 10);
  maker.copy(b, 4);
  expectContains(getError(run({maker.program}, makeProfile(1))), "no interference of compute, copy");
}

/// The host issues a launch every 2 s. Short launches wait for it, a long one does not.
TEST(Simulator, LaunchIssue) {
  ClusterProfile profile = makeProfile(1);
  profile.host.launchSeconds.fill(2);
  Maker maker(1);
  uint32_t s = maker.stream("compute");
  for (int64_t seconds : {1, 5, 1})
    maker.compute(s, seconds);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 0, 2, 3);
  expectTime(result, 0, 1, 4, 9);
  expectTime(result, 0, 2, 9, 10);
  expectCause(result, 0, 1, 0, -1);
  expectCause(result, 0, 2, 0, 1);
}

/// The host's time for a launch depends on the resource of the launch.
TEST(Simulator, LaunchIssueByResource) {
  ClusterProfile profile = makeProfile(1);
  profile.host.launchSeconds[static_cast<unsigned>(Resource::Memory)] = 2;
  profile.host.launchSeconds[static_cast<unsigned>(Resource::HostLink)] = 7;
  Maker maker(1);
  uint32_t s = maker.stream("compute");
  maker.compute(s, 1);
  maker.copy(s, 1);
  maker.compute(s, 1);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 0, 2, 3);
  expectTime(result, 0, 1, 9, 10);
  expectTime(result, 0, 2, 11, 12);
}

/// A host that reads counts goes on some time after they arrive, once for each of them: here after the gather, and
/// after the exchange, when it has issued nothing for longer than that. Without this time, launches follow each other.
TEST(Simulator, HostWaitsForCounts) {
  Dropless layer;
  ClusterProfile profile = makeProfile(4);
  SimResult result = get(run({layer.maker.program}, profile));
  expectTime(result, 0, Dropless::Gather, 1, 2);
  expectTime(result, 0, Dropless::Exchange, 2, 3);
  expectTime(result, 0, Dropless::ToExperts, 3, 11);
  profile.host.countsSeconds = 10;
  for (const SimOptions &options : {SimOptions(), allRanks()}) {
    result = get(run({layer.maker.program}, profile, options));
    expectTime(result, 0, Dropless::Exchange, 2, 3);
    expectTime(result, 0, Dropless::ToExperts, 12, 20);
    EXPECT_EQ(result.times[getTime(result, 0, Dropless::ToExperts).cause].launch, Dropless::Gather);
    EXPECT_EQ(getTime(result, 0, Dropless::FromExperts).begin, getTime(result, 0, Dropless::Experts).end);
  }
  // With the second wait the return is late, too.
  profile.host.countsSeconds = 40;
  result = get(run({layer.maker.program}, profile));
  EXPECT_EQ(getTime(result, 0, Dropless::ToExperts).begin, 42);
  profile.host.launchSeconds.fill(20);
  result = get(run({layer.maker.program}, profile));
  // Route, gather and exchange are issued at 20, 40 and 60. The gather ends at 41, and the host goes on at 81.
  EXPECT_EQ(getTime(result, 0, Dropless::ToExperts).begin, 101);
  EXPECT_EQ(getTime(result, 0, Dropless::FromExperts).begin, 141);
}

/// A host that waits for the results of a kernel issues the first launch that reads them after that kernel's end, and
/// other launches before.
TEST(Simulator, HostWaitsForResults) {
  ClusterProfile profile = makeProfile(1);
  addInterference(profile, true, false, true, 1, 1, 1);
  profile.host.launchSeconds.fill(1);
  profile.host.kernelSeconds["free"] = 0;
  Maker maker(1);
  uint32_t moves = maker.stream("copy"), s = maker.stream("compute");
  int32_t buffer = maker.counts(1, 1);
  maker.copy(moves, 10).outputs = {buffer};
  maker.compute(s, 1);
  maker.record(0, moves);
  maker.wait(0, s);
  maker.compute(s, 1).inputs = {buffer};
  maker.compute(s, 1).kernel = "free";
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 0, 1, 11);
  expectTime(result, 0, 1, 2, 3);
  expectTime(result, 0, 2, 11, 12);
  expectTime(result, 0, 3, 12, 13);
  profile.host.awaited.insert("offload");
  result = get(run({maker.program}, profile));
  expectTime(result, 0, 1, 2, 3);
  expectTime(result, 0, 2, 12, 13);
  expectTime(result, 0, 3, 13, 14);
  EXPECT_EQ(result.times[getTime(result, 0, 2).cause].launch, 0u);
}

/// With `inOrder`, an exchange waits for the computation before it, and the computation after it waits for the
/// exchange.
TEST(Simulator, ExchangeInOrder) {
  ClusterProfile profile = makeProfile(2);
  addInterference(profile, true, true, false, 1, 1, 1);
  Maker maker(2);
  uint32_t s = maker.stream("compute"), comm = maker.stream("comm");
  maker.compute(s, 2);
  maker.exchange(comm, maker.group("ep", 2, 1), Collective::AllReduce, 5);
  maker.compute(s, 3);
  maker.compute(s, 1);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 1, 0, 5);
  expectTime(result, 0, 2, 2, 5);
  profile.host.inOrder.insert("all_reduce");
  result = get(run({maker.program}, profile));
  expectTime(result, 0, 1, 2, 7);
  expectTime(result, 0, 2, 7, 10);
  expectTime(result, 0, 3, 10, 11);
}

/// In a window, an exchange in order delays its own direction, and neither the other one nor weight gradients. Without
/// windows, weight gradients wait for the exchanges of the backward.
TEST(Simulator, ExchangeInOrderOfAWindow) {
  ClusterProfile profile = makeProfile(2);
  addInterference(profile, true, true, false, 1, 1, 1);
  profile.host.inOrder.insert("all_reduce");
  auto simulate = [&](bool isWindow) {
    Maker maker(2);
    uint32_t s = maker.stream("compute"), comm = maker.stream("comm");
    int32_t group = maker.group("ep", 2, 1);
    auto mark = [](SimLaunch &launch, bool isBackward) -> SimLaunch & {
      launch.stage = 0;
      launch.microBatch = isBackward ? 0 : 1;
      launch.isBackward = isBackward;
      return launch;
    };
    mark(maker.compute(s, 2), /*isBackward=*/true);
    mark(maker.exchange(comm, group, Collective::AllReduce, 5), /*isBackward=*/true);
    mark(maker.compute(s, 1), /*isBackward=*/false);
    mark(maker.compute(s, 1), /*isBackward=*/true).isOfWeights = true;
    if (isWindow)
      mark(maker.compute(s, 4), /*isBackward=*/true);
    return get(run({maker.program}, profile));
  };
  SimResult window = simulate(true);
  expectTime(window, 0, 1, 2, 7);
  expectTime(window, 0, 2, 2, 3);
  expectTime(window, 0, 3, 3, 4);
  expectTime(window, 0, 4, 7, 11);
  SimResult plain = simulate(false);
  expectTime(plain, 0, 2, 2, 3);
  expectTime(plain, 0, 3, 7, 8);
}

/// A step takes at least the time that its host needs to issue it.
TEST(Simulator, BoundOfTheHost) {
  ClusterProfile profile = makeProfile(1);
  profile.host.launchSeconds.fill(4);
  Maker maker(1);
  uint32_t s = maker.stream("compute");
  for (int64_t seconds : {1, 2, 1})
    maker.compute(s, seconds);
  auto model = llvm::cantFail(CostModel::create(profile, 1, CostForm::ClosedForm));
  EXPECT_EQ(llvm::cantFail(getStepBound({maker.program}, *model, {})), 12);
  EXPECT_EQ(get(run({maker.program}, profile)).seconds, 13);
}

/// Launches without work take no time.
TEST(Simulator, NothingToDo) {
  Maker empty(1);
  SimResult result = get(run({empty.program}, makeProfile(1)));
  EXPECT_EQ(result.seconds, 0);
  EXPECT_TRUE(result.times.empty());
  EXPECT_EQ(result.roofline.linkSeconds, 0);

  Maker maker(2);
  uint32_t s = maker.stream("comm");
  maker.launch(s, "alias", Resource::None);
  maker.exchange(s, maker.group("one", 1, 1), Collective::AllReduce, 7);
  maker.launch(s, "assume_replicated", Resource::None).group = maker.group("mp", 2, 1);
  EXPECT_EQ(get(run({maker.program}, makeProfile(2), allRanks())).seconds, 0);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// A rank that takes 1.5 times as long delays all members of its group, and is the cause.
TEST(Simulator, StragglerDelaysAll) {
  Maker maker(4);
  uint32_t s = maker.stream("compute");
  maker.compute(s, 4);
  maker.exchange(s, maker.group("dp", 4, 1), Collective::AllReduce, 3);
  SimOptions options;
  options.stragglers = {{2, 1.5}};
  SimResult result = get(run({maker.program}, makeProfile(4), options));
  EXPECT_DOUBLE_EQ(result.seconds, 9);
  ASSERT_EQ(result.ranks.size(), 4u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    expectTime(result, rank, 1, 6, 9);
    expectCause(result, rank, 1, 2, 0);
  }
  expectTime(result, 0, 0, 0, 4);
}

/// An exchange has the speed of its slowest member: half, while one of them copies for 3 s.
TEST(Simulator, SlowestMember) {
  ClusterProfile profile = makeProfile(2);
  addInterference(profile, false, true, true, 1, 0.5, 1);
  Maker first(1), second(1, 1);
  for (Maker *maker : {&first, &second})
    maker->exchange(maker->stream("comm"), maker->group("dp", 2, 1), Collective::AllReduce, 8);
  second.copy(second.stream("copy"), 3);
  SimResult result = get(run({first.program, second.program}, profile));
  expectTime(result, 0, 0, 0, 9.5);
  expectTime(result, 1, 0, 0, 9.5);
  expectTime(result, 1, 1, 0, 3);
}

/// Two exchanges of 2 bytes each in both directions share the links at link level. In closed form they do not affect
/// each other.
TEST(Simulator, LinksAreShared) {
  ClusterProfile profile = makeProfile(2);
  addSwitch(profile);
  Maker maker(2);
  int32_t group = maker.group("ep", 2, 1);
  for (const char *name : {"a", "b"})
    maker.exchange(maker.stream(name), group, Collective::AllToAll, 4);
  EXPECT_DOUBLE_EQ(get(run({maker.program}, profile)).seconds, 2);
  SimResult shared = get(run({maker.program}, profile, {}, CostForm::LinkLevel));
  EXPECT_DOUBLE_EQ(shared.seconds, 4);
  EXPECT_EQ(shared.ranks.size(), 2u);
}

/// Parm's SAA on two blocks of two: an exchange of 2 bytes to each in two phases, phase 1 beside an all_gather of 2
/// bytes to the neighbour.
struct Phases {
  enum Launch : uint32_t { First, Second, Gather };

  Phases() : maker(4) {
    uint32_t inter = maker.stream("comm.inter"), intra = maker.stream("comm.intra");
    int32_t all = maker.group("ep_esp", 4, 1), mp = maker.group("mp", 2, 1);
    for (int64_t phase : {0, 1}) {
      OpCost &cost = maker.exchange(inter, all, Collective::AllToAll, 4).cost;
      cost.phase = phase;
      cost.phases = 2;
      if (phase == 0)
        maker.record(0, inter);
    }
    maker.wait(0, intra);
    maker.exchange(intra, mp, Collective::AllGather, 4);
  }

  static ClusterProfile makeSwitch() {
    ClusterProfile profile = makeProfile(4);
    addSwitch(profile);
    profile.algorithms[static_cast<unsigned>(Collective::AllGather)] = Algorithm::Ring;
    return profile;
  }

  Maker maker;
};

/// In closed form the phases take 2 and 4 of the exchange's 6 s, and the all_gather is not slowed. One rank stands for
/// all.
TEST(Simulator, PhasesInClosedForm) {
  Phases phases;
  for (const SimOptions &options : {SimOptions(), allRanks()}) {
    SimResult result = get(run({phases.maker.program}, Phases::makeSwitch(), options));
    EXPECT_EQ(result.ranks.size(), options.allRanks ? 4u : 1u);
    for (uint32_t rank = 0; rank < result.ranks.size(); ++rank) {
      expectTime(result, rank, Phases::First, 0, 2);
      expectTime(result, rank, Phases::Second, 2, 6);
      expectTime(result, rank, Phases::Gather, 2, 4);
      EXPECT_DOUBLE_EQ(getTime(result, rank, Phases::First).bytes, 2);
      EXPECT_DOUBLE_EQ(getTime(result, rank, Phases::Second).bytes, 4);
    }
    EXPECT_DOUBLE_EQ(result.roofline.linkSeconds, 2 + 4 + 2);
  }
}

/// On links both share the device's: the all_gather and both sends of phase 1 have a third each.
TEST(Simulator, PhasesOnLinks) {
  Phases phases;
  SimResult result = get(run({phases.maker.program}, Phases::makeSwitch(), {}, CostForm::LinkLevel));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    expectTime(result, rank, Phases::First, 0, 2);
    expectTime(result, rank, Phases::Gather, 2, 8);
    expectTime(result, rank, Phases::Second, 2, 8);
  }
  EXPECT_DOUBLE_EQ(result.roofline.linkSeconds, 8);
}

/// There are more ranks than a matrix of all is made for: the bound adds up the exchange's two thirds and one.
TEST(Simulator, PhasesOfManyRanks) {
  Phases phases;
  phases.maker.program.numRanks = 256;
  SimResult result = get(run({phases.maker.program}, makeProfile(4, 64)));
  ASSERT_EQ(result.ranks.size(), 1u);
  EXPECT_DOUBLE_EQ(result.roofline.linkSeconds, 8 + 4);
}

/// A phase in which a member has no peers takes no time.
TEST(Simulator, PhaseWithoutPeers) {
  Maker maker(2);
  uint32_t s = maker.stream("comm");
  for (int64_t phase : {0, 1}) {
    OpCost &cost = maker.exchange(s, maker.group("ep", 2, 1), Collective::AllToAll, 3).cost;
    cost.phase = phase;
    cost.phases = 2;
  }
  SimResult result = get(run({maker.program}, makeProfile(2)));
  expectTime(result, 0, 0, 0, 0);
  expectTime(result, 0, 1, 0, 6);
}

/// Random streams, records and waits of launches that do not slow each other, against a clock for each stream and
/// event.
TEST(Simulator, RandomPrograms) {
  std::mt19937 random(1);
  auto pick = [&](uint32_t count) { return static_cast<uint32_t>(random() % count); };
  ClusterProfile profile = makeProfile(2);
  profile.host.launchSeconds.fill(2);
  for (int round = 0; round < 100; ++round) {
    Maker maker(2);
    int32_t group = maker.group("dp", 2, 1);
    uint32_t numStreams = 1 + pick(4);
    for (uint32_t s = 0; s < numStreams; ++s)
      maker.stream("s");
    std::vector<double> streams(numStreams), events(3, -1), begins, ends;
    for (int op = 0; op < 60; ++op) {
      uint32_t kind = pick(3), s = pick(numStreams), event = pick(3);
      if (kind == 0) {
        int64_t seconds = pick(6);
        maker.exchange(s, group, Collective::AllReduce, seconds);
        begins.push_back(std::max(streams[s], 2.0 * static_cast<double>(begins.size() + 1)));
        ends.push_back(streams[s] = begins.back() + static_cast<double>(seconds));
      } else if (kind == 1) {
        maker.record(event, s);
        events[event] = streams[s];
      } else if (events[event] >= 0) {
        maker.wait(event, s);
        streams[s] = std::max(streams[s], events[event]);
      }
    }
    for (const SimOptions &options : {SimOptions(), allRanks()}) {
      SimResult result = get(run({maker.program}, profile, options));
      ASSERT_EQ(result.times.size(), begins.size() * result.ranks.size());
      for (const SimTime &time : result.times) {
        EXPECT_EQ(time.begin, begins[time.launch]);
        EXPECT_EQ(time.end, ends[time.launch]);
        // The cause of a launch ended when the launch began.
        if (time.cause >= 0)
          EXPECT_EQ(result.times[time.cause].end, time.begin);
        else
          EXPECT_EQ(time.begin, 2.0 * (time.launch + 1));
      }
    }
  }
}

/// Two ranks order the collectives of their groups differently, so none goes on.
TEST(Simulator, HangInACycle) {
  std::vector<SimProgram> programs;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Maker maker(1, rank);
    uint32_t s = maker.stream("comm");
    int32_t row = maker.group("row", 2, 1), column = maker.group("column", 2, 2);
    bool rowFirst = rank == 0 || rank == 3;
    maker.exchange(s, rowFirst ? row : column, Collective::AllReduce, 1);
    maker.exchange(s, rowFirst ? column : row, Collective::AllReduce, 1);
    programs.push_back(maker.program);
  }
  expectContains(getError(run(programs, makeProfile(4))),
                 "the programs hang: rank 0 waits in launch 0, 'all_reduce' over group 'row' for rank 1, which never "
                 "reaches launch 1, 'all_reduce'");
}

/// A member whose program ends earlier, and one that arrives with another collective.
TEST(Simulator, HangOfTwoPrograms) {
  Maker first(1), second(1, 1);
  for (Maker *maker : {&first, &second}) {
    maker->stream("comm");
    maker->group("dp", 2, 1);
  }
  first.exchange(0, 0, Collective::AllReduce, 8);
  expectContains(getError(run({first.program, second.program}, makeProfile(2))),
                 "rank 0 waits in launch 0, 'all_reduce' over group 'dp' for rank 1, whose program has no such "
                 "collective");
  second.exchange(0, 0, Collective::AllReduce, 4);
  expectContains(getError(run({first.program, second.program}, makeProfile(2))),
                 "all_reduce of 8 bytes of 'f32' but rank 1 reaches launch 0, 'all_reduce' with all_reduce of 4 bytes");
  for (Maker *maker : {&first, &second}) {
    OpCost &cost = maker->program.launches[0].cost;
    cost.collective = Collective::AllToAll;
    cost.payload = 8;
    cost.phases = 2;
    cost.phase = maker == &second;
  }
  expectContains(
      getError(run({first.program, second.program}, makeProfile(2))),
      "all_to_all of 8 bytes of 'f32' in phase 0 of 2 but rank 1 reaches launch 0, 'all_reduce' with all_to_all of "
      "8 bytes of 'f32' in phase 1 of 2");
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

/// Groups with the same position on the nodes form a class, for which one rank stands. The time is that of all.
TEST(Simulator, OneClass) {
  for (auto [size, stride] : {std::pair(4, 1), {2, 4}, {8, 1}}) {
    SimProgram program = makeGroupProgram(8, size, stride);
    SimResult one = get(run({program}, makeProfile(4, 2)));
    ASSERT_EQ(one.ranks.size(), 1u);
    EXPECT_EQ(one.ranks[0].count, 8);
    EXPECT_DOUBLE_EQ(one.seconds, 14);
    SimResult all = get(run({program}, makeProfile(4, 2), allRanks()));
    EXPECT_EQ(all.ranks.size(), 8u);
    EXPECT_DOUBLE_EQ(all.seconds, one.seconds);
    EXPECT_DOUBLE_EQ(all.roofline.totalFlops, one.roofline.totalFlops);
    EXPECT_DOUBLE_EQ(all.roofline.linkSeconds, one.roofline.linkSeconds);
  }
}

/// Groups of 3 on nodes of 4: ranks 3 to 5 are on two nodes. Groups on both sides of such a group form no run.
TEST(Simulator, UnevenClasses) {
  ClusterProfile profile = makeProfile(4, 3);
  addSwitch(profile);
  SimResult two = get(run({makeGroupProgram(6, 3, 1)}, profile));
  ASSERT_EQ(two.ranks.size(), 2u);
  EXPECT_EQ(two.ranks[0].rank, 0);
  EXPECT_EQ(two.ranks[0].count, 3);
  EXPECT_EQ(two.ranks[1].rank, 3);
  EXPECT_EQ(two.ranks[1].count, 3);
  EXPECT_DOUBLE_EQ(two.seconds, get(run({makeGroupProgram(6, 3, 1)}, profile, allRanks())).seconds);
  EXPECT_EQ(get(run({makeGroupProgram(12, 3, 1)}, profile)).ranks.size(), 12u);
}

/// A level of switches above the nodes matters, too: nodes 2 and 3 are under two of them.
TEST(Simulator, FabricMakesClasses) {
  ClusterProfile profile = makeProfile(1, 6);
  addSwitch(profile);
  EXPECT_EQ(get(run({makeGroupProgram(6, 2, 1)}, profile)).ranks.size(), 1u);
  profile.fabric.push_back({"leaf", 3, 1, 0});
  EXPECT_EQ(get(run({makeGroupProgram(6, 2, 1)}, profile)).ranks.size(), 6u);
}

//===----------------------------------------------------------------------===//
// Processors
//===----------------------------------------------------------------------===//

ClusterProfile makeHost(int64_t ranks, int64_t processors) {
  ClusterProfile profile = makeProfile(ranks);
  profile.processors.count = processors;
  for (Resource resource : {Resource::Matrix, Resource::Memory, Resource::Network})
    profile.processors.speed[static_cast<unsigned>(resource)].assign(processors, 1);
  return profile;
}

/// Three ranks on two processors. Each is issued in 3 s, computes 2 s, has a share of 1 s in an exchange, and computes
/// 1 s. Ranks 0 and 1 are issued at 3. The first processor then issues rank 2 until 6, the second runs 0 (3 to 5) and 1
/// (5 to 7).
TEST(Simulator, ProcessorsTakeJobsInOrder) {
  ClusterProfile profile = makeHost(3, 2);
  profile.host.launchSeconds.fill(1);
  Maker maker(3);
  uint32_t s = maker.stream("compute");
  maker.compute(s, 2);
  maker.exchange(s, maker.group("dp", 3, 1), Collective::AllReduce, 1);
  maker.compute(s, 1);
  SimResult result = get(run({maker.program}, profile));
  expectTime(result, 0, 0, 3, 5);
  expectTime(result, 1, 0, 5, 7);
  expectTime(result, 2, 0, 6, 8);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expectTime(result, rank, 1, 8, 10); // shares from 8 to 9, 8 to 9 and 9 to 10
    expectCause(result, rank, 1, 2, 0);
  }
  expectTime(result, 0, 2, 10, 11);
  expectTime(result, 1, 2, 10, 11);
  expectTime(result, 2, 2, 11, 12);
  expectCause(result, 0, 0, 0, -1);
  expectCause(result, 1, 0, 0, 0); // the processor was busy with it
  expectCause(result, 2, 0, 2, -1);
  EXPECT_EQ(result.times[getTime(result, 2, 2).cause].launch, 2u);
  EXPECT_DOUBLE_EQ(result.seconds, 12);
}

/// Two busy processors run at half speed: after 4 s the first rank's 2 s are done, and the other has 2 of 4 left.
TEST(Simulator, ProcessorsSlowEachOther) {
  ClusterProfile profile = makeHost(2, 2);
  profile.processors.speed[static_cast<unsigned>(Resource::Memory)] = {1, 0.5};
  Maker maker(2);
  maker.compute(maker.stream("compute"), 2);
  SimOptions options;
  options.stragglers = {{1, 2}};
  SimResult result = get(run({maker.program}, profile, options));
  expectTime(result, 0, 0, 0, 4);
  expectTime(result, 1, 0, 0, 6);
}

/// One processor: a stream runs until it has to wait, and a record makes the waiting stream ready. Members also meet
/// for a launch that only states a fact about values.
TEST(Simulator, ProcessorRunsStreams) {
  Maker maker(2);
  uint32_t a = maker.stream("a"), b = maker.stream("b");
  maker.compute(a, 1);
  maker.record(0, a);
  maker.launch(a, "assume_replicated", Resource::None).group = maker.group("mp", 2, 1);
  maker.compute(a, 1);
  maker.wait(0, b);
  maker.compute(b, 1);
  SimResult result = get(run({maker.program}, makeHost(2, 1)));
  // Both ranks' a and b are ready. a of 0 makes its launch and comes to the meeting, b of 0 was not yet there to be
  // woken.
  expectTime(result, 0, 0, 0, 1);
  expectTime(result, 0, 3, 1, 2);
  expectTime(result, 1, 0, 2, 3);
  expectTime(result, 0, 1, 3, 4);
  EXPECT_DOUBLE_EQ(result.seconds, 6);
  EXPECT_EQ(result.times.size(), 8u);
}

/// A record wakes the stream that waits for it. Its own stream goes on without a pause.
TEST(Simulator, ProcessorWakesStreams) {
  Maker maker(1);
  uint32_t a = maker.stream("a"), b = maker.stream("b"), c = maker.stream("c");
  maker.compute(a, 2);
  maker.record(0, a);
  for (uint32_t s : {b, c}) {
    maker.wait(0, s);
    maker.compute(s, 3);
  }
  maker.compute(a, 4);
  SimResult result = get(run({maker.program}, makeHost(1, 2)));
  expectTime(result, 0, 1, 2, 5);
  expectTime(result, 0, 3, 2, 6);
  expectTime(result, 0, 2, 5, 8); // after b, on its processor
  expectCause(result, 0, 2, 0, 1);
  expectCause(result, 0, 1, 0, 0);
}

/// A launch that cuts its member's part out meets no other rank, and phases' shares are their parts of the exchange's.
TEST(Simulator, ProcessorsAndPhases) {
  Copies layer;
  SimResult sliced = get(run({layer.maker.program}, makeHost(4, 4)));
  for (uint32_t rank = 0; rank < 4; ++rank)
    expectTime(sliced, rank, Copies::Slice, 1, 2);
  Phases phases;
  phases.maker.program.launches[Phases::Gather].cost.payload = 0;
  SimResult result = get(run({phases.maker.program}, makeHost(4, 4)));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    expectTime(result, rank, Phases::First, 0, 8 / 3.0);
    expectTime(result, rank, Phases::Second, 8 / 3.0, 8);
  }
}

/// Profiles without the speed of this number of processors, or with processors at link level.
TEST(Simulator, ProcessorErrors) {
  ClusterProfile profile = makeHost(2, 2);
  profile.processors.speed[static_cast<unsigned>(Resource::Memory)] = {1};
  Maker maker(2);
  maker.compute(maker.stream("compute"), 2);
  expectContains(getError(run({maker.program}, profile)),
                 "'processors.speed.memory' for 2 busy processors but got 1 values");
  addSwitch(profile);
  expectContains(getError(run({maker.program}, profile, {}, CostForm::LinkLevel)), "expected --network=closed-form");
}

/// A hang is also detected with shared processors.
TEST(Simulator, ProcessorHang) {
  Maker first(1), second(1, 1);
  for (Maker *maker : {&first, &second}) {
    maker->stream("comm");
    maker->group("dp", 2, 1);
  }
  first.exchange(0, 0, Collective::AllReduce, 8);
  expectContains(getError(run({first.program, second.program}, makeHost(2, 2))), "for rank 1, whose program has no");
}

//===----------------------------------------------------------------------===//
// Bounds and checks
//===----------------------------------------------------------------------===//

/// 2 x 3 x 4 x 5 products at 10 FLOP/s; each rank sends 2 of 8 bytes to each of 3 others.
TEST(Simulator, Roofline) {
  ClusterProfile profile = makeProfile(4);
  profile.memoryBytesPerSecond = 1e9;
  DeviceRate &rate = profile.rates.emplace_back();
  rate.dtype = "f32";
  rate.flopsPerSecond = 10;
  rate.efficiency = {{1}, {1}, {1}, {1}};
  Maker maker(4);
  uint32_t s = maker.stream("compute");
  SimLaunch &product = maker.launch(s, "matmul", Resource::Matrix);
  product.cost.gemm = {1, 3, 4, 5};
  product.cost.flops = 120;
  maker.exchange(s, maker.group("ep", 4, 1), Collective::AllToAll, 8);
  for (const SimOptions &options : {SimOptions(), allRanks()}) {
    SimResult result = get(run({maker.program}, profile, options));
    EXPECT_DOUBLE_EQ(result.seconds, 20);
    EXPECT_DOUBLE_EQ(result.roofline.peakFlops, 10);
    EXPECT_DOUBLE_EQ(result.roofline.totalFlops, 480);
    EXPECT_DOUBLE_EQ(result.roofline.computeSeconds, 12);
    EXPECT_DOUBLE_EQ(result.roofline.linkSeconds, 6);
    EXPECT_DOUBLE_EQ(result.roofline.getRatio(), 2);
  }
}

/// Errors of programs are reported, without a crash.
TEST(Simulator, BadPrograms) {
  auto fail = [](const Maker &maker, int64_t ranks = 2) {
    ClusterProfile profile = makeProfile(2);
    auto model = CostModel::create(profile, ranks, CostForm::ClosedForm);
    return getError(simulate({maker.program}, **model, {}));
  };
  Maker maker(2);
  uint32_t s = maker.stream("compute");
  maker.compute(s, 1);
  expectContains(fail(maker, 1), "expected programs for 1 ranks but got 2");
  Maker other = maker;
  other.program.numRanks = 1;
  expectContains(fail(other), "expected programs for 2 ranks but got 1");
  other = maker;
  other.wait(3, s);
  expectContains(fail(other), "waits for event 3, which was not recorded before");
  other = maker;
  other.exchange(s, other.group("odd", 2, 2), Collective::AllReduce, 1);
  expectContains(fail(other), "group 'odd': expected size times stride to divide 2 ranks but got 2 times 2");
  other = maker;
  other.launch(s, "matmul", Resource::Matrix);
  expectContains(fail(other), "launch 1, 'matmul'");
  other = maker;
  other.compute(s, 1).inputs = {5};
  expectContains(fail(other), "expected buffers below 0");
  other = maker;
  other.compute(7, 1);
  expectContains(fail(other), "expected a stream below 1");
  other = maker;
  other.compute(s, 1).cost.raggedRows = 4;
  expectContains(fail(other), "expected a ragged launch to have the counts of its rows among its inputs");
  for (Collective collective : {Collective::AllToAll, Collective::AllReduce}) {
    other = maker;
    OpCost &cost = other.exchange(s, other.group("ep", 2, 1), collective, 6).cost;
    cost.phases = collective == Collective::AllToAll ? 3 : 2;
    expectContains(fail(other),
                   "expected phases of an all_to_all, in a number that divides its members, but got phase 0 of " +
                       std::to_string(cost.phases));
  }
  other = maker;
  SimLaunch &ragged = other.exchange(s, other.group("ep", 2, 1), Collective::AllToAll, 6);
  ragged.inputs = {other.counts(1, 2)};
  ragged.cost.raggedRows = 6;
  ragged.cost.countsInput = 0;
  ragged.cost.peerDim = 1;
  ragged.cost.copies = 4;
  expectContains(fail(other), "expected copies to divide the members but got 4");
  other = maker;
  other.compute(s, 1).partGroup = 3;
  expectContains(fail(other), "expected a group below 0");
}

/// A straggler that is no rank, and one with a negative time.
TEST(Simulator, BadStragglers) {
  SimOptions options;
  options.stragglers = {{9, 2}};
  expectContains(getError(run({makeGroupProgram(4, 4, 1)}, makeProfile(4), options)),
                 "expected a straggler's rank below 4 but got 9");
  options.stragglers = {{1, -2}};
  expectContains(getError(run({makeGroupProgram(4, 4, 1)}, makeProfile(4), options)),
                 "expected a positive slowdown of rank 1");
}

} // namespace
