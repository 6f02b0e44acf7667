//===- Flows.cpp - flows that share links max-min fairly ------------------===//
//
// Rates are max-min fair exactly if each flow has a bottleneck: a full link of its path on which no flow is faster.
// When a flow begins or ends, progressive filling computes only some rates anew, with the others fixed. Flows that lose
// their bottleneck join them until every flow has one. Most changes stay local.
//
//===----------------------------------------------------------------------===//
#include "Flows.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::moe;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Relative difference below which rates, shares and times are equal.
static constexpr double kTolerance = 1e-12;

static bool isLess(double a, double b) { return a < b * (1 - kTolerance); }

void FlowEngine::setEvent(uint32_t number, double when) {
  mayBeLater |= events[number] == next;
  events[number] = when;
  next = std::min(next, when);
}

/// Computes several minima at the same time, which do not wait for each other.
static double getLeast(llvm::ArrayRef<double> values) {
  constexpr size_t width = 8;
  double least[width];
  std::fill_n(least, width, kInfinity);
  for (; values.size() >= width; values = values.drop_front(width))
    for (size_t i = 0; i < width; ++i)
      least[i] = values[i] < least[i] ? values[i] : least[i];
  for (double value : values)
    least[0] = std::min(least[0], value);
  return *std::min_element(least, least + width);
}

void FlowEngine::moveTo(double now) {
  if (now <= time)
    return;
  computeRates();
  time = now;
}

uint32_t FlowEngine::start(double now, llvm::ArrayRef<uint32_t> path, double bytes, double latency, double speed) {
  moveTo(now);
  uint32_t number = flows.size();
  if (freeFlows.empty()) {
    flows.emplace_back();
    events.push_back(kInfinity);
  } else {
    number = freeFlows.back();
    freeFlows.pop_back();
  }
  Flow flow;
  flow.path = path;
  flow.speed = speed;
  flow.remaining = bytes;
  flows[number] = flow;
  if (latency > 0)
    setEvent(number, time + latency);
  else
    begin(number);
  return number;
}

void FlowEngine::markChanged(llvm::ArrayRef<uint32_t> path) {
  isDirty = true;
  for (uint32_t link : path)
    if (!std::exchange(links[link].changed, true))
      changedLinks.push_back(link);
}

void FlowEngine::begin(uint32_t number) {
  Flow &flow = flows[number];
  flow.moving = true;
  flow.since = time;
  // A flow without bytes or links ends as it begins.
  bool isInstant = flow.remaining <= 0 || flow.path.empty();
  setEvent(number, isInstant ? time : kInfinity);
  if (isInstant)
    flow.path = {};
  for (uint32_t link : flow.path)
    links[link].flows.push_back(number);
  if (!isInstant)
    choose(number);
  markChanged(flow.path);
}

void FlowEngine::end(uint32_t number) {
  Flow &flow = flows[number];
  for (uint32_t link : flow.path) {
    auto &onLink = links[link].flows;
    *llvm::find(onLink, number) = onLink.back();
    onLink.pop_back();
  }
  markChanged(flow.path);
  flow.moving = false;
  setEvent(number, kInfinity);
}

void FlowEngine::setSpeed(double now, uint32_t number, double speed) {
  moveTo(now);
  computeRates();
  Flow &flow = flows[number];
  double rate = flow.rate;
  if (flow.moving)
    setRate(number, rate);
  flow.speed = speed;
  if (flow.moving && !flow.path.empty())
    setEvent(number, time + flow.remaining / (rate * speed));
}

double FlowEngine::getNextTime() {
  computeRates();
  if (std::exchange(mayBeLater, false))
    next = getLeast(events);
  return next;
}

double FlowEngine::getRate(uint32_t flow) {
  computeRates();
  return flows[flow].rate;
}

void FlowEngine::advance(double now, llvm::SmallVectorImpl<uint32_t> &ended) {
  computeRates();
  time = std::max(time, now);
  // The tolerance keeps events of one time together despite rounding.
  double until = time * (1 + kTolerance);
  size_t firstEnded = ended.size();
  for (uint32_t number = 0, count = flows.size(); number < count; ++number) {
    if (events[number] > until)
      continue;
    if (!flows[number].moving)
      begin(number);
    if (flows[number].moving && events[number] <= until)
      ended.push_back(number);
  }
  for (uint32_t number : llvm::ArrayRef(ended).drop_front(firstEnded)) {
    end(number);
    freeFlows.push_back(number);
  }
}

void FlowEngine::choose(uint32_t number) {
  if (!std::exchange(flows[number].chosen, true))
    chosen.push_back(number);
}

void FlowEngine::computeRates() {
  if (!std::exchange(isDirty, false))
    return;
  for (uint32_t link : changedLinks) {
    links[link].changed = false;
    for (uint32_t flow : links[link].flows)
      if (flows[flow].bottleneck == link)
        choose(flow);
  }
  changedLinks.clear();
  do
    fill();
  while (chooseMore());
  for (uint32_t number : chosen) {
    Flow &flow = flows[number];
    flow.chosen = false;
    if (flow.rate != flow.newRate)
      setRate(number, flow.newRate);
  }
  for (const Filling &full : filling)
    links[full.link].place = kNone;
  filling.clear();
  chosen.clear();
}

/// Progressive filling: the rates of the chosen flows rise together, and the flows on a link stop when the link is
/// full.
void FlowEngine::fill() {
  for (const Filling &full : filling)
    links[full.link].place = kNone;
  filling.clear();
  shares.clear();
  for (uint32_t number : chosen) {
    flows[number].bottleneck = kNone;
    for (uint32_t link : flows[number].path) {
      LinkState &state = links[link];
      if (state.place != kNone)
        continue;
      state.place = filling.size();
      Filling fill = {link, 0, bandwidths[link]};
      for (uint32_t other : state.flows)
        if (flows[other].chosen)
          ++fill.left;
        else
          fill.room -= flows[other].rate;
      filling.push_back(fill);
      shares.push_back(std::max(fill.room, 0.0) / fill.left);
    }
  }
  for (size_t withoutRate = chosen.size(); withoutRate;) {
    double level = *std::min_element(shares.begin(), shares.end());
    for (size_t place = 0; place < shares.size(); ++place) {
      if (shares[place] > level * (1 + kTolerance))
        continue;
      uint32_t link = filling[place].link;
      for (uint32_t number : links[link].flows)
        if (Flow &flow = flows[number]; flow.chosen && flow.bottleneck == kNone) {
          giveRate(flow, link, level);
          --withoutRate;
        }
    }
  }
}

void FlowEngine::giveRate(Flow &flow, uint32_t link, double rate) {
  flow.newRate = rate;
  flow.bottleneck = link;
  for (uint32_t used : flow.path) {
    uint32_t place = links[used].place;
    Filling &fill = filling[place];
    fill.room -= rate;
    shares[place] = --fill.left ? std::max(fill.room, 0.0) / fill.left : kInfinity;
  }
}

/// Chooses more flows on the links of fill(): flows that such a link no longer limits, and flows that are faster than a
/// chosen flow that it limits. Returns whether it chose any.
bool FlowEngine::chooseMore() {
  size_t before = chosen.size();
  for (const Filling &full : filling) {
    const auto &onLink = links[full.link].flows;
    if (onLink.size() == 1)
      continue;
    double load = 0, top = 0, bottom = kInfinity;
    bool hasOthers = false;
    for (uint32_t number : onLink) {
      const Flow &flow = flows[number];
      double rate = flow.chosen ? flow.newRate : flow.rate;
      load += rate;
      top = std::max(top, rate);
      if (!flow.chosen)
        hasOthers = true;
      else if (flow.bottleneck == full.link)
        bottom = std::min(bottom, rate);
    }
    if (!hasOthers)
      continue;
    bool isFull = !isLess(load, bandwidths[full.link]);
    for (uint32_t number : onLink) {
      const Flow &flow = flows[number];
      bool lostBottleneck = flow.bottleneck == full.link && (!isFull || isLess(flow.rate, top));
      if (!flow.chosen && (lostBottleneck || isLess(bottom, flow.rate)))
        choose(number);
    }
  }
  return chosen.size() > before;
}

void FlowEngine::setRate(uint32_t number, double rate) {
  Flow &flow = flows[number];
  flow.remaining = std::max(flow.remaining - flow.rate * flow.speed * (time - flow.since), 0.0);
  flow.since = time;
  flow.rate = rate;
  setEvent(number, flow.path.empty() ? time : time + flow.remaining / (rate * flow.speed));
}
