//===- LinkLevel.cpp - exchanges as flows on links ------------------------===//
#include "Flows.h"
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::moe;
using llvm::Expected;

static constexpr uint32_t kNone = ~0u;

namespace {

/// Paths between ranks, without links that are never the narrowest of a path.
class Paths {
public:
  explicit Paths(const Topology &topology);
  llvm::ArrayRef<uint32_t> get(int64_t from, int64_t to) const {
    size_t pair = from * ranks + to;
    return llvm::ArrayRef(links).slice(begin[pair], begin[pair + 1] - begin[pair]);
  }

private:
  int64_t ranks;
  std::vector<uint32_t> links, begin;
};

class LinkLevel final : public CostModel {
public:
  explicit LinkLevel(std::unique_ptr<State> state) : CostModel(std::move(state)), paths(*this->state->topology) {}
  using CostModel::getSeconds;
  Expected<double> getSeconds(const GroupExchange &exchange) const override;
  std::unique_ptr<Network> createNetwork() const override;
  bool hasContention() const override { return true; }
  /// Flows of an exchange that alone takes the time of the closed form. Each phase begins with `startup` seconds. The
  /// bytes are multiplied by `stretch` for what links lose to protocols and uneven load.
  struct Plan {
    std::vector<Phase> phases;
    double startup = 0, stretch = 1;
  };
  Expected<Plan> plan(const GroupExchange &exchange) const;

  const Paths &getPaths() const { return paths; }
  std::vector<double> getBandwidths() const {
    auto links = llvm::map_range(state->topology->getLinks(), [](const Link &link) { return link.bytesPerSecond; });
    return {links.begin(), links.end()};
  }

private:
  Paths paths;
};

/// A running exchange.
struct Running {
  struct Member {
    uint32_t phase = 0, nextSend = 0;
    llvm::SmallVector<uint32_t, kSendsAtOnce> flows; ///< numbers of its present flows
    double speed = 1;
    bool isDone = false;
  };
  std::vector<int64_t> ranks;
  LinkLevel::Plan plan;
  std::vector<uint32_t> awaited; ///< receives that have not ended, [phase * members + member]
  std::vector<size_t> left;      ///< sends that have not ended, by phase
  std::vector<Member> members;
  uint32_t unreported = 0;
};

class LinkLevelNetwork final : public Network {
public:
  explicit LinkLevelNetwork(const LinkLevel &model) : model(model), engine(model.getBandwidths()) {}
  Expected<uint32_t> start(double now, const GroupExchange &exchange) override;
  void setSpeed(double now, uint32_t exchange, uint32_t member, double speed) override;
  double getNextTime() override;
  void advance(double now, llvm::SmallVectorImpl<Completion> &done) override;

private:
  struct Owner {
    uint32_t exchange, from, to, phase;
  };
  void proceed(uint32_t exchange, uint32_t member);
  void startSends(uint32_t exchange, uint32_t member);

  const LinkLevel &model;
  FlowEngine engine;
  std::vector<Owner> owners; ///< owner of each flow
  std::vector<Running> running;
  llvm::SmallVector<uint32_t> freeNumbers, ended;
  /// Members that are done since `time` but were not reported.
  llvm::SmallVector<Completion> ready;
  double time = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// For each link, the link that follows it on every path, or with `after` = false precedes it. kNone if paths differ or
/// end there.
static std::vector<uint32_t> getNeighbours(const Topology &topology, bool after) {
  constexpr uint32_t unknown = kNone - 1;
  std::vector<uint32_t> neighbours(topology.getLinks().size(), unknown);
  int64_t ranks = topology.getNumRanks();
  for (int64_t from = 0; from < ranks; ++from)
    for (int64_t to = 0; to < ranks; ++to) {
      llvm::ArrayRef<uint32_t> path = topology.getPath(from, to);
      for (size_t hop = 0; hop < path.size(); ++hop) {
        size_t other = after ? hop + 1 : hop - 1; // wraps around below 0
        uint32_t neighbour = other < path.size() ? path[other] : kNone;
        uint32_t &known = neighbours[path[hop]];
        known = known == unknown || known == neighbour ? neighbour : kNone;
      }
    }
  for (uint32_t &neighbour : neighbours)
    if (neighbour == unknown)
      neighbour = kNone;
  return neighbours;
}

/// Finds links that are never full first: all their flows go on over a link that is not wider, or come over a narrower
/// one.
static std::vector<bool> findRedundant(const Topology &topology) {
  llvm::ArrayRef<Link> links = topology.getLinks();
  std::vector<bool> isRedundant(links.size());
  for (bool after : {true, false}) {
    std::vector<uint32_t> neighbours = getNeighbours(topology, after);
    for (uint32_t link = 0; link < links.size(); ++link)
      for (uint32_t other = neighbours[link]; other != kNone; other = neighbours[other])
        if (links[other].bytesPerSecond < links[link].bytesPerSecond ||
            (after && links[other].bytesPerSecond == links[link].bytesPerSecond))
          isRedundant[link] = true;
  }
  return isRedundant;
}

Paths::Paths(const Topology &topology) : ranks(topology.getNumRanks()) {
  std::vector<bool> isRedundant = findRedundant(topology);
  begin.push_back(0);
  for (int64_t from = 0; from < ranks; ++from)
    for (int64_t to = 0; to < ranks; ++to) {
      llvm::copy_if(topology.getPath(from, to), std::back_inserter(links),
                    [&](uint32_t link) { return !isRedundant[link]; });
      begin.push_back(links.size());
    }
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

Expected<LinkLevel::Plan> LinkLevel::plan(const GroupExchange &exchange) const {
  if (llvm::Error error = check(exchange))
    return error;
  Expected<GroupTime> time =
      getGroupTime(exchange.collective, exchange.ranks, exchange.dtype, exchange.getEvenPayload());
  if (!time)
    return time.takeError();
  Expected<std::vector<Phase>> phases = makePhases(exchange, time->algorithm, state->layout);
  if (!phases)
    return llvm::createStringError("cluster '" + profile.name + "': " + llvm::toString(phases.takeError()));
  Plan plan = {std::move(*phases)};
  plan.startup = exchange.getPart() * time->alpha / static_cast<double>(std::max<size_t>(plan.phases.size(), 1));
  if (time->linkBeta > 0)
    plan.stretch = time->beta / time->linkBeta;
  return plan;
}

Expected<double> LinkLevel::getSeconds(const GroupExchange &exchange) const {
  LinkLevelNetwork network(*this);
  Expected<uint32_t> number = network.start(0, exchange);
  if (!number)
    return number.takeError();
  double seconds = 0;
  llvm::SmallVector<Network::Completion> done;
  while (done.size() < exchange.ranks.size()) {
    seconds = network.getNextTime();
    network.advance(seconds, done);
  }
  return seconds;
}

std::unique_ptr<Network> LinkLevel::createNetwork() const { return std::make_unique<LinkLevelNetwork>(*this); }

std::unique_ptr<CostModel> mlir::moe::makeLinkLevel(std::unique_ptr<CostModel::State> state) {
  return std::make_unique<LinkLevel>(std::move(state));
}

//===----------------------------------------------------------------------===//
// Network
//===----------------------------------------------------------------------===//

Expected<uint32_t> LinkLevelNetwork::start(double now, const GroupExchange &exchange) {
  Expected<LinkLevel::Plan> plan = model.plan(exchange);
  if (!plan)
    return plan.takeError();
  time = std::max(time, now);
  if (freeNumbers.empty()) {
    freeNumbers.push_back(running.size());
    running.emplace_back();
  }
  uint32_t number = freeNumbers.pop_back_val();
  Running &one = running[number];
  one.ranks = exchange.ranks.vec();
  one.plan = std::move(*plan);
  one.members.assign(one.ranks.size(), {});
  one.unreported = one.ranks.size();
  one.awaited.assign(one.plan.phases.size() * one.members.size(), 0);
  one.left.clear();
  for (const auto &[index, phase] : llvm::enumerate(one.plan.phases)) {
    one.left.push_back(phase.sends.size());
    for (const Send &send : phase.sends)
      ++one.awaited[index * one.members.size() + send.to];
  }
  for (uint32_t member = 0; member < one.ranks.size(); ++member)
    proceed(number, member);
  return number;
}

/// Starts the next sends of a member.
void LinkLevelNetwork::proceed(uint32_t number, uint32_t member) {
  Running &exchange = running[number];
  Running::Member &state = exchange.members[member];
  if (state.isDone)
    return;
  for (; state.phase < exchange.plan.phases.size(); ++state.phase, state.nextSend = 0) {
    startSends(number, member);
    if (!state.flows.empty())
      return;
    bool isWaiting = exchange.plan.phases[state.phase].isPipelined
                         ? exchange.left[state.phase] > 0
                         : exchange.awaited[state.phase * exchange.members.size() + member] > 0;
    if (isWaiting)
      return;
  }
  state.isDone = true;
  ready.push_back({number, member});
}

/// Starts as many sends as may run at the same time. Sends that wait begin as these end, after their start-ups.
void LinkLevelNetwork::startSends(uint32_t number, uint32_t member) {
  Running &exchange = running[number];
  Running::Member &state = exchange.members[member];
  const Phase &phase = exchange.plan.phases[state.phase];
  llvm::ArrayRef<Send> sends = phase.getSends(member);
  size_t atOnce = phase.isPipelined ? sends.size() : kSendsAtOnce;
  while (state.nextSend < sends.size() && state.flows.size() < atOnce) {
    double startup = state.nextSend < atOnce ? exchange.plan.startup : 0;
    const Send &send = sends[state.nextSend++];
    llvm::ArrayRef<uint32_t> path = model.getPaths().get(exchange.ranks[member], exchange.ranks[send.to]);
    uint32_t flow = engine.start(time, path, send.bytes * exchange.plan.stretch, startup, state.speed);
    state.flows.push_back(flow);
    owners.resize(std::max<size_t>(owners.size(), flow + 1));
    owners[flow] = {number, member, send.to, state.phase};
  }
}

void LinkLevelNetwork::setSpeed(double now, uint32_t number, uint32_t member, double speed) {
  time = std::max(time, now);
  Running::Member &state = running[number].members[member];
  if (state.speed == speed)
    return;
  state.speed = speed;
  for (uint32_t flow : state.flows)
    engine.setSpeed(time, flow, speed);
}

double LinkLevelNetwork::getNextTime() { return ready.empty() ? engine.getNextTime() : time; }

void LinkLevelNetwork::advance(double now, llvm::SmallVectorImpl<Completion> &done) {
  time = std::max(time, now);
  ended.clear();
  engine.advance(time, ended);
  // All flows of this time end before others that wait for them go on.
  for (uint32_t flow : ended) {
    const Owner &owner = owners[flow];
    Running &exchange = running[owner.exchange];
    llvm::erase(exchange.members[owner.from].flows, flow);
    --exchange.awaited[owner.phase * exchange.members.size() + owner.to];
    --exchange.left[owner.phase];
  }
  llvm::SmallVector<Owner> endedOwners;
  for (uint32_t flow : ended)
    endedOwners.push_back(owners[flow]); // new flows take over these numbers
  for (const Owner &owner : endedOwners) {
    Running &exchange = running[owner.exchange];
    if (!exchange.plan.phases[owner.phase].isPipelined) {
      proceed(owner.exchange, owner.from);
      proceed(owner.exchange, owner.to);
    } else if (exchange.left[owner.phase] == 0) {
      for (uint32_t member = 0; member < exchange.members.size(); ++member)
        proceed(owner.exchange, member);
    }
  }
  for (const Completion &completion : ready)
    if (--running[completion.exchange].unreported == 0)
      freeNumbers.push_back(completion.exchange);
  done.append(ready);
  ready.clear();
}
