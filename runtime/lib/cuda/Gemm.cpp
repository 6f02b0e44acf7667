//===- Gemm.cpp - matrix products by cuBLAS -------------------------------===//
//
// Dense products by cuBLAS, which is column-major: it sees a row-major matrix as its transpose. These functions
// therefore ask for c^T = op(b)^T op(a)^T, with the operands exchanged and the transposes unchanged.
//
//===----------------------------------------------------------------------===//
#include "cuda/Gemm.h"

#include "cuda/Context.h"

#include <climits>
#include <cstring>
#include <iostream>
#include <utility>

namespace moert::cuda {

static Status check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  const int32_t code = status == CUBLAS_STATUS_ALLOC_FAILED ? MOERT_ERROR_OUT_OF_MEMORY : MOERT_ERROR_INTERNAL;
  return Status::error(code, what, ": ", cublasGetStatusString(status));
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

static cublasOperation_t operationOf(bool transposes) { return transposes ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// A factor of a product, in the type of the product's sums.
class Scalar {
public:
  Scalar(int32_t dtype, double value) : wide(value), narrow(static_cast<float>(value)), isWide(dtype == MOERT_F64) {}
  const void *data() const { return isWide ? static_cast<const void *>(&wide) : &narrow; }

private:
  double wide;
  float narrow;
  bool isWide;
};

Status Products::create(bool tf32, int64_t workspaceBytes, int multiProcessors, Products &products) {
  products.tf32 = tf32;
  products.workspaceBytes = workspaceBytes;
  products.multiProcessors = multiProcessors;
  products.mutex = std::make_unique<std::mutex>();
  MOERT_RETURN_IF_ERROR(check(cublasLtCreate(OutHandle(products.lt)), "cannot start cuBLASLt"));
  return check(cublasCreate(OutHandle(products.blas)), "cannot start cuBLAS");
}

void Products::propose(int64_t number) {
  const std::lock_guard<std::mutex> lock(*mutex);
  plans.clear();
  proposal = number;
}

cublasComputeType_t Products::computeType(int32_t dtype) const {
  if (dtype == MOERT_F64)
    return CUBLAS_COMPUTE_64F;
  return dtype == MOERT_F32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// --- Plans -------------------------------------------------------------------

/// Makes the layout of a row-major matrix of `rows` and `columns`, or the transpose. cuBLAS has the two numbers
/// exchanged.
template <class Layout>
static Status makeLayout(const ProductShape &shape, int32_t dtype, bool transpose, int64_t rows, int64_t columns,
                         Layout &layout) {
  if (transpose)
    std::swap(rows, columns);
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatrixLayoutCreate(OutHandle(layout), dataType(dtype), static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
            "cannot describe a matrix"));
  if (shape.batches == 1)
    return {};
  auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto &value) {
    return check(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof(value)),
                 "cannot describe a batch of matrices");
  };
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(shape.batches)));
  return set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
}

Status Products::makePlan(const Key &key, Plan &plan) {
  const ProductShape &shape = key.shape;
  const cudaDataType_t scale = shape.dtype == MOERT_F64 ? CUDA_R_64F : CUDA_R_32F;
  MOERT_RETURN_IF_ERROR(check(cublasLtMatmulDescCreate(OutHandle(plan.desc), computeType(shape.dtype), scale),
                              "cannot describe a matrix product"));
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    return check(cublasLtMatmulDescSetAttribute(plan.desc.get(), attribute, &value, sizeof(value)),
                 "cannot describe a matrix product");
  };
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operationOf(shape.transposeB)));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operationOf(shape.transposeA)));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, shape.dtype, shape.transposeA, shape.m, shape.k, plan.a));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, shape.dtype, shape.transposeB, shape.k, shape.n, plan.b));
  MOERT_RETURN_IF_ERROR(makeLayout(shape, shape.resultType(), false, shape.m, shape.n, plan.c));
  if (!takeMeasured(key, plan))
    MOERT_RETURN_IF_ERROR(chooseAlgorithm(key, plan));
  // The algorithm does not depend on this, so that a product rounds alike with and without a transfer.
  return key.leftProcessors > 0 ? set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, multiProcessors - key.leftProcessors)
                                : Status();
}

/// Alignment of the operands that were measured. Plans align their buffers the same.
constexpr uint32_t kMeasuredAlignment = 256;

/// Takes the algorithm of the table. Returns false if the table has none, or if the device or cuBLASLt refuses it.
bool Products::takeMeasured(const Key &key, Plan &plan) {
  const ProductAlgorithm *known = proposal == 0 ? choices.choose(key.shape) : nullptr;
  if (!known || *std::min_element(std::begin(key.alignments), std::end(key.alignments)) < kMeasuredAlignment)
    return false;
  static_assert(sizeof plan.algo == sizeof known->data);
  std::memcpy(&plan.algo, known->data.data(), sizeof plan.algo);
  cublasLtMatmulHeuristicResult_t result{};
  const bool isOfVersion = known->version == cublasLtGetVersion();
  plan.hasAlgorithm = isOfVersion &&
                      cublasLtMatmulAlgoCheck(lt.get(), plan.desc.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                              plan.c.get(), &plan.algo, &result) == CUBLAS_STATUS_SUCCESS &&
                      result.workspaceSize <= static_cast<size_t>(workspaceBytes);
  plan.workspaceBytes = result.workspaceSize;
  if (!plan.hasAlgorithm && !std::exchange(hasWarned, true))
    std::cerr << "moert: warning: the table of products (MOERT_PRODUCTS) has an algorithm of cuBLASLt " +
                     std::to_string(known->version) + " that " +
                     (isOfVersion ? "this device refuses"
                                  : "cuBLASLt " + std::to_string(cublasLtGetVersion()) + " does not know") +
                     ": cuBLASLt chooses itself; write the table again with moe-calibrate --products\n";
  return plan.hasAlgorithm;
}

Status Products::chooseAlgorithm(const Key &key, Plan &plan) const {
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  MOERT_RETURN_IF_ERROR(
      check(cublasLtMatmulPreferenceCreate(OutHandle(preference)), "cannot choose a matrix product's algorithm"));
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
                 "cannot choose a matrix product's algorithm");
  };
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspaceBytes)));
  // Partial sums are added in the type of sums. In 16 bits they would lose the precision of sums in f32.
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                            uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2]));
  MOERT_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[2]));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(std::max<int64_t>(proposal, 1)));
  int count = 0;
  const cublasStatus_t found =
      cublasLtMatmulAlgoGetHeuristic(lt.get(), plan.desc.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
                                     preference.get(), static_cast<int>(results.size()), results.data(), &count);
  if (found != CUBLAS_STATUS_NOT_SUPPORTED)
    MOERT_RETURN_IF_ERROR(check(found, "cannot choose a matrix product's algorithm"));
  plan.hasAlgorithm = count > 0;
  if (count == 0)
    return {};
  const cublasLtMatmulHeuristicResult_t &result = results[static_cast<size_t>(count) - 1];
  plan.algo = result.algo;
  plan.workspaceBytes = result.workspaceSize;
  return {};
}

Status Products::planFor(const Key &key, std::shared_ptr<const Plan> &plan) {
  // Limit of the cache. Ragged products have new shapes again and again.
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

Status Products::describe(const ProductShape &shape, std::string &algorithm) {
  std::shared_ptr<const Plan> plan;
  MOERT_RETURN_IF_ERROR(planFor({shape, {kMeasuredAlignment, kMeasuredAlignment, kMeasuredAlignment}}, plan));
  ProductAlgorithm described{cublasLtGetVersion(), {}};
  std::memcpy(described.data.data(), &plan->algo, sizeof plan->algo);
  algorithm = plan->hasAlgorithm ? described.text() : "";
  return {};
}

// --- Products ----------------------------------------------------------------

/// Largest power of two, up to 256, that divides an address.
static uint32_t alignmentOf(const void *data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & ~(address - 1));
}

Status Products::multiply(StreamContext &stream, const ProductShape &shape, const void *a, const void *b, void *c) {
  if (shape.m == 0 || shape.n == 0 || shape.batches == 0)
    return {};
  if (shape.k == 0) {
    const int64_t bytes = shape.batches * shape.m * shape.n * static_cast<int64_t>(dtypeSize(shape.resultType()));
    return shape.accumulate ? Status() : clearBytes(stream.stream, c, bytes, "cannot clear an empty matrix product");
  }
  std::shared_ptr<const Plan> plan;
  const Key key{shape, {alignmentOf(a), alignmentOf(b), alignmentOf(c)}, stream.leftProcessors};
  MOERT_RETURN_IF_ERROR(planFor(key, plan));
  if (!plan->hasAlgorithm)
    return multiplyByBlas(stream, shape, a, b, c);
  void *workspace = nullptr;
  MOERT_RETURN_IF_ERROR(stream.productWorkspace.reserve(static_cast<int64_t>(plan->workspaceBytes), workspace));
  const Scalar alpha(shape.dtype, 1), beta(shape.dtype, shape.accumulate ? 1 : 0);
  return check(cublasLtMatmul(lt.get(), plan->desc.get(), alpha.data(), b, plan->b.get(), a, plan->a.get(), beta.data(),
                              c, plan->c.get(), c, plan->c.get(), &plan->algo, workspace, plan->workspaceBytes,
                              stream.stream),
               "a matrix product failed");
}

cublasStatus_t Products::useBlas(StreamContext &stream, void *workspace) {
  // A new stream resets cuBLAS's workspace.
  if (cublasStatus_t status = cublasSetStream(blas.get(), stream.stream); status != CUBLAS_STATUS_SUCCESS)
    return status;
  return cublasSetWorkspace(blas.get(), workspace, static_cast<size_t>(workspaceBytes));
}

Status Products::multiplyByBlas(StreamContext &stream, const ProductShape &shape, const void *a, const void *b,
                                void *c) {
  if (std::max({shape.m, shape.n, shape.k, shape.batches}) > INT_MAX)
    return Status::error(MOERT_ERROR_UNSUPPORTED,
                         "cuBLASLt has no algorithm for a matrix product of more than 2^31 rows");
  void *workspace = nullptr;
  MOERT_RETURN_IF_ERROR(stream.productWorkspace.reserve(workspaceBytes, workspace));
  const Scalar alpha(shape.dtype, 1), beta(shape.dtype, shape.accumulate ? 1 : 0);
  const cudaDataType_t type = dataType(shape.dtype), resultType = dataType(shape.resultType());
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const std::lock_guard<std::mutex> lock(*mutex);
  MOERT_RETURN_IF_ERROR(check(useBlas(stream, workspace), "cannot start a matrix product"));
  return check(cublasGemmStridedBatchedEx(blas.get(), operationOf(shape.transposeB), operationOf(shape.transposeA), n,
                                          m, k, alpha.data(), b, type, shape.transposeB ? k : n, shape.k * shape.n, a,
                                          type, shape.transposeA ? m : k, shape.m * shape.k, beta.data(), c, resultType,
                                          n, shape.m * shape.n, static_cast<int>(shape.batches),
                                          computeType(shape.dtype), CUBLAS_GEMM_DEFAULT),
               "a matrix product failed");
}

// --- Several products --------------------------------------------------------

Status Products::multiplyOneByOne(StreamContext &stream, const ProductShape &model,
                                  const std::vector<GroupMember> &members, int64_t streams) {
  std::vector<StreamContext *> on{&stream};
  for (int64_t i = 1; i < std::min(streams, static_cast<int64_t>(members.size())); ++i) {
    MOERT_RETURN_IF_ERROR(stream.forkAt(static_cast<size_t>(i) - 1, on.emplace_back()));
    MOERT_RETURN_IF_ERROR(follow(on.back()->stream, stream.stream));
  }
  ProductShape shape = model;
  for (size_t i = 0; i < members.size(); ++i) {
    const GroupMember &member = members[i];
    shape.m = member.m;
    shape.n = member.n;
    shape.k = member.k;
    MOERT_RETURN_IF_ERROR(multiply(*on[i % on.size()], shape, member.a, member.b, member.c));
  }
  for (size_t i = 1; i < on.size(); ++i)
    MOERT_RETURN_IF_ERROR(follow(stream.stream, on[i]->stream));
  return {};
}

namespace {

/// Arguments of a grouped product. Each member is a group of its own.
template <class Number> struct Groups {
  std::vector<cublasOperation_t> first, second;
  std::vector<int> m, n, k, leadingFirst, leadingSecond, leadingC, sizes;
  std::vector<Number> alpha, beta;

  Groups(const ProductShape &model, const std::vector<GroupMember> &members) {
    const size_t count = members.size();
    first.assign(count, operationOf(model.transposeB));
    second.assign(count, operationOf(model.transposeA));
    sizes.assign(count, 1);
    alpha.assign(count, Number(1));
    beta.assign(count, Number(model.accumulate ? 1 : 0));
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

/// Whether cuBLAS can compute the member in a grouped call. It requires matrices and rows that are aligned to 16 bytes,
/// and does not promise zeros for empty products.
bool canGroup(const ProductShape &model, const GroupMember &member) {
  const uint32_t alignment = std::min({alignmentOf(member.a), alignmentOf(member.b), alignmentOf(member.c)});
  const int64_t pack = 16 / static_cast<int64_t>(dtypeSize(model.dtype));
  const int64_t ofA = model.transposeA ? member.m : member.k, ofB = model.transposeB ? member.k : member.n;
  return member.k > 0 && std::max({member.m, member.n, member.k}) <= INT_MAX && alignment >= 16 && ofA % pack == 0 &&
         ofB % pack == 0 && member.n % pack == 0;
}

/// Copies the addresses of the first operands, the second ones and the results to the device.
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
  // cuBLAS groups only products of one type.
  const bool isGroup =
      members.size() > 1 && !model.isWide &&
      std::all_of(members.begin(), members.end(), [&](const GroupMember &member) { return canGroup(model, member); });
  if (!isGroup)
    return multiplyOneByOne(stream, model, members, 1);
  const void **pointers = nullptr;
  void *workspace = nullptr;
  MOERT_RETURN_IF_ERROR(copyPointers(stream, members, pointers));
  MOERT_RETURN_IF_ERROR(stream.productWorkspace.reserve(workspaceBytes, workspace));
  cublasStatus_t status;
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    status = useBlas(stream, workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = startGroup(model, members, pointers);
  }
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    return multiplyOneByOne(stream, model, members, 1);
  return check(status, "a grouped matrix product failed");
}

cublasStatus_t Products::startGroup(const ProductShape &model, const std::vector<GroupMember> &members,
                                    const void **pointers) {
  const size_t count = members.size();
  if (model.dtype == MOERT_F64) {
    const Groups<double> groups(model, members);
    const auto *all = reinterpret_cast<const double *const *>(pointers);
    return cublasDgemmGroupedBatched(
        blas.get(), groups.first.data(), groups.second.data(), groups.m.data(), groups.n.data(), groups.k.data(),
        groups.alpha.data(), all, groups.leadingFirst.data(), all + count, groups.leadingSecond.data(),
        groups.beta.data(), reinterpret_cast<double *const *>(const_cast<void **>(pointers + 2 * count)),
        groups.leadingC.data(), static_cast<int>(count), groups.sizes.data());
  }
  const Groups<float> groups(model, members);
  const cudaDataType_t type = dataType(model.dtype);
  return cublasGemmGroupedBatchedEx(
      blas.get(), groups.first.data(), groups.second.data(), groups.m.data(), groups.n.data(), groups.k.data(),
      groups.alpha.data(), pointers, type, groups.leadingFirst.data(), pointers + count, type,
      groups.leadingSecond.data(), groups.beta.data(), const_cast<void **>(pointers + 2 * count), type,
      groups.leadingC.data(), static_cast<int>(count), groups.sizes.data(), computeType(model.dtype));
}

} // namespace moert::cuda
