//===- KernelsMerge.cu - one row for all choices of a holder --------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ranks.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// Finds the holder of a choice that counts, within the member.
struct HolderOfChoice {
  const int32_t *experts, *dropped; ///< `dropped` may be null
  const int32_t *tokens;            ///< number of tokens that have choices
  int64_t choices, first, own, perHolder;

  /// Holder of the choice, or -1 if the choice does not count.
  __device__ int32_t holder(int64_t choice) const {
    const int64_t expert = experts[choice] - first;
    const bool counts = choice / choices < *tokens && expert >= 0 && expert < own && (!dropped || dropped[choice] >= 0);
    return counts ? static_cast<int32_t>(expert / perHolder) : -1;
  }
  /// First choice of the same token and holder.
  __device__ int64_t firstAlike(int64_t choice, int32_t wanted) const {
    int64_t other = choice / choices * choices;
    while (holder(other) != wanted)
      ++other;
    return other;
  }
  __device__ int32_t operator()(int64_t choice) const {
    const int32_t found = holder(choice);
    return found >= 0 && firstAlike(choice, found) == choice ? found : -1;
  }
};

/// Sums counts, up to `most`. One block.
__global__ void __launch_bounds__(kThreads)
    countTokensKernel(const int32_t *used, int64_t count, int64_t most, int32_t *tokens, FaultSite site) {
  auto usedAt = [&](int64_t i) {
    if (used[i] < 0)
      raise(site, FaultKind::CountNegative);
    return used[i] > 0 ? used[i] : 0;
  };
  const auto all = scanBlock<int32_t>(count, usedAt, [](int64_t, int32_t, int32_t) {});
  if (threadIdx.x != 0)
    return;
  if (all > most)
    raise(site, FaultKind::CountsOverflow, most, all);
  *tokens = used && all < most ? all : static_cast<int32_t>(most);
}

__global__ void __launch_bounds__(kThreads)
    sentKernel(HolderOfChoice ofChoice, const int32_t *slots, const int32_t *counts, int64_t holders, int64_t choices,
               int64_t room, int32_t *sent, FaultSite site) {
  if (globalThread() == 0) {
    int64_t rows = 0;
    for (int64_t holder = 0; holder < holders; ++holder)
      rows += counts[holder];
    if (rows > room)
      raise(site, FaultKind::SentOverflow, rows, room);
  }
  for (int64_t i = globalThread(); i < choices; i += globalThreads()) {
    const int32_t holder = ofChoice.holder(i);
    const int64_t row = holder < 0 ? room : slots[ofChoice.firstAlike(i, holder)];
    if (row < room)
      sent[row * ofChoice.choices + i % ofChoice.choices] = ofChoice.experts[i];
  }
}

} // namespace

Status CudaKernels::runMergeChoices(View experts, View dropped, View used, View slots, View counts, View sent,
                                    const MergeOptions &options) {
  const int64_t tokens = experts.dims[0], choices = experts.dims[1], holders = counts.dims[1];
  HolderOfChoice ofChoice{
      experts.as<const int32_t>(), dropped.as<const int32_t>(),   nullptr, choices, options.firstExpert(),
      options.ownExperts(),        options.ownExperts() / holders};
  ChunkChoices<HolderOfChoice> items{ofChoice, tokens, choices, 1};
  const Ranking ranking = items.ranking(target, holders);
  int32_t *tileCounts = nullptr, *offsets = nullptr, *usedTokens = nullptr;
  MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
    tileCounts = pieces.take<int32_t>(ranking.counts());
    offsets = pieces.take<int32_t>(holders);
    usedTokens = pieces.take<int32_t>(1);
  }));
  items.ofChoice.tokens = ofChoice.tokens = usedTokens;
  MOERT_RETURN_IF_ERROR(check(cudaMemsetAsync(sent.data, 0xff, static_cast<size_t>(sent.bytes()), target.stream.stream),
                              "cannot clear 'sent'"));
  MOERT_RETURN_IF_ERROR(launch(countTokensKernel, Grid(), target, used.as<const int32_t>(), used ? used.elements() : 0,
                               tokens, usedTokens, target.faults()));
  MOERT_RETURN_IF_ERROR(
      sortChoices(target, items, ranking, 0, tileCounts, offsets, slots.as<int32_t>(), counts.as<int32_t>()));
  if (experts.elements() == 0)
    return {};
  return launch(sentKernel, gridOf(target, experts.elements()), target, ofChoice, slots.as<const int32_t>(),
                counts.as<const int32_t>(), holders, experts.elements(), sent.dims[0], sent.as<int32_t>(),
                target.faults());
}

} // namespace moert::cuda
