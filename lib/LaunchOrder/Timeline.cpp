//===- Timeline.cpp - a quick look at how an order would run --------------===//
#include "Timeline.h"

#include <limits>

using namespace mlir;
using namespace mlir::moe;

Sequences mlir::moe::getSequences(const Graph &graph, ArrayRef<unsigned> order) {
  Sequences sequences(graph.numStreams);
  for (unsigned task : order)
    sequences[graph.tasks[task].stream].push_back(task);
  return sequences;
}

const Timeline &Runner::run(const Sequences &given) {
  sequences = &given;
  return run();
}

const Timeline &Runner::run(ArrayRef<unsigned> given) {
  sequences = nullptr;
  rank = given;
  return run();
}

const Timeline &Runner::run() {
  timeline.seconds = timeline.sumOfEnds = 0;
  timeline.order.clear();
  issued = 0;
  timeline.cause.assign(graph.size(), -1);
  timeline.waitedForStream.assign(graph.size(), false);
  timeline.last = -1;
  streams.assign(graph.numStreams, {});
  readyAt.assign(graph.size(), 0);
  missing.resize(graph.size());
  busy.fill(0);
  mask = 0;
  now = 0;
  for (unsigned task = 0; task < graph.size(); ++task)
    if ((missing[task] = graph.before[task].size()) == 0)
      makeReady(task);
  while (step()) {
  }
  if (timeline.order.size() < graph.size())
    timeline.seconds = std::numeric_limits<double>::infinity();
  return timeline;
}

void Runner::makeReady(unsigned task) {
  readyAt[task] = now;
  if (sequences)
    return;
  auto &ready = streams[graph.tasks[task].stream].ready;
  ready.push_back({rank[task], task});
  std::push_heap(ready.begin(), ready.end(), std::greater<>());
}

/// Gives an idle stream its next task, if that can go.
bool Runner::takeNext(Stream &stream, unsigned index) {
  if (sequences) {
    const Order &sequence = (*sequences)[index];
    if (stream.head == sequence.size() || missing[sequence[stream.head]] > 0)
      return false;
    stream.task = sequence[stream.head++];
    return true;
  }
  if (stream.ready.empty())
    return false;
  std::pop_heap(stream.ready.begin(), stream.ready.end(), std::greater<>());
  stream.task = stream.ready.back().second;
  stream.ready.pop_back();
  return true;
}

void Runner::begin(Stream &stream) {
  unsigned task = stream.task;
  timeline.order.push_back(task);
  if (stream.last >= 0 && stream.free > readyAt[task]) {
    timeline.cause[task] = stream.last;
    timeline.waitedForStream[task] = true;
  }
  issued += graph.tasks[task].issueSeconds;
  if (issued <= now)
    return work(stream);
  stream.state = Stream::State::Issuing;
  stream.until = issued;
}

void Runner::work(Stream &stream) {
  const Task &task = graph.tasks[stream.task];
  if (task.seconds == 0)
    return end(stream);
  stream.state = Stream::State::Working;
  stream.remaining = task.seconds;
  auto resource = static_cast<unsigned>(task.resource);
  ++busy[resource];
  mask |= 1u << resource;
}

void Runner::end(Stream &stream) {
  unsigned task = stream.task;
  if (stream.state == Stream::State::Working) {
    auto resource = static_cast<unsigned>(graph.tasks[task].resource);
    if (--busy[resource] == 0)
      mask &= ~(1u << resource);
  }
  stream.state = Stream::State::Idle;
  stream.free = now;
  stream.last = task;
  timeline.seconds = now;
  timeline.sumOfEnds += now;
  timeline.last = task;
  for (unsigned next : graph.after[task])
    if (--missing[next] == 0) {
      timeline.cause[next] = task;
      makeReady(next);
    }
}

/// Launches of one kind share what the device has of it; links are shared by nobody in closed form.
double Runner::getSpeed(const Stream &stream) const {
  auto resource = static_cast<unsigned>(graph.tasks[stream.task].resource);
  double speed = graph.speeds[resource][mask];
  return graph.tasks[stream.task].resource == Resource::Network ? speed : speed / busy[resource];
}

/// Begins what can begin, then goes on to the next time at which something ends or is issued.
bool Runner::step() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [index, stream] : llvm::enumerate(streams))
      if (stream.state == Stream::State::Idle && takeNext(stream, index)) {
        begin(stream);
        changed = true;
      }
  }
  double next = std::numeric_limits<double>::infinity();
  for (Stream &stream : streams) {
    if (stream.state == Stream::State::Working)
      stream.until = now + stream.remaining / getSpeed(stream);
    if (stream.state != Stream::State::Idle)
      next = std::min(next, stream.until);
  }
  if (next == std::numeric_limits<double>::infinity())
    return false;
  for (Stream &stream : streams)
    if (stream.state == Stream::State::Working)
      stream.remaining -= (next - now) * getSpeed(stream);
  now = next;
  for (Stream &stream : streams)
    if (stream.state != Stream::State::Idle && stream.until <= now)
      stream.state == Stream::State::Working ? end(stream) : work(stream);
  return true;
}
