//===- Overlaps.cpp - calls that run beside transfers ---------------------===//

#include "cuda/Overlaps.h"

#include <algorithm>
#include <ranges>

namespace moert::cuda {

Overlaps::Overlaps(size_t streams, size_t events)
    : done(streams, Done(streams)), recorded(events, Done(streams)), lastTransfer(streams), issued(streams) {}

void Overlaps::beginStep() {
  for (Done &stream : done)
    std::ranges::fill(stream, 0);
  std::ranges::fill(lastTransfer, 0);
  for (std::vector<Issued> &calls : issued)
    calls.clear();
}

void Overlaps::record(int64_t event, int64_t stream) { recorded[static_cast<size_t>(event)] = at(stream); }

void Overlaps::wait(int64_t event, int64_t stream) {
  const Done &before = recorded[static_cast<size_t>(event)];
  std::ranges::transform(at(stream), before, at(stream).begin(), [](int64_t a, int64_t b) { return std::max(a, b); });
}

void Overlaps::noteTransfer(int64_t stream) {
  const Done &before = at(stream);
  for (size_t other = 0; other < issued.size(); ++other)
    for (const Issued &call : issued[other] | std::views::reverse) {
      if (call.number <= before[other])
        break;
      besideLater.insert(call.op);
    }
  lastTransfer[static_cast<size_t>(stream)] = ++at(stream)[static_cast<size_t>(stream)];
}

bool Overlaps::noteCall(int32_t op, int64_t stream) {
  const auto own = static_cast<size_t>(stream);
  issued[own].push_back({op, ++at(stream)[own]});
  for (size_t other = 0; other < lastTransfer.size(); ++other)
    if (lastTransfer[other] > at(stream)[other])
      return true;
  return besideLater.contains(op);
}

} // namespace moert::cuda
