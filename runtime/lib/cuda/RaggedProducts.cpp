//===- RaggedProducts.cpp - the products of experts whose rows vary -------===//

#include "cuda/RaggedProducts.h"

#include "cuda/Ragged.cuh"

namespace moert::cuda {

/// Tile of a method of CUTLASS. Empty for the other methods.
static std::optional<Tile> tileOf(RaggedMethod method) {
  for (Tile tile : kTiles)
    if (methodOf(tile) == method)
      return tile;
  return std::nullopt;
}

/// Whether the method reads the rows of experts on the device, so that the host need not wait.
static bool isOfDevice(RaggedMethod method) { return method == RaggedMethod::Tiles || tileOf(method); }

bool canCompute(RaggedMethod method, const Target &target, const RaggedProduct &product) {
  if (method == RaggedMethod::Tiles)
    return canUseTiles(product);
  if (tileOf(method))
    return canUseCutlass(target, product);
  // The host must read the offsets, which is impossible in a graph.
  return !target.stream.isCapturing;
}

// --- Methods of the host -----------------------------------------------------

/// Lists the products of all experts that have rows, and clears the results of the others if needed.
static Status listMembers(const Target &target, const RaggedProduct &product, const ProductShape &model, View counts,
                          std::vector<GroupMember> &members) {
  std::vector<int64_t> offsets;
  MOERT_RETURN_IF_ERROR(readExpertOffsets(target, counts, product.rows, offsets));
  const int64_t n = product.n, k = product.k, weights = k * n;
  auto from = [&](const void *data, int64_t count) {
    return static_cast<const char *>(data) + count * static_cast<int64_t>(dtypeSize(product.dtype));
  };
  auto result = [&](int64_t count) {
    return static_cast<char *>(product.c) + count * static_cast<int64_t>(dtypeSize(product.resultType()));
  };
  for (int64_t e = 0; e < product.experts; ++e) {
    const int64_t first = offsets[static_cast<size_t>(e)], rows = offsets[static_cast<size_t>(e) + 1] - first;
    const GroupMember member =
        product.isWeightGradient()
            ? GroupMember{k, n, rows, from(product.a, first * k), from(product.b, first * n), result(e * weights)}
            : GroupMember{rows, n, k, from(product.a, first * k), from(product.b, e * weights), result(first * n)};
    if (member.m > 0 && member.n > 0 && member.k > 0) {
      members.push_back(member);
      continue;
    }
    ProductShape empty = model;
    empty.m = member.m;
    empty.n = member.n;
    MOERT_RETURN_IF_ERROR(target.device.products.multiply(target.stream, empty, member.a, member.b, member.c));
  }
  return {};
}

static Status multiplyByCublas(const Target &target, RaggedMethod method, const RaggedProduct &product, View counts) {
  ProductShape model{product.dtype, 0, 0, 0, product.isWeightGradient(), product.transposeB, product.accumulate};
  model.isWide = product.isWide;
  std::vector<GroupMember> members;
  MOERT_RETURN_IF_ERROR(listMembers(target, product, model, counts, members));
  if (method == RaggedMethod::CublasGrouped)
    return target.device.products.multiplyGroup(target.stream, model, members);
  const int64_t streams = method == RaggedMethod::CublasLt1 ? 1 : method == RaggedMethod::CublasLt2 ? 2 : 4;
  return target.device.products.multiplyOneByOne(target.stream, model, members, streams);
}

// --- Choice ------------------------------------------------------------------

Status multiplyRagged(const Target &target, RaggedMethod method, const RaggedProduct &product, View counts) {
  if (!canCompute(method, target, product))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "method '", methodName(method),
                         "' cannot compute this ragged product");
  const bool isEmpty =
      product.experts == 0 || product.n == 0 || (product.isWeightGradient() ? product.k : product.rows) == 0;
  if (isEmpty)
    return {};
  if (const std::optional<Tile> tile = tileOf(method))
    return multiplyByCutlass(target, product, counts, *tile);
  if (method != RaggedMethod::Tiles)
    return multiplyByCublas(target, method, product, counts);
  const int64_t *offsets = nullptr;
  MOERT_RETURN_IF_ERROR(expertOffsets(target, counts, product.rows, offsets));
  return multiplyByTiles(target, product, offsets);
}

/// First method that can compute the product. Methods that read offsets on the device come first, so that the host need
/// not wait.
static std::optional<RaggedMethod> firstMethod(const RaggedProduct &product, int capability,
                                               const RaggedChoices::CanCompute &can) {
  for (RaggedMethod method :
       {methodOf(chooseTile(product, capability)), RaggedMethod::Tiles, RaggedMethod::CublasGrouped})
    if (can(method))
      return method;
  return std::nullopt;
}

std::string describeOwnKernels(const DeviceContext &device) {
  const bool hasCutlass = hasCutlassFor(device), hasCudnn = isCudnnFor(device);
  if (hasCutlass && hasCudnn)
    return "";
  const std::string calls = hasCudnn     ? "the experts' products"
                            : hasCutlass ? "attention"
                                         : "the experts' products and attention";
  const std::string libraries = hasCudnn ? "CUTLASS" : hasCutlass ? "cuDNN" : "CUTLASS and no cuDNN";
  return "MoePlan's own kernels compute " + calls + ", because this build has no " + libraries +
         " for compute capability " + std::to_string(device.capability / 10) + "." +
         std::to_string(device.capability % 10);
}

static std::optional<RaggedMethod> chooseMethod(const Target &target, const RaggedProduct &product,
                                                const RaggedChoices::CanCompute &can) {
  const std::optional<RaggedMethod> measured = target.device.choices.choose(product, can);
  return measured ? measured : firstMethod(product, target.device.capability, can);
}

Status multiplyRagged(const Target &target, const RaggedProduct &product, View counts) {
  auto can = [&](RaggedMethod method) { return canCompute(method, target, product); };
  // A graph cannot wait for the host. All steps compute by the same method, so the first one chooses as the graph will.
  auto canInGraph = [&](RaggedMethod method) { return isOfDevice(method) && can(method); };
  std::optional<RaggedMethod> method = target.device.forcedMethod;
  if (!method && target.stream.isForGraph)
    method = chooseMethod(target, product, canInGraph);
  if (!method)
    method = chooseMethod(target, product, can);
  return method ? multiplyRagged(target, *method, product, counts) : target.stream.checkMayWait();
}

} // namespace moert::cuda
