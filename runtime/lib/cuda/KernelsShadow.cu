//===- KernelsShadow.cu - choice of shadows, and their choices ------------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Ranks.cuh"

namespace moert::cuda {
namespace {

// --- Which experts -----------------------------------------------------------
// moert_shadows_choose decides on the host while the stream waits. The decision is short and hardly parallel, and all
// devices must decide alike. One kernel hands the counts to the host, and another one takes the shadows.

/// A decision in the host's memory. The counts and then the shadows follow it.
struct Decision {
  moert_shadow_costs costs;
  int64_t sources, experts;
  int32_t code; ///< status of moert_shadows_choose

  __host__ __device__ int32_t *counts() { return reinterpret_cast<int32_t *>(this + 1); }
  __host__ __device__ int32_t *shadows() { return counts() + sources * experts; }
  int64_t bytes() const { return static_cast<int64_t>(sizeof(*this)) + (sources + 1) * experts * 4; }
};

/// Copies the counts. A negative count is a fault and is replaced by 0.
__global__ void __launch_bounds__(kThreads)
    askKernel(Decision decision, const int32_t *counts, Decision *host, FaultSite site) {
  int32_t *to = reinterpret_cast<int32_t *>(host + 1);
  for (int64_t i = globalThread(); i < decision.sources * decision.experts; i += globalThreads()) {
    if (counts[i] < 0)
      raise(site, FaultKind::ShadowCount, counts[i]);
    to[i] = counts[i] > 0 ? counts[i] : 0;
  }
  if (globalThread() == 0)
    *host = decision;
}

void decide(void *data) {
  auto *decision = static_cast<Decision *>(data);
  decision->code = moert_shadows_choose(&decision->costs, decision->counts(), decision->sources, decision->experts,
                                        decision->shadows());
}

__global__ void __launch_bounds__(kThreads) answerKernel(Decision *host, int32_t *shadows, FaultSite site) {
  const bool isDecided = host->code == 0;
  if (!isDecided && globalThread() == 0)
    raise(site, FaultKind::ShadowMemory);
  for (int64_t e = globalThread(); e < host->experts; e += globalThreads())
    shadows[e] = isDecided ? host->shadows()[e] : 0;
}

// --- Whose choices -----------------------------------------------------------

/// Computes places[e], the place of expert e among the shadows, or -1. One block.
__global__ void __launch_bounds__(kThreads)
    placesKernel(const int32_t *shadows, int64_t experts, int64_t room, int32_t *places, FaultSite site) {
  auto isShadow = [&](int64_t expert) {
    if (shadows[expert] != 0 && shadows[expert] != 1)
      raise(site, FaultKind::ShadowValue, expert, shadows[expert]);
    return shadows[expert] == 1;
  };
  const auto all = scanBlock<int32_t>(experts, isShadow, [&](int64_t expert, int32_t own, int32_t sum) {
    places[expert] = own == 1 && sum <= room ? sum - 1 : -1;
  });
  if (threadIdx.x == 0 && all > room)
    raise(site, FaultKind::ShadowRoom, room, all);
}

/// Place of a choice's shadow, or the expert of a choice that is no shadow.
template <bool IsShadow> struct KeyOfChoice {
  ExpertOfChoice ofChoice;
  const int32_t *places;

  __device__ int32_t operator()(int64_t choice) const {
    const int32_t expert = ofChoice(choice), place = expert >= 0 ? places[expert] : -1;
    return IsShadow ? place : place < 0 ? expert : -1;
  }
};

} // namespace

int64_t decisionBytes(View counts) { return Decision{{}, counts.dims[0], counts.dims[1], 0}.bytes(); }

Status CudaKernels::runChooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs) {
  if (counts.elements() == 0)
    return clearBytes(target.stream.stream, shadows.data, shadows.bytes(), "cannot clear the shadows");
  costs.size = sizeof(costs);
  costs.policy = static_cast<uint32_t>(policy);
  const Decision decision{costs, counts.dims[0], counts.dims[1], 0};
  void *memory = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.staging.reserve(decision.bytes(), memory));
  auto *host = static_cast<Decision *>(memory);
  MOERT_RETURN_IF_ERROR(launch(askKernel, gridOf(target, counts.elements()), target, decision,
                               counts.as<const int32_t>(), host, target.faults()));
  MOERT_RETURN_IF_ERROR(check(cudaLaunchHostFunc(target.stream.stream, decide, host), "cannot choose shadows"));
  return launch(answerKernel, gridOf(target, decision.experts), target, host, shadows.as<int32_t>(), target.faults());
}

Status CudaKernels::runDivideChoices(View experts, View shadows, View slots, View counts, View shadowSlots,
                                     View shadowCounts, int64_t chunks, int64_t chunkRows) {
  const int64_t tokens = experts.dims[0], choices = experts.dims[1], count = shadows.dims[1];
  const int64_t room = shadowCounts.dims[1];
  const ExpertOfChoice ofChoice{experts.as<const int32_t>(), count, target.faults()};
  ChunkChoices<KeyOfChoice<false>> plain{{ofChoice, nullptr}, tokens, choices, chunks};
  ChunkChoices<KeyOfChoice<true>> ofShadows{{ofChoice, nullptr}, tokens, choices, 1};
  const Ranking ranking = plain.ranking(target, count), shadowRanking = ofShadows.ranking(target, room);
  int32_t *tileCounts = nullptr, *offsets = nullptr, *places = nullptr;
  MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
    tileCounts = pieces.take<int32_t>(std::max(ranking.counts(), shadowRanking.counts()));
    offsets = pieces.take<int32_t>(std::max(chunks * count, room));
    places = pieces.take<int32_t>(count);
  }));
  plain.ofChoice.places = ofShadows.ofChoice.places = places;
  MOERT_RETURN_IF_ERROR(
      launch(placesKernel, Grid(), target, shadows.as<const int32_t>(), count, room, places, target.faults()));
  MOERT_RETURN_IF_ERROR(
      sortChoices(target, plain, ranking, chunkRows, tileCounts, offsets, slots.as<int32_t>(), counts.as<int32_t>()));
  return sortChoices(target, ofShadows, shadowRanking, 0, tileCounts, offsets, shadowSlots.as<int32_t>(),
                     shadowCounts.as<int32_t>());
}

} // namespace moert::cuda
