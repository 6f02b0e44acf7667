//===- Price.cpp - orders in the simulator --------------------------------===//
#include "Price.h"

#include "moe/Dialect/Plan/Transforms/AssignStreams.h"
#include "moe/Simulator/Simulator.h"

using namespace mlir;
using namespace mlir::moe;

SimProgram Pricer::reorder(ArrayRef<unsigned> order) const {
  std::vector<SmallVector<unsigned, 2>> waits(order.size()); // by launch: the launches that it waits for
  std::vector<int64_t> events(order.size(), -1);
  plan::WaitPlanner planner(order.size(), program.streams.size());
  SimProgram result = program;
  result.ops.clear();
  for (unsigned launch : order) {
    waits[launch] = planner.issue(launch, program.launches[launch].stream, dependences.get(launch));
    for (unsigned other : waits[launch])
      if (events[other] < 0)
        events[other] = result.numEvents++;
  }
  for (auto [number, launch] : llvm::enumerate(order)) {
    result.launches[number] = program.launches[launch];
    uint32_t stream = program.launches[launch].stream;
    for (unsigned other : waits[launch])
      result.ops.push_back({SimOp::Kind::Wait, stream, static_cast<uint32_t>(events[other])});
    result.ops.push_back({SimOp::Kind::Launch, stream, static_cast<uint32_t>(number)});
    if (events[launch] >= 0)
      result.ops.push_back({SimOp::Kind::Record, stream, static_cast<uint32_t>(events[launch])});
  }
  return result;
}

llvm::Expected<SimResult> Pricer::run(ArrayRef<unsigned> order, int64_t iteration) {
  std::vector<SimProgram> programs;
  programs.push_back(reorder(order));
  SimOptions options;
  options.routing = routing;
  options.iteration = iteration;
  options.figures = false;
  costs.order = order;
  options.known = &costs;
  return simulate(std::move(programs), model, options);
}

void Pricer::noteReady(const SimResult &step, Known &known) const {
  size_t count = known.order.size();
  std::vector<double> ends(step.ranks.size() * count);
  for (const SimTime &time : step.times)
    ends[time.rank * count + known.order[time.launch]] = time.end;
  for (size_t begin = 0; begin < ends.size(); begin += count) {
    std::vector<double> free(program.streams.size(), 0); // time since which each stream is free
    for (unsigned launch : known.order) {
      double &stream = free[program.launches[launch].stream], ready = stream;
      for (unsigned other : dependences.get(launch))
        ready = std::max(ready, ends[begin + other]);
      known.ready[launch] = std::min(known.ready[launch], ready);
      stream = ends[begin + launch];
    }
  }
}

/// Time at which a host that never waits issues each launch.
static std::vector<double> getIssued(const SimProgram &program, const HostIssue &host, ArrayRef<unsigned> order) {
  std::vector<double> issued(order.size());
  double now = 0;
  for (unsigned launch : order)
    issued[launch] = now +=
        host.getLaunchSeconds(program.launches[launch].kernel, program.launches[launch].cost.resource);
  return issued;
}

bool Pricer::isSameStep(const Known &known, ArrayRef<unsigned> order) const {
  const ClusterProfile &profile = model.getProfile();
  // On shared processors, the order of issue decides. A host that waits delays later launches, as do exchanges in
  // order.
  if (profile.processors.count > 0 || profile.host.countsSeconds || !profile.host.awaited.empty() ||
      !profile.host.inOrder.empty())
    return false;
  std::vector<SmallVector<unsigned>> streams(program.streams.size());
  for (unsigned launch : order)
    streams[program.launches[launch].stream].push_back(launch);
  std::vector<size_t> heads(program.streams.size());
  std::vector<double> before = getIssued(program, profile.host, known.order),
                      now = getIssued(program, profile.host, order);
  return llvm::all_of(known.order, [&](unsigned launch) {
    uint32_t stream = program.launches[launch].stream;
    return streams[stream][heads[stream]++] == launch &&
           (before[launch] == now[launch] || std::max(before[launch], now[launch]) <= known.ready[launch]);
  });
}

llvm::Expected<double> Pricer::getSeconds(ArrayRef<unsigned> order) {
  for (const Known &known : simulated)
    if (isSameStep(known, order))
      return known.seconds;
  std::vector<int64_t> iterations = routing ? routing->getIterations() : std::vector<int64_t>{0};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Known known{Order(order.begin(), order.end()), 0, std::vector<double>(order.size(), infinity)};
  for (int64_t iteration : iterations) {
    llvm::Expected<SimResult> result = run(order, iteration);
    if (!result)
      return result.takeError();
    known.seconds += result->seconds;
    noteReady(*result, known);
  }
  known.seconds /= static_cast<double>(iterations.size());
  simulated.push_back(std::move(known));
  return simulated.back().seconds;
}

llvm::Expected<std::vector<double>> Pricer::getLaunchSeconds() {
  if (!routing) {
    llvm::Expected<std::vector<std::vector<double>>> seconds = moe::getLaunchSeconds(program, model);
    if (!seconds)
      return seconds.takeError();
    return std::move(seconds->front());
  }
  Order order = getProgramOrder(program.launches.size());
  llvm::Expected<SimResult> result = run(order, routing->getIterations().front());
  if (!result)
    return result.takeError();
  std::vector<std::optional<double>> seconds(order.size());
  for (const SimTime &time : result->times) {
    double its = time.end - time.begin;
    bool isExchange = program.launches[time.launch].cost.resource == Resource::Network;
    std::optional<double> &known = seconds[time.launch];
    known = !known ? its : isExchange ? std::min(*known, its) : std::max(*known, its);
  }
  std::vector<double> all;
  for (std::optional<double> its : seconds)
    all.push_back(its.value_or(0));
  return all;
}

LiveBytes Pricer::getLiveBytes(ArrayRef<unsigned> order) const {
  std::vector<std::pair<int64_t, int64_t>> lives(program.buffers.size(), {-1, -1});
  auto touch = [&](int32_t buffer, int64_t place) {
    if (buffer < 0)
      return;
    int32_t base = program.buffers[buffer].base;
    auto &[first, last] = lives[base < 0 ? buffer : base];
    first = first < 0 ? place : first;
    last = place;
  };
  for (auto [place, launch] : llvm::enumerate(order)) {
    for (int32_t input : program.launches[launch].inputs)
      touch(input, place);
    for (int32_t output : program.launches[launch].outputs)
      touch(output, place);
  }
  std::vector<int64_t> change(order.size() + 1, 0);
  for (auto [buffer, life] : llvm::zip_equal(program.buffers, lives))
    if (life.first >= 0 && !buffer.isArgument && !buffer.isHost) {
      change[life.first] += buffer.bytes;
      change[life.second + 1] -= buffer.bytes;
    }
  LiveBytes live;
  int64_t bytes = 0;
  for (int64_t its : change) {
    live.peak = std::max(live.peak, bytes += its);
    live.sum += static_cast<double>(bytes);
  }
  return live;
}
