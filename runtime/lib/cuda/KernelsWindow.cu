//===- KernelsWindow.cu - the choices that a pass of a layer serves -------===//

#include "core/Checks.h"
#include "cuda/CudaKernels.h"
#include "cuda/Faults.cuh"
#include "cuda/Map.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// As moert_window says them.
struct Window {
  const int32_t *gathered;
  const int32_t *before; ///< null in pass 0
  int64_t members, experts, workers, rows, member;
};

/// Of each expert, tables [experts]. Rows are this member's unless something else is said.
struct WindowTables {
  int32_t *all;    ///< rows of all members up to this expert's last
  int32_t *ahead;  ///< rows of this expert that come before this member's
  int32_t *begin;  ///< of the expert's rows among all
  int32_t *first;  ///< of the expert's rows that the pass serves
  int32_t *count;  ///< that the pass serves
  int32_t *served; ///< rows of the experts before that the pass serves
};

/// table[e] = the sum of value(e) up to expert e, without it if `exclusive`. One block.
template <class Value> __device__ void scanExperts(int64_t experts, bool exclusive, int32_t *table, Value value) {
  int32_t before = 0;
  for (int64_t first = 0; first < experts; first += kThreads) {
    const int64_t expert = first + threadIdx.x;
    const int32_t own = expert < experts ? value(expert) : 0;
    int32_t all = 0;
    const int32_t sum = before + blockScan<int32_t>(own, all);
    if (expert < experts)
      table[expert] = exclusive ? sum - own : sum;
    before += all;
  }
  __syncthreads();
}

/// How many passes serve the worker that has most rows; the same for all threads of the block.
__device__ int32_t countPasses(const Window &window, const int32_t *all) {
  __shared__ int32_t passes;
  if (threadIdx.x == 0)
    passes = 1;
  __syncthreads();
  const int64_t own = window.experts / window.workers;
  for (int64_t worker = threadIdx.x; worker < window.workers; worker += kThreads) {
    const int64_t rows = all[(worker + 1) * own - 1] - (worker == 0 ? 0 : all[worker * own - 1]);
    atomicMax(&passes, static_cast<int32_t>((rows + window.rows - 1) / window.rows));
  }
  __syncthreads();
  return passes;
}

/// One block.
__global__ void __launch_bounds__(kThreads)
    windowKernel(Window window, WindowTables tables, int32_t *left, int32_t *passCounts, FaultSite site) {
  auto countOf = [&](int64_t member, int64_t expert) {
    const int32_t count = window.gathered[member * window.experts + expert];
    if (count < 0)
      raise(site, FaultKind::CountNegative);
    return count > 0 ? count : 0;
  };
  scanExperts(window.experts, false, tables.all, [&](int64_t expert) {
    int32_t sum = 0;
    for (int64_t member = 0; member < window.members; ++member) {
      if (member == window.member)
        tables.ahead[expert] = sum;
      sum += countOf(member, expert);
    }
    return sum;
  });
  scanExperts(window.experts, true, tables.begin, [&](int64_t expert) { return countOf(window.member, expert); });
  const int32_t passes = countPasses(window, tables.all);
  const int32_t behind = window.before ? *window.before : passes;
  if ((behind < 1 || behind > passes) && threadIdx.x == 0)
    raise(site, FaultKind::PassRange, passes, behind);
  __syncthreads();
  if (threadIdx.x == 0)
    *left = behind - 1;
  const int64_t begin = (passes - behind) * window.rows, own = window.experts / window.workers;
  scanExperts(window.experts, true, tables.served, [&](int64_t expert) {
    const int64_t ofOthers = expert < own ? 0 : tables.all[expert / own * own - 1];
    const int64_t row = (expert == 0 ? 0 : tables.all[expert - 1]) - ofOthers + tables.ahead[expert];
    const int64_t end = row + countOf(window.member, expert);
    auto clamped = [=](int64_t at) { return at < row ? row : at > end ? end : at; };
    const int64_t from = clamped(begin);
    tables.first[expert] = static_cast<int32_t>(from - row);
    return tables.count[expert] = passCounts[expert] = static_cast<int32_t>(clamped(begin + window.rows) - from);
  });
}

__global__ void __launch_bounds__(kThreads)
    windowSlotsKernel(const int32_t *slots, WindowTables tables, int64_t experts, int64_t choices, int32_t *passSlots) {
  for (int64_t i = globalThread(); i < choices; i += globalThreads()) {
    const int32_t slot = slots[i];
    // The last expert that begins there or before.
    int64_t low = 0, high = experts;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (tables.begin[middle] <= slot ? low : high) = middle;
    }
    const int32_t row = slot - tables.begin[low] - tables.first[low];
    passSlots[i] = slot >= 0 && row >= 0 && row < tables.count[low] ? tables.served[low] + row : -1;
  }
}

} // namespace

Status CudaKernels::window(View slots, View gathered, View before, View left, View passSlots, View passCounts,
                           int64_t workers, int64_t rows, int64_t index, int64_t size) {
  MOERT_RETURN_IF_ERROR(checkWindow(slots, gathered, before, left, passSlots, passCounts, workers, rows, index, size));
  const int64_t experts = gathered.dims[1], choices = slots.elements();
  WindowTables tables{};
  MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
    for (int32_t **table : {&tables.all, &tables.ahead, &tables.begin, &tables.first, &tables.count, &tables.served})
      *table = pieces.take<int32_t>(experts);
  }));
  const Window window{gathered.as<const int32_t>(), before.as<const int32_t>(), size, experts, workers, rows, index};
  MOERT_RETURN_IF_ERROR(launch(windowKernel, Grid(), target, window, tables, left.as<int32_t>(),
                               passCounts.as<int32_t>(), target.faults()));
  if (choices == 0)
    return {};
  return launch(windowSlotsKernel, gridOf(target, choices), target, slots.as<const int32_t>(), tables, experts, choices,
                passSlots.as<int32_t>());
}

} // namespace moert::cuda
