//===- KernelsWindow.cu - the choices that a pass of a layer serves -------===//

#include "cuda/CudaKernels.h"
#include "cuda/Map.cuh"
#include "cuda/Reduce.cuh"

namespace moert::cuda {
namespace {

/// Operands of moert_window.
struct Window {
  const int32_t *gathered;
  const int32_t *before; ///< null in pass 0
  int64_t experts, chunks;
  WindowOptions options;

  /// Number of row kinds. The rows that a worker gets of one chunk and one phase's members are numbered by themselves.
  __host__ __device__ int64_t kinds() const { return chunks * options.phases; }
};

/// Tables [chunks, experts] of a window, by chunk and expert. Rows are this member's unless the comment says otherwise.
struct WindowTables {
  int32_t *all;    ///< [phases, chunks, experts]: rows of the phase's members up to this expert's last
  int32_t *ahead;  ///< rows of this expert that come before this member's
  int32_t *begin;  ///< first row of the expert among those of the chunk
  int32_t *first;  ///< first of the expert's rows that the pass serves
  int32_t *count;  ///< number of rows that the pass serves
  int32_t *served; ///< rows of earlier experts that the pass serves
};

/// Computes table[e], the sum of value(e) up to expert e, excluding e if `exclusive`. One block.
template <class Value> __device__ void scanExperts(int64_t experts, bool exclusive, int32_t *table, Value value) {
  scanBlock<int32_t>(experts, value,
                     [=](int64_t expert, int32_t own, int32_t sum) { table[expert] = exclusive ? sum - own : sum; });
  __syncthreads();
}

/// Number of passes that serve the worker with most rows. All threads of the block get the same.
__device__ int32_t countPasses(const Window &window, const int32_t *all) {
  __shared__ int32_t passes;
  if (threadIdx.x == 0)
    passes = 1;
  __syncthreads();
  const int64_t workers = window.options.workers, own = window.experts / workers, room = window.options.rows;
  for (int64_t i = threadIdx.x; i < workers * window.kinds(); i += kThreads) {
    const int64_t worker = i % workers;
    const int32_t *kind = all + i / workers * window.experts;
    const int64_t rows = kind[(worker + 1) * own - 1] - (worker == 0 ? 0 : kind[worker * own - 1]);
    atomicMax(&passes, static_cast<int32_t>((rows + room - 1) / room));
  }
  __syncthreads();
  return passes;
}

/// Counts the rows of each expert in chunk `chunk`, of the members of phase `phase`, and the rows ahead of this
/// member's.
template <class Count>
__device__ void sumMembers(const Window &window, const WindowTables &tables, int64_t phase, int64_t chunk,
                           Count countOf) {
  const int64_t block = window.options.size / window.options.phases;
  int32_t *ahead = tables.ahead + chunk * window.experts;
  scanExperts(window.experts, false, tables.all + (phase * window.chunks + chunk) * window.experts,
              [&](int64_t expert) {
                int32_t sum = 0;
                for (int64_t member = phase * block; member < (phase + 1) * block; ++member) {
                  if (member == window.options.index)
                    ahead[expert] = sum;
                  sum += countOf(member, chunk, expert);
                }
                return sum;
              });
}

/// Finds the rows of chunk `chunk` that the pass beginning at row `begin` serves.
template <class Count>
__device__ void serveChunk(const Window &window, const WindowTables &tables, int64_t chunk, int64_t begin,
                           int32_t *passCounts, Count countOf) {
  const int64_t experts = window.experts, own = experts / window.options.workers, at = chunk * experts;
  const int64_t phase = window.options.index / (window.options.size / window.options.phases);
  const int32_t *all = tables.all + (phase * window.chunks + chunk) * experts;
  scanExperts(experts, true, tables.served + at, [&](int64_t expert) {
    const int64_t ofOthers = expert < own ? 0 : all[expert / own * own - 1];
    const int64_t row = (expert == 0 ? 0 : all[expert - 1]) - ofOthers + tables.ahead[at + expert];
    const int64_t end = row + countOf(window.options.index, chunk, expert);
    auto clamped = [=](int64_t value) { return value < row ? row : value > end ? end : value; };
    const int64_t from = clamped(begin);
    tables.first[at + expert] = static_cast<int32_t>(from - row);
    const auto count = static_cast<int32_t>(clamped(begin + window.options.rows) - from);
    return tables.count[at + expert] = passCounts[at + expert] = count;
  });
}

/// Fills the tables. One block.
__global__ void __launch_bounds__(kThreads)
    windowKernel(Window window, WindowTables tables, int32_t *left, int32_t *passCounts, FaultSite site) {
  auto countOf = [&](int64_t member, int64_t chunk, int64_t expert) {
    const int32_t count = window.gathered[(member * window.chunks + chunk) * window.experts + expert];
    if (count < 0)
      raise(site, FaultKind::CountNegative);
    return count > 0 ? count : 0;
  };
  for (int64_t chunk = 0; chunk < window.chunks; ++chunk) {
    for (int64_t phase = 0; phase < window.options.phases; ++phase)
      sumMembers(window, tables, phase, chunk, countOf);
    scanExperts(window.experts, true, tables.begin + chunk * window.experts,
                [&](int64_t expert) { return countOf(window.options.index, chunk, expert); });
  }
  const int32_t passes = countPasses(window, tables.all);
  const int32_t behind = window.before ? *window.before : passes;
  if ((behind < 1 || behind > passes) && threadIdx.x == 0)
    raise(site, FaultKind::PassRange, passes, behind);
  __syncthreads();
  if (threadIdx.x == 0)
    *left = behind - 1;
  for (int64_t chunk = 0; chunk < window.chunks; ++chunk)
    serveChunk(window, tables, chunk, (passes - behind) * window.options.rows, passCounts, countOf);
}

__global__ void __launch_bounds__(kThreads)
    windowSlotsKernel(const int32_t *slots, WindowTables tables, int64_t experts, int64_t chunks, int64_t chunkRows,
                      int64_t choices, int32_t *passSlots) {
  for (int64_t i = globalThread(); i < choices; i += globalThreads()) {
    const int32_t slot = slots[i];
    const int64_t chunk = chunks > 1 && slot >= 0 ? slot / chunkRows : 0, firstRow = chunk * chunkRows;
    if (slot < 0 || chunk >= chunks) {
      passSlots[i] = -1;
      continue;
    }
    // Last expert that begins there or before.
    const int32_t *begin = tables.begin + chunk * experts;
    const int64_t own = std::upper_bound(begin + 1, begin + experts, slot - firstRow) - begin - 1;
    const int64_t expert = chunk * experts + own;
    const auto row = static_cast<int32_t>(slot - firstRow - begin[own] - tables.first[expert]);
    passSlots[i] =
        row >= 0 && row < tables.count[expert] ? static_cast<int32_t>(firstRow + tables.served[expert] + row) : -1;
  }
}

} // namespace

Status CudaKernels::runWindow(View slots, View gathered, View before, View left, View passSlots, View passCounts,
                              const WindowOptions &options) {
  const int64_t experts = gathered.dims[1], chunks = passCounts.dims[0], choices = slots.elements();
  WindowTables tables{};
  MOERT_RETURN_IF_ERROR(reservePieces(target.stream.workspace, [&](Regions &pieces) {
    tables.all = pieces.take<int32_t>(options.phases * chunks * experts);
    for (int32_t **table : {&tables.ahead, &tables.begin, &tables.first, &tables.count, &tables.served})
      *table = pieces.take<int32_t>(chunks * experts);
  }));
  const Window window{gathered.as<const int32_t>(), before.as<const int32_t>(), experts, chunks, options};
  MOERT_RETURN_IF_ERROR(launch(windowKernel, Grid(), target, window, tables, left.as<int32_t>(),
                               passCounts.as<int32_t>(), target.faults()));
  if (choices == 0)
    return {};
  return launch(windowSlotsKernel, gridOf(target, choices), target, slots.as<const int32_t>(), tables, experts, chunks,
                options.chunkRows, choices, passSlots.as<int32_t>());
}

} // namespace moert::cuda
