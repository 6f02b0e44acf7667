//===- RaggedCutlass.cuh - ragged products by CUTLASS ---------------------===//
//
// CUTLASS's grouped kernels for compute capability 9.0 (pointer arrays, TMA, wgmma) and 10.0 (tcgen05 in place of
// wgmma). A persistent grid takes the tiles of all experts and reads their shapes on the device.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CUDA_RAGGEDCUTLASS_CUH
#define MOERT_CUDA_RAGGEDCUTLASS_CUH

#include "cuda/RaggedGroups.h"

// clang-format off
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
// clang-format on

namespace moert::cuda::cutlass_groups {

/// Schedule of tiles of one size on a compute capability. On 9.0, two warp groups share a large tile, or compute small
/// tiles in turns. On 10.0, two multiprocessors share a tall tile.
template <int Capability, Tile Size> struct Schedule {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
};
template <> struct Schedule<90, Tile::Small> {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
};
template <Tile Size> struct Schedule<100, Size> {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecialized1SmSm100;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecialized1Sm;
};
template <> struct Schedule<100, Tile::Tall> {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecialized2SmSm100;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecialized2Sm;
};

/// A grouped kernel. T is CUTLASS's element type of the operands, C that of the result. The layouts are CUTLASS's.
template <class T, class C, class LayoutA, class LayoutB, Tile Size, int Capability> struct Grouped {
  using LayoutC = cutlass::layout::RowMajor;
  using Architecture = std::conditional_t<Capability == 90, cutlass::arch::Sm90, cutlass::arch::Sm100>;
  using How = Schedule<Capability, Size>;
  static constexpr int kAlignment = 16 / sizeof(T), kAlignmentC = 16 / sizeof(C);
  static constexpr TileShape kTile = shapeOf(Size);
  using Shape = cute::Shape<cute::Int<kTile.rows>, cute::Int<kTile.columns>, cute::_64>;
  using Cluster = cute::Shape<cute::Int<kTile.clusterRows>, cute::Int<kTile.clusterColumns>, cute::_1>;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      Architecture, cutlass::arch::OpClassTensorOp, Shape, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,
      float, float, C, LayoutC *, kAlignmentC, C, LayoutC *, kAlignmentC, typename How::Epilogue,
      cutlass::epilogue::fusion::LinearCombination<C, float>>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Architecture, cutlass::arch::OpClassTensorOp, T, LayoutA *, kAlignment, T, LayoutB *, kAlignment, float, Shape,
      Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      typename How::Mainloop>::CollectiveOp;
  using Shapes = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shapes, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  // The kernel reads the arrays as these types.
  static_assert(sizeof(typename Shapes::UnderlyingProblemShape) == 3 * sizeof(int32_t));
  static_assert(sizeof(typename Kernel::InternalStrideA) == sizeof(int64_t));
  static_assert(sizeof(typename Kernel::InternalStrideB) == sizeof(int64_t));
  static_assert(sizeof(typename Kernel::InternalStrideD) == sizeof(int64_t));

  static typename Gemm::Arguments argumentsOf(const Target &target, const RaggedProduct &product,
                                              const GroupArrays &arrays) {
    using ProblemShape = typename Shapes::UnderlyingProblemShape;
    typename Gemm::Arguments arguments;
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {static_cast<int>(product.experts),
                               reinterpret_cast<ProblemShape *>(const_cast<int32_t *>(arrays.shapes)), nullptr};
    arguments.mainloop = {reinterpret_cast<const T **>(const_cast<const void **>(arrays.a)),
                          reinterpret_cast<typename Kernel::InternalStrideA *>(const_cast<int64_t *>(arrays.leadingA)),
                          reinterpret_cast<const T **>(const_cast<const void **>(arrays.b)),
                          reinterpret_cast<typename Kernel::InternalStrideB *>(const_cast<int64_t *>(arrays.leadingB))};
    auto **c = reinterpret_cast<C **>(const_cast<void **>(arrays.c));
    auto *leading = reinterpret_cast<typename Kernel::InternalStrideD *>(const_cast<int64_t *>(arrays.leadingC));
    arguments.epilogue.thread.alpha = 1;
    arguments.epilogue.thread.beta = product.accumulate ? 1 : 0;
    arguments.epilogue.ptr_C = const_cast<const C **>(c);
    arguments.epilogue.dC = leading;
    arguments.epilogue.ptr_D = c;
    arguments.epilogue.dD = leading;
    arguments.hw_info.device_id = target.device.device;
    arguments.hw_info.sm_count = target.freeProcessors();
    return arguments;
  }

  static Status run(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
    const typename Gemm::Arguments arguments = argumentsOf(target, product, arrays);
    void *workspace = nullptr;
    MOERT_RETURN_IF_ERROR(
        target.stream.productWorkspace.reserve(static_cast<int64_t>(Gemm::get_workspace_size(arguments)), workspace));
    Gemm gemm;
    cutlass::Status status = gemm.initialize(arguments, workspace, target.stream.stream);
    if (status == cutlass::Status::kSuccess)
      status = gemm.run(target.stream.stream);
    if (status == cutlass::Status::kSuccess)
      return {};
    return Status::error(MOERT_ERROR_INTERNAL,
                         "a grouped product of CUTLASS failed: ", cutlass::cutlassGetStatusString(status));
  }
};

/// Enqueues a pass: rows by weights, rows by transposed weights, or the gradient of weights. Only the last may have f32
/// results.
template <int32_t Dtype, Tile Size, int Capability>
Status multiply(const Target &target, const RaggedProduct &product, const GroupArrays &arrays) {
  using T = std::conditional_t<Dtype == MOERT_BF16, cutlass::bfloat16_t, cutlass::half_t>;
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  if (product.isWide)
    return Grouped<T, float, Column, Row, Size, Capability>::run(target, product, arrays);
  if (product.isWeightGradient())
    return Grouped<T, T, Column, Row, Size, Capability>::run(target, product, arrays);
  if (product.transposeB)
    return Grouped<T, T, Row, Column, Size, Capability>::run(target, product, arrays);
  return Grouped<T, T, Row, Row, Size, Capability>::run(target, product, arrays);
}

} // namespace moert::cuda::cutlass_groups

#endif // MOERT_CUDA_RAGGEDCUTLASS_CUH
