//===- CostModelTest.cpp - times of exchanges, computed by hand -----------===//
#include "ToyCluster.h"

#include <cmath>

using namespace mlir::moe;

namespace {

constexpr int64_t kFour[] = {0, 1, 2, 3}, kThree[] = {0, 1, 2};

//===----------------------------------------------------------------------===//
// Alpha and beta
//===----------------------------------------------------------------------===//

double getSeconds(const ClusterProfile &profile, Collective collective, llvm::ArrayRef<int64_t> ranks, int64_t payload,
                  llvm::ArrayRef<LinkFault> faults = {}) {
  auto model = makeModel(profile, CostForm::ClosedForm, faults);
  return getValue(model->getSeconds(makeExchange(collective, ranks, payload)));
}

/// Four devices on one switch, 40 bytes. A ring takes 3 hops of 1 s, and 3 s for 30 bytes, both twice for sums. Pairs,
/// which all start at once, take 1 + 3 s, chains 3 hops of 1 s and once 4 s. A tree of one node is a chain up and down.
TEST(CostModelTest, CollectivesFromLinks) {
  ClusterProfile profile = makeToyNode(4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 6);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::ReduceScatter, kFour, 40), 6);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, kFour, 40), 12);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllToAll, kFour, 40), 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::Broadcast, kFour, 40), 7);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::Reduce, kFour, 40), 7);
  profile.algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::Tree;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, kFour, 40), 6 + 8);
}

/// Four nodes of one device, 1 s to the next. A tree goes up two levels and down, a ring takes 6 hops. For 40 bytes a
/// link carries 80 bytes in the tree and 60 in the ring. Both forms choose alike, also with a switch that adds up: 1 s
/// in each direction, and 50 bytes.
TEST(CostModelTest, FastestAlgorithm) {
  ClusterProfile profile = makeToyDevices(4, 1);
  profile.links = {{"device*", "network", 10, 10, 0.5}};
  profile.algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::Fastest;
  for (CostForm form : {CostForm::ClosedForm, CostForm::LinkLevel}) {
    auto model = makeModel(profile, form);
    EXPECT_NEAR(getValue(model->getSeconds(makeExchange(Collective::AllReduce, kFour, 4))), 4 + 0.8, 1e-9);
    EXPECT_NEAR(getValue(model->getSeconds(makeExchange(Collective::AllReduce, kFour, 80))), 6 + 12, 1e-9);
    ClusterProfile node = makeToyNode(4);
    node.algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::Fastest;
    node.links[0].reduces = true;
    EXPECT_NEAR(getValue(makeModel(node, form)->getSeconds(makeExchange(Collective::AllReduce, kFour, 40))), 2 + 5,
                1e-9);
  }
}

/// A node of `devices` with a NIC for each: 100 bytes/s inside, 10 over a NIC.
ClusterProfile makeToyNics(int64_t nodes, int64_t devices) {
  ClusterProfile profile = makeToyDevices(nodes, devices);
  profile.links = {
      {"device*", "switch", 100, 100, 0.5}, {"device*", "nic*", 10, 10, 1}, {"nic*", "network", 10, 10, 1}};
  return profile;
}

/// Rings leave a node by each of its NICs with a part of the bytes. 140 of 160 bytes among eight members on two nodes
/// go around, 35 of them in each of four channels. Hops are 6 x 1 s and 1 x 4 s. A single NIC carries all of them. A
/// chain from the root leaves its node and returns. Sums go around twice, trees up and down. With switches that add up,
/// x / 4 goes over each NIC once.
TEST(CostModelTest, OneChannelForEachNic) {
  ClusterProfile profile = makeToyNics(2, 4);
  std::vector<int64_t> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, ranks, 160), 6 + 4 + 3.5);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, ranks, 160), 2 * (6 + 4 + 3.5));
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::Broadcast, ranks, 160), 5 + 2 * 4 + 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllToAll, ranks, 160), 4 + 8);
  auto &algorithm = profile.algorithms[static_cast<unsigned>(Collective::AllReduce)];
  algorithm = Algorithm::Tree;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, ranks, 160), 2 * (3 + 4) + 4);
  algorithm = Algorithm::Nvls;
  profile.links[0].reduces = true;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, ranks, 160), 2 * (1 + 4) + 4);
  profile.links[2].reduces = true;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, ranks, 160), 2 * (1 + 4) + 4);
  // Each of two members on a node has its own NIC, too.
  EXPECT_DOUBLE_EQ(getSeconds(makeToyNics(2, 4), Collective::AllGather, {0, 1, 4, 5}, 160), 2 * 1 + 4 + 6);
  profile.links[2] = {"nic*", "port", 10, 10, 1};
  profile.links.push_back({"port", "network", 10, 10, 0});
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, ranks, 160), 6 + 4 + 14);
}

/// In a tree of nodes no member has more than two children. Inner nodes of one tree are leaves of the other, so that no
/// NIC carries more than twice the bytes of its channel, for any number of nodes.
TEST(CostModelTest, NodeTrees) {
  for (int64_t nodes : {3, 4, 5, 8, 13, 16}) {
    ClusterProfile profile = makeToyDevices(nodes, 1);
    profile.links = {{"device*", "network", 10, 10, 0.5}};
    profile.algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::Tree;
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < nodes; ++rank)
      ranks.push_back(rank);
    CostModel::AlphaBeta line =
        llvm::cantFail(makeModel(profile, CostForm::ClosedForm)->getAlphaBeta(Collective::AllReduce, ranks, "f32", 1));
    EXPECT_LE(line.beta, 2 / 10.0) << nodes;
    EXPECT_LE(line.alpha, 2 * (1 + std::ceil(std::log2(nodes)))) << nodes;
  }
}

/// The fastest protocol for the bytes counts: 1 s of a ring's 3 and half of the bandwidth, or all of both and 2 s more.
/// A protocol that the algorithm lacks is left out.
TEST(CostModelTest, Protocols) {
  ClusterProfile profile = makeToyNode(4);
  profile.protocols = {{"low", 1, 1 / 3.0, 1, 1, 0.5, {}}, {"simple", 3, 1, 1, 1, 1, {}}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 2 + 6);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 80), 6 + 6);
  auto links = makeModel(profile, CostForm::LinkLevel);
  EXPECT_DOUBLE_EQ(getValue(links->getSeconds(makeExchange(Collective::AllGather, kFour, 40))), 2 + 6);
  profile.protocols[0].algorithms = {Algorithm::Tree};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 6 + 3);
  profile.protocols.pop_back();
  EXPECT_EQ(
      getError(makeModel(profile, CostForm::ClosedForm)->getSeconds(makeExchange(Collective::AllGather, kFour, 40))),
      "cluster 'toy' has no protocol for 'all_gather' by 'ring'");
}

/// Each message to another node takes 0.5 s to post, so pairs take three posts beside the hop of 2 s. Those of a ring
/// are posted while others are on their way, so the longer of both counts.
TEST(CostModelTest, Posts) {
  ClusterProfile profile = makeToyDevices(4, 1);
  profile.links = {{"device*", "network", 10, 10, 1, 0.25}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllToAll, kFour, 40), 2 + 3 * 0.5 + 3);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 3 * 2 + 3);
  profile.links[0].post = 2;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 3 * 4 + 3);
}

/// Three members also need two steps of a tree.
TEST(CostModelTest, TreeOfThree) {
  ClusterProfile profile = makeToyNode(3);
  for (Collective collective : {Collective::Broadcast, Collective::Reduce}) {
    profile.algorithms[static_cast<unsigned>(collective)] = Algorithm::Tree;
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, {0, 1, 2}, 40), 10);
  }
}

/// Each member but the last forwards a broadcast, and each but the root a reduce. If different members own experts,
/// each forwards the mean.
TEST(CostModelTest, BytesOfAChain) {
  OpCost cost;
  cost.collective = Collective::Broadcast;
  cost.payload = 12;
  cost.root = 1;
  auto get = [&](int64_t from) {
    std::vector<int64_t> bytes;
    for (int64_t to = 0; to < 3; ++to)
      bytes.push_back(cost.getBytesToPeer(3, from, to));
    return bytes;
  };
  using Bytes = std::vector<int64_t>;
  EXPECT_EQ(get(0), Bytes({0, 0, 0}));
  EXPECT_EQ(get(1), Bytes({0, 0, 12}));
  EXPECT_EQ(get(2), Bytes({12, 0, 0}));
  cost.collective = Collective::Reduce;
  EXPECT_EQ(get(0), Bytes({0, 12, 0}));
  EXPECT_EQ(get(1), Bytes({0, 0, 0}));
  EXPECT_EQ(cost.getBytesSent(3), 8);
  cost.raggedRows = 4;
  EXPECT_EQ(get(1), Bytes({0, 0, 8}));
}

/// Between two nodes of two, both devices send 20 bytes over one NIC: 1 + 4 s.
TEST(CostModelTest, PairwiseOverNics) {
  EXPECT_DOUBLE_EQ(getSeconds(makeToyPair(), Collective::AllToAll, kFour, 40), 5);
}

/// Hierarchical: all_to_all sends 20 bytes inside, then 20 to the other node, from both devices at once. The rings of
/// reduce_scatter send 20 bytes inside and 10 between nodes at the same time, which is 30 from each device and 20 over
/// the NIC. all_gather does the same, all_reduce twice.
TEST(CostModelTest, Hierarchical) {
  ClusterProfile profile = makeToyPair();
  profile.algorithms.fill(Algorithm::Hierarchical);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllToAll, kFour, 40), 2 + 1 + 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::ReduceScatter, kFour, 40), 1 + 3);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 40), 1 + 3);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllReduce, kFour, 40), 8);
}

/// Collectives that an algorithm cannot carry out, or not for this group, are refused.
TEST(CostModelTest, ImpossibleAlgorithms) {
  ClusterProfile profile = makeToyPair();
  profile.algorithms.fill(Algorithm::Hierarchical);
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_EQ(getError(model->getSeconds(makeExchange(Collective::Broadcast, kFour, 40))),
            "cluster 'toy': algorithm 'hierarchical' does not carry out 'broadcast'");
  EXPECT_EQ(getError(model->getSeconds(makeExchange(Collective::AllGather, kThree, 40))),
            "cluster 'toy': hierarchical 'all_gather': expected the same number of members on each node, but the group "
            "of 3 has more on some nodes");
}

/// The groups {0, 2} and {1, 3} exchange at the same time and share the NICs. {0, 3} is not part of such a pattern and
/// is alone.
TEST(CostModelTest, SiblingsShareLinks) {
  EXPECT_DOUBLE_EQ(getSeconds(makeToyPair(), Collective::AllGather, {0, 2}, 20), 1 + 2);
  EXPECT_DOUBLE_EQ(getSeconds(makeToyPair(), Collective::AllGather, {1, 3}, 20), 1 + 2);
  EXPECT_DOUBLE_EQ(getSeconds(makeToyPair(), Collective::AllGather, {0, 3}, 20), 1 + 1);
}

/// Stages of two ranks, one on each of three nodes. Both ranks of a stage send at the same time over its NIC, from any
/// stage to a neighbour.
TEST(CostModelTest, StagesShareLinks) {
  ClusterProfile profile = makeToyPair();
  profile.maxNodes = 3;
  for (auto [from, to] : {std::pair(0, 2), {1, 3}, {2, 4}, {3, 5}, {3, 1}, {4, 2}, {5, 3}})
    EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::Broadcast, {from, to}, 20), 1 + 4) << from << " to " << to;
  // Transfers back to the first stage.
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::Broadcast, {4, 0}, 20), 1 + 4);
}

/// The groups of one node, or of one switch above the nodes, stand for all others. The result is the same as summing up
/// all of them, which a fault without effect enforces.
TEST(CostModelTest, OnePeriodStandsForAll) {
  LinkFault none = {"node0/switch", "node0/port", 1};
  for (int64_t switchNodes : {0, 2, 4})
    for (Algorithm algorithm : {Algorithm::Pairwise, Algorithm::Hierarchical}) {
      ClusterProfile profile = makeToyDevices(8, 4);
      profile.links = {{"device*", "switch", 12, 11, 0.5}, {"switch", "port", 20, 20, 0}, {"port", "network", 6, 5, 2}};
      if (switchNodes)
        profile.fabric = {{"leaf", switchNodes, 7, 1}};
      profile.algorithms[static_cast<unsigned>(Collective::AllToAll)] = algorithm;
      auto model = makeModel(profile, CostForm::ClosedForm), whole = makeModel(profile, CostForm::ClosedForm, none);
      for (int64_t size = 2; size <= 32; size *= 2)
        for (int64_t stride = 1; size * stride <= 32; stride *= 2) {
          std::vector<int64_t> ranks;
          for (int64_t member = 0; member < size; ++member)
            ranks.push_back(stride - 1 + member * stride);
          for (Collective collective : {Collective::AllToAll, Collective::AllReduce}) {
            CostModel::AlphaBeta one = llvm::cantFail(model->getAlphaBeta(collective, ranks, "f32", 1));
            CostModel::AlphaBeta all = llvm::cantFail(whole->getAlphaBeta(collective, ranks, "f32", 1));
            EXPECT_DOUBLE_EQ(one.alpha, all.alpha) << size << " " << stride;
            EXPECT_DOUBLE_EQ(one.beta, all.beta) << size << " " << stride;
          }
        }
    }
}

/// A group of one exchanges nothing.
TEST(CostModelTest, GroupOfOne) { EXPECT_DOUBLE_EQ(getSeconds(makeToyNode(2), Collective::AllToAll, {1}, 40), 0); }

CollectiveFit makeFit(Collective collective, llvm::StringRef dtype, int64_t members, int64_t perNode, double alpha) {
  CollectiveFit fit;
  fit.collective = collective;
  fit.dtype = dtype.str();
  fit.minMembers = fit.maxMembers = members;
  fit.minPerNode = fit.maxPerNode = perNode;
  fit.alpha = alpha;
  fit.beta = 0.5;
  return fit;
}

/// A chain of 40 bytes takes the latency of all its hops and the time of its slowest link, which two nodes' chains of
/// their first and second devices share. A fit has priority, and no bytes take no time.
TEST(CostModelTest, PipelinedRings) {
  ClusterProfile profile = makeToyPair();
  for (Collective collective : {Collective::Broadcast, Collective::Reduce}) {
    // To the root the chain passes between the nodes twice, from the root once.
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, kFour, 40), (collective == Collective::Broadcast ? 1 : 2) + 4);
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, {0, 1}, 40), 4);
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, {0, 2}, 40), 1 + 8);
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, {3}, 40), 0);
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, kFour, 0), 0);
    profile.collectives = {makeFit(collective, "", 4, 2, 3)};
    EXPECT_DOUBLE_EQ(getSeconds(profile, collective, kFour, 40), 23);
    profile.collectives.clear();
  }
}

/// A fit for the shape of the group has priority over the links. It is selected by collective, members, members on a
/// node, and dtype.
TEST(CostModelTest, Fits) {
  ClusterProfile profile = makeToyPair();
  profile.collectives = {makeFit(Collective::AllGather, "", 2, 1, 10), makeFit(Collective::AllGather, "", 2, 2, 20),
                         makeFit(Collective::AllGather, "f32", 2, 2, 30),
                         makeFit(Collective::AllGather, "f64", 2, 2, 40), makeFit(Collective::AllGather, "", 3, 2, 50)};
  profile.collectives[0].perMember = 3;
  auto model = makeModel(profile, CostForm::ClosedForm);
  auto get = [&](llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype) {
    CostModel::AlphaBeta result = llvm::cantFail(model->getAlphaBeta(Collective::AllGather, ranks, dtype, 1));
    EXPECT_TRUE(result.measured);
    return result.alpha + result.beta;
  };
  EXPECT_DOUBLE_EQ(get({1, 3}, "f32"), 16.5);
  EXPECT_DOUBLE_EQ(get({2, 3}, "f32"), 30.5);
  EXPECT_DOUBLE_EQ(get({2, 3}, "f64"), 40.5);
  EXPECT_DOUBLE_EQ(get({2, 3}, "bf16"), 20.5);
  // Earlier questions are not confused with this one.
  EXPECT_DOUBLE_EQ(get({0, 2}, "f32"), 16.5);
  EXPECT_DOUBLE_EQ(get({2, 3}, "f32"), 30.5);
  // Two members are on one node and one on the other, so there is no number of members on a node, and no fit.
  EXPECT_FALSE(llvm::cantFail(model->getAlphaBeta(Collective::AllGather, {0, 1, 2}, "f32", 1)).measured);
}

CollectiveFit makeCurve(Collective collective, int64_t members, int64_t perNode, std::vector<MeasuredPoint> points) {
  CollectiveFit fit = makeFit(collective, "", members, perNode, 0);
  fit.beta = 0;
  fit.isCurve = true;
  fit.points = std::move(points);
  return fit;
}

/// Between points the logarithms are on a line, below the first the time is constant, and above the last the line goes
/// on. alpha and beta are those of the curve at the payload. Below the first point, beta is that of the last ones.
TEST(CostModelTest, Curve) {
  ClusterProfile profile = makeToyNode(4);
  profile.collectives = {makeCurve(Collective::AllGather, 4, 4, {{16, 2}, {64, 4}, {256, 8}})};
  auto get = [&](int64_t bytes) { return getSeconds(profile, Collective::AllGather, kFour, bytes); };
  EXPECT_DOUBLE_EQ(get(1), 2);
  EXPECT_DOUBLE_EQ(get(32), std::sqrt(2 * 4));
  EXPECT_DOUBLE_EQ(get(128), std::sqrt(4 * 8));
  EXPECT_DOUBLE_EQ(get(1024), 16);
  auto model = makeModel(profile, CostForm::ClosedForm);
  CostModel::AlphaBeta line = llvm::cantFail(model->getAlphaBeta(Collective::AllGather, kFour, "f32", 32));
  EXPECT_DOUBLE_EQ(line.beta, 0.5 * std::sqrt(8) / 32);
  EXPECT_DOUBLE_EQ(line.alpha, 0.5 * std::sqrt(8));
  EXPECT_TRUE(line.measured);
  EXPECT_DOUBLE_EQ(llvm::cantFail(model->getAlphaBeta(Collective::AllGather, kFour, "f32", 8)).beta, 1 / 64.0);
}

/// A curve for several numbers of members holds for each of them.
TEST(CostModelTest, CurveOfARange) {
  ClusterProfile profile = makeToyNode(8);
  profile.collectives = {makeCurve(Collective::AllGather, 2, 2, {{16, 2}, {64, 4}})};
  profile.collectives[0].maxMembers = profile.collectives[0].maxPerNode = 4;
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kThree, 64), 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 16), 2);
}

/// The middle, in logarithms, between 2 and 8 members is 4.
TEST(CostModelTest, CurvesOfOtherMembers) {
  ClusterProfile profile = makeToyNode(8);
  profile.collectives = {makeCurve(Collective::AllGather, 2, 2, {{16, 2}, {64, 4}}),
                         makeCurve(Collective::AllGather, 8, 8, {{16, 8}, {64, 16}})};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 16), 4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, kFour, 64), 8);
}

/// Two nodes of four. Inside a node 40 bytes take 1 s per byte, while the links need 0.1 and 3 s to start. The measured
/// time is at least 20 s. All eight send 7/8 of x to the next one, as four would send of 7/6 x. The later start of the
/// hops to the other node is added: 6 x 1 + 4 s in place of 3 x 1. If the NICs are slower, their time counts: 7/32 of x
/// at 10 bytes/s beside the 20 s.
TEST(CostModelTest, CurveInsideNodesAndLinksBetween) {
  ClusterProfile profile = makeToyNics(2, 4);
  std::vector<int64_t> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  profile.collectives = {makeCurve(Collective::AllGather, 4, 4, {{20, 20}, {2000, 2000}})};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, ranks, 480), 560 + 7);
  profile.collectives[0].points = {{20, 20}, {2000, 40}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, ranks, 1600), 20 + 35 + 7);
  auto model = makeModel(profile, CostForm::ClosedForm);
  CostModel::AlphaBeta line = llvm::cantFail(model->getAlphaBeta(Collective::AllGather, ranks, "f32", 1600));
  EXPECT_TRUE(line.measured);
  EXPECT_DOUBLE_EQ(line.beta, 7 / 320.0);
}

/// A curve for members on one node does not apply to as many members on two.
TEST(CostModelTest, CurveOfANodeIsNoneOfSeveral) {
  ClusterProfile profile = makeToyNics(2, 4);
  for (const std::vector<int64_t> &ranks : {std::vector<int64_t>{0, 4}, {0, 1, 4, 5}}) {
    profile.collectives.clear();
    double fromLinks = getSeconds(profile, Collective::AllToAll, ranks, 1600);
    auto members = static_cast<int64_t>(ranks.size());
    profile.collectives = {makeCurve(Collective::AllToAll, members, members, {{20, 0.02}, {2000, 2}})};
    EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllToAll, ranks, 1600), fromLinks);
  }
}

/// The confidence inside a curve's points is its error. Outside of them, and for other groups, the cost is
/// extrapolated.
TEST(CostModelTest, ConfidenceOfExchanges) {
  ClusterProfile profile = makeToyNode(4);
  profile.collectives = {makeCurve(Collective::AllGather, 4, 4, {{16, 2}, {64, 4}})};
  profile.collectives[0].relativeError = 0.05;
  auto model = makeModel(profile, CostForm::ClosedForm);
  auto get = [&](llvm::ArrayRef<int64_t> ranks, int64_t bytes) {
    return model->getConfidence(makeExchange(Collective::AllGather, ranks, bytes));
  };
  EXPECT_EQ(get(kFour, 32).relativeError, 0.05);
  EXPECT_FALSE(get(kFour, 32).isExtrapolated);
  EXPECT_TRUE(get(kFour, 128).isExtrapolated);
  EXPECT_TRUE(get({0, 1}, 32).isExtrapolated);
  EXPECT_EQ(get({0, 1}, 32).relativeError, std::nullopt);
  EXPECT_FALSE(get({0}, 32).isExtrapolated);
}

/// Without links and without a fit the error names the missing data.
TEST(CostModelTest, NeitherFitNorLinks) {
  ClusterProfile profile = makeToyDevices(2, 2);
  profile.collectives = {makeFit(Collective::AllToAll, "f32", 4, 2, 1)};
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_EQ(
      getError(model->getSeconds(makeExchange(Collective::AllGather, kFour, 40))),
      "cluster 'toy' has neither links nor a fit for 'all_gather' of dtype 'f32' among 4 members, 2 on each node");
  EXPECT_EQ(getError(model->getSeconds(makeExchange(Collective::AllToAll, kThree, 40))),
            "cluster 'toy' has neither links nor a fit for 'all_to_all' of dtype 'f32' among 3 members, a different "
            "number on each node");
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makeExchange(Collective::AllToAll, kFour, 40))), 21);
}

/// Three members, 1 s and 10 bytes/s. The busiest receives 50 bytes from others, as in an even exchange of 75.
TEST(CostModelTest, RaggedExchange) {
  ClusterProfile profile = makeToyNode(3);
  auto model = makeModel(profile, CostForm::ClosedForm);
  GroupExchange exchange = makeExchange(Collective::AllToAll, kThree, 0);
  constexpr int64_t matrix[] = {5, 20, 0, /**/ 10, 5, 10, /**/ 40, 0, 5};
  exchange.matrix = matrix;
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(exchange)), 1 + 5);
}

/// An even matrix takes exactly the time of its payload.
TEST(CostModelTest, EvenMatrix) {
  ClusterProfile profile = makeToyNode(3);
  auto model = makeModel(profile, CostForm::ClosedForm);
  GroupExchange even = makeExchange(Collective::AllToAll, kThree, 21), ragged = even;
  std::vector<int64_t> matrix(9, 7);
  ragged.payload = 0;
  ragged.matrix = matrix;
  EXPECT_EQ(getValue(model->getSeconds(even)), getValue(model->getSeconds(ragged)));
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// Six members in three blocks, 6 bytes to each: in phase 0 to the neighbour, in phase 1 from block 0 to block 2, whose
/// members send to block 1. All phases together send what the whole exchange sends.
TEST(CostModelTest, BytesOfPhases) {
  OpCost cost;
  cost.collective = Collective::AllToAll;
  cost.payload = 12;
  cost.phases = 3;
  auto get = [&](int64_t phase, int64_t from) {
    cost.phase = phase;
    std::vector<int64_t> bytes;
    for (int64_t to = 0; to < 6; ++to)
      bytes.push_back(cost.getBytesToPeer(6, from, to));
    return bytes;
  };
  using Bytes = std::vector<int64_t>;
  EXPECT_EQ(get(0, 0), Bytes({0, 6, 0, 0, 0, 0}));
  EXPECT_EQ(cost.getBytesSent(6), 6);
  EXPECT_EQ(get(1, 0), Bytes({0, 0, 0, 0, 6, 6}));
  EXPECT_EQ(get(1, 5), Bytes({0, 0, 6, 6, 0, 0}));
  EXPECT_EQ(cost.getBytesSent(6), 12);
  EXPECT_EQ(get(2, 0), Bytes({0, 0, 6, 6, 0, 0}));
  EXPECT_EQ(get(2, 3), Bytes({0, 0, 0, 0, 6, 6}));
  EXPECT_EQ(cost.getBytesSent(6), 12);
  cost.phases = 1;
  cost.phase = 0;
  cost.payload = 36;
  EXPECT_EQ(cost.getBytesSent(6), 6 + 12 + 12);
}

/// Costs that differ only in the phase or the copies are different.
TEST(CostModelTest, PhasesAreOfTheCost) {
  OpCost plain, phases, second, copies;
  phases.phases = second.phases = 2;
  second.phase = 1;
  copies.copies = 2;
  for (const OpCost *a : {&plain, &phases, &second, &copies})
    for (const OpCost *b : {&plain, &phases, &second, &copies}) {
      EXPECT_EQ(*a == *b, a == b);
      EXPECT_EQ(hash_value(*a) == hash_value(*b), a == b);
    }
}

/// Four members, three peers in 1 + 3 s. Two blocks of two have one peer, then two. Four blocks of one have none, then
/// one at a time.
TEST(CostModelTest, Phases) {
  ClusterProfile profile = makeToyNode(4);
  auto model = makeModel(profile, CostForm::ClosedForm);
  auto get = [&](int64_t payload, int64_t phase, int64_t phases) {
    return getValue(model->getSeconds(makePhase(kFour, payload, phase, phases)));
  };
  EXPECT_DOUBLE_EQ(get(40, 0, 1), 4);
  EXPECT_DOUBLE_EQ(get(20, 0, 2), 4 / 3.0);
  EXPECT_DOUBLE_EQ(get(20, 1, 2), 8 / 3.0);
  EXPECT_DOUBLE_EQ(get(10, 0, 4), 0);
  for (int64_t phase : {1, 2, 3})
    EXPECT_DOUBLE_EQ(get(10, phase, 4), 4 / 3.0);
}

/// A fit of 3 s + 0.5 s per byte gives 23 s for 40 bytes, a third and two thirds of it for the phases.
TEST(CostModelTest, PhasesOfAFit) {
  ClusterProfile profile = makeToyPair();
  profile.collectives = {makeFit(Collective::AllToAll, "", 4, 2, 3)};
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makeExchange(Collective::AllToAll, kFour, 40))), 23);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makePhase(kFour, 20, 0, 2))), 23 / 3.0);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makePhase(kFour, 20, 1, 2))), 46 / 3.0);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makePhase(kFour, 10, 0, 4))), 0);
}

/// A ragged phase of two blocks of two. Even bytes take the time of their payload. Otherwise the busiest member, which
/// receives 40 bytes from two peers, makes the phase as long as an even exchange of 160/3 bytes, and start-ups count
/// for two of three peers: 2/3 + 4 s.
TEST(CostModelTest, RaggedPhases) {
  ClusterProfile profile = makeToyNode(4);
  auto model = makeModel(profile, CostForm::ClosedForm);
  auto get = [&](int64_t phase, const std::vector<int64_t> &matrix) {
    GroupExchange exchange = makePhase(kFour, 20, phase, 2);
    exchange.matrix = matrix;
    return getValue(model->getSeconds(exchange));
  };
  EXPECT_DOUBLE_EQ(get(0, {10, 10, 0, 0, 10, 10, 0, 0, 0, 0, 10, 10, 0, 0, 10, 10}), 4 / 3.0);
  EXPECT_DOUBLE_EQ(get(1, {0, 0, 10, 10, 0, 0, 10, 10, 10, 10, 0, 0, 10, 10, 0, 0}), 8 / 3.0);
  EXPECT_DOUBLE_EQ(get(1, {0, 0, 30, 5, 0, 0, 10, 0, 10, 10, 0, 0, 10, 10, 0, 0}), 2 / 3.0 + 4);
}

/// Phases that do not exist, and phases of a collective without any.
TEST(CostModelTest, WrongPhases) {
  ClusterProfile profile = makeToyNode(4);
  for (CostForm form : {CostForm::ClosedForm, CostForm::LinkLevel}) {
    auto model = makeModel(profile, form);
    std::string expected = "expected phases of an 'all_to_all', in a number that divides its 4 members, but got ";
    for (auto [phase, phases] : {std::pair(2, 2), {-1, 2}, {0, 3}, {0, 0}})
      EXPECT_EQ(getError(model->getSeconds(makePhase(kFour, 12, phase, phases))),
                expected + "phase " + std::to_string(phase) + " of " + std::to_string(phases) + " of 'all_to_all'");
    GroupExchange exchange = makePhase(kFour, 12, 1, 2);
    exchange.collective = Collective::AllGather;
    EXPECT_EQ(getError(model->getSeconds(exchange)), expected + "phase 1 of 2 of 'all_gather'");
  }
}

/// Exchanges with contradictory sizes are refused.
TEST(CostModelTest, WrongExchanges) {
  ClusterProfile profile = makeToyNode(3);
  for (CostForm form : {CostForm::ClosedForm, CostForm::LinkLevel}) {
    auto model = makeModel(profile, form);
    constexpr int64_t tooHigh[] = {0, 1, 7};
    GroupExchange exchange = makeExchange(Collective::AllToAll, tooHigh, 40);
    EXPECT_EQ(getError(model->getSeconds(exchange)),
              "expected the members of 'all_to_all' to be below 3, the number of ranks, but got rank 7");
    exchange = makeExchange(Collective::AllToAll, kThree, 40);
    exchange.root = 3;
    EXPECT_EQ(getError(model->getSeconds(exchange)), "expected a root below 3 but got 3");
    exchange.root = 0;
    constexpr int64_t matrix[] = {1, 2, 3, 4};
    exchange.matrix = matrix;
    EXPECT_EQ(getError(model->getSeconds(exchange)), "expected bytes between 3 members but got 4 numbers");
    exchange.collective = Collective::AllGather;
    EXPECT_EQ(getError(model->getSeconds(exchange)),
              "expected a ragged exchange to be an 'all_to_all' but got 'all_gather'");
    EXPECT_EQ(getError(model->getSeconds(makeExchange(Collective::AllGather, {}, 40))),
              "expected a collective with members but got 'all_gather' among 0");
  }
}

/// A link at half its speed doubles the time of its traffic, measured or not.
TEST(CostModelTest, Fault) {
  ClusterProfile profile = makeToyNode(2);
  profile.links[0].latency = 0;
  LinkFault fault = {"node0/device0", "node0/switch", 0.5};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, {0, 1}, 40), 2);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, {0, 1}, 40, fault), 4);
  profile.collectives = {makeFit(Collective::AllGather, "", 2, 2, 1)};
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, {0, 1}, 40), 21);
  EXPECT_DOUBLE_EQ(getSeconds(profile, Collective::AllGather, {0, 1}, 40, fault), 41);
}

/// Profiles from which no model can be made.
TEST(CostModelTest, CreateErrors) {
  ClusterProfile profile = makeToyDevices(1, 2);
  EXPECT_EQ(getError(CostModel::create(profile, 3, CostForm::ClosedForm)),
            "cluster 'toy' has 2 devices, but the plan is for 3 ranks");
  EXPECT_EQ(getError(CostModel::create(profile, 2, CostForm::LinkLevel)),
            "cluster 'toy' has no links, which the link-level form needs");
  EXPECT_EQ(getError(CostModel::create(profile, 2, CostForm::ClosedForm, LinkFault{"a", "b", 0.5})),
            "cluster 'toy' has no links to slow down");
}

//===----------------------------------------------------------------------===//
// Shared processors
//===----------------------------------------------------------------------===//

/// Four ranks on two processors, each half as fast where both are busy.
ClusterProfile makeShared() {
  ClusterProfile profile = makeToyDevices(1, 4);
  profile.processors.count = 2;
  profile.processors.speed[static_cast<unsigned>(Resource::Network)] = {1, 0.5};
  profile.collectives = {makeFit(Collective::AllToAll, "", 4, 4, 1)};
  profile.collectives[0].perMember = 0.25;
  return profile;
}

/// A share is alpha + 4 * 0.25 + 0.5 * payload. The payload of a ragged exchange is what the member receives.
TEST(CostModelTest, Shares) {
  ClusterProfile profile = makeShared();
  auto model = makeModel(profile, CostForm::ClosedForm);
  GroupExchange exchange = makeExchange(Collective::AllToAll, kFour, 8);
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(exchange, 0)), 2 + 4);
  // Two shares on each processor, at half speed.
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(exchange)), 24);
  constexpr int64_t matrix[] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  exchange.matrix = matrix;
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(exchange, 0)), 2 + 2);
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(exchange, 3)), 2 + 8);
}

/// Shares of phases add up to the share of the whole: one peer's and two peers' parts of 6 s.
TEST(CostModelTest, SharesOfPhases) {
  ClusterProfile profile = makeShared();
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(makePhase(kFour, 4, 0, 2), 3)), 2);
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(makePhase(kFour, 4, 1, 2), 0)), 4);
  EXPECT_DOUBLE_EQ(getValue(model->getShareSeconds(makePhase(kFour, 2, 0, 4), 0)), 0);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(makePhase(kFour, 4, 1, 2))), 16);
}

/// Devices that are processors of their own have no shares.
TEST(CostModelTest, NoShares) {
  ClusterProfile profile = makeToyNode(4);
  auto model = makeModel(profile, CostForm::ClosedForm);
  EXPECT_EQ(getError(model->getShareSeconds(makeExchange(Collective::AllToAll, kFour, 8), 0)),
            "the devices of cluster 'toy' share no processors");
}

//===----------------------------------------------------------------------===//
// Interference and bounds
//===----------------------------------------------------------------------===//

constexpr unsigned getBit(Resource resource) { return 1u << static_cast<unsigned>(resource); }

/// A kind alone has full speed. Simultaneous kinds each have a speed, and products and memory are one kind.
TEST(CostModelTest, Interference) {
  ClusterProfile profile = makeToyDevices(1, 1);
  profile.interference = {{true, true, false, 0.9, 0.8, 1}, {true, true, true, 0.7, 0.6, 0.5}};
  auto model = makeModel(profile, CostForm::ClosedForm);
  unsigned compute = getBit(Resource::Matrix), memory = getBit(Resource::Memory), network = getBit(Resource::Network),
           copy = getBit(Resource::HostLink);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Matrix, compute | memory)), 1);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Network, 0)), 1);
  EXPECT_EQ(getValue(model->getSpeed(Resource::None, compute | network)), 1);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Memory, memory | network)), 0.9);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Network, compute | network)), 0.8);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Matrix, compute | network | copy)), 0.7);
  EXPECT_EQ(getValue(model->getSpeed(Resource::Network, compute | network | copy)), 0.6);
  EXPECT_EQ(getValue(model->getSpeed(Resource::HostLink, compute | network | copy)), 0.5);
  EXPECT_EQ(getError(model->getSpeed(Resource::HostLink, compute | copy)),
            "cluster 'toy' has no interference of compute, copy");
}

/// 0 -> 2 and 1 -> 3 share a NIC: 30 + 50 bytes at 10 bytes/s. Bytes that stay on a rank use no link.
TEST(CostModelTest, LinkBound) {
  ClusterProfile profile = makeToyPair();
  std::vector<double> matrix(16);
  matrix[0 * 4 + 0] = 1000;
  matrix[0 * 4 + 2] = 30;
  matrix[1 * 4 + 3] = 50;
  matrix[0 * 4 + 1] = 45;
  EXPECT_DOUBLE_EQ(getValue(makeModel(profile, CostForm::ClosedForm)->getLinkBound(matrix)), 8);
  EXPECT_DOUBLE_EQ(getValue(makeModel(profile, CostForm::LinkLevel)->getLinkBound(matrix)), 8);
}

/// Without links, the most bytes that are sent or received count, and the work of a node's processors.
TEST(CostModelTest, LinkBoundWithoutLinks) {
  std::vector<double> matrix(16);
  matrix[0 * 4 + 2] = matrix[1 * 4 + 2] = matrix[0 * 4 + 3] = 10;
  ClusterProfile profile = makeToyDevices(1, 4);
  EXPECT_EQ(getError(makeModel(profile, CostForm::ClosedForm)->getLinkBound(matrix)),
            "cluster 'toy' has neither links nor a fit for 'all_to_all'");
  profile.collectives = {makeFit(Collective::AllToAll, "", 4, 4, 1)};
  EXPECT_DOUBLE_EQ(getValue(makeModel(profile, CostForm::ClosedForm)->getLinkBound(matrix)), 10);
  profile.processors.count = 1;
  EXPECT_DOUBLE_EQ(getValue(makeModel(profile, CostForm::ClosedForm)->getLinkBound(matrix)), 15);
}

//===----------------------------------------------------------------------===//
// Exchanges under way
//===----------------------------------------------------------------------===//

/// An exchange of 4 s that goes at half speed from 1 to 3 ends at 5 for all members. Another exchange is not slowed.
TEST(CostModelTest, SlowedExchange) {
  ClusterProfile profile = makeToyNode(4);
  auto model = makeModel(profile, CostForm::ClosedForm);
  auto running = model->createNetwork();
  uint32_t slow = llvm::cantFail(running->start(0, makeExchange(Collective::AllToAll, kFour, 40)));
  uint32_t other = llvm::cantFail(running->start(0, makeExchange(Collective::AllToAll, kFour, 40)));
  running->setSpeed(1, slow, 1, 0.5);
  running->setSpeed(1, slow, 2, 0.75); // not the slowest member
  running->setSpeed(3, slow, 1, 1);
  running->setSpeed(3, slow, 2, 1);
  EXPECT_DOUBLE_EQ(running->getNextTime(), 4);
  llvm::SmallVector<Network::Completion> done;
  running->advance(4, done);
  ASSERT_EQ(done.size(), 4u);
  EXPECT_EQ(done[0].exchange, other);
  EXPECT_DOUBLE_EQ(running->getNextTime(), 5);
  done.clear();
  running->advance(5, done);
  ASSERT_EQ(done.size(), 4u);
  EXPECT_EQ(done[3].exchange, slow);
  EXPECT_EQ(done[3].member, 3u);
  EXPECT_TRUE(std::isinf(running->getNextTime()));
}

} // namespace
