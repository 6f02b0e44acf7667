//===- ShadowCountsTest.cpp - rows that the routing decides, by hand ------===//
#include "../../lib/Simulator/Exchanges.h"
#include "SimPrograms.h"

#include <random>

using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// Without shadows
//===----------------------------------------------------------------------===//

/// Even routing: each member sends half of its 8 rows to the other, and each expert gets 8. One rank stands for all.
TEST(CountsTest, EvenRouting) {
  Dropless layer;
  SimResult one = get(run({layer.maker.program}, makeProfile(4)));
  ASSERT_EQ(one.ranks.size(), 1u);
  expectTime(one, 0, Dropless::ToExperts, 3, 11);
  expectTime(one, 0, Dropless::Experts, 11, 19);
  expectTime(one, 0, Dropless::FromExperts, 19, 27);
  const SimTime &experts = getTime(one, 0, Dropless::Experts);
  EXPECT_EQ(experts.rows, 8);
  EXPECT_DOUBLE_EQ(experts.flops, 16);
  EXPECT_DOUBLE_EQ(experts.bytes, 8);
  EXPECT_DOUBLE_EQ(getTime(one, 0, Dropless::ToExperts).bytes, 4);
  SimResult all = get(run({layer.maker.program}, makeProfile(4), allRanks()));
  EXPECT_EQ(all.ranks.size(), 4u);
  EXPECT_DOUBLE_EQ(all.seconds, one.seconds);
  EXPECT_DOUBLE_EQ(all.roofline.totalFlops, 64);
  EXPECT_DOUBLE_EQ(one.roofline.totalFlops, 64);
}

/// Blocks [3 1; 4 0] of ranks 0 and 1 and [1 3; 2 2] of ranks 2 and 3: ranks 0 and 1 have 3 + 4 + 1 + 2 rows for their
/// expert, ranks 2 and 3 have 6. The busiest member sends 3 rows to the other: an even exchange of 6.
TEST(CountsTest, RaggedExchange) {
  Dropless layer;
  RoutingTrace trace = makeTrace(4, 2, {3, 1, 4, 0, 1, 3, 2, 2});
  SimResult result = get(run({layer.maker.program}, makeProfile(4), withTrace(trace)));
  ASSERT_EQ(result.ranks.size(), 4u);
  for (uint32_t rank : {0, 1}) {
    expectTime(result, rank, Dropless::ToExperts, 3, 9);
    expectTime(result, rank, Dropless::Experts, 9, 19);
    EXPECT_EQ(getTime(result, rank, Dropless::Experts).rows, 10);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Dropless::ToExperts).bytes, 1);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Dropless::FromExperts).bytes, 3);
  }
  for (uint32_t rank : {2, 3}) {
    expectTime(result, rank, Dropless::Experts, 9, 15);
    EXPECT_EQ(getTime(result, rank, Dropless::Experts).rows, 6);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Dropless::ToExperts).bytes, 3);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Dropless::FromExperts).bytes, 1);
    expectTime(result, rank, Dropless::FromExperts, 19, 25);
    expectCause(result, rank, Dropless::FromExperts, rank - 2, Dropless::Experts);
  }
  EXPECT_DOUBLE_EQ(result.roofline.totalFlops, 64);
  EXPECT_DOUBLE_EQ(result.seconds, 25);
}

/// A trace of another plan is refused, and the error says what was expected.
TEST(CountsTest, TraceMismatch) {
  Dropless layer;
  auto fail = [&](RoutingTrace trace, int64_t iteration = 0) {
    SimOptions options = withTrace(trace);
    options.iteration = iteration;
    return getError(run({layer.maker.program}, makeProfile(4), options));
  };
  std::string where = "launch 0, 'activation' (layer0): routing trace: expected ";
  expectContains(fail(makeTrace(2, 2, {3, 1, 4, 0})), where + "counts of 4 ranks but got 2");
  expectContains(fail(makeTrace(4, 1, {4, 4, 4, 4})), where + "counts of 2 experts but got 1");
  expectContains(fail(makeTrace(4, 2, {3, 1, 4, 0, 1, 3, 2, 1})),
                 where + "the counts of rank 3 to add up to 4 but got 3");
  expectContains(fail(makeTrace(4, 2, {3, 1, 5, -1, 1, 3, 2, 2})), where + "no negative counts but rank 1 has -1");
  expectContains(fail(makeTrace(4, 2, {3, 1, 4, 0, 1, 3, 2, 2}), 7),
                 where + "counts of layer 0 in iteration 7 but it has none");
  expectContains(fail(makeTrace(4, 2, {4, 0, 4, 0, 4, 0, 2, 2})),
                 "14 rows arrive at rank 0, which has room for 12; compile with a larger --max-load, or with "
                 "--max-load=none for the worst case");
}

/// The capacity form has no ragged values, and any trace is accepted.
TEST(CountsTest, TraceOfCapacityForm) {
  RoutingTrace trace = makeTrace(1, 1, {1});
  EXPECT_DOUBLE_EQ(get(run({makeGroupProgram(4, 4, 1)}, makeProfile(4), withTrace(trace))).seconds, 14);
}

/// Counts that no routing launch wrote are unknown.
TEST(CountsTest, CountsOfUnknownOrigin) {
  Dropless layer;
  layer.maker.program.launches[Dropless::Gather].counts.clear();
  expectContains(getError(run({layer.maker.program}, makeProfile(4))),
                 "launch 3, 'all_to_all': numbers of rows depend on the routing");
}

/// Rows [3 1] of ranks 0 and 1 are parts [2 0] and [1 1]. [1 3] of ranks 2 and 3 are [1 1] and [0 2]. Both holders of
/// expert 0, ranks 0 and 1, get 2, 1, 1 and 0 rows, those of expert 1 get 0, 1, 1 and 2. The ranks therefore send 2, 3,
/// 3 and 2 rows to others, and as many in the return.
TEST(CountsTest, SlicedCountsInCopies) {
  RoutingTrace trace = makeTrace(4, 2, {3, 1, 3, 1, 1, 3, 1, 3});
  for (bool dumped : {false, true}) {
    Copies layer(dumped);
    uint32_t shift = dumped ? 1 : 0;
    SimResult result = get(run({layer.maker.program}, makeProfile(4), withTrace(trace)));
    ASSERT_EQ(result.ranks.size(), 4u);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      expectTime(result, rank, Copies::ToExperts + shift, 3, 7);
      expectTime(result, rank, Copies::Experts + shift, 7, 11);
      expectTime(result, rank, Copies::FromExperts + shift, 11, 15);
      EXPECT_EQ(getTime(result, rank, Copies::ToExperts + shift).rows, 4);
      EXPECT_EQ(getTime(result, rank, Copies::Experts + shift).rows, 4);
      EXPECT_EQ(getTime(result, rank, Copies::FromExperts + shift).rows, 4);
      double sent = rank == 0 || rank == 3 ? 2 : 3;
      EXPECT_DOUBLE_EQ(getTime(result, rank, Copies::ToExperts + shift).bytes, sent);
      EXPECT_DOUBLE_EQ(getTime(result, rank, Copies::FromExperts + shift).bytes, sent);
    }
  }
}

/// Ranks 0 and 1 hold experts 0 and 1, ranks 2 and 3 experts 2 and 3, of tokens that all four have: rows [3 1 0 4].
TEST(CountsTest, CountsOfOwnExperts) {
  Maker maker(4);
  uint32_t s = maker.stream("compute");
  int32_t all = maker.group("all", 4, 1), routed = maker.counts(1, 4), slots = maker.counts(8, 1),
          own = maker.counts(1, 2);
  SimLaunch &route = maker.compute(s, 1);
  route.label = "layer0";
  route.counts = {{0, counts::Route{8, 1}}};
  route.outputs = {routed};
  maker.program.routedLayers = {"layer0"};
  SimLaunch &local = maker.compute(s, 1);
  local.partGroup = all;
  local.counts = {{1, counts::OwnExperts{1, 2}}};
  local.inputs = {slots, routed};
  local.outputs = {maker.counts(8, 1), own};
  Dropless::ragged(maker.compute(s, 8), 8, own);
  RoutingTrace trace = makeTrace(4, 4, {3, 1, 0, 4, 3, 1, 0, 4, 3, 1, 0, 4, 3, 1, 0, 4});
  SimResult result = get(run({maker.program}, makeProfile(4), withTrace(trace)));
  ASSERT_EQ(result.ranks.size(), 4u);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(getTime(result, rank, 2).rows, 4);
  trace = makeTrace(4, 4, {1, 1, 0, 6, 1, 1, 0, 6, 1, 1, 0, 6, 1, 1, 0, 6});
  result = get(run({maker.program}, makeProfile(4), withTrace(trace)));
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(getTime(result, rank, 2).rows, rank < 2 ? 2 : 6);
  // Without a trace each expert has two rows.
  EXPECT_EQ(getTime(get(run({maker.program}, makeProfile(4))), 0, 2).rows, 4);
  maker.program.launches[1].partGroup = -1;
  expectContains(getError(run({maker.program}, makeProfile(4))),
                 "launch 1, 'activation': counts by rule 'own_experts': expected a group");
}

/// There are 2 of 4 rows for each expert, sorted by expert: one neighbour has those of one, the other those of the
/// other. Ranks 1 and 2 send all of 4 rows to others, as in an even exchange of 16/3 bytes. No rank stands for others.
TEST(CountsTest, SlicedCountsAreNotEven) {
  Copies layer;
  SimResult result = get(run({layer.maker.program}, makeProfile(4)));
  ASSERT_EQ(result.ranks.size(), 4u);
  expectTime(result, 0, Copies::ToExperts, 3, 3 + 16 / 3.0);
  EXPECT_DOUBLE_EQ(getTime(result, 0, Copies::ToExperts).bytes, 2);
  EXPECT_DOUBLE_EQ(getTime(result, 1, Copies::ToExperts).bytes, 4);
}

/// Members of copies get all rows. Without slices, routing stays even, and the payload is that of all copies.
TEST(CountsTest, EvenCopies) {
  Copies layer;
  SimProgram &program = layer.maker.program;
  program.launches[Copies::Slice].counts = {{0, counts::Repeat{0, 1, 1}}};
  for (uint32_t launch : {Copies::ToExperts, Copies::FromExperts})
    program.launches[launch].cost.raggedRows = program.launches[launch].cost.payload = 8;
  SimResult result = get(run({program}, makeProfile(4)));
  ASSERT_EQ(result.ranks.size(), 1u);
  expectTime(result, 0, Copies::ToExperts, 3, 11);
  EXPECT_DOUBLE_EQ(getTime(result, 0, Copies::ToExperts).bytes, 6);
  EXPECT_EQ(getTime(result, 0, Copies::Experts).rows, 8);
  expectTime(result, 0, Copies::FromExperts, 19, 27);
}

/// Counts pass through a launch without a rule, and into a value of another shape.
TEST(CountsTest, CountsThatCannotBeCut) {
  Copies layer;
  SimLaunch &slice = layer.maker.program.launches[Copies::Slice];
  SimLaunch good = slice;
  slice.counts.clear();
  expectContains(getError(run({layer.maker.program}, makeProfile(4))), "numbers of rows depend on the routing");
  slice.counts = {{0, counts::SliceRows{1, 4}}};
  expectContains(
      getError(run({layer.maker.program}, makeProfile(4))),
      "launch 1, 'activation': counts by rule 'slice_rows': expected an output and inputs that the launch has");
  slice.counts = {{0, counts::SliceRows{0, -4}}};
  expectContains(getError(run({layer.maker.program}, makeProfile(4))),
                 "launch 1, 'activation': counts by rule 'slice_rows': expected rows to be at least 0 but got -4");
  slice = good;
  layer.maker.program.buffers[0].shape = {1, 4};
  expectContains(getError(run({layer.maker.program}, makeProfile(4))),
                 "launch 1, 'activation': expected the input to have as many counts as the output");
}

/// Rules whose sizes do not fit the launch are refused.
TEST(CountsTest, RulesOfOtherSizes) {
  auto fail = [](uint32_t launch, CountsRule rule) {
    Dropless layer;
    layer.maker.program.launches[launch].counts = {std::move(rule)};
    return getError(run({layer.maker.program}, makeProfile(4)));
  };
  expectContains(fail(Dropless::Exchange, {0, counts::Exchange{0, 1, 0, 3}}),
                 "counts by rule 'exchange': expected copies to divide the 2 members but got 3");
  expectContains(
      fail(Dropless::Route, {0, counts::Route{int64_t(1) << 40, 2}}),
      "counts by rule 'route': expected at most 2147483647 choices but got 1099511627776 tokens with 2 each");
  std::string homes =
      "counts by rule 'route_near_home': expected homes to divide the experts, and groups the tokens, but got ";
  expectContains(fail(Dropless::Route, {0, counts::RouteNearHome{4, 1, 1, 1, /*homes=*/3, 1, 1}}), homes + "3 and 1");
  expectContains(fail(Dropless::Route, {0, counts::RouteNearHome{4, 1, /*groups=*/3, 1, 2, 1, 1}}), homes + "2 and 3");
  expectContains(fail(Dropless::Route, {0, counts::RouteInGroups{4, 2, /*groups=*/4, /*topGroups=*/1}}),
                 "counts by rule 'route_in_groups': expected equal groups of experts, of which 1 of 4 hold 2 choices");
}

/// Counts that are written through a view are known under that view's name, if the buffer has no other.
TEST(CountsTest, CountsInViews) {
  Copies layer;
  SimProgram &program = layer.maker.program;
  int32_t base = layer.maker.counts(2, 2), part = program.launches[Copies::Slice].outputs[0];
  program.buffers[part].base = base;
  EXPECT_EQ(get(run({program}, makeProfile(4))).ranks.size(), 4u);
  layer.maker.compute(0, 1).outputs = {base};
  expectContains(getError(run({program}, makeProfile(4))), "numbers of rows depend on the routing");
}

/// A dropless layer in chunks on 2 ranks with one expert each. Each chunk's row of the counts is a view. Each chunk has
/// a launch on the rows before they are sent, an exchange of the counts, and a launch on the expert's rows.
struct Chunks {
  explicit Chunks(int64_t chunks, int64_t choices) : maker(2) {
    uint32_t s = maker.stream("compute");
    int32_t ep = maker.group("ep", 2, 1), routed = maker.counts(chunks, 2);
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{0, counts::Route{choices, 1}}};
    route.outputs = {routed};
    maker.program.routedLayers = {"layer0"};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int32_t part = maker.counts(1, 2), experts = maker.counts(2, 1);
      maker.program.buffers[part].base = routed;
      maker.program.buffers[part].firstRow = chunk;
      Dropless::ragged(maker.compute(s, choices), choices, part);
      Dropless::move(maker.exchange(s, ep, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, 1}, part, experts);
      Dropless::ragged(maker.compute(s, 2 * choices), 2 * choices, experts);
    }
  }
  static uint32_t getSent(int64_t chunk) { return static_cast<uint32_t>(1 + 3 * chunk); }
  static uint32_t getReceived(int64_t chunk) { return getSent(chunk) + 2; }

  Maker maker;
};

/// The choices [3 1] with even numbers of rank 0's [5 2] are in the first of two chunks, and four of rank 1's [0 7].
/// Expert 0 has 3 and 2 rows, expert 1 has 1 + 4 and 1 + 3.
TEST(CountsTest, CountsOfChunks) {
  Chunks layer(2, 7);
  RoutingTrace trace = makeTrace(2, 2, {5, 2, 0, 7});
  SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  ASSERT_EQ(result.ranks.size(), 2u);
  for (auto [chunk, rank, sent, received] :
       {std::array<int64_t, 4>{0, 0, 4, 3}, {1, 0, 3, 2}, {0, 1, 4, 5}, {1, 1, 3, 4}}) {
    EXPECT_EQ(getTime(result, rank, Chunks::getSent(chunk)).rows, sent);
    EXPECT_EQ(getTime(result, rank, Chunks::getReceived(chunk)).rows, received);
  }
}

/// For any choices, no row is lost, and no chunk has more than its share of whole rows.
TEST(CountsTest, CountsOfChunksAddUp) {
  std::mt19937 random(3);
  for (int64_t chunks : {1, 2, 3, 4, 8})
    for (int64_t choices : {1, 5, 16, 37}) {
      SCOPED_TRACE(std::to_string(choices) + " choices in " + std::to_string(chunks) + " chunks");
      Chunks layer(chunks, choices);
      std::uniform_int_distribution<int32_t> first(0, static_cast<int32_t>(choices));
      auto all = static_cast<int32_t>(choices);
      int32_t a = first(random), b = first(random);
      RoutingTrace trace = makeTrace(2, 2, {a, all - a, b, all - b});
      SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
      ASSERT_EQ(result.ranks.size(), 2u);
      for (uint32_t rank : {0, 1}) {
        int64_t sent = 0, received = 0;
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          int64_t rows = getTime(result, rank, Chunks::getSent(chunk)).rows;
          EXPECT_GE(rows, choices / chunks);
          EXPECT_LE(rows, (choices + chunks - 1) / chunks);
          sent += rows;
          received += getTime(result, rank, Chunks::getReceived(chunk)).rows;
        }
        EXPECT_EQ(sent, choices);
        EXPECT_EQ(received, rank == 0 ? a + b : 2 * choices - a - b);
      }
    }
}

/// The beginning of a view is unknown.
TEST(CountsTest, CountsOfAnUnknownPart) {
  Chunks layer(2, 7);
  layer.maker.program.buffers[1].firstRow = -1;
  expectContains(getError(run({layer.maker.program}, makeProfile(2), withTrace(makeTrace(2, 2, {5, 2, 0, 7})))),
                 "numbers of rows depend on the routing");
}

//===----------------------------------------------------------------------===//
// Shadows
//===----------------------------------------------------------------------===//

/// A dropless layer on two ranks with two experts and 6 choices each, and two places for shadows, whose values have 5
/// bytes. A row takes 1 s to compute, 1 s in each direction to send, and an expert's broadcast 1 s.
struct Shadowed {
  enum Launch : uint32_t { Route, Gather, Choose, Divide, Exchange, ToExperts, Experts, Broadcast, Shadows, Reduce };

  explicit Shadowed(int64_t most, int64_t chunks = 1) : maker(2) {
    uint32_t s = maker.stream("compute");
    int32_t ep = maker.group("ep", 2, 1);
    int32_t choices = maker.counts(6, 1), routed = maker.counts(1, 4), all = maker.counts(2, 4);
    int32_t flags = maker.counts(1, 4), slots = maker.counts(6, 1), counts = maker.counts(chunks, 4);
    int32_t places = maker.counts(1, 2), experts = maker.counts(2, 2), first = counts;
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{1, counts::Route{6, 1}}};
    route.outputs = {choices, routed};
    maker.program.routedLayers = {"layer0"};
    Dropless::move(maker.exchange(s, ep, Collective::AllGather, 1), counts::Gather{0, 0}, routed, all);
    SimLaunch &choose = maker.compute(s, 1);
    counts::ChooseShadows choice;
    choice.policy = 1;
    choice.workers = choice.nodeWorkers = 2;
    choice.most = most;
    choice.rowCompute = choice.rowSend = choice.expert = 1;
    Dropless::move(choose, choice, all, flags);
    SimLaunch &divide = maker.compute(s, 1);
    divide.inputs = {choices, flags};
    divide.outputs = {slots, counts, slots, places};
    divide.counts = {{1, counts::KeptChoices{0, 1}}, {3, counts::ShadowChoices{0, 1}}};
    if (chunks > 1) {
      first = maker.counts(1, 4);
      maker.program.buffers[first].base = counts;
      maker.program.buffers[first].firstRow = 0;
    }
    Dropless::move(maker.exchange(s, ep, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, 1}, first, experts);
    Dropless::ragged(maker.exchange(s, ep, Collective::AllToAll, 6), 6, first).cost.peerDim = 1;
    Dropless::ragged(maker.compute(s, 12), 12, experts).cost.flops = 12;
    Dropless::ragged(maker.exchange(s, ep, Collective::Broadcast, 10), 2, flags);
    Dropless::ragged(maker.compute(s, 6), 6, places).cost.flops = 6;
    Dropless::ragged(maker.exchange(s, ep, Collective::Reduce, 10), 2, flags);
  }
  SimLaunch &get(Launch launch) { return maker.program.launches[launch]; }
  counts::ChooseShadows &choice() { return std::get<counts::ChooseShadows>(get(Choose).counts[0].how); }

  Maker maker;
};

/// Loads are 7 1 2 2, so the workers have 8 and 4 rows: 3 * 8 + 4 * 8 = 56 s. With expert 0 as a shadow they have 5 and
/// 7 rows, 23 s. With 0 and 2 (as loaded as 3, which is behind it) they have 6 and 6, 18 + 4 s.
RoutingTrace makeSkewed() { return makeTrace(2, 4, {4, 1, 1, 0, /**/ 3, 0, 1, 2}); }

/// Both shadows have a place. The other experts get rows only from their own workers: nothing is sent.
TEST(ShadowCountsTest, TwoShadows) {
  Shadowed layer(2);
  RoutingTrace trace = makeSkewed();
  SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  ASSERT_EQ(result.ranks.size(), 2u);
  for (uint32_t rank : {0, 1}) {
    expectTime(result, rank, Shadowed::ToExperts, 5, 5);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Shadowed::ToExperts).bytes, 0);
    EXPECT_EQ(getTime(result, rank, Shadowed::Experts).rows, rank == 0 ? 1 : 2);
    expectTime(result, rank, Shadowed::Broadcast, 7, 7 + 10);
    EXPECT_EQ(getTime(result, rank, Shadowed::Broadcast).rows, 2);
    EXPECT_DOUBLE_EQ(getTime(result, rank, Shadowed::Broadcast).bytes, 5);
    EXPECT_EQ(getTime(result, rank, Shadowed::Shadows).rows, rank == 0 ? 5 : 4);
    EXPECT_EQ(getTime(result, rank, Shadowed::Reduce).rows, 2);
  }
  EXPECT_DOUBLE_EQ(result.seconds, 17 + 5 + 10);
  // All choices are computed.
  EXPECT_DOUBLE_EQ(result.roofline.totalFlops, 12);
}

/// One shadow uses half of the places, and half of the time. Rank 0 sends one row, for expert 2, to rank 1.
TEST(ShadowCountsTest, OneShadow) {
  Shadowed layer(1);
  RoutingTrace trace = makeSkewed();
  SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  expectTime(result, 0, Shadowed::ToExperts, 5, 7);
  EXPECT_DOUBLE_EQ(getTime(result, 0, Shadowed::ToExperts).bytes, 1);
  EXPECT_DOUBLE_EQ(getTime(result, 1, Shadowed::ToExperts).bytes, 0);
  EXPECT_EQ(getTime(result, 0, Shadowed::Experts).rows, 1);
  EXPECT_EQ(getTime(result, 1, Shadowed::Experts).rows, 4);
  EXPECT_EQ(getTime(result, 0, Shadowed::Shadows).rows, 4);
  EXPECT_EQ(getTime(result, 1, Shadowed::Shadows).rows, 3);
  expectTime(result, 1, Shadowed::Broadcast, 11, 16);
  EXPECT_DOUBLE_EQ(result.roofline.totalFlops, 12);
}

/// If no shadow pays, there is no broadcast, and no start of one. Even routing stays even, and one rank stands for all.
TEST(ShadowCountsTest, NoShadows) {
  Shadowed layer(2);
  layer.choice().expert = 1000;
  ClusterProfile profile = makeProfile(2);
  for (CollectiveFit &fit : profile.collectives)
    if (fit.collective == Collective::Broadcast || fit.collective == Collective::Reduce)
      fit.alpha = 3;
  for (const SimOptions &options : {SimOptions(), allRanks()}) {
    SimResult result = get(run({layer.maker.program}, profile, options));
    EXPECT_EQ(result.ranks.size(), options.allRanks ? 2u : 1u);
    EXPECT_EQ(getTime(result, 0, Shadowed::Experts).rows, 6);
    EXPECT_EQ(getTime(result, 0, Shadowed::Broadcast).rows, 0);
    expectTime(result, 0, Shadowed::Broadcast, 17, 17);
    expectTime(result, 0, Shadowed::Shadows, 17, 17);
    EXPECT_DOUBLE_EQ(result.seconds, 17);
  }
}

/// Shadows are chosen for even routing, too: 3 rows of each expert on two workers are 6 and 6, 42 s. A shadow that
/// costs almost nothing saves 18 s or more of their exchange. The rows are then not even, and no rank stands for
/// others.
TEST(ShadowCountsTest, ShadowsOfEvenRouting) {
  Shadowed layer(2);
  layer.choice().expert = 0.125;
  SimResult result = get(run({layer.maker.program}, makeProfile(2)));
  ASSERT_EQ(result.ranks.size(), 2u);
  EXPECT_GT(getTime(result, 0, Shadowed::Broadcast).rows, 0);
  EXPECT_EQ(getTime(result, 0, Shadowed::Experts).rows + getTime(result, 1, Shadowed::Experts).rows +
                getTime(result, 0, Shadowed::Shadows).rows + getTime(result, 1, Shadowed::Shadows).rows,
            12);
}

/// The chunk of a choice does not depend on shadows: the first chunk has [2 1 0 0] of [4 1 1 0], from which expert 1's
/// rows remain, and [2 0 0 1] of [3 0 1 2].
TEST(ShadowCountsTest, Chunks) {
  Shadowed layer(2, 2);
  RoutingTrace trace = makeSkewed();
  SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  EXPECT_EQ(getTime(result, 0, Shadowed::Experts).rows, 1);
  EXPECT_EQ(getTime(result, 1, Shadowed::Experts).rows, 1);
  EXPECT_EQ(getTime(result, 0, Shadowed::Shadows).rows, 5);
  EXPECT_EQ(getTime(result, 1, Shadowed::Shadows).rows, 4);
}

/// Errors: more shadows than places, parameters that do not fit the counts, and choices of unknown origin.
TEST(ShadowCountsTest, Errors) {
  RoutingTrace trace = makeSkewed();
  auto fail = [&](const Shadowed &layer) {
    return getError(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  };
  Shadowed layer(3);
  layer.maker.program.buffers[6].shape = {1, 1};
  expectContains(fail(layer), "launch 3, 'activation': expected at most 1 shadows, one for each place, but got 2");
  layer = Shadowed(2);
  layer.get(Shadowed::Broadcast).cost.raggedRows = 1;
  expectContains(fail(layer), "launch 7, 'broadcast': expected at most 1 shadows, one for each place, but got 2");
  layer = Shadowed(2);
  layer.choice().workers = 3;
  expectContains(fail(layer), "launch 2, 'activation': expected counts, shadows and parameters that fit each other");
  layer.choice().start = -1;
  expectContains(
      fail(layer),
      "launch 2, 'activation': counts by rule 'choose_shadows': expected start to be finite and not negative");
  layer = Shadowed(2);
  layer.get(Shadowed::Divide).inputs[0] = layer.get(Shadowed::Divide).outputs[0];
  expectContains(fail(layer), "launch 3, 'activation': expected the choices of a routing launch");
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// A ragged exchange to the experts and back on one group, in `phases` phases. `copies` members hold each expert. A row
/// has three bytes.
struct PhasedExchange {
  PhasedExchange(int64_t size, int64_t copies, int64_t phases) : maker(size), phases(phases) {
    uint32_t s = maker.stream("comm");
    int32_t ep = maker.group("ep", size, 1);
    int64_t experts = 2 * size / copies, choices = 1024;
    int32_t routed = maker.counts(1, experts), received = maker.counts(size, 2);
    SimLaunch &route = maker.compute(s, 1);
    route.label = "layer0";
    route.counts = {{0, counts::Route{choices, 1}}};
    route.outputs = {routed};
    maker.program.routedLayers = {"layer0"};
    Dropless::move(maker.exchange(s, ep, Collective::AllToAll, 1), counts::Exchange{0, 1, 0, copies}, routed, received);
    for (int64_t phase = 0; phase < phases; ++phase) {
      add(s, ep, choices * copies, routed, phase).peerDim = 1;
      int32_t part = phases == 1 ? received : view(received, ep, size / phases, phase);
      add(s, ep, choices * copies, part, phase).peerDim = 0;
    }
    for (SimLaunch &launch : maker.program.launches)
      launch.cost.copies = launch.cost.raggedRows > 0 ? copies : 1;
  }
  OpCost &add(uint32_t stream, int32_t group, int64_t rows, int32_t counts, int64_t phase) {
    SimLaunch &launch = maker.exchange(stream, group, Collective::AllToAll, 3 * (rows / phases));
    launch.cost.phase = phase;
    launch.cost.phases = phases;
    return Dropless::ragged(launch, rows / phases, counts).cost;
  }
  /// A view as in moe.phase.
  int32_t view(int32_t base, int32_t group, int64_t rows, int64_t phase) {
    int32_t part = maker.counts(rows, 2);
    SimBuffer &buffer = maker.program.buffers[part];
    buffer.base = base;
    buffer.firstRow = 0;
    buffer.partGroup = group;
    buffer.parts = phases;
    buffer.shift = phase;
    return part;
  }
  static uint32_t getToExperts(int64_t phase) { return static_cast<uint32_t>(2 + 2 * phase); }
  static uint32_t getFromExperts(int64_t phase) { return getToExperts(phase) + 1; }

  Maker maker;
  int64_t phases;
};

/// Counts that the simulator reads of a program.
struct Matrices {
  Matrices(const SimProgram &program, const RoutingTrace *trace)
      : programs(program), world(llvm::cantFail(SimWorld::create(programs, program.numRanks))),
        counts(llvm::cantFail(Counts::create(world, trace, 0))), exchanges(world, counts) {}

  std::vector<int64_t> get(uint32_t launch) { return llvm::cantFail(exchanges.make(0, launch)).matrix.vec(); }
  int64_t getRows(int64_t rank, uint32_t launch) {
    return counts.getRows(*llvm::cantFail(counts.get(rank, launch)), rank, launch);
  }

  llvm::ArrayRef<SimProgram> programs;
  SimWorld world;
  Counts counts;
  Exchanges exchanges;
};

RoutingTrace makeRandom(int64_t ranks, int64_t experts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> counts(ranks * experts);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t choice = 0; choice < 1024; ++choice)
      ++counts[rank * experts + std::min<int64_t>(random() % experts, random() % experts)];
  return makeTrace(ranks, experts, std::move(counts));
}

/// Rows 4 to 8 of a base in two parts, over four members at distance 2: the first two have the second part.
TEST(ShadowCountsTest, PartsOfAView) {
  SimProgram program;
  program.groups = {{"ep", 4, 2}};
  SimBuffer view;
  view.shape = {2, 2};
  view.base = view.partGroup = 0;
  view.firstRow = 4;
  view.parts = 2;
  view.shift = 1;
  program.buffers = {SimBuffer(), view};
  for (auto [rank, row] : {std::pair(0, 6), {1, 6}, {2, 6}, {4, 4}, {7, 4}, {8, 6}, {13, 4}})
    EXPECT_EQ(program.getFirstRow(1, rank), row) << "rank " << rank;
  EXPECT_EQ(program.getFirstRow(0, 0), -1);
}

/// Two members have two experts each, rows [1000 4 8 12] and [100 200 300 424], in two phases. First each keeps its own
/// rows, then they send each other 20 and 300 rows, and get as many back.
TEST(ShadowCountsTest, TwoPhases) {
  PhasedExchange layer(2, 1, 2);
  RoutingTrace trace = makeTrace(2, 4, {1000, 4, 8, 12, 100, 200, 300, 424});
  Matrices matrices(layer.maker.program, &trace);
  using Matrix = std::vector<int64_t>;
  EXPECT_EQ(matrices.get(PhasedExchange::getToExperts(0)), Matrix({3 * 1004, 0, 0, 3 * 724}));
  EXPECT_EQ(matrices.get(PhasedExchange::getToExperts(1)), Matrix({0, 60, 900, 0}));
  EXPECT_EQ(matrices.get(PhasedExchange::getFromExperts(0)), Matrix({3 * 1004, 0, 0, 3 * 724}));
  EXPECT_EQ(matrices.get(PhasedExchange::getFromExperts(1)), Matrix({0, 900, 60, 0}));
  EXPECT_EQ(matrices.getRows(0, PhasedExchange::getToExperts(1)), 20);
  EXPECT_EQ(matrices.getRows(0, PhasedExchange::getFromExperts(1)), 300);
  SimResult result = get(run({layer.maker.program}, makeProfile(2), withTrace(trace)));
  // The busiest sends 900 bytes to its only peer: an even exchange of 1800.
  expectTime(result, 0, PhasedExchange::getToExperts(0), 2, 2);
  expectTime(result, 0, PhasedExchange::getToExperts(1), 2, 1802);
  EXPECT_DOUBLE_EQ(getTime(result, 0, PhasedExchange::getToExperts(1)).bytes, 60);
  EXPECT_DOUBLE_EQ(getTime(result, 0, PhasedExchange::getFromExperts(1)).bytes, 900);
}

/// In three phases of three members the second sends to the one before, whose rows come back from there.
TEST(ShadowCountsTest, ThreePhases) {
  PhasedExchange layer(3, 1, 3);
  RoutingTrace trace = makeRandom(3, 6, 1);
  Matrices matrices(layer.maker.program, &trace);
  const std::vector<int32_t> &counts = *trace.getCounts(0, 0);
  std::vector<int64_t> there = matrices.get(PhasedExchange::getToExperts(1));
  std::vector<int64_t> back = matrices.get(PhasedExchange::getFromExperts(1));
  for (int64_t from = 0; from < 3; ++from)
    for (int64_t to = 0; to < 3; ++to) {
      int64_t rows = to == (from + 2) % 3 ? counts[from * 6 + 2 * to] + counts[from * 6 + 2 * to + 1] : 0;
      EXPECT_EQ(there[from * 3 + to], 3 * rows) << from << " to " << to;
      EXPECT_EQ(back[to * 3 + from], 3 * rows) << to << " back to " << from;
    }
}

/// For any number of phases and copies, the phases together send what the whole exchange does, each pair in one phase,
/// and as much back.
TEST(ShadowCountsTest, PhasesAddUp) {
  for (auto [size, copies, phases] : {std::array<int64_t, 3>{4, 1, 2}, {4, 1, 4}, {4, 2, 2}, {8, 1, 2}, {8, 2, 4}}) {
    SCOPED_TRACE(std::to_string(size) + " members, " + std::to_string(copies) + " copies, " + std::to_string(phases) +
                 " phases");
    RoutingTrace trace = makeRandom(size, 2 * size / copies, 7);
    PhasedExchange whole(size, copies, 1), parts(size, copies, phases);
    Matrices one(whole.maker.program, &trace), all(parts.maker.program, &trace);
    for (bool back : {false, true}) {
      auto getLaunch = back ? PhasedExchange::getFromExperts : PhasedExchange::getToExperts;
      std::vector<int64_t> sum(size * size), used(size * size), rows(size);
      for (int64_t phase = 0; phase < phases; ++phase) {
        std::vector<int64_t> matrix = all.get(getLaunch(phase));
        for (int64_t pair = 0; pair < size * size; ++pair) {
          sum[pair] += matrix[pair];
          used[pair] += matrix[pair] > 0;
        }
        for (int64_t rank = 0; rank < size; ++rank)
          rows[rank] += all.getRows(rank, getLaunch(phase));
      }
      EXPECT_EQ(sum, one.get(getLaunch(0)));
      EXPECT_EQ(*llvm::max_element(used), 1);
      for (int64_t rank = 0; rank < size; ++rank)
        EXPECT_EQ(rows[rank], one.getRows(rank, getLaunch(0)));
    }
  }
}

/// Even routing needs no matrix, also in phases: the payload gives the same times, in both forms and both directions.
TEST(ShadowCountsTest, EvenPhases) {
  PhasedExchange layer(4, 1, 2);
  RoutingTrace trace = makeTrace(4, 8, std::vector<int32_t>(32, 128));
  ClusterProfile links = makeProfile(4);
  addSwitch(links);
  for (CostForm form : {CostForm::ClosedForm, CostForm::LinkLevel}) {
    const ClusterProfile &profile = form == CostForm::ClosedForm ? makeProfile(4) : links;
    SimResult even = get(run({layer.maker.program}, profile, allRanks(), form));
    SimResult traced = get(run({layer.maker.program}, profile, withTrace(trace), form));
    ASSERT_EQ(even.times.size(), traced.times.size());
    for (auto [a, b] : llvm::zip_equal(even.times, traced.times)) {
      EXPECT_DOUBLE_EQ(a.end, b.end);
      EXPECT_DOUBLE_EQ(a.bytes, b.bytes);
      EXPECT_EQ(a.rows, b.rows);
    }
    EXPECT_DOUBLE_EQ(even.roofline.linkSeconds, traced.roofline.linkSeconds);
  }
  EXPECT_EQ(get(run({layer.maker.program}, makeProfile(4))).ranks.size(), 1u);
}

/// A part of a block holds half of an expert's copies.
TEST(ShadowCountsTest, WrongPhases) {
  PhasedExchange layer(4, 2, 2);
  for (SimLaunch &launch : layer.maker.program.launches)
    if (launch.cost.phases == 2)
      launch.cost.phases = 4;
  expectContains(getError(run({layer.maker.program}, makeProfile(4))),
                 "expected phases of an all_to_all, in a number that divides its members, but got phase 0 of 4");
}

//===----------------------------------------------------------------------===//
// The topology-aware gate
//===----------------------------------------------------------------------===//

/// 10 tokens have two choices each, of 6 experts in three homes, with two ranks for each home.
constexpr counts::RouteNearHome kGate = {/*tokens=*/10, /*topK=*/2,       /*groups=*/1,  /*leave=*/2,
                                         /*homes=*/3,   /*homeStride=*/2, /*homeSpan=*/1};
using Choices = std::vector<int32_t>;

/// Rank 3 is at home with experts 2 and 3. 4 of 10 choices elsewhere stay there: 4, 2, 3 and 1 of 10 are 1.6, 0.8, 1.2
/// and 0.4 of 4. The other 6 go home, 3 and 3.
TEST(GateTest, KeepsInProportion) {
  EXPECT_EQ(applyGate(kGate, Choices({4, 2, 5, 5, 3, 1}), 3), Choices({2, 1, 8, 8, 1, 0}));
}

/// Expert 3 has room for one more token. The rest goes to expert 2.
TEST(GateTest, NoExpertAboveTheTokens) {
  EXPECT_EQ(applyGate(kGate, Choices({5, 5, 1, 9, 0, 0}), 2), Choices({2, 2, 6, 10, 0, 0}));
}

/// No token chose an expert at home, so they share evenly, and the first gets the odd one.
TEST(GateTest, NobodyAtHome) {
  counts::RouteNearHome gate = kGate;
  gate.leave = 0;
  gate.topK = 1;
  EXPECT_EQ(applyGate(gate, Choices({0, 0, 0, 4, 2, 1}), 0), Choices({4, 3, 0, 0, 0, 0}));
}

/// Choices below the limit do not change, also on the rank of another home.
TEST(GateTest, Free) {
  Choices choices = {9, 7, 1, 1, 1, 1};
  EXPECT_EQ(applyGate(kGate, choices, 0), choices);
  EXPECT_EQ(applyGate(kGate, choices, 6), choices);
  EXPECT_NE(applyGate(kGate, choices, 2), choices);
}

/// A limit that overflows when multiplied by the choices of a token.
TEST(GateTest, AnyLimit) {
  counts::RouteNearHome gate = kGate;
  gate.leave = std::numeric_limits<int64_t>::max();
  Choices choices = {5, 5, 4, 4, 1, 1};
  EXPECT_EQ(applyGate(gate, choices, 2), choices);
}

/// Two groups of five tokens at two homes: each has half of [0 0 8 8 2 2], and at most two of each choice may leave.
TEST(GateTest, Groups) {
  counts::RouteNearHome gate = kGate;
  gate.groups = 2;
  EXPECT_EQ(applyGate(gate, Choices({0, 0, 8, 8, 2, 2}), 2), Choices({0, 0, 4 + 2, 4 + 2, 1 + 3, 1 + 3}));
}

/// For any choices, none is lost, no more leave than may, no expert away from home gains, and no expert has more than
/// the tokens.
TEST(GateTest, Invariants) {
  std::mt19937 random(5);
  for (int64_t leave : {0, 1, 3, 8})
    for (int trial = 0; trial < 200; ++trial) {
      counts::RouteNearHome gate = kGate;
      gate.leave = leave;
      Choices choices(6);
      for (int choice = 0; choice < 20; ++choice) {
        size_t expert = std::min(random() % 6, random() % 6);
        while (choices[expert] == 10)
          expert = (expert + 1) % 6;
        ++choices[expert];
      }
      int64_t rank = static_cast<int64_t>(random() % 12), home = rank / 2 % 3, away = 0, sum = 0;
      Choices gated = applyGate(gate, choices, rank);
      for (int64_t expert = 0; expert < 6; ++expert) {
        sum += gated[expert];
        EXPECT_LE(gated[expert], 10);
        if (expert / 2 == home) {
          EXPECT_GE(gated[expert], choices[expert]);
          continue;
        }
        away += gated[expert];
        EXPECT_LE(gated[expert], choices[expert]);
      }
      EXPECT_EQ(sum, 20);
      EXPECT_LE(away, 2 * leave);
    }
}

/// A layer on 2 x 2 ranks whose gate lets one choice of each rank leave the node. The trace's 3 and 4 choices for rank
/// 0's and 1's own node do not change, but rank 3 keeps one of two elsewhere. Even routing is gated as well, and then
/// is not even.
TEST(ShadowCountsTest, GatedLayer) {
  Dropless layer;
  SimLaunch &route = layer.maker.program.launches[Dropless::Route];
  counts::RouteNearHome gate{/*tokens=*/4, /*topK=*/1,       /*groups=*/1,  /*leave=*/1,
                             /*homes=*/2,  /*homeStride=*/2, /*homeSpan=*/1};
  route.counts = {{0, gate}};
  RoutingTrace trace = makeTrace(4, 2, {3, 1, 4, 0, 1, 3, 2, 2});
  SimResult result = get(run({layer.maker.program}, makeProfile(4), withTrace(trace)));
  EXPECT_EQ(getTime(result, 0, Dropless::Experts).rows, 3 + 4 + 1 + 1);
  EXPECT_EQ(getTime(result, 2, Dropless::Experts).rows, 1 + 0 + 3 + 3);
  SimResult even = get(run({layer.maker.program}, makeProfile(4)));
  EXPECT_EQ(even.ranks.size(), 4u);
  EXPECT_DOUBLE_EQ(getTime(even, 0, Dropless::ToExperts).bytes, 2);
  // A gate without a limit.
  route.counts = {{0, counts::Route{4, 1}}};
  EXPECT_EQ(get(run({layer.maker.program}, makeProfile(4))).ranks.size(), 1u);
}

} // namespace
