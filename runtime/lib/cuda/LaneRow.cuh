//===- LaneRow.cuh - one row in the registers of a warp -------------------===//
#ifndef MOERT_CUDA_LANEROW_CUH
#define MOERT_CUDA_LANEROW_CUH

#include "cuda/Math.cuh"
#include "cuda/Reduce.cuh"

#include <bit>

namespace moert::cuda {

/// A lane's part of a row: every 32nd column from its own on, N in total, in registers. With N = 0 the row has any
/// length and lies in the warp's memory.
template <class T, int N> struct LaneRow {
  T values[N];

  __device__ __forceinline__ T &operator[](int i) { return values[i]; }
};
template <class T> struct LaneRow<T, 0> {
  T *memory; ///< the lane's elements

  __device__ __forceinline__ T &operator[](int i) { return memory[int64_t(i) * kWarp]; }
};

/// Memory for the rows of warps with N = 0.
class LaneMemory {
public:
  static int64_t bytes(int64_t columns, int rows) { return divideUp(columns, kWarp) * kWarp * rows * 8; }

  /// Gives each warp of the grid `perWarp` bytes of `memory`.
  __device__ LaneMemory(char *memory, int64_t perWarp) : next(memory + RowTeam<kWarp>::first() * perWarp) {}

  template <class T, int N> __device__ LaneRow<T, N> row(int columns) {
    LaneRow<T, N> result{};
    if constexpr (N == 0) {
      result.memory = reinterpret_cast<T *>(next) + threadIdx.x % kWarp;
      next += int64_t(columns + kWarp - 1) / kWarp * kWarp * 8;
    }
    return result;
  }

private:
  char *next;
};

/// Largest number of columns that are kept in registers.
inline constexpr int64_t kLongestRow = 512;

/// Calls function(std::integral_constant<int, N>()) with the N for rows of `columns` columns.
template <class Function> Status withLaneRow(int64_t columns, Function function) {
  if (columns <= 64)
    return function(std::integral_constant<int, 2>());
  if (columns <= 128)
    return function(std::integral_constant<int, 4>());
  if (columns <= 256)
    return function(std::integral_constant<int, 8>());
  if (columns <= kLongestRow)
    return function(std::integral_constant<int, 16>());
  return function(std::integral_constant<int, 0>());
}

/// Calls function(i) for a lane's values of a row. Registers have no index, so i is a constant for rows in registers.
template <int N, class Function> __device__ __forceinline__ void forSteps(int columns, Function function) {
  if constexpr (N == 0) {
    for (int i = 0; i < (columns + kWarp - 1) / kWarp; ++i)
      function(i);
  } else {
    [&]<int... I>(std::integer_sequence<int, I...>) { (function(I), ...); }(std::make_integer_sequence<int, N>());
  }
}
/// Column of a lane's value i.
__device__ __forceinline__ int laneColumn(int i) { return i * kWarp + static_cast<int>(threadIdx.x % kWarp); }

/// Value of a column that is the same on all lanes.
template <class T, int N> __device__ __forceinline__ T valueAt(LaneRow<T, N> &row, int column) {
  T mine = T(0);
  if constexpr (N == 0)
    mine = row[column / kWarp];
  else
    forSteps<N>(0, [&](int i) { mine = i == column / kWarp ? row[i] : mine; });
  return __shfl_sync(kFullMask, mine, column % kWarp);
}

/// Calls function(value) for the column's value, on the lane that has it.
template <class T, int N, class Function>
__device__ __forceinline__ void updateAt(LaneRow<T, N> &row, int column, Function function) {
  if constexpr (N == 0) {
    if (laneColumn(column / kWarp) == column)
      row[column / kWarp] = function(row[column / kWarp]);
  } else {
    forSteps<N>(0, [&](int i) { row[i] = laneColumn(i) == column ? function(row[i]) : row[i]; });
  }
}

// --- Order -------------------------------------------------------------------

/// Unsigned integers in the order of the numbers. NaN is ordered as minus infinity. 0 is below all of them.
template <class A> using Ordered = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;

template <class A> __device__ __forceinline__ Ordered<A> toOrdered(A value) {
  constexpr Ordered<A> kSign = Ordered<A>(1) << (8 * sizeof(A) - 1);
  // Adding 0 turns minus zero into zero.
  const auto bits = std::bit_cast<Ordered<A>>(value == value ? plainSum(value, A(0)) : -kInfinity<A>);
  return bits & kSign ? ~bits : bits | kSign;
}
template <class A> __device__ __forceinline__ A fromOrdered(Ordered<A> order) {
  constexpr Ordered<A> kSign = Ordered<A>(1) << (8 * sizeof(A) - 1);
  return std::bit_cast<A>(order & kSign ? order & ~kSign : ~order);
}

/// Column of the largest key, on all lanes. Ties go to the lower column. The key becomes 0.
template <class U, int N> __device__ int takeLargest(LaneRow<U, N> &keys, int columns) {
  U largest = 0;
  forSteps<N>(columns, [&](int i) { largest = keys[i] > largest ? keys[i] : largest; });
  largest = warpMax(largest);
  unsigned column = 0xffffffff;
  forSteps<N>(columns, [&](int i) {
    const auto mine = static_cast<unsigned>(laneColumn(i));
    column = keys[i] == largest && mine < column ? mine : column;
  });
  const int result = static_cast<int>(__reduce_min_sync(kFullMask, column));
  updateAt(keys, result, [](U) { return U(0); });
  return result;
}

} // namespace moert::cuda

#endif // MOERT_CUDA_LANEROW_CUH
