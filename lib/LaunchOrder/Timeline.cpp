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

TimelineRunner::TimelineRunner(const Graph &graph) : graph(graph) {
  initial.streams.resize(graph.numStreams);
  for (const Task &task : graph.tasks)
    initial.streams[task.stream].left += task.seconds;
  for (const auto &before : graph.before)
    initial.missing.push_back(before.size());
  for (const auto &speeds : graph.speeds)
    mostSpeed = std::max(mostSpeed, *llvm::max_element(speeds));
}

const Timeline &TimelineRunner::run(const Sequences &given) {
  sequences = &given;
  return run();
}

const Timeline &TimelineRunner::run(ArrayRef<unsigned> given) {
  sequences = nullptr;
  rank = given;
  return run();
}

const Timeline &TimelineRunner::runToChange(const Sequences &given) {
  sequences = &given;
  keeps = true;
  numKept = 0;
  asked.clear();
  for (const Order &sequence : given)
    asked.push_back(std::vector<size_t>(sequence.size(), std::numeric_limits<size_t>::max()));
  run();
  keeps = false;
  if (tails.empty() && timeline.order.size() == graph.size())
    tails = getTails(graph, timeline.order, mostSpeed);
  return timeline;
}

Ends TimelineRunner::rerun(const Sequences &given, unsigned stream, unsigned place, double most) {
  sequences = &given;
  limit = most;
  size_t step = asked[stream][place];
  // The streams wait for each other before they reach the change.
  if (step >= numKept)
    return {std::numeric_limits<double>::infinity(), 0};
  state = kept[step];
  return finish();
}

bool TimelineRunner::isWithin(const Sequences &given, double most) {
  sequences = &given;
  start(most);
  return finish().seconds <= most;
}

const Timeline &TimelineRunner::run() {
  start(std::numeric_limits<double>::infinity());
  static_cast<Ends &>(timeline) = finish();
  return timeline;
}

void TimelineRunner::start(double most) {
  limit = most;
  timeline.order.clear();
  timeline.cause.assign(graph.size(), -1);
  timeline.waitedForStream.assign(graph.size(), false);
  timeline.last = -1;
  state = initial;
  ready.assign(graph.numStreams, {});
  readyAt.assign(graph.size(), 0);
  for (unsigned task = 0; task < graph.size(); ++task)
    if (state.missing[task] == 0)
      makeReady(task);
}

Ends TimelineRunner::finish() {
  isTooLong = false;
  while (step() && !isTooLong) {
  }
  if (isTooLong || state.begun < graph.size())
    state.ends.seconds = std::numeric_limits<double>::infinity();
  return state.ends;
}

void TimelineRunner::makeReady(unsigned task) {
  readyAt[task] = state.now;
  if (sequences)
    return;
  auto &heap = ready[graph.tasks[task].stream];
  heap.push_back({rank[task], task});
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

/// Gives an idle stream its next task if the task is ready.
bool TimelineRunner::takeNext(Stream &stream, unsigned index) {
  if (sequences) {
    const Order &sequence = (*sequences)[index];
    if (stream.head == sequence.size())
      return false;
    if (keeps)
      asked[index][stream.head] = std::min(asked[index][stream.head], numKept - 1);
    if (state.missing[sequence[stream.head]] > 0)
      return false;
    stream.task = sequence[stream.head++];
    return true;
  }
  auto &heap = ready[index];
  if (heap.empty())
    return false;
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  stream.task = heap.back().second;
  heap.pop_back();
  return true;
}

void TimelineRunner::begin(Stream &stream) {
  unsigned task = stream.task;
  // Remaining tasks take at least this long.
  double least = std::max(stream.left / mostSpeed, tails.empty() ? 0 : tails[task]);
  isTooLong |= (state.now + least) * (1 - kTimeTolerance) > limit;
  stream.left -= graph.tasks[task].seconds;
  timeline.order.push_back(task);
  if (stream.last >= 0 && stream.free > readyAt[task]) {
    timeline.cause[task] = stream.last;
    timeline.waitedForStream[task] = true;
  }
  ++state.begun;
  state.issued += graph.tasks[task].issueSeconds;
  if (state.issued <= state.now)
    return work(stream);
  stream.state = Stream::State::Issuing;
  stream.until = state.issued;
}

void TimelineRunner::work(Stream &stream) {
  const Task &task = graph.tasks[stream.task];
  if (task.seconds == 0)
    return end(stream);
  stream.state = Stream::State::Working;
  stream.remaining = task.seconds;
  auto resource = static_cast<unsigned>(task.resource);
  ++state.busy[resource];
  state.mask |= 1u << resource;
}

void TimelineRunner::end(Stream &stream) {
  unsigned task = stream.task;
  if (stream.state == Stream::State::Working) {
    auto resource = static_cast<unsigned>(graph.tasks[task].resource);
    if (--state.busy[resource] == 0)
      state.mask &= ~(1u << resource);
  }
  stream.state = Stream::State::Idle;
  stream.free = state.now;
  stream.last = task;
  state.ends.seconds = state.now;
  state.ends.sumOfEnds += state.now;
  timeline.last = task;
  for (unsigned next : graph.after[task])
    if (--state.missing[next] == 0) {
      timeline.cause[next] = task;
      makeReady(next);
    }
}

/// Launches of one kind share the device. In closed form, links are not shared.
double TimelineRunner::getSpeed(const Stream &stream) const {
  auto resource = static_cast<unsigned>(graph.tasks[stream.task].resource);
  double speed = graph.speeds[resource][state.mask];
  return graph.tasks[stream.task].resource == Resource::Network ? speed : speed / state.busy[resource];
}

/// Begins all possible tasks, then moves on to the next time at which a task ends or is issued.
bool TimelineRunner::step() {
  if (keeps) {
    if (numKept == kept.size())
      kept.emplace_back();
    kept[numKept++] = state;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [index, stream] : llvm::enumerate(state.streams))
      if (stream.state == Stream::State::Idle && takeNext(stream, index)) {
        begin(stream);
        changed = true;
      }
  }
  double next = std::numeric_limits<double>::infinity();
  for (Stream &stream : state.streams) {
    if (stream.state == Stream::State::Working) {
      stream.speed = getSpeed(stream);
      stream.until = state.now + stream.remaining / stream.speed;
    }
    if (stream.state != Stream::State::Idle)
      next = std::min(next, stream.until);
  }
  if (next == std::numeric_limits<double>::infinity())
    return false;
  for (Stream &stream : state.streams)
    if (stream.state == Stream::State::Working)
      stream.remaining -= (next - state.now) * stream.speed;
  state.now = next;
  for (Stream &stream : state.streams)
    if (stream.state != Stream::State::Idle && stream.until <= next)
      stream.state == Stream::State::Working ? end(stream) : work(stream);
  return true;
}
