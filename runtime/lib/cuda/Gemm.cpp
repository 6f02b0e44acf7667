//===- Gemm.cpp - matrix products by cuBLAS -------------------------------===//
//
// cuBLAS is column-major: to it, a row-major matrix is its transpose. So c^T = op(b)^T op(a)^T is what it is asked for,
// with the operands in the other order and the transposes as they are.
//
//===----------------------------------------------------------------------===//
#include "cuda/Gemm.h"

#include "cuda/Context.h"

#include <climits>

namespace moert::cuda {

static Status check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  const int32_t code = status == CUBLAS_STATUS_ALLOC_FAILED ? MOERT_ERROR_OUT_OF_MEMORY : MOERT_ERROR_INTERNAL;
  return Status::error(code, std::string(what) + ": " + cublasGetStatusString(status));
}

static cudaDataType_t dataType(int32_t dtype) {
  switch (dtype) {
  case MOERT_F64:
    return CUDA_R_64F;
  case MOERT_BF16:
    return CUDA_R_16BF;
  case MOERT_F16:
    return CUDA_R_16F;
  default:
    return CUDA_R_32F;
  }
}

/// A factor of a product in the type that its sums have.
class Scalar {
public:
  Scalar(int32_t dtype, double value) : wide(value), narrow(static_cast<float>(value)), isWide(dtype == MOERT_F64) {}
  const void *data() const { return isWide ? static_cast<const void *>(&wide) : &narrow; }

private:
  double wide;
  float narrow;
  bool isWide;
};

Status Products::create(bool tf32, int64_t workspaceBytes, Products &products) {
  products.tf32 = tf32;
  products.workspaceBytes = workspaceBytes;
  products.mutex = std::make_unique<std::mutex>();
  cublasLtHandle_t lt = nullptr;
  MOERT_RETURN_IF_ERROR(check(cublasLtCreate(&lt), "cannot start cuBLASLt"));
  products.lt.reset(lt);
  cublasHandle_t blas = nullptr;
  MOERT_RETURN_IF_ERROR(check(cublasCreate(&blas), "cannot start cuBLAS"));
  products.blas.reset(blas);
  return {};
}

cublasComputeType_t Products::computeType(int32_t dtype) const {
  if (dtype == MOERT_F64)
    return CUBLAS_COMPUTE_64F;
  return dtype == MOERT_F32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// --- Plans -------------------------------------------------------------------

/// The layout of a row-major matrix of `rows` and `columns`, which to cuBLAS has so many columns and rows.
static Status makeLayout(const ProductShape &shape, int64_t rows, int64_t columns, cublasLtMatrixLayout_t &layout) {
  MOERT_RETURN_IF_ERROR(check(cublasLtMatrixLayoutCreate(&layout, dataType(shape.dtype), static_cast<uint64_t>(columns),
                                                         static_cast<uint64_t>(rows), columns),
                              "cannot describe a matrix"));
  if (shape.batches == 1)
    return {};
  const auto batches = static_cast<int32_t>(shape.batches);
  const int64_t stride = rows * columns;
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof(batches)),
            "cannot describe a batch of matrices"));
  return check(
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
      "cannot describe a batch of matrices");
}

/// Owned even where it could not be completed.
template <class Layout>
static Status makeLayout(const ProductShape &shape, bool transpose, int64_t rows, int64_t columns, Layout &owned) {
  cublasLtMatrixLayout_t layout = nullptr;
  Status status = makeLayout(shape, transpose ? columns : rows, transpose ? rows : columns, layout);
  owned.reset(layout);
  return status;
}

Status Products::makePlan(const Key &key, Plan &plan) const {
  const ProductShape &shape = key.shape;
  const cudaDataType_t scale = shape.dtype == MOERT_F64 ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t desc = nullptr;
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatmulDescCreate(&desc, computeType(shape.dtype), scale), "cannot describe a matrix product"));
  plan.desc.reset(desc);
  const int32_t first = shape.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N,
                second = shape.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  MOERT_RETURN_IF_ERROR(check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)),
                              "cannot describe a matrix product"));
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)),
            "cannot describe a matrix product"));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, shape.transposeA, shape.m, shape.k, plan.a));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, shape.transposeB, shape.k, shape.n, plan.b));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, false, shape.m, shape.n, plan.c));
  return chooseAlgorithm(key, plan);
}

Status Products::chooseAlgorithm(const Key &key, Plan &plan) const {
  cublasLtMatmulPreference_t created = nullptr;
  MOERT_RETURN_IF_ERROR(check(cublasLtMatmulPreferenceCreate(&created), "cannot choose a matrix product's algorithm"));
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(created);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
                 "cannot choose a matrix product's algorithm");
  };
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspaceBytes)));
  // Partial sums are added in the type of sums: 16 bits would lose what summing in f32 is for.
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                            uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[2]));
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatmulAlgoGetHeuristic(lt.get(), plan.desc.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                           plan.c.get(), preference.get(), 1, &result, &count),
            "cannot choose a matrix product's algorithm"));
  if (count == 0)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "cuBLASLt has no algorithm for this matrix product");
  plan.algo = result.algo;
  plan.workspaceBytes = result.workspaceSize;
  return {};
}

Status Products::planFor(const Key &key, std::shared_ptr<const Plan> &plan) {
  // Ragged products have ever new shapes.
  constexpr size_t kMost = 4096;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (auto found = plans.find(key); found != plans.end()) {
    plan = found->second;
    return {};
  }
  auto made = std::make_shared<Plan>();
  MOERT_RETURN_IF_ERROR(makePlan(key, *made));
  if (plans.size() >= kMost)
    plans.clear();
  plan = plans[key] = std::move(made);
  return {};
}

// --- Products ----------------------------------------------------------------

/// The largest power of two up to 256 that divides an address.
static uint32_t alignmentOf(const void *data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & ~(address - 1));
}

Status Products::multiply(StreamContext &stream, const ProductShape &shape, const void *a, const void *b, void *c) {
  if (shape.m == 0 || shape.n == 0 || shape.batches == 0)
    return {};
  if (shape.k == 0) {
    const int64_t bytes = shape.batches * shape.m * shape.n * static_cast<int64_t>(dtypeSize(shape.dtype));
    return shape.accumulate ? Status()
                            : check(cudaMemsetAsync(c, 0, static_cast<size_t>(bytes), stream.stream),
                                    "cannot clear an empty matrix product");
  }
  std::shared_ptr<const Plan> plan;
  MOERT_RETURN_IF_ERROR(planFor({shape, {alignmentOf(a), alignmentOf(b), alignmentOf(c)}}, plan));
  void *workspace = nullptr;
  MOERT_RETURN_IF_ERROR(stream.productWorkspace.reserve(static_cast<int64_t>(plan->workspaceBytes), workspace));
  const Scalar alpha(shape.dtype, 1), beta(shape.dtype, shape.accumulate ? 1 : 0);
  return check(cublasLtMatmul(lt.get(), plan->desc.get(), alpha.data(), b, plan->b.get(), a, plan->a.get(), beta.data(),
                              c, plan->c.get(), c, plan->c.get(), &plan->algo, workspace, plan->workspaceBytes,
                              stream.stream),
               "a matrix product failed");
}

Status Products::multiplyOneByOne(StreamContext &stream, const ProductShape &model,
                                  const std::vector<GroupMember> &members) {
  ProductShape shape = model;
  for (const GroupMember &member : members) {
    shape.m = member.m;
    shape.n = member.n;
    shape.k = member.k;
    MOERT_RETURN_IF_ERROR(multiply(stream, shape, member.a, member.b, member.c));
  }
  return {};
}

/// The arguments of a grouped product, each member a group of its own.
struct Products::Groups {
  std::vector<cublasOperation_t> first, second;
  std::vector<int> m, n, k, leadingFirst, leadingSecond, leadingC, sizes;
  std::vector<float> alpha, beta;

  Groups(const ProductShape &model, const std::vector<GroupMember> &members) {
    const size_t count = members.size();
    first.assign(count, model.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N);
    second.assign(count, model.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N);
    sizes.assign(count, 1);
    alpha.assign(count, 1.0f);
    beta.assign(count, model.accumulate ? 1.0f : 0.0f);
    for (const GroupMember &member : members) {
      m.push_back(static_cast<int>(member.n));
      n.push_back(static_cast<int>(member.m));
      k.push_back(static_cast<int>(member.k));
      leadingFirst.push_back(static_cast<int>(model.transposeB ? member.k : member.n));
      leadingSecond.push_back(static_cast<int>(model.transposeA ? member.m : member.k));
      leadingC.push_back(static_cast<int>(member.n));
    }
  }
};

namespace {

/// Products of nothing are zeros, which cuBLAS does not promise; and where matrices are not aligned to 16 bytes it does
/// not promise to access them rightly.
bool canGroup(const GroupMember &member) {
  const uint32_t alignment = std::min({alignmentOf(member.a), alignmentOf(member.b), alignmentOf(member.c)});
  return member.k > 0 && std::max({member.m, member.n, member.k}) <= INT_MAX && alignment >= 16;
}

/// The addresses of the first operands, the second ones and the results, in the device's memory.
Status copyPointers(StreamContext &stream, const std::vector<GroupMember> &members, const void **&pointers) {
  const size_t count = members.size();
  const void **host = nullptr;
  MOERT_RETURN_IF_ERROR(stream.operands.reserve(static_cast<int64_t>(3 * count), host));
  MOERT_RETURN_IF_ERROR(stream.workspace.reserve(static_cast<int64_t>(3 * count), pointers));
  for (size_t i = 0; i < count; ++i) {
    host[i] = members[i].b;
    host[count + i] = members[i].a;
    host[2 * count + i] = members[i].c;
  }
  MOERT_RETURN_IF_ERROR(
      check(cudaMemcpyAsync(pointers, host, 3 * count * sizeof(*host), cudaMemcpyHostToDevice, stream.stream),
            "cannot copy the operands of a grouped product"));
  return stream.operands.noteCopied(stream.stream);
}

} // namespace

Status Products::multiplyGroup(StreamContext &stream, const ProductShape &model,
                               const std::vector<GroupMember> &members) {
  // cuBLAS has no such product of f64.
  if (members.size() < 2 || model.dtype == MOERT_F64 || !std::all_of(members.begin(), members.end(), canGroup))
    return multiplyOneByOne(stream, model, members);
  const void **pointers = nullptr;
  void *workspace = nullptr;
  MOERT_RETURN_IF_ERROR(copyPointers(stream, members, pointers));
  MOERT_RETURN_IF_ERROR(stream.productWorkspace.reserve(workspaceBytes, workspace));
  const Groups groups(model, members);
  const cublasStatus_t status = startGroup(stream, groups, model.dtype, pointers, workspace);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    return multiplyOneByOne(stream, model, members);
  return check(status, "a grouped matrix product failed");
}

cublasStatus_t Products::startGroup(StreamContext &stream, const Groups &groups, int32_t dtype, const void **pointers,
                                    void *workspace) {
  const std::lock_guard<std::mutex> lock(*mutex);
  // A new stream takes the workspace away.
  if (cublasStatus_t status = cublasSetStream(blas.get(), stream.stream); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (cublasStatus_t status = cublasSetWorkspace(blas.get(), workspace, static_cast<size_t>(workspaceBytes));
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  const cudaDataType_t type = dataType(dtype);
  const size_t count = groups.sizes.size();
  return cublasGemmGroupedBatchedEx(
      blas.get(), groups.first.data(), groups.second.data(), groups.m.data(), groups.n.data(), groups.k.data(),
      groups.alpha.data(), pointers, type, groups.leadingFirst.data(), pointers + count, type,
      groups.leadingSecond.data(), groups.beta.data(), const_cast<void **>(pointers + 2 * count), type,
      groups.leadingC.data(), static_cast<int>(count), groups.sizes.data(), computeType(dtype));
}

} // namespace moert::cuda
