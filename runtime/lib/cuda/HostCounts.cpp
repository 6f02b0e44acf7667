//===- HostCounts.cpp - counts that the host has read ---------------------===//

#include "cuda/HostCounts.h"

#include <algorithm>
#include <utility>

namespace moert::cuda {

Status HostCounts::finishCopy(Copy &copy) {
  MOERT_RETURN_IF_ERROR(
      check(cudaEventSynchronize(copy.page->filled.get()), "a call before one that reads counts failed"));
  const auto *first = reinterpret_cast<const int32_t *>(copy.page->data);
  copy.values = std::make_shared<std::vector<int32_t>>(first, first + (copy.range.second - copy.range.first) / 4);
  ++waited;
  return {};
}

Status HostCounts::read(cudaStream_t stream, const View &view, Values &values) {
  const Range range{view.as<const char>(), view.as<const char>() + view.bytes()};
  {
    std::lock_guard lock(mutex);
    readers.insert(range);
    for (Copy &copy : copies)
      if (copy.range == range) {
        if (!copy.values)
          MOERT_RETURN_IF_ERROR(finishCopy(copy));
        values = copy.values;
        return {};
      }
  }
  auto fresh = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(view.elements()));
  MOERT_RETURN_IF_ERROR(check(
      cudaMemcpyAsync(fresh->data(), view.data, static_cast<size_t>(view.bytes()), cudaMemcpyDeviceToHost, stream),
      "cannot copy counts to the host"));
  MOERT_RETURN_IF_ERROR(check(cudaStreamSynchronize(stream), "a call before one that reads counts failed"));
  values = fresh;
  std::lock_guard lock(mutex);
  copies.push_back({range, values, nullptr});
  ++waited;
  return {};
}

Status HostCounts::startCopy(const Range &range, cudaStream_t stream) {
  const int64_t bytes = range.second - range.first, place = wanted;
  wanted += (bytes + 15) / 16 * 16;
  if (wanted > room)
    return {};
  if (usedPages == pages.size())
    pages.emplace_back();
  Page &page = pages[usedPages++];
  page.data = memory + place;
  MOERT_RETURN_IF_ERROR(follow(aside.get(), stream));
  MOERT_RETURN_IF_ERROR(copyBytes(aside.get(), memory + place, range.first, bytes, "cannot copy counts to the host"));
  MOERT_RETURN_IF_ERROR(recordEvent(page.filled, aside.get()));
  copies.push_back({range, nullptr, &page});
  return {};
}

Status HostCounts::noteEnqueued(const Call &call, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  return forOutputs(call, [&](const char *begin, const char *end) {
    return readers.count({begin, end}) ? startCopy({begin, end}, stream) : Status();
  });
}

Status HostCounts::note(const Call &call, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  return forOutputs(call, [&](const char *begin, const char *end) -> Status {
    for (size_t c = copies.size(); c-- > 0;) {
      const Copy &copy = copies[c];
      if (copy.range.first >= end || begin >= copy.range.second)
        continue;
      // A copy under way must finish before the call overwrites the memory.
      if (!copy.values)
        MOERT_RETURN_IF_ERROR(awaitEvent(stream, copy.page->filled));
      copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(c));
    }
    return {};
  });
}

Status HostCounts::joinTo(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  return usedPages > 0 ? follow(stream, aside.get()) : Status();
}

Status HostCounts::beginStep() {
  // Bound for callers that move their memory again and again: each place becomes a reader.
  constexpr size_t kMostReaders = 4096;
  constexpr int64_t kFirst = int64_t(64) << 10; // enough for the counts of most models
  std::lock_guard lock(mutex);
  if (readers.size() > kMostReaders)
    readers.clear();
  copies.clear();
  usedPages = 0;
  waited = 0;
  const int64_t lacking = std::exchange(wanted, 0);
  if (readers.empty() || (memory && lacking <= room))
    return {};
  if (!aside)
    MOERT_RETURN_IF_ERROR(createStream(aside));
  room = std::max({kFirst, 2 * room, lacking});
  // Copies of the previous step may still be under way to the memory before, which is kept.
  return pinned.reserve(room, memory);
}

} // namespace moert::cuda
