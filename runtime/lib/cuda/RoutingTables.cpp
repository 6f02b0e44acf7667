//===- RoutingTables.cpp - tables that kernels make of a routing ----------===//

#include "cuda/RoutingTables.h"

#include <algorithm>

namespace moert::cuda {

static bool isSame(const RoutingTables::Key &a, const RoutingTables::Key &b) {
  return a.table == b.table && a.parameter == b.parameter && a.of.data == b.of.data && a.of.rank == b.of.rank &&
         a.of.dims == b.of.dims;
}

static Status recordOn(RoutingTables::Block &block, cudaStream_t stream) {
  block.on = stream;
  return recordEvent(block.event, stream);
}

static Status waitFor(const RoutingTables::Block &block, cudaStream_t stream) {
  return !block.on || block.on == stream ? Status() : awaitEvent(stream, block.event);
}

Status RoutingTables::find(cudaStream_t stream, const Key &key, const void *&data) {
  std::lock_guard lock(mutex);
  data = nullptr;
  for (const Entry &entry : entries)
    if (isSame(entry.key, key)) {
      data = entry.block->memory.get();
      return waitFor(*entry.block, stream);
    }
  return {};
}

Status RoutingTables::reserve(cudaStream_t stream, int64_t bytes, Block *&block) {
  std::lock_guard lock(mutex);
  block = nullptr;
  for (Block &candidate : blocks)
    if (!candidate.isUsed && candidate.bytes >= bytes && (!block || candidate.bytes < block->bytes))
      block = &candidate;
  if (!block) {
    Block fresh;
    fresh.bytes = std::max<int64_t>(bytes, 256);
    MOERT_RETURN_IF_ERROR(allocateDevice(fresh.bytes, "a table of a routing", fresh.memory));
    block = &blocks.emplace_back(std::move(fresh));
  }
  block->isUsed = true;
  return waitFor(*block, stream);
}

Status RoutingTables::publish(cudaStream_t stream, const Key &key, Block *block) {
  std::lock_guard lock(mutex);
  // A value of no bytes is never overwritten.
  if (key.of.bytes() > 0)
    entries.push_back({key, block});
  return recordOn(*block, stream);
}

/// The readers of a table also read the value, so they must come before the call that overwrites the value.
Status RoutingTables::retire(Block &block, cudaStream_t stream) {
  block.isUsed = false;
  return recordOn(block, stream);
}

Status RoutingTables::note(const Call &call, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  return forOutputs(call, [&](const char *begin, const char *end) -> Status {
    for (size_t e = entries.size(); e-- > 0;) {
      const View &of = entries[e].key.of;
      if (of.as<const char>() >= end || begin >= of.as<const char>() + of.bytes())
        continue;
      MOERT_RETURN_IF_ERROR(retire(*entries[e].block, stream));
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(e));
    }
    return {};
  });
}

void RoutingTables::clear() {
  std::lock_guard lock(mutex);
  entries.clear();
  for (Block &block : blocks) {
    block.isUsed = false;
    block.on = nullptr;
  }
}

} // namespace moert::cuda
