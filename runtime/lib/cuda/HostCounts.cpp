//===- HostCounts.cpp - counts that the host has read ---------------------===//

#include "cuda/HostCounts.h"

#include <algorithm>

namespace moert::cuda {

Status HostCounts::read(cudaStream_t stream, const View &view, Values &values) {
  const char *begin = view.as<const char>(), *end = begin + view.bytes();
  {
    std::lock_guard lock(mutex);
    for (const Copy &copy : copies)
      if (copy.begin == begin && copy.end == end) {
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
  copies.push_back({begin, end, values});
  ++waited;
  return {};
}

void HostCounts::note(const Call &call) {
  std::lock_guard lock(mutex);
  if (copies.empty())
    return;
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i) {
    const View &view = call.views[i];
    if (!view || !infoOf(call.kind).operands[i].isOutput)
      continue;
    const char *begin = view.as<const char>(), *end = begin + view.bytes();
    std::erase_if(copies, [&](const Copy &copy) { return copy.begin < end && begin < copy.end; });
  }
}

void HostCounts::clear() {
  std::lock_guard lock(mutex);
  copies.clear();
  waited = 0;
}

} // namespace moert::cuda
