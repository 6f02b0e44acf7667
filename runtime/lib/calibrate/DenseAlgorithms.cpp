//===- DenseAlgorithms.cpp - the fastest algorithms of dense products -----===//

#include "calibrate/DenseAlgorithms.h"
#include "core/Attributes.h"

#include <algorithm>

namespace moert::calibrate {
namespace {

/// Number of the library's proposals to measure.
constexpr int64_t kProposals = 5;

/// Columns and depth of products of all tokens.
struct Weights {
  int64_t n, k;
};
constexpr Weights kWeights[] = {
    {6144, 4096},  {4096, 4096},                 // attention of Mixtral 8x7B
    {5120, 2048},  {2048, 4096},                 // attention of Qwen3-30B-A3B
    {9216, 4096},  {4096, 8192},                 // attention of Qwen3-235B-A22B
    {24576, 1536}, {32768, 512}, {7168, 16384},  // attention of DeepSeek-V3
    {4096, 7168},  {7168, 2048}, {32000, 4096}}; // shared expert of DeepSeek-V3; a vocabulary

std::vector<DenseShape> allDenseShapes(const Settings &settings) {
  std::vector<DenseShape> shapes;
  const int64_t most = settings.device.raggedSize;
  auto add = [&](DenseShape shape) {
    for (int64_t *size : {&shape.m, &shape.n, &shape.k})
      *size = std::min(*size, most);
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
      shapes.push_back(shape);
  };
  const std::vector<int64_t> tokens = settings.quick ? std::vector<int64_t>{4096} : std::vector<int64_t>{4096, 16384};
  for (auto [n, k] : kWeights)
    for (int64_t rows : tokens) {
      add({rows, n, k});
      add({rows, k, n, false, true});
      add({k, n, rows, true, false});
    }
  return shapes;
}

Call makeDenseCall(Pool &pool, const DenseShape &shape) {
  const auto [m, n, k, transposeA, transposeB] = shape;
  pool.beginCall();
  Call call;
  call.kind = Kind::Matmul;
  call.viewCount = 3;
  attributes::Matmul{.transposeA = transposeA, .transposeB = transposeB}.set(call);
  call.views = {transposeA ? pool.input({k, m}) : pool.input({m, k}),
                transposeB ? pool.input({n, k}) : pool.input({k, n}), pool.output({m, n})};
  return call;
}

int64_t bytesOf(const DenseShape &shape, int32_t dtype) {
  constexpr int64_t kAlignment = 256, kOperands = 2;
  const int64_t elements = std::max((shape.m + shape.n) * shape.k, shape.m * shape.n);
  return elements * static_cast<int64_t>(dtypeSize(dtype)) + kOperands * kAlignment;
}

/// Measures the products of the pool's type by the proposal of the ranks. Sets `isNew` if that is a new algorithm for
/// any of them.
Status measureAlgorithms(Pool &pool, Device &device, int passes, std::vector<MeasuredDense> &products, bool &isNew) {
  for (MeasuredDense &product : products) {
    if (product.dtype != pool.type())
      continue;
    std::string name;
    MOERT_RETURN_IF_ERROR(device.describeAlgorithm(makeDenseCall(pool, product.shape), name));
    auto isKnown = [&](const MeasuredDense::Algorithm &known) { return known.name == name; };
    if (name.empty() || std::any_of(product.algorithms.begin(), product.algorithms.end(), isKnown))
      continue;
    isNew = true;
    Progress silent(nullptr, "", 1);
    std::vector<double> seconds;
    const MakeCall make = [&] { return makeDenseCall(pool, product.shape); };
    MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), {make}, passes, silent, seconds));
    product.algorithms.push_back({name, seconds[0]});
  }
  return {};
}

Status measureProposal(const Settings &settings, int64_t proposal, int64_t callBytes,
                       std::vector<MeasuredDense> &products, bool &isNew) {
  RanksOptions options;
  options.backend = settings.backend;
  options.arenaBytes = settings.device.arenaBytes;
  options.denseProposal = proposal;
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create(options, ranks));
  return measureTypes(settings, *ranks, callBytes, [&](Pool &pool) {
    return measureAlgorithms(pool, ranks->device(), settings.quick ? 2 : 5, products, isNew);
  });
}

} // namespace

Status measureTypes(const Settings &settings, Ranks &ranks, int64_t callBytes,
                    const std::function<Status(Pool &)> &measure) {
  std::unique_ptr<DeviceBench> bench;
  const DeviceSizes &sizes = settings.device;
  MOERT_RETURN_IF_ERROR(DeviceBench::create(ranks, sizes.arenaBytes, sizes.coldBytes, bench, callBytes));
  Pool pool;
  for (int32_t dtype : kTableTypes) {
    MOERT_RETURN_IF_ERROR(pool.create(*bench, dtype));
    MOERT_RETURN_IF_ERROR(measure(pool));
  }
  return {};
}

const MeasuredDense::Algorithm &MeasuredDense::fastest() const {
  return *std::min_element(algorithms.begin(), algorithms.end(),
                           [](const Algorithm &a, const Algorithm &b) { return a.seconds < b.seconds; });
}

Status calibrateDense(const Settings &settings, std::vector<MeasuredDense> &products) {
  products.clear();
  int64_t callBytes = settings.device.coldBytes;
  for (int32_t dtype : kTableTypes)
    for (const DenseShape &shape : allDenseShapes(settings)) {
      products.push_back({shape, dtype, {}});
      callBytes = std::max(callBytes, bytesOf(shape, dtype));
    }
  Progress progress(settings.progress, "dense products", kProposals);
  bool isNew = true;
  for (int64_t proposal = 1; proposal <= kProposals && isNew; ++proposal) {
    isNew = false;
    MOERT_RETURN_IF_ERROR(measureProposal(settings, proposal, callBytes, products, isNew));
    progress.step();
  }
  std::erase_if(products, [](const MeasuredDense &product) { return product.algorithms.empty(); });
  return {};
}

} // namespace moert::calibrate
