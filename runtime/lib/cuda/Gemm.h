//===- Gemm.h - matrix products by cuBLAS ---------------------------------===//
#ifndef MOERT_CUDA_GEMM_H
#define MOERT_CUDA_GEMM_H

#include "cuda/DenseChoices.h"
#include "cuda/Workspace.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <map>
#include <mutex>

namespace moert::cuda {

struct StreamContext;

/// One product of several of the same type and the same transposes.
struct GroupMember {
  int64_t m, n, k;
  const void *a, *b;
  void *c;
};

/// The products of one device, for all of its streams and any thread. 16-bit types and f32 are summed in f32.
class Products {
public:
  static Status create(bool tf32, int64_t workspaceBytes, Products &products);

  /// Before the first product: which of cuBLASLt's proposals all products take, from 1; where there are fewer it is the
  /// last one. With 0 they take what was measured, or the first one.
  void choose(DenseChoices measured, int64_t number);
  /// The algorithm of a product of operands that are aligned to 256 bytes; empty where cuBLASLt has none.
  Status describe(const ProductShape &shape, std::string &algorithm);

  Status multiply(StreamContext &stream, const ProductShape &shape, const void *a, const void *b, void *c);
  /// All members in one call; `model` says what they share.
  Status multiplyGroup(StreamContext &stream, const ProductShape &model, const std::vector<GroupMember> &members);
  /// One call for each member, in turn on so many streams, of which `stream` is the first; it waits for the others.
  Status multiplyOneByOne(StreamContext &stream, const ProductShape &model, const std::vector<GroupMember> &members,
                          int64_t streams);

private:
  /// A product with the alignments on which the choice of an algorithm depends too.
  struct Key {
    ProductShape shape;
    uint32_t alignments[3];
    auto operator<=>(const Key &) const = default;
  };
  /// What cuBLASLt wants to know about a product.
  struct Plan {
    Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> desc;
    Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a, b, c;
    cublasLtMatmulAlgo_t algo;
    size_t workspaceBytes = 0;
    bool hasAlgorithm = false; ///< else cuBLAS multiplies, which takes any alignment
  };

  Status planFor(const Key &key, std::shared_ptr<const Plan> &plan);
  Status makePlan(const Key &key, Plan &plan);
  bool takeMeasured(const Key &key, Plan &plan);
  Status chooseAlgorithm(const Key &key, Plan &plan) const;
  cublasStatus_t useBlas(StreamContext &stream, void *workspace);
  Status multiplyByBlas(StreamContext &stream, const ProductShape &shape, const void *a, const void *b, void *c);
  cublasStatus_t startGroup(const ProductShape &model, const std::vector<GroupMember> &members, const void **pointers);
  cublasComputeType_t computeType(int32_t dtype) const;

  bool tf32 = false;
  int64_t workspaceBytes = 0;
  Owned<cublasLtHandle_t, cublasLtDestroy> lt;
  Owned<cublasHandle_t, cublasDestroy> blas;
  std::unique_ptr<std::mutex> mutex; ///< of the plans, and of `blas`, which has a stream
  std::map<Key, std::shared_ptr<const Plan>> plans;
  DenseChoices choices;
  int64_t proposal = 0;   ///< of cuBLASLt, for products without a measured choice
  bool hasWarned = false; ///< of a measured choice that cannot be taken
};

} // namespace moert::cuda

#endif // MOERT_CUDA_GEMM_H
