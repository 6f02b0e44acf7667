//===- Shadows.cpp - which experts to shadow ------------------------------===//
//
// All ranks decide for themselves and must decide alike. Rows are counted in doubles, which hold them exactly, so that
// no sum depends on its order. The remaining few products are compiled without contraction.
//
//===----------------------------------------------------------------------===//
#include "moert/shadows.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using Rows = std::vector<double>;

/// Returns the largest of value(i), i < count, none of which is negative. It compares several at a time, because a
/// compiler may not reorder comparisons of doubles.
template <class Value> double largest(int64_t count, Value value) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) {
      const double next = value(i + k);
      lanes[k] = next > lanes[k] ? next : lanes[k];
    }
  for (; i < count; ++i)
    lanes[0] = std::max(lanes[0], value(i));
  return *std::max_element(lanes, lanes + kLanes);
}

/// Rows of one step, by worker and by node.
struct Step {
  const moert_shadow_costs &costs;
  int64_t experts, workers, nodes;
  Rows fromWorker;            ///< [experts, workers]: rows that each worker sends to each expert
  Rows fromNode;              ///< [experts, nodes]: the same by node
  Rows load;                  ///< [experts]
  std::vector<int64_t> order; ///< experts by falling load, of equals the lower one first

  Step(const moert_shadow_costs &costs, const int32_t *counts, int64_t sources, int64_t experts);

private:
  void addUp(const int32_t *counts, int64_t sources, int64_t units, Rows &from) const;
};

Step::Step(const moert_shadow_costs &costs, const int32_t *counts, int64_t sources, int64_t experts)
    : costs(costs), experts(experts), workers(costs.workers), nodes(workers / costs.node_workers),
      fromWorker(experts * workers), fromNode(experts * nodes), load(experts), order(experts) {
  addUp(counts, sources, workers, fromWorker);
  addUp(counts, sources, nodes, fromNode);
  for (int64_t e = 0; e < experts; ++e) {
    load[e] = std::accumulate(&fromNode[e * nodes], &fromNode[e * nodes] + nodes, 0.0);
    order[e] = e;
  }
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return load[a] > load[b] || (load[a] == load[b] && a < b); });
}

void Step::addUp(const int32_t *counts, int64_t sources, int64_t units, Rows &from) const {
  const int64_t span = sources / units;
  Rows sent(experts);
  for (int64_t u = 0; u < units; ++u) {
    std::fill(sent.begin(), sent.end(), 0.0);
    for (int64_t s = u * span; s < (u + 1) * span; ++s)
      for (int64_t e = 0; e < experts; ++e)
        sent[e] += counts[s * experts + e];
    for (int64_t e = 0; e < experts; ++e)
      from[e * units + u] = sent[e];
  }
}

/// Two experts that become shadows (+1) or stop being shadows (-1); 0 if one does not change.
struct Flips {
  int64_t first = 0, second = 0;
  double firstSign = 0, secondSign = 0;
};

/// Rows that units, the workers or the nodes, exchange with each other.
struct Traffic {
  const Rows &from; ///< [experts, units]
  int64_t units;
  std::vector<int64_t> home; ///< [experts]: unit of each expert
  // A unit sends leaving - kept rows. Except for an expert's home, a flip changes only `kept`.
  Rows kept;     ///< a unit's rows for shadows
  Rows leaving;  ///< a unit's rows for shadows and for experts of other units
  Rows received; ///< rows that a unit gets from others

  Traffic(const Step &step, const Rows &from, int64_t units);
  /// Changes the figures of the expert's home for a flip of `expert`.
  void flipAtHome(int64_t expert, double load, double sign);
  /// Changes the figures of the other units for a flip of `expert`.
  void keep(int64_t expert, double sign);
  double keptWith(int64_t unit, const Flips &flips) const;
  /// Most rows that a unit sends or receives after `flips`.
  double most(const Flips &flips) const;
};

Traffic::Traffic(const Step &step, const Rows &from, int64_t units)
    : from(from), units(units), home(step.experts), kept(units), leaving(units), received(units) {
  for (int64_t e = 0; e < step.experts; ++e) {
    home[e] = e / (step.experts / units);
    for (int64_t u = 0; u < units; ++u)
      leaving[u] += from[e * units + u];
    const double stays = from[e * units + home[e]];
    leaving[home[e]] -= stays;
    received[home[e]] += step.load[e] - stays;
  }
}

void Traffic::flipAtHome(int64_t expert, double load, double sign) {
  const double stays = from[expert * units + home[expert]];
  leaving[home[expert]] += sign * stays;
  received[home[expert]] -= sign * (load - stays);
}

void Traffic::keep(int64_t expert, double sign) {
  for (int64_t u = 0; u < units; ++u)
    kept[u] += sign * from[expert * units + u];
}

double Traffic::keptWith(int64_t unit, const Flips &flips) const {
  return kept[unit] + flips.firstSign * from[flips.first * units + unit] +
         flips.secondSign * from[flips.second * units + unit];
}

double Traffic::most(const Flips &flips) const {
  return largest(units, [&](int64_t u) {
    const double sent = leaving[u] - keptWith(u, flips);
    return sent > received[u] ? sent : received[u];
  });
}

/// A set of shadows, and the load of each worker and node. Each flip updates it.
class Shadows {
public:
  explicit Shadows(const Step &step);

  bool has(int64_t expert) const { return chosen[expert]; }
  int64_t workerOf(int64_t expert) const { return byWorker.home[expert]; }
  bool isFull() const { return used >= step.costs.most; }
  const std::vector<int32_t> &get() const { return chosen; }
  /// Adds the expert, or removes it.
  void flip(int64_t expert);
  void set(const std::vector<int32_t> &to);

  /// Eq. 8, or Eq. 7 without shadows.
  double paperSeconds() const;
  /// moert_shadows_seconds.
  double stepSeconds() const { return secondsWith({}); }
  /// Returns the seconds as if the expert were flipped, and `other` too unless it is negative.
  double stepSecondsAfter(int64_t expert, int64_t other = -1);
  /// Heaviest expert that is not a shadow, of the worker that computes or receives most; -1 if it has none.
  int64_t heaviestOfBusiest() const;
  int64_t heaviestOfFullest() const;

private:
  double signOf(int64_t expert) const { return chosen[expert] ? -1 : 1; }
  void flipAtHome(int64_t expert);
  double mostComputed(const Flips &flips) const;
  double secondsWith(const Flips &flips) const;
  int64_t heaviestOf(int64_t worker) const;

  const Step &step;
  std::vector<int32_t> chosen;
  int64_t used = 0;
  Rows resident; ///< [workers]: rows for its experts that are not shadows; it also computes the kept rows
  Traffic byWorker, byNode;
};

Shadows::Shadows(const Step &step)
    : step(step), chosen(step.experts), resident(step.workers), byWorker(step, step.fromWorker, step.workers),
      byNode(step, step.fromNode, step.nodes) {
  for (int64_t e = 0; e < step.experts; ++e)
    resident[byWorker.home[e]] += step.load[e];
}

void Shadows::flipAtHome(int64_t expert) {
  const double sign = signOf(expert), load = step.load[expert];
  resident[byWorker.home[expert]] -= sign * load;
  byWorker.flipAtHome(expert, load, sign);
  byNode.flipAtHome(expert, load, sign);
  used += chosen[expert] ? -1 : 1;
  chosen[expert] = !chosen[expert];
}

void Shadows::flip(int64_t expert) {
  byWorker.keep(expert, signOf(expert));
  byNode.keep(expert, signOf(expert));
  flipAtHome(expert);
}

void Shadows::set(const std::vector<int32_t> &to) {
  for (int64_t e = 0; e < step.experts; ++e)
    if (chosen[e] != to[e])
      flip(e);
}

double Shadows::mostComputed(const Flips &flips) const {
  return largest(step.workers, [&](int64_t w) { return resident[w] + byWorker.keptWith(w, flips); });
}

double Shadows::paperSeconds() const {
  const double rows = mostComputed({}), compute = 3 * step.costs.row_compute * rows;
  if (used == 0)
    return compute + 4 * step.costs.row_send * rows;
  return compute + 2 * static_cast<double>(used) * step.costs.expert;
}

double Shadows::secondsWith(const Flips &flips) const {
  const moert_shadow_costs &costs = step.costs;
  const double local = costs.row_local * byWorker.most(flips), remote = costs.row_node * byNode.most(flips);
  const double exchanges = 2 * (costs.start + std::max(local, remote));
  const double compute = costs.row_compute * mostComputed(flips);
  const double exposed = exchanges / static_cast<double>(costs.phases);
  return std::max(exchanges, compute + exposed) + std::max(exchanges, 2 * compute + exposed) +
         2 * static_cast<double>(used) * costs.expert;
}

double Shadows::stepSecondsAfter(int64_t expert, int64_t other) {
  Flips flips{expert, expert, signOf(expert), 0};
  flipAtHome(expert);
  if (other >= 0) {
    flips.second = other;
    flips.secondSign = signOf(other);
    flipAtHome(other);
  }
  const double seconds = secondsWith(flips);
  flipAtHome(expert);
  if (other >= 0)
    flipAtHome(other);
  return seconds;
}

int64_t Shadows::heaviestOfBusiest() const {
  Rows computed(resident);
  for (int64_t w = 0; w < step.workers; ++w)
    computed[w] += byWorker.kept[w];
  return heaviestOf(std::max_element(computed.begin(), computed.end()) - computed.begin());
}

int64_t Shadows::heaviestOfFullest() const {
  const Rows &received = byWorker.received;
  return heaviestOf(std::max_element(received.begin(), received.end()) - received.begin());
}

int64_t Shadows::heaviestOf(int64_t worker) const {
  const int64_t own = step.experts / step.workers;
  int64_t best = -1;
  for (int64_t e = worker * own; e < (worker + 1) * own; ++e)
    if (!chosen[e] && (best < 0 || step.load[e] > step.load[best]))
      best = e;
  return best;
}

using Seconds = double (Shadows::*)() const;

/// The search of one step: the current shadows, the best so far, and the shadows that it must keep.
struct Search {
  const Step &step;
  Shadows shadows;
  std::vector<int32_t> forced, best;
  double bestSeconds = std::numeric_limits<double>::infinity();

  explicit Search(const Step &step) : step(step), shadows(step), forced(step.experts), best(step.experts) {}

  /// Adds the shadows that memory and the least number of shadows require. The walks add those that save time.
  void force();
  /// Keeps the current shadows if they are better than all before. Returns whether they are.
  bool note(double seconds);
  /// Adds experts by falling load, from the forced ones on; with `stop` until one more is not better.
  void walkPrefixes(Seconds seconds, bool stop);
  /// Adds experts of the worker that holds the others up, from the forced ones on.
  void walkBusiest();
  /// Applies the first removal, addition or exchange that makes it better, until none does.
  void improve();

private:
  bool tryFlips(int64_t expert, int64_t other = -1);
  bool improveOnce(const std::vector<int64_t> &others);
  std::vector<int64_t> heaviestOthers() const;

  /// Trials that are left. Every rank decides in every step, in every layer, so there are few.
  int64_t trials = 96;
};

void Search::force() {
  Rows arrives(step.workers);
  int64_t count = 0;
  for (int64_t e = 0; e < step.experts; ++e)
    arrives[shadows.workerOf(e)] += step.load[e];
  for (int64_t e : step.order) {
    double &rows = arrives[shadows.workerOf(e)];
    const bool isTooMuch = step.costs.room > 0 && rows > static_cast<double>(step.costs.room);
    const bool isDue = count < step.costs.least && step.load[e] > 0;
    if (shadows.isFull() || !(isTooMuch || isDue))
      continue;
    rows -= step.load[e];
    forced[e] = 1;
    ++count;
    shadows.flip(e);
  }
}

bool Search::note(double seconds) {
  if (!(seconds < bestSeconds))
    return false;
  bestSeconds = seconds;
  best = shadows.get();
  return true;
}

void Search::walkPrefixes(Seconds seconds, bool stop) {
  shadows.set(forced);
  best = forced;
  note((shadows.*seconds)());
  for (int64_t e : step.order) {
    if (shadows.has(e))
      continue;
    if (shadows.isFull())
      return;
    shadows.flip(e);
    if (!note((shadows.*seconds)()) && stop)
      return;
  }
}

void Search::walkBusiest() {
  shadows.set(forced);
  while (!shadows.isFull()) {
    int64_t better = -1;
    double least = std::numeric_limits<double>::infinity();
    const int64_t candidates[] = {shadows.heaviestOfBusiest(), shadows.heaviestOfFullest()};
    for (int64_t e : candidates) {
      if (e < 0 || e == better)
        continue;
      const double seconds = shadows.stepSecondsAfter(e);
      if (better < 0 || seconds < least || (seconds == least && e < better)) {
        better = e;
        least = seconds;
      }
    }
    if (better < 0)
      return;
    shadows.flip(better);
    note(least);
  }
}

/// Flips the two experts if that is better than the best.
bool Search::tryFlips(int64_t expert, int64_t other) {
  if (trials-- <= 0)
    return false;
  const double seconds = shadows.stepSecondsAfter(expert, other);
  if (!(seconds < bestSeconds))
    return false;
  shadows.flip(expert);
  if (other >= 0)
    shadows.flip(other);
  return note(seconds);
}

/// Heaviest experts that are not shadows. Only these hold others up.
std::vector<int64_t> Search::heaviestOthers() const {
  constexpr size_t kOthers = 8;
  std::vector<int64_t> others;
  for (int64_t e : step.order)
    if (!shadows.has(e) && others.size() < kOthers)
      others.push_back(e);
  return others;
}

bool Search::improveOnce(const std::vector<int64_t> &others) {
  for (int64_t e : step.order)
    if (shadows.has(e) && !forced[e] && tryFlips(e))
      return true;
  if (!shadows.isFull())
    for (int64_t e : others)
      if (tryFlips(e))
        return true;
  for (auto e = step.order.rbegin(); e != step.order.rend(); ++e)
    for (size_t i = 0; i < others.size() && shadows.has(*e) && !forced[*e]; ++i)
      if (tryFlips(*e, others[i]))
        return true;
  return false;
}

void Search::improve() {
  shadows.set(best);
  while (improveOnce(heaviestOthers()))
    ;
}

bool isPositive(const moert_shadow_costs &costs, int64_t sources, int64_t experts) {
  return sources > 0 && experts > 0 && costs.workers > 0 && costs.node_workers > 0 && costs.most >= 0 &&
         costs.room >= 0 && costs.phases > 0;
}

bool isValid(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts) {
  if (!costs || !counts || costs->size != sizeof(moert_shadow_costs) || !isPositive(*costs, sources, experts) ||
      costs->policy > MOERT_SHADOWS_SIMULATE)
    return false;
  if (sources % costs->workers != 0 || experts % costs->workers != 0 || costs->workers % costs->node_workers != 0)
    return false;
  int32_t all = 0;
  for (int64_t i = 0; i < sources * experts; ++i)
    all |= counts[i];
  return all >= 0;
}

void choose(Search &search, uint32_t policy) {
  search.force();
  if (policy != MOERT_SHADOWS_SIMULATE)
    return search.walkPrefixes(&Shadows::paperSeconds, policy == MOERT_SHADOWS_ALGORITHM1);
  search.walkPrefixes(&Shadows::stepSeconds, false);
  search.walkBusiest();
  search.improve();
}

} // namespace

extern "C" {

int32_t moert_shadows_choose(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             int32_t *shadows) {
  if (!shadows || !isValid(costs, counts, sources, experts))
    return -1;
  try {
    const Step step(*costs, counts, sources, experts);
    Search search(step);
    choose(search, costs->policy);
    std::copy(search.best.begin(), search.best.end(), shadows);
    return 0;
  } catch (const std::exception &) {
    return -1;
  }
}

double moert_shadows_seconds(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             const int32_t *shadows) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (!shadows || !isValid(costs, counts, sources, experts))
    return kNone;
  try {
    const Step step(*costs, counts, sources, experts);
    Shadows set(step);
    for (int64_t e = 0; e < experts; ++e)
      if (shadows[e])
        set.flip(e);
    return set.stepSeconds();
  } catch (const std::exception &) {
    return kNone;
  }
}

} // extern "C"
