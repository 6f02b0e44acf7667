//===- ClosedForm.cpp - alpha and beta ------------------------------------===//
//
// An exchange takes alpha + beta * bytes, and does not depend on other traffic.
//
//===----------------------------------------------------------------------===//
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace mlir::moe;
using llvm::Expected;

namespace {

/// Exchanges that do not affect each other, in a heap sorted by end. If the end of an exchange changes, it gets a
/// second entry, and getNextTime() drops the outdated one.
class ClosedFormNetwork final : public Network {
public:
  explicit ClosedFormNetwork(const CostModel &model) : model(model) {}
  Expected<uint32_t> start(double now, const GroupExchange &exchange) override;
  void setSpeed(double now, uint32_t exchange, uint32_t member, double speed) override;
  double getNextTime() override;
  void advance(double now, llvm::SmallVectorImpl<Completion> &done) override;

private:
  struct Running {
    double remaining = 0; ///< seconds alone, left at `since`
    double since = 0;
    double speed = 1; ///< least of `speeds`
    llvm::SmallVector<double, 8> speeds;
    uint64_t version = 0; ///< version of its end; 0 only if the number is free
  };
  struct End {
    double time;
    uint32_t exchange;
    uint64_t version;
    bool operator<(const End &other) const {
      return std::tie(other.time, other.exchange) < std::tie(time, exchange); // the first one is on top
    }
  };
  void push(uint32_t exchange);

  const CostModel &model;
  std::vector<Running> running;
  llvm::SmallVector<uint32_t> freeNumbers;
  std::vector<End> ends;
  uint64_t version = 0;
};

class ClosedForm final : public CostModel {
public:
  explicit ClosedForm(std::unique_ptr<State> state) : CostModel(std::move(state)) {}
  using CostModel::getSeconds;
  Expected<double> getSeconds(const GroupExchange &exchange) const override;
  std::unique_ptr<Network> createNetwork() const override { return std::make_unique<ClosedFormNetwork>(*this); }
  bool hasContention() const override { return false; }

private:
  Expected<double> getSharedSeconds(const GroupExchange &exchange) const;
};

} // namespace

/// Seconds in which a member sends the rows that go to other nodes, if each row is a message.
static double getMessageSeconds(const GroupExchange &exchange, double payload, const ClusterProfile &profile) {
  if (exchange.rowBytes == 0 || profile.tokenExchange.messageSeconds == 0)
    return 0;
  int64_t node = exchange.ranks.front() / profile.devicesPerNode;
  int64_t others = llvm::count_if(exchange.ranks, [&](int64_t rank) { return rank / profile.devicesPerNode != node; });
  double share = static_cast<double>(others) / static_cast<double>(exchange.ranks.size());
  return profile.tokenExchange.messageSeconds * share * payload / static_cast<double>(exchange.rowBytes);
}

Expected<double> ClosedForm::getSeconds(const GroupExchange &exchange) const {
  if (llvm::Error error = check(exchange))
    return error;
  if (profile.processors.count > 0)
    return getSharedSeconds(exchange);
  if (exchange.isNothing())
    return 0;
  double payload = exchange.getEvenPayload();
  Expected<GroupTime> group = getGroupTime(exchange.collective, exchange.ranks, exchange.dtype, payload);
  if (!group)
    return group.takeError();
  double seconds = std::max(group->beta * payload, getMessageSeconds(exchange, payload, profile));
  return exchange.getPart() * (group->alpha + seconds);
}

/// Seconds if the members' shares run on the processors of their nodes. Each share takes the first free processor, at
/// the speed of as many busy processors as there are at the start.
Expected<double> ClosedForm::getSharedSeconds(const GroupExchange &exchange) const {
  std::map<int64_t, std::vector<double>> sharesOf; // shares, by node
  for (auto [member, rank] : llvm::enumerate(exchange.ranks)) {
    Expected<double> share = getShareSeconds(exchange, member);
    if (!share)
      return share;
    sharesOf[rank / profile.devicesPerNode].push_back(*share);
  }
  llvm::ArrayRef<double> speeds = profile.processors.speed[static_cast<unsigned>(Resource::Network)];
  double seconds = 0;
  for (auto &[node, shares] : sharesOf) {
    size_t busy = std::min<size_t>(shares.size(), profile.processors.count);
    if (busy > speeds.size())
      return llvm::createStringError("cluster '" + profile.name + "' has no 'processors.speed.network' for " +
                                     llvm::Twine(busy) + " busy processors");
    std::vector<double> free(busy);
    for (double share : shares)
      *llvm::min_element(free) += share / speeds[busy - 1];
    seconds = std::max(seconds, *llvm::max_element(free));
  }
  return seconds;
}

std::unique_ptr<CostModel> mlir::moe::makeClosedForm(std::unique_ptr<CostModel::State> state) {
  return std::make_unique<ClosedForm>(std::move(state));
}

Expected<uint32_t> ClosedFormNetwork::start(double now, const GroupExchange &exchange) {
  Expected<double> seconds = model.getSeconds(exchange);
  if (!seconds)
    return seconds.takeError();
  if (freeNumbers.empty()) {
    freeNumbers.push_back(running.size());
    running.emplace_back();
  }
  uint32_t number = freeNumbers.pop_back_val();
  Running &one = running[number];
  one.remaining = *seconds;
  one.since = now;
  one.speed = 1;
  one.speeds.assign(exchange.ranks.size(), 1);
  push(number);
  return number;
}

void ClosedFormNetwork::push(uint32_t number) {
  Running &one = running[number];
  one.version = ++version;
  ends.push_back({one.since + one.remaining / one.speed, number, version});
  std::push_heap(ends.begin(), ends.end());
}

void ClosedFormNetwork::setSpeed(double now, uint32_t number, uint32_t member, double speed) {
  Running &one = running[number];
  one.speeds[member] = speed;
  double least = *llvm::min_element(one.speeds);
  if (least == one.speed)
    return;
  one.remaining = std::max(one.remaining - (now - one.since) * one.speed, 0.0);
  one.since = now;
  one.speed = least;
  push(number);
}

double ClosedFormNetwork::getNextTime() {
  while (!ends.empty() && ends.front().version != running[ends.front().exchange].version) {
    std::pop_heap(ends.begin(), ends.end());
    ends.pop_back();
  }
  return ends.empty() ? std::numeric_limits<double>::infinity() : ends.front().time;
}

void ClosedFormNetwork::advance(double now, llvm::SmallVectorImpl<Completion> &done) {
  while (getNextTime() <= now) {
    uint32_t number = ends.front().exchange;
    Running &one = running[number];
    for (uint32_t member = 0; member < one.speeds.size(); ++member)
      done.push_back({number, member});
    one.version = 0;
    freeNumbers.push_back(number);
  }
}
