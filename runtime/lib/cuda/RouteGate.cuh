//===- RouteGate.cuh - the topology-aware gate ----------------------------===//
//
// FasterMoE's gate. It compares the tokens of a routing group with each other, one choice after the other. Each group
// has a block.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_ROUTEGATE_CUH
#define MOERT_CUDA_ROUTEGATE_CUH

#include "core/Kernels.h"
#include "cuda/LaneRow.cuh"

namespace moert::cuda {

/// Key by which an expert is selected.
template <class A, class B> __device__ __forceinline__ Ordered<A> selectionKey(A score, const B *bias, int64_t expert) {
  return toOrdered(bias ? plainSum(score, convert<A>(bias[expert])) : score);
}

/// Attributes of a route, and its division into parts. A block takes one part after the other.
struct RoutePlan : RouteOptions {
  int64_t groupTokens = 0, parts = 0; ///< parts of a routing group
  int experts = 0, choices = 0;
  bool isGated = false; ///< the topology-aware gate follows

  __device__ bool isSoftmax() const { return score == MOERT_SOFTMAX; }
};

/// State of the gate, which changes the choices of the plain gate. A is the type of the scores, B of the selection
/// bias.
template <class A, class B> struct TopologyGate : RoutePlan {
  const A *scores;  ///< [S, E]
  const B *bias;    ///< may be null
  int32_t *chosen;  ///< [S, k]
  int32_t *wanted;  ///< [S, k], choices of the plain gate
  int32_t *local;   ///< [S, k], the best experts at home
  Ordered<A> *keys; ///< [S]

  __host__ __device__ int homeExperts() const { return experts / static_cast<int>(homes); }
  /// First expert at home.
  __device__ int firstAtHome(int64_t group) const {
    return static_cast<int>((rank / homeStride + group / homeSpan) % homes) * homeExperts();
  }
  __device__ Ordered<A> key(int64_t token, int expert) const {
    return selectionKey(scores[token * experts + expert], bias, expert);
  }
  /// Sets the token's choice `j` to the first of `list` that the token has not chosen.
  __device__ int choose(int64_t token, int j, const int32_t *list) const {
    int32_t *mine = chosen + token * choices;
    const int32_t *wish = list + token * choices;
    auto isChosen = [=](int32_t expert) {
      for (int i = 0; i < j; ++i)
        if (mine[i] == expert)
          return true;
      return false;
    };
    while (isChosen(*wish))
      ++wish;
    return mine[j] = *wish;
  }
};

/// Ranks the experts at home of each token, with a warp for each.
template <class A, class B>
__global__ void __launch_bounds__(kThreads) rankLocalKernel(TopologyGate<A, B> gate, char *memory, int64_t perWarp) {
  const int size = gate.homeExperts(), lane = threadIdx.x % kWarp;
  auto keys = LaneMemory(memory, perWarp).row<Ordered<A>, 0>(size);
  for (int64_t s = RowTeam<kWarp>::first(); s < gate.groups * gate.groupTokens; s += RowTeam<kWarp>::stride()) {
    const int first = gate.firstAtHome(s / gate.groupTokens);
    forSteps<0>(size, [&](int i) { keys[i] = laneColumn(i) < size ? gate.key(s, first + laneColumn(i)) : 0; });
    for (int j = 0; j < gate.choices; ++j) {
      const int expert = first + takeLargest(keys, size);
      if (lane == j % kWarp)
        gate.local[s * gate.choices + j] = expert;
    }
  }
}

/// The n-th largest of some keys, and how many keys equal to it are among the n largest.
template <class U> struct Threshold {
  U key;
  int64_t ties;
};

/// Finds it with all threads of a block of kThreads, one digit of 8 bits after the other.
template <class U> __device__ Threshold<U> nthLargest(const U *keys, int64_t count, int64_t n) {
  constexpr int kDigits = 256;
  static_assert(kThreads == kDigits);
  __shared__ int32_t bins[kDigits];
  __shared__ Threshold<U> found;
  Threshold<U> result{0, n};
  U known = 0;
  for (int shift = 8 * (sizeof(U) - 1); shift >= 0; shift -= 8) {
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += kThreads)
      if ((keys[i] & known) == result.key)
        atomicAdd(bins + (keys[i] >> shift) % kDigits, 1);
    __syncthreads();
    // Each thread has a digit, the first thread the highest.
    const int digit = kDigits - 1 - static_cast<int>(threadIdx.x);
    int32_t all = 0;
    const int32_t like = bins[digit], reached = blockScan(like, all);
    if (reached >= result.ties && reached - like < result.ties)
      found = {result.key | U(digit) << shift, result.ties - (reached - like)};
    __syncthreads();
    result = found;
    known |= U(kDigits - 1) << shift;
    __syncthreads();
  }
  return result;
}

/// Applies the gate. A block has a routing group, and a thread has every kThreads-th token.
template <class A, class B> __global__ void __launch_bounds__(kThreads) stayAtHomeKernel(TopologyGate<A, B> gate) {
  using U = Ordered<A>;
  for (int64_t group = blockIdx.x; group < gate.groups; group += gridDim.x) {
    const int64_t first = group * gate.groupTokens, tokens = gate.groupTokens;
    const int home = gate.firstAtHome(group);
    U *keys = gate.keys + first;
    for (int j = 0; j < gate.choices; ++j) {
      int64_t away = 0;
      for (int64_t s = threadIdx.x; s < tokens; s += kThreads) {
        const int expert = gate.choose(first + s, j, gate.wanted);
        const bool isAway = expert < home || expert >= home + gate.homeExperts();
        keys[s] = isAway ? gate.key(first + s, expert) : 0;
        away += isAway;
      }
      if (blockSum(away) <= gate.leave)
        continue;
      const Threshold<U> last = gate.leave > 0 ? nthLargest(keys, tokens, gate.leave) : Threshold<U>{~U(0), 0};
      auto isTie = [&](int64_t s) { return keys[s] == last.key; };
      scanBlock<int32_t>(tokens, isTie, [&](int64_t s, int32_t own, int32_t ties) {
        if (keys[s] != 0 && keys[s] <= last.key && !(own && ties <= last.ties))
          gate.choose(first + s, j, gate.local);
      });
    }
  }
}

template <class A, class B>
Status stayAtHome(const Target &target, const TopologyGate<A, B> &gate, char *memory, int64_t perWarp) {
  const int64_t tokens = gate.groups * gate.groupTokens;
  MOERT_RETURN_IF_ERROR(copyBytes(target.stream.stream, gate.wanted, gate.chosen,
                                  tokens * gate.choices * static_cast<int64_t>(sizeof(int32_t)),
                                  "cannot copy the choices of 'route'"));
  MOERT_RETURN_IF_ERROR(launch(rankLocalKernel<A, B>, gridOf(target, tokens * kWarp), target, gate, memory, perWarp));
  return launch(stayAtHomeKernel<A, B>, gridOf(target, gate.groups * kThreads), target, gate);
}

} // namespace moert::cuda

#endif // MOERT_CUDA_ROUTEGATE_CUH
