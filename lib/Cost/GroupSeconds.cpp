//===- GroupSeconds.cpp - alpha and beta of groups ------------------------===//
//
// A measured group has its line or its curve. Another group has the time of its links. If some of its members are on
// one node, a measurement inside a node replaces the links there.
//
//===----------------------------------------------------------------------===//
#include "Forms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Curves
//===----------------------------------------------------------------------===//

/// Last point of the segment for `bytes`. A segment is a line in logarithms.
static size_t findSegment(llvm::ArrayRef<MeasuredPoint> points, double bytes) {
  const auto *above = llvm::upper_bound(points, bytes, [](double b, const MeasuredPoint &p) { return b < p.bytes; });
  return std::clamp<size_t>(above - points.begin(), 1, points.size() - 1);
}

/// Slope of the logarithm of the time over that of the bytes: from 0, constant, to 1, proportional.
static double getSlope(llvm::ArrayRef<MeasuredPoint> points, size_t segment) {
  const MeasuredPoint &a = points[segment - 1], &b = points[segment];
  return std::clamp(std::log(b.seconds / a.seconds) / std::log(b.bytes / a.bytes), 0.0, 1.0);
}

double mlir::moe::getCurveSeconds(const CollectiveFit &fit, double bytes) {
  llvm::ArrayRef<MeasuredPoint> points = fit.points;
  if (bytes <= points.front().bytes)
    return points.front().seconds;
  size_t segment = findSegment(points, bytes);
  const MeasuredPoint &a = points[segment - 1], &b = points[segment];
  if (bytes > b.bytes)
    return b.seconds * std::pow(bytes / b.bytes, getSlope(points, segment));
  double part = std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes);
  return a.seconds * std::pow(b.seconds / a.seconds, part);
}

double mlir::moe::getCurveBeta(const CollectiveFit &fit, double bytes) {
  llvm::ArrayRef<MeasuredPoint> points = fit.points;
  double least = getSlope(points, points.size() - 1) * points.back().seconds / points.back().bytes;
  if (bytes <= points.front().bytes)
    return std::min(least, points.front().seconds / points.front().bytes);
  double mean = getCurveSeconds(fit, bytes) / bytes;
  return std::clamp(getSlope(points, findSegment(points, bytes)) * mean, std::min(least, mean), mean);
}

namespace {

/// One curve, or two curves for different numbers of members with the place of the group between them.
struct Measured {
  const CollectiveFit *low = nullptr, *high = nullptr;
  double part = 0;
  int64_t members = 0;      ///< members of the curve
  bool coversGroup = false; ///< whether the curve is for the whole group, and not for its part on one node

  explicit operator bool() const { return low; }
  double getSeconds(double bytes) const {
    double seconds = getCurveSeconds(*low, bytes);
    return part == 0 ? seconds : std::pow(seconds, 1 - part) * std::pow(getCurveSeconds(*high, bytes), part);
  }
  double getBeta(double bytes) const {
    double beta = getCurveBeta(*low, bytes);
    return part == 0 ? beta : std::pow(beta, 1 - part) * std::pow(getCurveBeta(*high, bytes), part);
  }
  bool contains(double bytes) const { return low->points.front().bytes <= bytes && bytes <= low->points.back().bytes; }
};

/// Properties of a group that measurements depend on.
struct Shape {
  Collective collective;
  StringRef dtype;
  int64_t members, perNode; ///< members on each node; 0 if they differ
};

} // namespace

/// A fit for the group's dtype is better than one for any.
static bool isBetter(const CollectiveFit &fit, const CollectiveFit *known) {
  return !known || (known->dtype.empty() && !fit.dtype.empty());
}

/// Fit for this shape of group.
static const CollectiveFit *findFit(const ClusterProfile &profile, const Shape &shape) {
  const CollectiveFit *found = nullptr;
  for (const CollectiveFit &fit : profile.collectives) {
    bool isFor = fit.collective == shape.collective && (fit.dtype.empty() || fit.dtype == shape.dtype) &&
                 fit.minMembers <= shape.members && shape.members <= fit.maxMembers &&
                 fit.minPerNode <= shape.perNode && shape.perNode <= fit.maxPerNode;
    if (isFor && isBetter(fit, found))
      found = &fit;
  }
  return found;
}

/// Finds the curves for the next smaller and the next larger number of members among those that satisfy `fits`. If one
/// is missing, the other stands for both.
static Measured findBetween(const ClusterProfile &profile, const Shape &shape, int64_t members,
                            llvm::function_ref<bool(const CollectiveFit &)> fits) {
  Measured found;
  for (const CollectiveFit &fit : profile.collectives) {
    if (!fit.isCurve || fit.collective != shape.collective || (!fit.dtype.empty() && fit.dtype != shape.dtype) ||
        !fits(fit))
      continue;
    auto isNearer = [&](const CollectiveFit *known) {
      return !known || std::abs(fit.minMembers - members) < std::abs(known->minMembers - members) ||
             (fit.minMembers == known->minMembers && isBetter(fit, known));
    };
    if (fit.minMembers <= members && isNearer(found.low))
      found.low = &fit;
    if (fit.minMembers >= members && isNearer(found.high))
      found.high = &fit;
  }
  if (!found.low || !found.high)
    found.low = found.high = found.low ? found.low : found.high;
  if (!found)
    return found;
  double low = found.low->minMembers, high = found.high->minMembers;
  found.part = low < high ? std::log(static_cast<double>(members) / low) / std::log(high / low) : 0;
  found.members = std::clamp<int64_t>(members, found.low->minMembers, found.high->minMembers);
  return found;
}

/// Finds a curve for the group, or for as many of its members on one node as were measured.
static Measured findMeasured(const ClusterProfile &profile, const Shape &shape) {
  if (shape.perNode == 0)
    return {};
  if (const CollectiveFit *fit = findFit(profile, shape); fit && fit->isCurve)
    return {fit, fit, 0, shape.members, true};
  Measured same = findBetween(profile, shape, shape.members, [&](const CollectiveFit &fit) {
    return shape.members > shape.perNode && fit.minPerNode == shape.perNode && fit.minMembers > fit.minPerNode;
  });
  Measured inside = findBetween(profile, shape, shape.perNode,
                                [&](const CollectiveFit &fit) { return fit.minMembers == fit.minPerNode; });
  same.coversGroup = same && same.members == shape.members;
  // If a group has several nodes, each node has fewer members than the group.
  inside.coversGroup = inside && inside.members == shape.members && shape.perNode == shape.members;
  for (const Measured &measured : {same, inside})
    if (measured.coversGroup)
      return measured;
  return inside && inside.members <= shape.perNode ? inside : Measured();
}

//===----------------------------------------------------------------------===//
// From links
//===----------------------------------------------------------------------===//

/// Payload for `measured` that moves as many bytes over the links inside a node as the group's `payload` does.
static double getInnerPayload(const Shape &shape, const Measured &measured, double payload) {
  auto part = [](int64_t others, int64_t all) { return static_cast<double>(others) / static_cast<double>(all); };
  int64_t peers = shape.collective == Collective::AllToAll ? shape.perNode : shape.members;
  return payload * part(peers - 1, shape.members) / part(measured.members - 1, measured.members);
}

/// Time near `payload` by one algorithm and protocol. Bytes move inside nodes and between nodes at the same time, so
/// the slower of both counts. Start-ups between nodes add to the measured ones.
static GroupTime combine(const Shape &shape, const Measured &measured, const LinkTimes &links, const LinkTimes &inner,
                         Algorithm algorithm, const Protocol &protocol, double payload) {
  GroupTime time;
  time.algorithm = algorithm;
  time.linkBeta = links.getBeta();
  time.isExtrapolated = true;
  time.alpha = links.getAlpha(protocol, algorithm);
  time.beta = links.getBeta() / protocol.bandwidth;
  if (!measured)
    return time;
  double least = measured.low->points.front().bytes;
  double start = measured.getSeconds(least), more = std::max(time.alpha - inner.getAlpha(protocol, algorithm), 0.0);
  double innerPayload = getInnerPayload(shape, measured, payload), seconds = measured.getSeconds(innerPayload);
  time.alpha = start + more;
  if (seconds > start + time.beta * payload) {
    time.beta = payload > 0 ? std::min(measured.getBeta(innerPayload) * innerPayload, seconds) / payload : 0;
    time.alpha = seconds + more - time.beta * payload;
  }
  time.measured = true;
  return time;
}

static llvm::SmallVector<Algorithm> getCandidates(const CostModel::State &state, Collective collective) {
  Algorithm algorithm = state.profile.algorithms[static_cast<unsigned>(collective)];
  if (algorithm != Algorithm::Fastest)
    return {algorithm};
  if (state.layout.nodeReduces)
    return {Algorithm::Ring, Algorithm::Tree, Algorithm::Nvls};
  return {Algorithm::Ring, Algorithm::Tree};
}

/// First `count` members on the first member's node.
static std::vector<int64_t> getInnerGroup(llvm::ArrayRef<int64_t> group, int64_t count, int64_t devicesPerNode) {
  std::vector<int64_t> inner;
  for (int64_t rank : group)
    if (rank / devicesPerNode == group[0] / devicesPerNode && static_cast<int64_t>(inner.size()) < count)
      inner.push_back(rank);
  return inner;
}

/// Time by the fastest of the profile's algorithms and protocols.
static Expected<GroupTime> getFastest(CostModel::State &state, const Shape &shape, const Measured &measured,
                                      llvm::ArrayRef<int64_t> group, double payload, bool isHealthy) {
  llvm::SmallVector<Algorithm> candidates = getCandidates(state, shape.collective);
  std::optional<GroupTime> best;
  for (Algorithm algorithm : candidates) {
    Expected<LinkTimes> links = state.getLinkTimes(shape.collective, group, algorithm, isHealthy);
    if (!links && (candidates.size() == 1 || algorithm == Algorithm::Ring))
      return links.takeError();
    if (!links) { // some algorithms do not suit the group
      llvm::consumeError(links.takeError());
      continue;
    }
    LinkTimes inner;
    if (measured) {
      std::vector<int64_t> members = getInnerGroup(group, measured.members, state.layout.devicesPerNode);
      if (auto error = state.getLinkTimes(shape.collective, members, algorithm, isHealthy).moveInto(inner))
        return error;
    }
    for (const Protocol &protocol : state.profile.protocols) {
      if (!protocol.algorithms.empty() && !llvm::is_contained(protocol.algorithms, algorithm))
        continue;
      GroupTime time = combine(shape, measured, *links, inner, algorithm, protocol, payload);
      if (!best || time.alpha + time.beta * payload < best->alpha + best->beta * payload)
        best = time;
    }
  }
  if (!best)
    return llvm::createStringError("cluster '" + state.profile.name + "' has no protocol for '" +
                                   getName(shape.collective) + "' by '" + getName(candidates[0]) + "'");
  return *best;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

static llvm::Error makeNoGroupError(const ClusterProfile &profile, const Shape &shape) {
  std::string nodes =
      shape.perNode ? (Twine(shape.perNode) + " on each node").str() : "a different number on each node";
  return llvm::createStringError("cluster '" + profile.name + "' has neither links nor a fit for '" +
                                 getName(shape.collective) + "' of dtype '" + shape.dtype + "' among " +
                                 Twine(shape.members) + " members, " + nodes);
}

static Expected<GroupTime> computeTime(CostModel::State &state, const Shape &shape, llvm::ArrayRef<int64_t> group,
                                       double payload) {
  const CollectiveFit *fit = shape.perNode ? findFit(state.profile, shape) : nullptr;
  bool isLine = fit && !fit->isCurve;
  Measured measured = isLine ? Measured() : findMeasured(state.profile, shape);
  bool isMeasured = isLine || measured.coversGroup;
  if (!isMeasured && !state.topology)
    return makeNoGroupError(state.profile, shape);
  GroupTime time;
  if (state.topology) {
    const Measured &inside = isMeasured ? Measured() : measured;
    if (auto error = getFastest(state, shape, inside, group, payload, isMeasured || measured).moveInto(time))
      return error;
  }
  if (isLine) {
    time.alpha = fit->alpha + fit->perMember * static_cast<double>(group.size());
    time.beta = fit->beta;
    time.relativeError = fit->relativeError;
    time.isExtrapolated =
        !fit->points.empty() && (payload < fit->points.front().bytes || payload > fit->points.back().bytes);
  } else if (isMeasured) {
    time.beta = measured.getBeta(payload);
    time.alpha = measured.getSeconds(payload) - time.beta * payload;
    time.relativeError = std::max(measured.low->relativeError, measured.high->relativeError);
    time.isExtrapolated = !measured.contains(payload);
  }
  time.measured = time.measured || isMeasured;
  // Experts get their tokens by this collective alone.
  if (shape.collective == Collective::AllToAll) {
    const TokenExchange &tokens = state.profile.tokenExchange;
    bool isInside = shape.perNode == shape.members;
    time.alpha += isInside ? 0 : tokens.fixedSeconds;
    time.beta *= isInside ? tokens.insideTimes : tokens.betweenTimes;
  }
  if (!state.healthy || !time.measured)
    return time;
  // Measurements were made without faults. Faults slow a measured group as much as its links.
  Expected<LinkTimes> faulty = state.getLinkTimes(shape.collective, group, time.algorithm, /*isHealthy=*/false);
  if (!faulty)
    return faulty.takeError();
  if (time.linkBeta > 0)
    time.beta *= faulty->getBeta() / time.linkBeta;
  time.linkBeta = faulty->getBeta();
  return time;
}

Expected<GroupTime> CostModel::getGroupTime(Collective collective, llvm::ArrayRef<int64_t> group, StringRef dtype,
                                            double payload) const {
  auto key = static_cast<int64_t>(payload);
  auto *known = group.empty() ? nullptr : state->times.find(collective, group, dtype);
  if (known)
    if (auto it = known->find(key); it != known->end())
      return it->second;
  GroupExchange exchange;
  exchange.collective = collective;
  exchange.ranks = group;
  if (llvm::Error error = check(exchange))
    return error;
  for (int64_t rank : group)
    if (rank < 0 || rank >= ranks)
      return llvm::createStringError("expected the members of '" + getName(collective) + "' to be below " +
                                     Twine(ranks) + ", the number of ranks, but got rank " + Twine(rank));
  auto members = static_cast<int64_t>(group.size());
  Shape shape = {collective, dtype, members, getMembersPerNode(group, profile.devicesPerNode)};
  Expected<GroupTime> time = computeTime(*state, shape, group, payload);
  if (!time)
    return time;
  if (!known)
    known = &state->times.insert(collective, group, dtype, llvm::DenseMap<int64_t, GroupTime>());
  return (*known)[key] = *time;
}

Expected<CostModel::AlphaBeta> CostModel::getAlphaBeta(Collective collective, llvm::ArrayRef<int64_t> group,
                                                       StringRef dtype, int64_t payload) const {
  Expected<GroupTime> time = getGroupTime(collective, group, dtype, static_cast<double>(payload));
  if (!time)
    return time.takeError();
  return *time;
}

Confidence CostModel::getConfidence(const GroupExchange &exchange) const {
  if (exchange.isNothing() || exchange.ranks.size() == 1)
    return {};
  Expected<GroupTime> time =
      getGroupTime(exchange.collective, exchange.ranks, exchange.dtype, exchange.getEvenPayload());
  if (!time) {
    llvm::consumeError(time.takeError());
    return {std::nullopt, true};
  }
  return {time->relativeError, time->isExtrapolated};
}

double GroupExchange::getEvenPayload() const {
  if (matrix.empty())
    return getWholePayload();
  size_t members = ranks.size();
  if (members == 1)
    return static_cast<double>(matrix[0]);
  std::vector<int64_t> received(members);
  int64_t most = 0;
  for (size_t from = 0; from < members; ++from) {
    int64_t sent = 0;
    for (size_t to = 0; to < members; ++to) {
      int64_t bytes = from == to ? 0 : matrix[from * members + to];
      sent += bytes;
      received[to] += bytes;
    }
    most = std::max(most, sent);
  }
  most = std::max(most, *llvm::max_element(received));
  double part = getPart();
  return part > 0 ? static_cast<double>(most) * static_cast<double>(members) / (static_cast<double>(members - 1) * part)
                  : 0;
}

double GroupExchange::getPart() const {
  if (phases == 1)
    return 1;
  auto members = static_cast<int64_t>(ranks.size());
  return static_cast<double>(getNumPeers(members, phase, phases)) / static_cast<double>(members - 1);
}

llvm::Error CostModel::check(const GroupExchange &exchange) const {
  size_t members = exchange.ranks.size();
  if (members == 0 || exchange.collective == Collective::None)
    return llvm::createStringError("expected a collective with members but got '" + getName(exchange.collective) +
                                   "' among " + Twine(members));
  if (exchange.root < 0 || exchange.root >= static_cast<int64_t>(members))
    return llvm::createStringError("expected a root below " + Twine(members) + " but got " + Twine(exchange.root));
  bool isPhase =
      exchange.phases >= 1 && exchange.phase >= 0 && exchange.phase < exchange.phases && members % exchange.phases == 0;
  if (!isPhase || (exchange.phases > 1 && exchange.collective != Collective::AllToAll))
    return llvm::createStringError("expected phases of an 'all_to_all', in a number that divides its " +
                                   Twine(members) + " members, but got phase " + Twine(exchange.phase) + " of " +
                                   Twine(exchange.phases) + " of '" + getName(exchange.collective) + "'");
  if (exchange.matrix.empty())
    return llvm::Error::success();
  if (exchange.collective != Collective::AllToAll)
    return llvm::createStringError("expected a ragged exchange to be an 'all_to_all' but got '" +
                                   getName(exchange.collective) + "'");
  if (exchange.matrix.size() != members * members)
    return llvm::createStringError("expected bytes between " + Twine(members) + " members but got " +
                                   Twine(exchange.matrix.size()) + " numbers");
  return llvm::Error::success();
}

Expected<double> CostModel::getShareSeconds(const GroupExchange &exchange, unsigned member) const {
  if (profile.processors.count == 0)
    return llvm::createStringError("the devices of cluster '" + profile.name + "' share no processors");
  if (llvm::Error error = check(exchange))
    return error;
  Expected<AlphaBeta> fit = getAlphaBeta(exchange.collective, exchange.ranks, exchange.dtype, exchange.payload);
  if (!fit)
    return fit.takeError();
  if (exchange.matrix.empty())
    return exchange.getPart() * (fit->alpha + fit->beta * exchange.getWholePayload());
  int64_t received = 0;
  for (size_t from = 0, members = exchange.ranks.size(); from < members; ++from)
    received += exchange.matrix[from * members + member];
  return exchange.getPart() * fit->alpha + fit->beta * received;
}
