//===- Search.cpp - the fastest order that is found -----------------------===//
//
// Cheap guesses first: each priority rule's list schedule, then local search from the best of them, all on Timeline.
// Few are left for the simulator, whose word is final.
//
//===----------------------------------------------------------------------===//
#include "Search.h"

#include "Improve.h"
#include "Lean.h"
#include "Timeline.h"

#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace mlir::moe;

/// Launches that local search takes at once. Longer programs are improved layer by layer.
static constexpr unsigned maxWindow = 400;
/// Tasks that local search may look at: of one window, and of how many windows that differ.
static constexpr uint64_t windowBudget = 400'000;
static constexpr unsigned maxWindows = 6;
/// From how many orders local search starts in a program of one window.
static constexpr unsigned maxStarts = 4;
/// Longer programs leave fewer orders to the simulator.
static constexpr unsigned longProgram = 5000;
/// How much slower an order may be that needs less memory: little, and more where rings say that memory is to be
/// reused.
static constexpr double memoryPrice = 0.005, memoryPriceOfRings = 0.015;
/// How many orders are made leaner.
static constexpr size_t maxLean = 3;

namespace {
/// Orders once each, with what Timeline thinks of them.
class Candidates {
public:
  explicit Candidates(const Graph &graph) : graph(graph), runner(graph) {}

  /// An order that the graph allows, and the one in which its tasks begin.
  void add(const Order &order);
  /// The list schedule by `rank`.
  void addRanked(ArrayRef<unsigned> rank);
  /// The list schedule of the reverse graph, turned around.
  void addReversed(ArrayRef<unsigned> rank);
  /// The best, fastest first; of equal ones those that came first.
  std::vector<Order> getBest(size_t count) const;

private:
  void note(const Order &order, double seconds);

  const Graph &graph;
  TimelineRunner runner;
  std::set<Order> known;
  std::vector<std::pair<double, Order>> orders;
};
} // namespace

void Candidates::note(const Order &order, double seconds) {
  if (order.size() == graph.size() && known.insert(order).second)
    orders.push_back({seconds, order});
}

void Candidates::add(const Order &order) {
  const Timeline &timeline = runner.run(getSequences(graph, order));
  note(order, timeline.seconds);
  note(timeline.order, timeline.seconds);
}

void Candidates::addRanked(ArrayRef<unsigned> rank) {
  const Timeline &timeline = runner.run(rank);
  note(timeline.order, timeline.seconds);
}

void Candidates::addReversed(ArrayRef<unsigned> rank) {
  Graph reverse = graph.getReverse();
  Order order = TimelineRunner(reverse).run(rank).order;
  std::reverse(order.begin(), order.end());
  add(order);
}

std::vector<Order> Candidates::getBest(size_t count) const {
  std::vector<size_t> numbers(orders.size());
  std::iota(numbers.begin(), numbers.end(), size_t(0));
  llvm::stable_sort(numbers, [&](size_t a, size_t b) { return orders[a].first < orders[b].first; });
  std::vector<Order> best;
  for (size_t number : ArrayRef(numbers).take_front(count))
    best.push_back(orders[number].second);
  return best;
}

//===----------------------------------------------------------------------===//
// Priority rules
//===----------------------------------------------------------------------===//

/// By task, the seconds from its begin to the end of the longest chain that it begins.
static std::vector<double> getTails(const Graph &graph) {
  std::vector<double> tails(graph.size(), 0);
  Order identity(graph.size());
  std::iota(identity.begin(), identity.end(), 0u);
  Order order = makePossible(graph, identity);
  for (unsigned task : llvm::reverse(order)) {
    for (unsigned next : graph.after[task])
      tails[task] = std::max(tails[task], tails[next]);
    tails[task] += graph.tasks[task].seconds;
  }
  return tails;
}

/// By launch: bytes that it takes by being the first to touch them, less those that it frees by being the last, both in
/// program order.
static std::vector<double> getByteChanges(const SimProgram &program) {
  std::vector<double> changes(program.launches.size(), 0);
  for (const SimBuffer &buffer : program.buffers)
    if (buffer.firstLaunch >= 0 && !buffer.isArgument) {
      changes[buffer.firstLaunch] += static_cast<double>(buffer.bytes);
      changes[buffer.lastLaunch] -= static_cast<double>(buffer.bytes);
    }
  return changes;
}

/// Tasks by rising `first`, then rising `second`, then in program order: the rank of each.
static Order rankBy(ArrayRef<double> first, ArrayRef<double> second) {
  Order order(first.size()), rank(first.size());
  std::iota(order.begin(), order.end(), 0u);
  llvm::stable_sort(
      order, [&](unsigned a, unsigned b) { return std::pair(first[a], second[a]) < std::pair(first[b], second[b]); });
  for (auto [place, task] : llvm::enumerate(order))
    rank[task] = place;
  return rank;
}

static std::vector<double> getRanks(const Order &order) {
  std::vector<double> rank(order.size());
  for (auto [place, task] : llvm::enumerate(order))
    rank[task] = static_cast<double>(place);
  return rank;
}

/// 0 for one part of a chunk, 2 for another, 1 for everything else.
static std::vector<double> getPartRanks(const PaperOrders &papers, size_t count, ChunkPart first, ChunkPart last) {
  std::vector<double> rank(count, 1);
  for (unsigned task = 0; task < count; ++task)
    rank[task] = papers.getPart(task) == first ? 0 : papers.getPart(task) == last ? 2 : 1;
  return rank;
}

static void addListSchedules(Candidates &candidates, const Graph &graph, const PaperOrders &papers,
                             const SimProgram &program) {
  std::vector<double> path = getTails(graph), heads = getTails(graph.getReverse()), chunk(graph.size(), 0);
  for (auto *tails : {&path, &heads})
    for (double &seconds : *tails)
      seconds = -seconds;
  for (unsigned task = 0; task < graph.size(); ++task)
    chunk[task] = papers.getChunk(task);
  auto add = [&](ArrayRef<double> first) { candidates.addRanked(rankBy(first, path)); };
  add(path);
  for (OrderPolicy policy : {OrderPolicy::Program, OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe})
    add(getRanks(papers.getPreference(policy)));
  add(getPartRanks(papers, graph.size(), ChunkPart::Return, ChunkPart::Send));
  add(getPartRanks(papers, graph.size(), ChunkPart::Send, ChunkPart::Return));
  add(chunk);
  add(getByteChanges(program));
  candidates.addReversed(rankBy(heads, heads));
}

//===----------------------------------------------------------------------===//
// Local search
//===----------------------------------------------------------------------===//

namespace {
/// Improves the layers of a long program one by one, equal ones once.
class LayerSearch {
public:
  LayerSearch(const Graph &graph, const PaperOrders &papers) : graph(graph), papers(papers) {}
  Order run(const Order &order);

private:
  /// Where the layer whose first launch with a chunk stands at `begin` of the order ends.
  size_t findEnd(const Order &order, size_t begin) const;
  Order improvePart(ArrayRef<unsigned> part);

  const Graph &graph;
  const PaperOrders &papers;
  /// By all that local search sees of a part: its new order.
  std::map<std::vector<double>, Order> known;
};
} // namespace

size_t LayerSearch::findEnd(const Order &order, size_t begin) const {
  size_t end = begin + 1;
  for (size_t place = begin; place < std::min<size_t>(order.size(), begin + maxWindow); ++place)
    if (papers.getGroup(order[place]) == papers.getGroup(order[begin]))
      end = place + 1;
  return end;
}

static std::vector<double> describePart(const Graph &part) {
  std::vector<double> text;
  for (unsigned task = 0; task < part.size(); ++task) {
    const Task &it = part.tasks[task];
    llvm::append_range(text, std::array<double, 4>{it.seconds, double(it.stream), double(it.resource),
                                                   double(part.before[task].size())});
    llvm::append_range(text, part.before[task]);
  }
  return text;
}

Order LayerSearch::improvePart(ArrayRef<unsigned> part) {
  Graph its = graph.getPart(part);
  Order identity(part.size());
  std::iota(identity.begin(), identity.end(), 0u);
  std::vector<double> key = describePart(its);
  auto found = known.find(key);
  if (found == known.end()) {
    Order better = known.size() < maxWindows ? improve(its, identity, windowBudget) : identity;
    found = known.emplace(std::move(key), std::move(better)).first;
  }
  Order order;
  for (unsigned number : found->second)
    order.push_back(part[number]);
  return order;
}

Order LayerSearch::run(const Order &order) {
  Order result;
  for (size_t place = 0; place < order.size();) {
    if (papers.getGroup(order[place]) < 0) {
      result.push_back(order[place++]);
      continue;
    }
    size_t end = findEnd(order, place);
    llvm::append_range(result, improvePart(ArrayRef(order).slice(place, end - place)));
    place = end;
  }
  return result;
}

static void addImproved(Candidates &candidates, const Graph &graph, const PaperOrders &papers) {
  if (graph.size() > maxWindow) {
    std::vector<Order> best = candidates.getBest(1);
    candidates.add(LayerSearch(graph, papers).run(best.front()));
    return;
  }
  std::vector<Order> starts = candidates.getBest(maxStarts);
  for (const Order &start : starts)
    candidates.add(improve(graph, start, windowBudget / starts.size()));
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {
struct Priced {
  Order order;
  double seconds;
};
} // namespace

/// Of those at most `limit` slow, the one with the least bytes alive, of equal ones the fastest.
static const Order &chooseSmallest(ArrayRef<Priced> orders, double limit, const Pricer &pricer) {
  const Priced *best = nullptr;
  int64_t bestBytes = 0;
  for (const Priced &it : orders) {
    if (it.seconds > limit)
      continue;
    int64_t bytes = pricer.getLiveBytes(it.order).peak;
    if (best && std::pair(bytes, it.seconds) >= std::pair(bestBytes, best->seconds))
      continue;
    best = &it;
    bestBytes = bytes;
  }
  return best->order;
}

namespace {
/// Orders with what the simulator says of them.
class PricedOrders {
public:
  explicit PricedOrders(Pricer &pricer) : pricer(pricer) {}

  /// The papers' orders and the program's, none of which may be better than what is taken.
  llvm::Error addBars(ArrayRef<Order> bars);
  /// What cannot be priced is left out: kinds of work meet in it whose interference the profile does not say.
  void add(const Order &order);
  /// Up to `count`, fastest first.
  std::vector<Priced> getFastest(size_t count) const;
  /// What an order may take: `price` more than the best, and no more than the bars.
  double getLimit(double price) const { return std::min(best * (1 + price), bar); }
  ArrayRef<Priced> get() const { return orders; }

private:
  llvm::Error price(const Order &order);

  Pricer &pricer;
  std::vector<Priced> orders;
  double best = std::numeric_limits<double>::infinity(), bar = best;
};
} // namespace

llvm::Error PricedOrders::price(const Order &order) {
  if (llvm::any_of(orders, [&](const Priced &it) { return it.order == order; }))
    return llvm::Error::success();
  llvm::Expected<double> seconds = pricer.getSeconds(order);
  if (!seconds)
    return seconds.takeError();
  orders.push_back({order, *seconds});
  best = std::min(best, *seconds);
  return llvm::Error::success();
}

llvm::Error PricedOrders::addBars(ArrayRef<Order> bars) {
  for (const Order &order : bars)
    if (llvm::Error error = price(order))
      return error;
  bar = best;
  return llvm::Error::success();
}

void PricedOrders::add(const Order &order) { llvm::consumeError(price(order)); }

std::vector<Priced> PricedOrders::getFastest(size_t count) const {
  std::vector<Priced> sorted = orders;
  llvm::stable_sort(sorted, [](const Priced &a, const Priced &b) { return a.seconds < b.seconds; });
  sorted.resize(std::min(count, sorted.size()));
  return sorted;
}

llvm::Expected<Order> mlir::moe::searchOrder(const Graph &graph, const PaperOrders &papers, Pricer &pricer,
                                             ArrayRef<Order> bars, bool hasRings) {
  Candidates candidates(graph);
  for (const Order &bar : bars)
    candidates.add(bar);
  addListSchedules(candidates, graph, papers, pricer.getProgram());
  addImproved(candidates, graph, papers);

  PricedOrders priced(pricer);
  if (llvm::Error error = priced.addBars(bars))
    return error;
  for (const Order &order : candidates.getBest(graph.size() > longProgram ? 2 : 6))
    priced.add(order);
  double price = hasRings ? memoryPriceOfRings : memoryPrice;
  if (graph.size() <= maxWindow)
    for (const Priced &it : priced.getFastest(maxLean))
      priced.add(makeLean(graph, it.order, pricer,
                          TimelineRunner(graph).run(getSequences(graph, it.order)).seconds * (1 + price)));
  return chooseSmallest(priced.get(), priced.getLimit(price), pricer);
}
