//===- Gemm.h - matrix products by cuBLAS ---------------------------------===//
#ifndef MOERT_CUDA_GEMM_H
#define MOERT_CUDA_GEMM_H

#include "cuda/ProductTable.h"
#include "cuda/Workspace.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <map>
#include <mutex>

namespace moert::cuda {

struct StreamContext;

/// One of several products that have the same type and the same transposes.
struct GroupMember {
  int64_t m, n, k;
  const void *a, *b;
  void *c;
};

/// The products of one device, for all of its streams and any thread. 16-bit types and f32 are summed in f32.
class Products {
public:
  static Status create(bool tf32, int64_t workspaceBytes, int multiProcessors, Products &products);

  /// Sets the measured choices before the first product.
  void choose(DenseChoices measured) { choices = std::move(measured); }
  /// Selects one of cuBLASLt's proposals for all next products, from 1, or the last if there are fewer. With 0,
  /// products take the measured algorithm, or the first proposal.
  void propose(int64_t number);
  /// Describes the algorithm of a product whose operands are aligned to 256 bytes. Empty if cuBLASLt has none.
  Status describe(const ProductShape &shape, std::string &algorithm);

  Status multiply(StreamContext &stream, const ProductShape &shape, const void *a, const void *b, void *c);
  /// Computes all members in one call. `model` has their common properties.
  Status multiplyGroup(StreamContext &stream, const ProductShape &model, const std::vector<GroupMember> &members);
  /// Computes each member in a call of its own, in turn on `streams` streams. `stream` is the first of them and waits
  /// for the others.
  Status multiplyOneByOne(StreamContext &stream, const ProductShape &model, const std::vector<GroupMember> &members,
                          int64_t streams);

private:
  /// A product, with what the choice of an algorithm also depends on.
  struct Key {
    ProductShape shape;
    uint32_t alignments[3];
    int leftProcessors = 0; ///< multiprocessors that it does not use
    auto operator<=>(const Key &) const = default;
  };
  /// cuBLASLt's description of a product.
  struct Plan {
    Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> desc;
    Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a, b, c;
    cublasLtMatmulAlgo_t algo;
    size_t workspaceBytes = 0;
    bool hasAlgorithm = false; ///< false: cuBLAS multiplies, which takes any alignment
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
  int multiProcessors = 0;
  Owned<cublasLtHandle_t, cublasLtDestroy> lt;
  Owned<cublasHandle_t, cublasDestroy> blas;
  std::unique_ptr<std::mutex> mutex; ///< guards the plans, and `blas`, which has a stream
  std::map<Key, std::shared_ptr<const Plan>> plans;
  DenseChoices choices;
  int64_t proposal = 0;   ///< number of cuBLASLt's proposal for all products, or 0
  bool hasWarned = false; ///< has warned of a measured choice that cannot be used
};

} // namespace moert::cuda

#endif // MOERT_CUDA_GEMM_H
