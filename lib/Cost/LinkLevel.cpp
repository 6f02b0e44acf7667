//===- LinkLevel.cpp - exchanges as flows on links ------------------------===//
#include "CollectiveFlows.h"
#include "Flows.h"
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::moe;
using llvm::Expected;

static constexpr uint32_t kNone = ~0u;

namespace {

/// Ways between ranks, without links that cannot be the narrowest of any way.
class Paths {
public:
  explicit Paths(const Topology &topology);
  llvm::ArrayRef<uint32_t> get(int64_t from, int64_t to) const {
    size_t pair = from * ranks + to;
    return llvm::ArrayRef(links).slice(begin[pair], begin[pair + 1] - begin[pair]);
  }
  double getLatency(int64_t from, int64_t to) const { return latencies[from * ranks + to]; }

private:
  int64_t ranks;
  std::vector<uint32_t> links, begin;
  std::vector<double> latencies;
};

class LinkLevel final : public CostModel {
public:
  explicit LinkLevel(std::unique_ptr<State> state) : CostModel(std::move(state)), paths(*this->state->topology) {}
  using CostModel::getSeconds;
  Expected<double> getSeconds(const Exchange &exchange) const override;
  std::unique_ptr<Network> createNetwork() const override;
  bool hasContention() const override { return true; }
  Expected<std::vector<Phase>> getPhases(const Exchange &exchange) const;

  const Paths &getPaths() const { return paths; }
  std::vector<double> getBandwidths() const;

private:
  Paths paths;
};

/// An exchange under way. Its parts are its phases, each as often as it repeats.
struct Running {
  struct Member {
    uint32_t part = 0, nextSend = 0;
    uint32_t flow = kNone; ///< that it sends now
    double speed = 1;
    bool isDone = false;
  };
  std::vector<int64_t> ranks;
  std::vector<Phase> phases;
  std::vector<double> latencies; ///< of a pipelined phase: of all its ways together
  std::vector<uint32_t> phaseOf; ///< of each part
  std::vector<uint32_t> awaited; ///< receives that have not ended, [part * members + member]
  std::vector<Member> members;
  uint32_t unreported = 0;
};

class LinkLevelNetwork final : public Network {
public:
  explicit LinkLevelNetwork(const LinkLevel &model) : model(model), engine(model.getBandwidths()) {}
  Expected<uint32_t> start(double now, const Exchange &exchange) override;
  void setSpeed(double now, uint32_t exchange, uint32_t member, double speed) override;
  double getNextTime() override;
  void advance(double now, llvm::SmallVectorImpl<Completion> &done) override;

private:
  struct Owner {
    uint32_t exchange, from, to, part;
  };
  void proceed(uint32_t exchange, uint32_t member);
  void send(uint32_t exchange, uint32_t member, const Send &send);
  double getLatency(const Running &exchange, uint32_t member, const Send &send) const;

  const LinkLevel &model;
  FlowEngine engine;
  std::vector<Owner> owners; ///< of flows
  std::vector<Running> running;
  llvm::SmallVector<uint32_t> freeNumbers, ended;
  /// Members that are done and have not been reported, since `time`.
  llvm::SmallVector<Completion> ready;
  double time = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// The link that follows each one on every way over it, or precedes it; kNone where ways differ or end.
static std::vector<uint32_t> getNeighbours(const Topology &topology, bool after) {
  constexpr uint32_t unknown = kNone - 1;
  std::vector<uint32_t> neighbours(topology.getLinks().size(), unknown);
  int64_t ranks = topology.getNumRanks();
  for (int64_t from = 0; from < ranks; ++from)
    for (int64_t to = 0; to < ranks; ++to) {
      llvm::ArrayRef<uint32_t> path = topology.getPath(from, to);
      for (size_t hop = 0; hop < path.size(); ++hop) {
        size_t other = after ? hop + 1 : hop - 1; // wraps below 0
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

/// Links whose flows all go on over a link that is not wider, or come over one that is narrower: that one is full
/// before.
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
      double latency = 0;
      for (uint32_t link : topology.getPath(from, to)) {
        latency += topology.getLinks()[link].latency;
        if (!isRedundant[link])
          links.push_back(link);
      }
      begin.push_back(links.size());
      latencies.push_back(latency);
    }
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

std::vector<double> LinkLevel::getBandwidths() const {
  std::vector<double> bandwidths;
  for (const Link &link : state->topology->getLinks())
    bandwidths.push_back(link.bytesPerSecond);
  return bandwidths;
}

Expected<std::vector<Phase>> LinkLevel::getPhases(const Exchange &exchange) const {
  if (llvm::Error error = check(exchange))
    return error;
  for (int64_t rank : exchange.ranks)
    if (rank < 0 || rank >= ranks)
      return makeCostError("expected the members of '" + getName(exchange.collective) + "' to be below " +
                           llvm::Twine(ranks) + ", the number of ranks, but got rank " + llvm::Twine(rank));
  Expected<Algorithm> algorithm = chooseAlgorithm(exchange.collective, exchange.ranks, exchange.payload);
  if (!algorithm)
    return algorithm.takeError();
  Expected<std::vector<Phase>> phases = makePhases(exchange, *algorithm, profile.devicesPerNode);
  if (!phases)
    return makeCostError("cluster '" + profile.name + "': " + llvm::toString(phases.takeError()));
  return phases;
}

Expected<double> LinkLevel::getSeconds(const Exchange &exchange) const {
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

/// What each member has to receive in each part.
static void countReceives(Running &exchange) {
  size_t members = exchange.members.size();
  exchange.awaited.assign(exchange.phaseOf.size() * members, 0);
  for (size_t part = 0; part < exchange.phaseOf.size(); ++part)
    for (const Send &send : exchange.phases[exchange.phaseOf[part]].sends)
      ++exchange.awaited[part * members + send.to];
}

/// Of each phase, where its members pass on what they receive; others have none.
static std::vector<double> getLatencies(const Paths &paths, llvm::ArrayRef<int64_t> ranks,
                                        llvm::ArrayRef<Phase> phases) {
  std::vector<double> latencies(phases.size());
  for (auto [latency, phase] : llvm::zip_equal(latencies, phases))
    for (uint32_t member = 0; phase.isPipelined && member < ranks.size(); ++member)
      for (const Send &send : phase.getSends(member))
        latency += paths.getLatency(ranks[member], ranks[send.to]);
  return latencies;
}

Expected<uint32_t> LinkLevelNetwork::start(double now, const Exchange &exchange) {
  Expected<std::vector<Phase>> phases = model.getPhases(exchange);
  if (!phases)
    return phases.takeError();
  time = std::max(time, now);
  if (freeNumbers.empty()) {
    freeNumbers.push_back(running.size());
    running.emplace_back();
  }
  uint32_t number = freeNumbers.pop_back_val();
  Running &one = running[number];
  one.ranks = exchange.ranks.vec();
  one.phases = std::move(*phases);
  one.latencies = getLatencies(model.getPaths(), one.ranks, one.phases);
  one.phaseOf.clear();
  for (uint32_t phase = 0; phase < one.phases.size(); ++phase)
    one.phaseOf.insert(one.phaseOf.end(), one.phases[phase].repeats, phase);
  one.members.assign(one.ranks.size(), {});
  one.unreported = one.ranks.size();
  countReceives(one);
  for (uint32_t member = 0; member < one.ranks.size(); ++member)
    proceed(number, member);
  return number;
}

/// Starts what a member can do next, if it does nothing.
void LinkLevelNetwork::proceed(uint32_t number, uint32_t member) {
  Running &exchange = running[number];
  Running::Member &state = exchange.members[member];
  if (state.isDone || state.flow != kNone)
    return;
  for (; state.part < exchange.phaseOf.size(); ++state.part, state.nextSend = 0) {
    llvm::ArrayRef<Send> sends = exchange.phases[exchange.phaseOf[state.part]].getSends(member);
    if (state.nextSend < sends.size())
      return send(number, member, sends[state.nextSend++]);
    if (exchange.awaited[state.part * exchange.members.size() + member] > 0)
      return;
  }
  state.isDone = true;
  ready.push_back({number, member});
}

/// What is passed on is taken to begin when the first byte is at the last member: then the slowest link alone decides
/// when all is there.
double LinkLevelNetwork::getLatency(const Running &exchange, uint32_t member, const Send &send) const {
  uint32_t phase = exchange.phaseOf[exchange.members[member].part];
  return exchange.phases[phase].isPipelined
             ? exchange.latencies[phase]
             : model.getPaths().getLatency(exchange.ranks[member], exchange.ranks[send.to]);
}

void LinkLevelNetwork::send(uint32_t number, uint32_t member, const Send &send) {
  Running &exchange = running[number];
  Running::Member &state = exchange.members[member];
  int64_t from = exchange.ranks[member], to = exchange.ranks[send.to];
  const Paths &paths = model.getPaths();
  double latency = getLatency(exchange, member, send);
  state.flow = engine.start(time, paths.get(from, to), send.bytes, latency, state.speed);
  owners.resize(std::max<size_t>(owners.size(), state.flow + 1));
  owners[state.flow] = {number, member, send.to, state.part};
}

void LinkLevelNetwork::setSpeed(double now, uint32_t number, uint32_t member, double speed) {
  time = std::max(time, now);
  Running::Member &state = running[number].members[member];
  if (state.speed == speed)
    return;
  state.speed = speed;
  if (state.flow != kNone)
    engine.setSpeed(time, state.flow, speed);
}

double LinkLevelNetwork::getNextTime() { return ready.empty() ? engine.getNextTime() : time; }

void LinkLevelNetwork::advance(double now, llvm::SmallVectorImpl<Completion> &done) {
  time = std::max(time, now);
  ended.clear();
  engine.advance(time, ended);
  // All of them have ended before anything that waits for them goes on.
  for (uint32_t flow : ended) {
    const Owner &owner = owners[flow];
    Running &exchange = running[owner.exchange];
    exchange.members[owner.from].flow = kNone;
    --exchange.awaited[owner.part * exchange.members.size() + owner.to];
  }
  llvm::SmallVector<Owner> endedOwners;
  for (uint32_t flow : ended)
    endedOwners.push_back(owners[flow]); // new flows take the numbers
  for (const Owner &owner : endedOwners) {
    proceed(owner.exchange, owner.from);
    proceed(owner.exchange, owner.to);
  }
  for (const Completion &completion : ready)
    if (--running[completion.exchange].unreported == 0)
      freeNumbers.push_back(completion.exchange);
  done.append(ready);
  ready.clear();
}
