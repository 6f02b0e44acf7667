//===- LinkLevelTest.cpp - flows and the link-level form, by hand ---------===//
#include "../../lib/Cost/Flows.h"
#include "ToyCluster.h"

#include <cmath>
#include <map>
#include <random>

using namespace mlir::moe;

namespace {

constexpr int64_t kFour[] = {0, 1, 2, 3}, kThree[] = {0, 1, 2}, kTwo[] = {0, 1}, kEven[] = {0, 2}, kOdd[] = {1, 3};

//===----------------------------------------------------------------------===//
// Flows
//===----------------------------------------------------------------------===//

/// Moves on to the next event. Returns the flows that ended.
llvm::SmallVector<uint32_t> step(FlowEngine &engine) {
  llvm::SmallVector<uint32_t> ended;
  engine.advance(engine.getNextTime(), ended);
  return ended;
}

/// Two flows share a link of 10 bytes/s. When the one of 10 bytes ends at 2 s, the other speeds up and ends at 4.
TEST(FlowsTest, TwoFlowsShareALink) {
  FlowEngine engine({10});
  const uint32_t path[] = {0};
  uint32_t big = engine.start(0, path, 30, 0, 1), small = engine.start(0, path, 10, 0, 1);
  EXPECT_DOUBLE_EQ(engine.getRate(big), 5);
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 2);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({small}));
  EXPECT_DOUBLE_EQ(engine.getRate(big), 10);
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 4);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({big}));
  EXPECT_TRUE(std::isinf(engine.getNextTime()));
}

/// The flow over both links gets half of the narrow one. The other flow gets the rest of the wide one.
TEST(FlowsTest, MaxMinOfThree) {
  FlowEngine engine({10, 4});
  const uint32_t wide[] = {0}, narrow[] = {1}, both[] = {0, 1};
  uint32_t a = engine.start(0, wide, 100, 0, 1), b = engine.start(0, both, 100, 0, 1),
           c = engine.start(0, narrow, 100, 0, 1);
  EXPECT_DOUBLE_EQ(engine.getRate(a), 8);
  EXPECT_DOUBLE_EQ(engine.getRate(b), 2);
  EXPECT_DOUBLE_EQ(engine.getRate(c), 2);
}

/// A flow takes no bandwidth before its latency has passed, and ends at once if it has no bytes.
TEST(FlowsTest, Latency) {
  FlowEngine engine({10});
  const uint32_t path[] = {0};
  uint32_t first = engine.start(0, path, 30, 0, 1), late = engine.start(0, path, 10, 2, 1),
           empty = engine.start(0, path, 0, 1, 1);
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 1);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({empty}));
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 2);
  EXPECT_TRUE(step(engine).empty());
  EXPECT_DOUBLE_EQ(engine.getRate(late), 5);
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 4);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({first, late}));
}

/// A slowed flow leaves its fair share unused: half of 5 bytes/s, while the other stays at 5.
TEST(FlowsTest, Speed) {
  FlowEngine engine({10});
  const uint32_t path[] = {0};
  uint32_t slow = engine.start(0, path, 20, 0, 1), other = engine.start(0, path, 20, 0, 1);
  engine.setSpeed(2, slow, 0.5);
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 4);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({other}));
  // 20 - 2 * 5 - 2 * 2.5 bytes are left, then at half of 10.
  EXPECT_DOUBLE_EQ(engine.getNextTime(), 5);
  EXPECT_EQ(step(engine), llvm::SmallVector<uint32_t>({slow}));
}

/// Computes the rates of all flows from scratch, by the textbook method.
std::vector<double> fillAll(llvm::ArrayRef<double> bandwidths, llvm::ArrayRef<std::vector<uint32_t>> paths) {
  std::vector<double> rates(paths.size(), -1), room(bandwidths.begin(), bandwidths.end());
  for (;;) {
    std::vector<unsigned> left(room.size());
    for (size_t flow = 0; flow < paths.size(); ++flow)
      for (uint32_t link : paths[flow])
        left[link] += rates[flow] < 0;
    double level = std::numeric_limits<double>::infinity();
    size_t full = 0;
    for (size_t link = 0; link < room.size(); ++link)
      if (left[link] && room[link] / left[link] < level) {
        level = room[link] / left[link];
        full = link;
      }
    if (std::isinf(level))
      return rates;
    for (size_t flow = 0; flow < paths.size(); ++flow)
      if (rates[flow] < 0 && llvm::is_contained(paths[flow], full)) {
        rates[flow] = level;
        for (uint32_t link : paths[flow])
          room[link] -= level;
      }
  }
}

/// Rates that are updated near a change equal those computed from scratch: 2000 changes of up to 40 flows on 12 links.
TEST(FlowsTest, RatesAreMaxMinAfterEachChange) {
  std::mt19937_64 random(1);
  std::vector<double> bandwidths;
  for (unsigned link = 0; link < 12; ++link)
    bandwidths.push_back(1 + random() % 9);
  FlowEngine engine(bandwidths);
  std::map<uint32_t, std::vector<uint32_t>> paths; // paths of the flows under way. A map's values keep their address
  double now = 0;
  for (unsigned change = 0; change < 2000; ++change) {
    if (paths.size() < 40 && (paths.empty() || random() % 2)) {
      std::vector<uint32_t> path = {static_cast<uint32_t>(random() % bandwidths.size())};
      for (uint32_t link = 0; link < bandwidths.size(); ++link)
        if (random() % 4 == 0 && link != path[0])
          path.push_back(link);
      // The flow refers to the path, so the path needs its own place before it has a number.
      auto stored = paths.extract(paths.emplace(~0u, path).first);
      uint32_t flow = engine.start(now, stored.mapped(), 1 + random() % 100, 0, 1);
      stored.key() = flow;
      paths.insert(std::move(stored));
    } else {
      now = engine.getNextTime();
      for (uint32_t flow : step(engine))
        paths.erase(flow);
    }
    std::vector<std::vector<uint32_t>> all;
    for (auto &[flow, path] : paths)
      all.push_back(path);
    std::vector<double> expected = fillAll(bandwidths, all);
    size_t index = 0;
    for (auto &[flow, path] : paths)
      ASSERT_NEAR(engine.getRate(flow), expected[index++], 1e-9) << "after change " << change;
  }
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

double getSeconds(const ClusterProfile &profile, CostForm form, const GroupExchange &exchange,
                  llvm::ArrayRef<LinkFault> faults = {}) {
  return getValue(makeModel(profile, form, faults)->getSeconds(exchange));
}

/// Without shared links, both forms give the same time for every algorithm.
TEST(LinkLevelTest, EqualsClosedFormWithoutContention) {
  ClusterProfile profile = makeToyNode(4);
  for (Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                Collective::AllToAll, Collective::Broadcast, Collective::Reduce}) {
    GroupExchange exchange = makeExchange(collective, kFour, 40);
    EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange),
                     getSeconds(profile, CostForm::ClosedForm, exchange))
        << getName(collective).str();
  }
  profile = makeToyPair();
  profile.algorithms.fill(Algorithm::Hierarchical);
  for (Collective collective :
       {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce, Collective::AllToAll}) {
    GroupExchange exchange = makeExchange(collective, kFour, 40);
    EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange),
                     getSeconds(profile, CostForm::ClosedForm, exchange))
        << getName(collective).str();
  }
}

/// From member 2 a chain reaches three members by two hops of 1 s and in 4 s, and back. A tree has two levels, and the
/// root's link carries the data of both others.
TEST(LinkLevelTest, Root) {
  ClusterProfile profile = makeToyNode(3);
  for (Collective collective : {Collective::Broadcast, Collective::Reduce}) {
    GroupExchange chain = makeExchange(collective, kThree, 40);
    chain.root = 2;
    EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, chain), 2 + 4);
    profile.algorithms[static_cast<unsigned>(collective)] = Algorithm::Tree;
  }
  GroupExchange exchange = makeExchange(Collective::Broadcast, kThree, 40);
  exchange.root = 2;
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange), 10);
  exchange.collective = Collective::Reduce;
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange), 10);
}

/// Two nodes of two, 40 bytes: all sends are under way at once, and four of them share a NIC after a start of 1 s.
TEST(LinkLevelTest, PairwiseOverNics) {
  EXPECT_DOUBLE_EQ(getSeconds(makeToyPair(), CostForm::LinkLevel, makeExchange(Collective::AllToAll, kFour, 40)), 5);
}

/// On one switch the phases of two blocks, and of four, take the time of the whole exchange, as in closed form.
TEST(LinkLevelTest, Phases) {
  ClusterProfile profile = makeToyNode(4);
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, makeExchange(Collective::AllToAll, kFour, 40)), 4);
  for (int64_t phases : {2, 4}) {
    double sum = 0;
    for (int64_t phase = 0; phase < phases; ++phase) {
      GroupExchange exchange = makePhase(kFour, 40 / phases, phase, phases);
      double seconds = getSeconds(profile, CostForm::LinkLevel, exchange);
      EXPECT_DOUBLE_EQ(seconds, getSeconds(profile, CostForm::ClosedForm, exchange));
      sum += seconds;
    }
    EXPECT_DOUBLE_EQ(sum, 4);
  }
}

/// Two nodes of two, without latencies. If blocks are the nodes, phase 0 sends 10 bytes inside, and phase 1 twice 10
/// bytes of both devices over one NIC. Blocks of one send to the member before (over the NIC), to that on the other
/// node (both at once), and to the next.
TEST(LinkLevelTest, PhasesOverNics) {
  ClusterProfile profile = makeToyPair();
  profile.links[1].latency = 0;
  auto get = [&](int64_t payload, int64_t phase, int64_t phases) {
    return getSeconds(profile, CostForm::LinkLevel, makePhase(kFour, payload, phase, phases));
  };
  EXPECT_DOUBLE_EQ(get(20, 0, 2), 1);
  EXPECT_DOUBLE_EQ(get(20, 1, 2), 4);
  EXPECT_DOUBLE_EQ(get(10, 0, 4), 0);
  EXPECT_DOUBLE_EQ(get(10, 1, 4), 1);
  EXPECT_DOUBLE_EQ(get(10, 2, 4), 2);
  EXPECT_DOUBLE_EQ(get(10, 3, 4), 1);
}

/// A group alone has the NICs for itself. With its sibling at the same time each has half.
TEST(LinkLevelTest, SiblingsShareLinks) {
  ClusterProfile profile = makeToyPair();
  auto model = makeModel(profile, CostForm::LinkLevel);
  GroupExchange first = makeExchange(Collective::AllGather, kEven, 20),
                second = makeExchange(Collective::AllGather, kOdd, 20);
  EXPECT_DOUBLE_EQ(getValue(model->getSeconds(first)), 2);
  auto network = model->createNetwork();
  (void)llvm::cantFail(network->start(0, first));
  (void)llvm::cantFail(network->start(0, second));
  llvm::SmallVector<Network::Completion> done;
  while (done.empty())
    network->advance(network->getNextTime(), done);
  EXPECT_EQ(done.size(), 4u);
  EXPECT_DOUBLE_EQ(network->getNextTime(), std::numeric_limits<double>::infinity());
  // A free number is used again.
  EXPECT_LT(llvm::cantFail(network->start(3, first)), 2u);
  EXPECT_DOUBLE_EQ(network->getNextTime(), 4);
}

/// Three members on one switch. From 1 on 1 -> 0 has 5 bytes/s, as 2 -> 0, and ends at 3. So does 1 -> 2, and 0 -> 1
/// with 10 bytes/s. From then on 2 -> 0 has 10. Each member ends by itself. Zeros are skipped.
TEST(LinkLevelTest, RaggedExchange) {
  ClusterProfile profile = makeToyNode(3);
  auto model = makeModel(profile, CostForm::LinkLevel);
  GroupExchange exchange = makeExchange(Collective::AllToAll, kThree, 0);
  constexpr int64_t matrix[] = {5, 20, 0, /**/ 10, 5, 10, /**/ 40, 0, 5};
  exchange.matrix = matrix;
  auto network = model->createNetwork();
  (void)llvm::cantFail(network->start(0, exchange));
  double ends[3] = {};
  for (size_t count = 0; count < 3;) {
    double now = network->getNextTime();
    llvm::SmallVector<Network::Completion> done;
    network->advance(now, done);
    for (const Network::Completion &completion : done)
      ends[completion.member] = now;
    count += done.size();
  }
  EXPECT_DOUBLE_EQ(ends[0], 6);
  EXPECT_DOUBLE_EQ(ends[1], 3);
  EXPECT_DOUBLE_EQ(ends[2], 6);
}

/// An even matrix takes exactly the time of its payload, also with a hierarchical algorithm.
TEST(LinkLevelTest, EvenMatrix) {
  ClusterProfile profile = makeToyPair();
  std::vector<int64_t> matrix(16, 10);
  for (Algorithm algorithm : {Algorithm::Pairwise, Algorithm::Hierarchical}) {
    profile.algorithms[static_cast<unsigned>(Collective::AllToAll)] = algorithm;
    GroupExchange even = makeExchange(Collective::AllToAll, kFour, 40), ragged = even;
    ragged.matrix = matrix;
    EXPECT_EQ(getSeconds(profile, CostForm::LinkLevel, even), getSeconds(profile, CostForm::LinkLevel, ragged));
  }
}

/// A ragged phase sends only the bytes of its matrix: 50 bytes to 2, which start after two thirds of 1 s.
TEST(LinkLevelTest, RaggedPhase) {
  ClusterProfile profile = makeToyNode(4);
  GroupExchange exchange = makePhase(kFour, 20, 1, 2);
  constexpr int64_t even[] = {0, 0, 10, 10, 0, 0, 10, 10, 10, 10, 0, 0, 10, 10, 0, 0};
  double seconds = getSeconds(profile, CostForm::LinkLevel, exchange);
  exchange.matrix = even;
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange), seconds);
  constexpr int64_t matrix[] = {0, 0, 30, 0, 0, 0, 20, 10, 0, 0, 0, 0, 0, 0, 0, 0};
  exchange.matrix = matrix;
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange), 2 / 3.0 + 5);
}

/// Members without work are done at once.
TEST(LinkLevelTest, NothingToDo) {
  ClusterProfile profile = makeToyNode(2);
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, makeExchange(Collective::AllGather, {1}, 40)), 0);
  GroupExchange empty = makeExchange(Collective::AllToAll, kTwo, 0);
  constexpr int64_t matrix[] = {7, 0, 0, 7};
  empty.matrix = matrix;
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, empty), 0);
}

/// A link at half its speed doubles the time of its traffic.
TEST(LinkLevelTest, Fault) {
  ClusterProfile profile = makeToyNode(2);
  profile.links[0].latency = 0;
  GroupExchange exchange = makeExchange(Collective::AllGather, kTwo, 40);
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange), 2);
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, exchange, LinkFault{"node0/device0", "node0/switch", 0.5}),
                   4);
}

/// Two members all-reduce 40 bytes in 2 + 4 s. One at half speed needs 2 + 8 s, and the other waits.
TEST(LinkLevelTest, SlowMember) {
  ClusterProfile profile = makeToyNode(2);
  auto model = makeModel(profile, CostForm::LinkLevel);
  auto network = model->createNetwork();
  uint32_t number = llvm::cantFail(network->start(0, makeExchange(Collective::AllReduce, kTwo, 40)));
  network->setSpeed(0, number, 1, 0.5);
  llvm::SmallVector<Network::Completion> done;
  double now = 0;
  for (; done.size() < 2; network->advance(now, done))
    now = network->getNextTime();
  EXPECT_DOUBLE_EQ(now, 10);
  // The member is slow from 4 on, when 20 of the 40 bytes have moved: the others need 4 s more.
  number = llvm::cantFail(network->start(10, makeExchange(Collective::AllReduce, kTwo, 40)));
  done.clear();
  network->advance(network->getNextTime(), done);
  network->setSpeed(14, number, 0, 0.5);
  for (; done.size() < 2; network->advance(now, done))
    now = network->getNextTime();
  EXPECT_DOUBLE_EQ(now, 10 + 4 + 4);
}

/// With even traffic, both forms agree within 10% for each collective, number of nodes, members on a node and size.
/// Each device has a NIC, or each node has one that the group uses alone. This holds with measured curves and without.
TEST(LinkLevelTest, AgreesWithClosedForm) {
  ClusterProfile nics = makeToyDevices(16, 8), nic = makeToyDevices(16, 8);
  nics.links = {
      {"device*", "switch", 370, 370, 0.5}, {"device*", "nic*", 52, 52, 1}, {"nic*", "network", 48, 48, 1, 1}};
  nics.links[0].reduces = true;
  nic.links = {{"device*", "switch", 12, 12, 0.5}, {"switch", "network", 6, 6, 1}};
  nics.protocols = {{"ll", 6, 0.2, 0.4, 0.3, 0.1, {}}, {"simple", 8, 1, 2, 1, 1, {}}};
  nics.algorithms.fill(Algorithm::Fastest);
  nics.algorithms[static_cast<unsigned>(Collective::AllToAll)] = Algorithm::Pairwise;
  CollectiveFit curve;
  curve.isCurve = true;
  for (Collective collective : {Collective::AllGather, Collective::AllToAll, Collective::AllReduce})
    for (int64_t members : {2, 8}) {
      curve.collective = collective;
      curve.minMembers = curve.maxMembers = curve.minPerNode = curve.maxPerNode = members;
      curve.points = {{100, 8.0 + members}, {1e4, 60}, {1e6, 4000}};
      nics.collectives.push_back(curve);
    }
  for (const ClusterProfile *profile : {&nics, &nic}) {
    auto closed = makeModel(*profile, CostForm::ClosedForm), links = makeModel(*profile, CostForm::LinkLevel);
    for (Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                                  Collective::AllToAll, Collective::Broadcast, Collective::Reduce})
      for (int64_t nodes : {1, 2, 3, 4, 8, 16})
        for (int64_t perNode : profile == &nic ? std::vector<int64_t>{8} : std::vector<int64_t>{1, 2, 4, 8})
          for (int64_t bytes : {100, 10000, 1000000}) {
            std::vector<int64_t> ranks;
            for (int64_t member = 0; member < nodes * perNode; ++member)
              ranks.push_back(member / perNode * 8 + member % perNode);
            GroupExchange exchange = makeExchange(collective, ranks, bytes);
            double expected = getValue(closed->getSeconds(exchange));
            EXPECT_NEAR(getValue(links->getSeconds(exchange)), expected, 0.1 * expected)
                << getName(collective).str() << " of " << bytes << " bytes over " << nodes << " x " << perNode;
          }
  }
}

/// Links that can never be the narrowest are left out, without a change of times.
TEST(LinkLevelTest, WideLinksDoNotCount) {
  ClusterProfile profile = makeToyPair();
  profile.links = {
      {"device*", "switch", 10, 10, 0}, {"switch", "port", 20, 20, 0.25}, {"port", "network", 10, 10, 0.25}};
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, makeExchange(Collective::AllToAll, kFour, 40)), 5);
  profile.links[1].bytesPerSecond = profile.links[1].backBytesPerSecond = 5;
  profile.links[2].bytesPerSecond = profile.links[2].backBytesPerSecond = 20;
  // 40 bytes of both devices now take 8 s.
  EXPECT_DOUBLE_EQ(getSeconds(profile, CostForm::LinkLevel, makeExchange(Collective::AllToAll, kFour, 40)), 9);
}

} // namespace
