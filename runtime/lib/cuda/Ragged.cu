//===- Ragged.cu - rows of each expert ------------------------------------===//

#include "cuda/Ragged.cuh"

#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// Computes the offsets with one block.
__global__ void __launch_bounds__(kThreads) offsetsKernel(const int32_t *counts, int64_t sources, int64_t experts,
                                                          int64_t capacity, int64_t *offsets, FaultSite site) {
  auto rowsOf = [&](int64_t expert) {
    int64_t rows = 0;
    for (int64_t s = 0; s < sources; ++s) {
      const int32_t count = counts[s * experts + expert];
      if (count < 0)
        raise(site, FaultKind::CountNegative);
      rows += count > 0 ? count : 0;
    }
    return rows;
  };
  const auto rows = scanBlock<int64_t>(experts, rowsOf, [&](int64_t expert, int64_t, int64_t end) {
    offsets[expert + 1] = end < capacity ? end : capacity;
  });
  if (threadIdx.x != 0)
    return;
  offsets[0] = 0;
  if (rows > capacity)
    raise(site, FaultKind::CountsOverflow, capacity, rows);
}

} // namespace

Status expertOffsets(const Target &target, View counts, int64_t capacity, const int64_t *&offsets) {
  offsets = nullptr;
  if (!counts)
    return {};
  return target.stream.tableOf({RoutingTables::Table::Offsets, counts, capacity}, counts.dims[1] + 1, offsets,
                               [&](int64_t *made) {
                                 return launch(offsetsKernel, Grid(), target, counts.as<const int32_t>(),
                                               counts.dims[0], counts.dims[1], capacity, made, target.faults());
                               });
}

Status readExpertOffsets(const Target &target, View counts, int64_t capacity, std::vector<int64_t> &offsets) {
  const int64_t sources = counts.dims[0], experts = counts.dims[1];
  HostCounts::Values host;
  MOERT_RETURN_IF_ERROR(target.stream.readCounts(counts, host));
  offsets.assign(static_cast<size_t>(experts) + 1, 0);
  const FaultSite site = target.faults();
  for (int64_t e = 0; e < experts; ++e) {
    offsets[static_cast<size_t>(e) + 1] = offsets[static_cast<size_t>(e)];
    for (int64_t s = 0; s < sources; ++s) {
      const int32_t count = (*host)[static_cast<size_t>(s * experts + e)];
      if (count < 0)
        return faultStatus(site.fault(FaultKind::CountNegative));
      offsets[static_cast<size_t>(e) + 1] += count;
    }
  }
  if (offsets.back() > capacity)
    return faultStatus(site.fault(FaultKind::CountsOverflow, capacity, offsets.back()));
  return {};
}

} // namespace moert::cuda
