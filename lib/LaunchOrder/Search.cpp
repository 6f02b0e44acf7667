//===- Search.cpp - the fastest order that is found -----------------------===//
//
// First come cheap guesses by Timeline: the list schedule of each priority rule, and then local search from the best of
// them. A few orders remain for the simulator, which decides.
//
//===----------------------------------------------------------------------===//
#include "Search.h"

#include "Timeline.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::moe;

/// Most launches for local search on the whole program. Longer programs are improved layer by layer.
static constexpr unsigned maxWindow = 400;
/// Budget of improve() for a window, and most windows that differ.
static constexpr uint64_t windowBudget = 400'000;
static constexpr unsigned maxWindows = 6;
/// Number of orders from which local search starts in a program of one window.
static constexpr unsigned maxStarts = 4;
/// Longer programs leave fewer orders to the simulator.
static constexpr unsigned longProgram = 5000;
/// Accepted relative slowdown for an order that needs less memory. Rings say that memory is to be reused, and accept
/// more.
static constexpr double memoryPrice = 0.005, memoryPriceOfRings = 0.015;
/// Number of orders that makeLean() treats.
static constexpr size_t maxLean = 3;

namespace {
/// Different orders with their seconds by Timeline.
class Candidates {
public:
  explicit Candidates(const Graph &graph) : graph(graph), runner(graph) {}

  /// Adds an order that the graph allows, and the order in which its tasks begin.
  void add(const Order &order);
  /// Adds the list schedule by `rank`.
  void addRanked(ArrayRef<unsigned> rank);
  /// Adds the reversed list schedule of the reversed graph.
  void addReversed(ArrayRef<unsigned> rank);
  /// The best orders, fastest first. Among equal ones, the earlier addition is first.
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
  Order numbers = getProgramOrder(orders.size());
  llvm::stable_sort(numbers, [&](unsigned a, unsigned b) { return orders[a].first < orders[b].first; });
  std::vector<Order> best;
  for (unsigned number : ArrayRef(numbers).take_front(count))
    best.push_back(orders[number].second);
  return best;
}

//===----------------------------------------------------------------------===//
// Priority rules
//===----------------------------------------------------------------------===//

/// Bytes that a launch is the first to touch, less the bytes that it is the last to touch, in program order. By launch.
static std::vector<double> getByteChanges(const SimProgram &program) {
  std::vector<double> changes(program.launches.size(), 0);
  for (const SimBuffer &buffer : program.buffers)
    if (buffer.firstLaunch >= 0 && !buffer.isArgument) {
      changes[buffer.firstLaunch] += static_cast<double>(buffer.bytes);
      changes[buffer.lastLaunch] -= static_cast<double>(buffer.bytes);
    }
  return changes;
}

/// Ranks of tasks sorted by `first`, then by `second`, then by program order.
static Order rankBy(ArrayRef<double> first, ArrayRef<double> second) {
  Order order = getProgramOrder(first.size()), rank(first.size());
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

/// 0 for one part of a chunk, 2 for another, 1 for all other launches.
static std::vector<double> getPartRanks(const PaperOrders &papers, size_t count, ChunkPart first, ChunkPart last) {
  std::vector<double> rank;
  for (unsigned task = 0; task < count; ++task)
    rank.push_back(papers.getPart(task) == first ? 0 : papers.getPart(task) == last ? 2 : 1);
  return rank;
}

static void addListSchedules(Candidates &candidates, const Graph &graph, const PaperOrders &papers,
                             const SimProgram &simulated) {
  Graph reverse = graph.getReverse();
  Order program = getProgramOrder(graph.size());
  std::vector<double> path = getTails(graph, makePossible(graph, program)), chunk;
  std::vector<double> heads = getTails(reverse, makePossible(reverse, program));
  for (auto *tails : {&path, &heads})
    for (double &seconds : *tails)
      seconds = -seconds;
  for (unsigned task : program)
    chunk.push_back(papers.getChunk(task));
  auto add = [&](ArrayRef<double> first) { candidates.addRanked(rankBy(first, path)); };
  add(path);
  for (OrderPolicy policy : {OrderPolicy::Program, OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe})
    add(getRanks(papers.getPreference(policy)));
  add(getPartRanks(papers, graph.size(), ChunkPart::Return, ChunkPart::Send));
  add(getPartRanks(papers, graph.size(), ChunkPart::Send, ChunkPart::Return));
  add(chunk);
  add(getByteChanges(simulated));
  candidates.addReversed(rankBy(heads, heads));
}

//===----------------------------------------------------------------------===//
// Local search
//===----------------------------------------------------------------------===//

namespace {
/// Improves the layers of a long program one by one, and equal ones only once.
class LayerSearch {
public:
  LayerSearch(const Graph &graph, const PaperOrders &papers) : graph(graph), papers(papers) {}
  Order run(const Order &order);

private:
  /// End of the layer in the order. Its first launch with a chunk is at `begin`.
  size_t findEnd(const Order &order, size_t begin) const;
  Order improvePart(ArrayRef<unsigned> part);

  const Graph &graph;
  const PaperOrders &papers;
  /// New orders of parts, by all properties that local search uses.
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
  std::vector<double> key = describePart(its);
  auto found = known.find(key);
  if (found == known.end()) {
    Order better = getProgramOrder(part.size());
    if (known.size() < maxWindows)
      better = improve(its, better, windowBudget);
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

/// Returns the order with the least live bytes among those that take at most `limit`. The fastest one wins if they are
/// equal.
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
/// Orders with their seconds by the simulator.
class PricedOrders {
public:
  explicit PricedOrders(Pricer &pricer) : pricer(pricer) {}

  /// Adds the orders of the papers and of the program. The result must be at least as good as each of them.
  llvm::Error addBars(ArrayRef<Order> bars);
  /// Adds an order. Leaves it out if the profile lacks the interference of kinds of work that overlap in this order.
  void add(const Order &order);
  /// Up to `count` orders, fastest first.
  std::vector<Priced> getFastest(size_t count) const;
  /// Most seconds of an acceptable order: `price` more than the best, but not more than the bars.
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
