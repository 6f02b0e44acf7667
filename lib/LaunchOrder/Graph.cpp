//===- Graph.cpp - launches as a scheduler sees them ----------------------===//
#include "Graph.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace mlir::moe;

void Graph::addEdge(unsigned first, unsigned second) {
  if (first == second || llvm::is_contained(before[second], first))
    return;
  before[second].push_back(first);
  after[first].push_back(second);
}

/// The caller makes cotangents from the outputs. So the backward, which begins with the first launch that reads a
/// cotangent, comes after the outputs, even if its launches do not depend on them.
void Graph::separateBackward(ArrayRef<plan::LaunchOp> launches) {
  if (launches.empty())
    return;
  auto program = plan::LaunchOp(launches.front())->getParentOfType<func::FuncOp>();
  auto hasRole = [&](ValueRange values, StringRef role) {
    return llvm::any_of(values, [&](Value value) {
      auto argument = dyn_cast<BlockArgument>(plan::getMemory(value));
      return argument && argument.getOwner() == &program.front() && getRole(argument) == role;
    });
  };
  SmallVector<unsigned> outputs;
  unsigned first = 0;
  for (; first < launches.size(); ++first) {
    plan::LaunchOp launch = launches[first];
    if (hasRole(launch.getInputs(), "cotangent"))
      break;
    if (hasRole(launch.getOutputs(), "output"))
      outputs.push_back(first);
  }
  for (unsigned task = first; task < launches.size(); ++task)
    if (llvm::none_of(before[task], [&](unsigned other) { return other >= first; }))
      for (unsigned output : outputs)
        addEdge(output, task);
}

Graph::Graph(const plan::Dependences &dependences) {
  size_t count = dependences.getLaunches().size();
  tasks.resize(count);
  before.resize(count);
  after.resize(count);
  SmallVector<StringRef, 4> streams;
  for (auto [number, launch] : llvm::enumerate(dependences.getLaunches())) {
    plan::LaunchOp op = launch;
    StringRef stream = op.getStreamOrDefault();
    auto found = llvm::find(streams, stream);
    tasks[number].stream = found - streams.begin();
    if (found == streams.end())
      streams.push_back(stream);
    for (unsigned other : dependences.get(number)) {
      before[number].push_back(other);
      after[other].push_back(number);
    }
  }
  numStreams = streams.size();
  for (const plan::Ring &ring : dependences.getRings())
    for (size_t turn = 1; turn < ring.turns.size(); ++turn)
      addEdge(ring.turns[turn - 1].firstWriter, ring.turns[turn].firstWriter);
  separateBackward(dependences.getLaunches());
  for (auto &speed : speeds)
    speed.fill(1);
}

Graph Graph::getReverse() const {
  Graph reverse = *this;
  std::swap(reverse.before, reverse.after);
  return reverse;
}

Graph Graph::getPart(ArrayRef<unsigned> part) const {
  Graph result;
  result.numStreams = numStreams;
  result.speeds = speeds;
  result.before.resize(part.size());
  result.after.resize(part.size());
  llvm::DenseMap<unsigned, unsigned> numbers;
  for (auto [number, task] : llvm::enumerate(part)) {
    numbers[task] = number;
    result.tasks.push_back(tasks[task]);
  }
  for (auto [number, task] : llvm::enumerate(part))
    for (unsigned other : before[task])
      if (auto found = numbers.find(other); found != numbers.end())
        result.addEdge(found->second, number);
  return result;
}

void Graph::setSpeeds(const CostModel &model) {
  unsigned used = 0;
  for (const Task &task : tasks)
    used |= 1u << static_cast<unsigned>(task.resource);
  for (unsigned resource = 0; resource < kNumResources; ++resource)
    for (unsigned busy = 0; busy < speeds[resource].size(); ++busy) {
      if ((busy & ~used) || !(busy >> resource & 1))
        continue;
      // If the profile lacks a speed, the simulator reports it when it needs that speed.
      if (llvm::Expected<double> speed = model.getSpeed(static_cast<Resource>(resource), busy))
        speeds[resource][busy] = *speed;
      else
        llvm::consumeError(speed.takeError());
    }
}

Order mlir::moe::getProgramOrder(size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

void mlir::moe::moveTask(Order &order, size_t from, size_t to) {
  auto begin = order.begin();
  if (from < to)
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  else
    std::rotate(begin + to, begin + from, begin + from + 1);
}

std::vector<double> mlir::moe::getTails(const Graph &graph, ArrayRef<unsigned> order, double speed) {
  std::vector<double> tails(graph.size(), 0);
  for (unsigned task : llvm::reverse(order)) {
    for (unsigned next : graph.after[task])
      tails[task] = std::max(tails[task], tails[next]);
    tails[task] += graph.tasks[task].seconds / speed;
  }
  return tails;
}

Order mlir::moe::makePossible(const Graph &graph, ArrayRef<unsigned> preference) {
  std::vector<unsigned> placeOf(graph.size()), missing;         // by task
  std::vector<std::vector<unsigned>> streams(graph.numStreams); // sorted places
  SmallVector<size_t, 4> heads(graph.numStreams);               // index in the places, by stream
  std::vector<bool> taken(graph.size());                        // by place
  std::set<unsigned> ready;                                     // places
  for (auto [place, task] : llvm::enumerate(preference)) {
    placeOf[task] = place;
    streams[graph.tasks[task].stream].push_back(place);
  }
  for (unsigned task = 0; task < graph.size(); ++task) {
    missing.push_back(graph.before[task].size());
    if (missing[task] == 0)
      ready.insert(placeOf[task]);
  }
  Order order;
  while (!ready.empty()) {
    std::optional<unsigned> best;
    for (auto [stream, head] : llvm::zip_equal(streams, heads)) {
      while (head < stream.size() && taken[stream[head]])
        ++head;
      if (head < stream.size() && missing[preference[stream[head]]] == 0 && (!best || stream[head] < *best))
        best = stream[head];
    }
    // The streams' heads may wait for each other.
    unsigned place = best.value_or(*ready.begin());
    taken[place] = true;
    ready.erase(place);
    order.push_back(preference[place]);
    for (unsigned next : graph.after[preference[place]])
      if (--missing[next] == 0)
        ready.insert(placeOf[next]);
  }
  return order.size() < graph.size() ? Order() : order;
}
