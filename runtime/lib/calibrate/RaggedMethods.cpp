//===- RaggedMethods.cpp - the fastest methods of products of experts -----===//

#include "calibrate/RaggedMethods.h"
#include "calibrate/JsonText.h"

#include <algorithm>
#include <cstdlib>

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

constexpr int64_t kTableVersion = 1;

/// Sizes of a layer with a gate. Its first product has the columns of the gate beside its own.
struct Layer {
  int64_t experts, hidden, inner;
};
constexpr Layer kLayers[] = {{8, 4096, 14336},  // Mixtral 8x7B
                             {128, 2048, 768},  // Qwen3-30B-A3B
                             {16, 4096, 1536},  // Qwen3-235B-A22B, on one of eight ranks
                             {32, 7168, 2048}}; // DeepSeek-V3, likewise
/// Most rows, above which they would take more memory than anything else.
constexpr int64_t kMostRows = int64_t(1) << 16;

/// Adds a shape cut to `most`, unless it is there.
void addShape(std::vector<RaggedShape> &shapes, RaggedShape shape, int64_t most) {
  shape.experts = std::min(shape.experts, std::max<int64_t>(most / 8, 1));
  for (int64_t *size : {&shape.rows, &shape.n, &shape.k})
    *size = std::min(*size, most);
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
    shapes.push_back(shape);
}

std::vector<RaggedShape> allShapes(const Settings &settings) {
  std::vector<RaggedShape> shapes;
  const std::vector<int64_t> rows = settings.quick ? std::vector<int64_t>{256} : std::vector<int64_t>{32, 256, 2048};
  for (const Layer &layer : kLayers)
    for (bool isSecond : {false, true}) {
      if (isSecond && settings.quick)
        continue;
      const int64_t n = isSecond ? layer.hidden : 2 * layer.inner, k = isSecond ? layer.inner : layer.hidden;
      for (int64_t each : rows)
        if (layer.experts * each <= kMostRows)
          for (const RaggedShape &shape : {RaggedShape{false, false, layer.experts, each, n, k},
                                           RaggedShape{false, true, layer.experts, each, k, n},
                                           RaggedShape{true, false, layer.experts, each, n, k}})
            addShape(shapes, shape, settings.device.raggedSize);
    }
  return shapes;
}

/// Creates ranks that take all products by `method`.
Status createRanks(const Settings &settings, const std::string &method, std::unique_ptr<Ranks> &ranks) {
  RanksOptions options;
  options.backend = settings.backend;
  options.arenaBytes = settings.device.arenaBytes;
  options.raggedMethod = method;
  return Ranks::create(options, ranks);
}

/// Measures the products of one type by one method, if it can compute them.
Status measureMethods(Pool &pool, const Settings &settings, const std::string &method, Progress &progress,
                      MethodTable &table) {
  RaggedCounts counts(pool.bench());
  const int passes = settings.quick ? 2 : 5;
  for (MeasuredProduct &product : table.products) {
    if (product.dtype != pool.type())
      continue;
    std::vector<MakeCall> calls;
    for (bool isSkewed : {false, true}) {
      View view;
      MOERT_RETURN_IF_ERROR(counts.find(product.shape.experts, product.shape.rows, isSkewed, view));
      calls.push_back([&pool, &product, view] { return makeRagged(pool, product.shape, view); });
    }
    Progress silent(nullptr, "", 1);
    std::vector<double> seconds;
    Status status = measureKernels(pool.bench(), calls, passes, silent, seconds);
    progress.step();
    if (status.ok())
      product.methods.push_back({method, std::move(seconds)});
    else if (status.code != MOERT_ERROR_UNSUPPORTED)
      return status;
  }
  return {};
}

/// Measures a method on ranks of their own.
Status measureMethod(const Settings &settings, const std::string &method, int64_t callBytes, Progress &progress,
                     MethodTable &table) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(createRanks(settings, method, ranks));
  return measureTypes(settings, *ranks, callBytes,
                      [&](Pool &pool) { return measureMethods(pool, settings, method, progress, table); });
}

/// Fills in the table's device, and finds the methods to measure.
Status describe(const Settings &settings, MethodTable &table, std::vector<std::string> &methods) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(createRanks(settings, "", ranks));
  methods = ranks->device().raggedMethods();
  int64_t bytes = 0;
  table.device = "GPU";
  MOERT_RETURN_IF_ERROR(ranks->device().describe(table.device, bytes));
  table.source = measuredOn(settings, table.device);
  return {};
}

json productJson(const MeasuredProduct &product) {
  const RaggedShape &shape = product.shape;
  json entry = {{"pass", shape.isWeightGradient ? "weight_gradient" : "forward"},
                {"transposed", shape.transposed},
                {"dtype", dtypeName(product.dtype)},
                {"experts", shape.experts},
                {"rows", shape.experts * shape.rows},
                {"n", shape.n},
                {"k", shape.k},
                {"method", product.fastest().name}};
  for (const MeasuredProduct::Method &method : product.methods)
    entry["seconds"][method.name] = roundedNumbers(method.seconds);
  return entry;
}

json denseJson(const MeasuredDense &product) {
  const auto [m, n, k, transposeA, transposeB] = product.shape;
  json entry = {{"dtype", dtypeName(product.dtype)},
                {"transpose_a", transposeA},
                {"transpose_b", transposeB},
                {"m", m},
                {"n", n},
                {"k", k},
                {"algorithm", product.fastest().name}};
  std::vector<double> seconds;
  for (const MeasuredDense::Algorithm &algorithm : product.algorithms)
    seconds.push_back(algorithm.seconds);
  entry["seconds"] = roundedNumbers(seconds);
  return entry;
}

} // namespace

const MeasuredProduct::Method &MeasuredProduct::fastest() const {
  auto sum = [](const Method &method) {
    double seconds = 0;
    for (double one : method.seconds)
      seconds += one;
    return seconds;
  };
  return *std::min_element(methods.begin(), methods.end(),
                           [&](const Method &a, const Method &b) { return sum(a) < sum(b); });
}

Status calibrateMethods(const Settings &settings, MethodTable &table) {
  std::vector<std::string> methods;
  MOERT_RETURN_IF_ERROR(describe(settings, table, methods));
  int64_t callBytes = settings.device.coldBytes;
  for (int32_t dtype : kTableTypes)
    for (const RaggedShape &shape : allShapes(settings)) {
      table.products.push_back({shape, dtype, {}});
      callBytes = std::max(callBytes, bytesOf(shape, dtype));
    }
  Progress progress(settings.progress, "products of experts", table.products.size() * methods.size());
  for (const std::string &method : methods)
    MOERT_RETURN_IF_ERROR(measureMethod(settings, method, callBytes, progress, table));
  for (const MeasuredProduct &product : table.products)
    if (product.methods.empty())
      return Status::error(MOERT_ERROR_INTERNAL, "expected a method that computes products of experts in " +
                                                     std::string(dtypeName(product.dtype)) + ", but none can");
  return calibrateDense(settings, table.dense);
}

void writeMethods(const MethodTable &table, std::ostream &out) {
  json choices = json::array(), dense = json::array();
  for (const MeasuredProduct &product : table.products)
    choices.push_back(productJson(product));
  for (const MeasuredDense &product : table.dense)
    dense.push_back(denseJson(product));
  printJson({{"moert_products", kTableVersion},
             {"device", table.device},
             {"source", table.source},
             {"choices", choices},
             {"dense", dense}},
            out);
}

} // namespace moert::calibrate
