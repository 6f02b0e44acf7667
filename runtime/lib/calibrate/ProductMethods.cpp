//===- ProductMethods.cpp - the fastest methods of products ---------------===//

#include "calibrate/ProductMethods.h"
#include "calibrate/JsonText.h"

#include <algorithm>
#include <numeric>

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

constexpr int64_t kTableVersion = 1;
/// Types of the table's products.
constexpr int32_t kTypes[] = {MOERT_BF16, MOERT_F16};

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

/// Number of the library's proposals of dense algorithms to measure.
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

/// Adds a shape unless it is there, after it has cut `sizes` of it to `most`.
template <class Shape>
void addShape(std::vector<Shape> &shapes, int64_t most, std::initializer_list<int64_t Shape::*> sizes, Shape shape) {
  for (int64_t Shape::*size : sizes)
    shape.*size = std::min(shape.*size, most);
  if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
    shapes.push_back(shape);
}

std::vector<RaggedShape> raggedShapes(const Settings &settings) {
  std::vector<RaggedShape> shapes;
  const int64_t most = settings.device.raggedSize;
  const std::vector<int64_t> rows = settings.quick ? std::vector<int64_t>{256} : std::vector<int64_t>{32, 256, 2048};
  for (const Layer &layer : kLayers)
    for (bool isSecond : {false, true}) {
      if (isSecond && settings.quick)
        continue;
      const int64_t n = isSecond ? layer.hidden : 2 * layer.inner, k = isSecond ? layer.inner : layer.hidden;
      const int64_t experts = std::min(layer.experts, std::max<int64_t>(most / 8, 1));
      for (int64_t each : rows)
        if (layer.experts * each <= kMostRows)
          for (const RaggedShape &shape :
               {RaggedShape{false, false, experts, each, n, k}, RaggedShape{false, true, experts, each, k, n},
                RaggedShape{true, false, experts, each, n, k}})
            addShape(shapes, most, {&RaggedShape::rows, &RaggedShape::n, &RaggedShape::k}, shape);
    }
  return shapes;
}

std::vector<DenseShape> denseShapes(const Settings &settings) {
  std::vector<DenseShape> shapes;
  const std::vector<int64_t> tokens = settings.quick ? std::vector<int64_t>{4096} : std::vector<int64_t>{4096, 16384};
  for (auto [n, k] : kWeights)
    for (int64_t rows : tokens)
      for (const DenseShape &shape :
           {DenseShape{rows, n, k}, DenseShape{rows, k, n, false, true}, DenseShape{k, n, rows, true, false}})
        addShape(shapes, settings.device.raggedSize, {&DenseShape::m, &DenseShape::n, &DenseShape::k}, shape);
  return shapes;
}

/// Adds products of both types. Returns the most bytes of a call.
template <class Shape>
int64_t addProducts(const std::vector<Shape> &shapes, const Settings &settings,
                    std::vector<MeasuredProduct<Shape>> &products) {
  int64_t callBytes = settings.device.coldBytes;
  for (int32_t dtype : kTypes)
    for (const Shape &shape : shapes) {
      products.push_back({shape, dtype, {}});
      callBytes = std::max(callBytes, bytesOf(shape, dtype));
    }
  return callBytes;
}

/// Calls `measure` with a pool of each type, and with the device of ranks that compute by one method or proposal.
Status measureTypes(const Settings &settings, const RanksOptions &options, int64_t callBytes,
                    const std::function<Status(Pool &, Device &)> &measure) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create(options, ranks));
  std::unique_ptr<DeviceBench> bench;
  MOERT_RETURN_IF_ERROR(DeviceBench::create(*ranks, options.arenaBytes, settings.device.coldBytes, bench, callBytes));
  Pool pool;
  for (int32_t dtype : kTypes) {
    MOERT_RETURN_IF_ERROR(pool.create(*bench, dtype));
    MOERT_RETURN_IF_ERROR(measure(pool, ranks->device()));
  }
  return {};
}

/// Measures the products of one type by one method, if it can compute them.
Status measureRagged(Pool &pool, const Settings &settings, const std::string &method, Progress &progress,
                     std::vector<MeasuredProduct<RaggedShape>> &products) {
  RaggedCounts counts(pool.bench());
  for (auto &product : products) {
    if (product.dtype != pool.type())
      continue;
    std::vector<MakeCall> calls;
    for (bool isSkewed : {false, true}) {
      View view;
      MOERT_RETURN_IF_ERROR(counts.find(product.shape.experts, product.shape.rows, isSkewed, view));
      calls.push_back([&pool, &product, view] { return makeRagged(pool, product.shape, view); });
    }
    std::vector<double> seconds;
    Status status = measureKernels(pool.bench(), calls, settings.quick ? 2 : 5, seconds);
    progress.step();
    if (status.ok())
      product.methods.push_back({method, std::move(seconds)});
    else if (status.code != MOERT_ERROR_UNSUPPORTED)
      return status;
  }
  return {};
}

/// Measures the products of one type by one proposal. Sets `isNew` if that is a new algorithm for any of them.
Status measureDense(Pool &pool, Device &device, const Settings &settings,
                    std::vector<MeasuredProduct<DenseShape>> &products, bool &isNew) {
  for (auto &product : products) {
    if (product.dtype != pool.type())
      continue;
    std::string name;
    MOERT_RETURN_IF_ERROR(device.describeAlgorithm(makeDense(pool, product.shape), name));
    auto isKnown = [&](const MeasuredMethod &known) { return known.name == name; };
    if (name.empty() || std::any_of(product.methods.begin(), product.methods.end(), isKnown))
      continue;
    isNew = true;
    std::vector<double> seconds;
    MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), {[&] { return makeDense(pool, product.shape); }},
                                         settings.quick ? 2 : 5, seconds));
    product.methods.push_back({name, std::move(seconds)});
  }
  return {};
}

Status calibrateDense(const Settings &settings, RanksOptions options,
                      std::vector<MeasuredProduct<DenseShape>> &products) {
  const int64_t callBytes = addProducts(denseShapes(settings), settings, products);
  Progress progress(settings.progress, "dense products", kProposals);
  bool isNew = true;
  for (options.denseProposal = 1; options.denseProposal <= kProposals && isNew; ++options.denseProposal) {
    isNew = false;
    MOERT_RETURN_IF_ERROR(measureTypes(settings, options, callBytes, [&](Pool &pool, Device &device) {
      return measureDense(pool, device, settings, products, isNew);
    }));
    progress.step();
  }
  std::erase_if(products, [](const auto &product) { return product.methods.empty(); });
  return {};
}

/// Fills in the table's device, and finds the methods to measure.
Status describe(const Settings &settings, const RanksOptions &options, MethodTable &table,
                std::vector<std::string> &methods) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create(options, ranks));
  methods = ranks->device().raggedMethods();
  int64_t bytes = 0;
  table.device = "GPU";
  MOERT_RETURN_IF_ERROR(ranks->device().describe(table.device, bytes));
  table.source = measuredOn(settings, table.device);
  return {};
}

/// Name of the method with the least sum of times.
const std::string &fastestOf(const std::vector<MeasuredMethod> &methods) {
  auto sum = [](const MeasuredMethod &method) {
    return std::accumulate(method.seconds.begin(), method.seconds.end(), 0.0);
  };
  return std::ranges::min_element(methods, {}, sum)->name;
}

json raggedJson(const MeasuredProduct<RaggedShape> &product) {
  const RaggedShape &shape = product.shape;
  json entry = {{"pass", shape.isWeightGradient ? "weight_gradient" : "forward"},
                {"transposed", shape.transposed},
                {"dtype", dtypeName(product.dtype)},
                {"experts", shape.experts},
                {"rows", shape.experts * shape.rows},
                {"n", shape.n},
                {"k", shape.k},
                {"method", fastestOf(product.methods)}};
  for (const MeasuredMethod &method : product.methods)
    entry["seconds"][method.name] = roundedNumbers(method.seconds);
  return entry;
}

json denseJson(const MeasuredProduct<DenseShape> &product) {
  const auto [m, n, k, transposeA, transposeB] = product.shape;
  json entry = {{"dtype", dtypeName(product.dtype)},
                {"transpose_a", transposeA},
                {"transpose_b", transposeB},
                {"m", m},
                {"n", n},
                {"k", k},
                {"algorithm", fastestOf(product.methods)}};
  for (const MeasuredMethod &method : product.methods)
    entry["seconds"].push_back(roundedNumber(method.seconds.front()));
  return entry;
}

} // namespace

Status calibrateMethods(const Settings &settings, MethodTable &table) {
  RanksOptions options{.backend = settings.backend, .arenaBytes = settings.device.arenaBytes};
  std::vector<std::string> methods;
  MOERT_RETURN_IF_ERROR(describe(settings, options, table, methods));
  const int64_t callBytes = addProducts(raggedShapes(settings), settings, table.products);
  Progress progress(settings.progress, "products of experts", table.products.size() * methods.size());
  for (const std::string &method : methods) {
    options.raggedMethod = method;
    MOERT_RETURN_IF_ERROR(measureTypes(settings, options, callBytes, [&](Pool &pool, Device &) {
      return measureRagged(pool, settings, method, progress, table.products);
    }));
  }
  for (const auto &product : table.products)
    if (product.methods.empty())
      return Status::error(MOERT_ERROR_INTERNAL, "expected a method that computes products of experts in " +
                                                     std::string(dtypeName(product.dtype)) + ", but none can");
  options.raggedMethod.clear();
  return calibrateDense(settings, options, table.dense);
}

void writeMethods(const MethodTable &table, std::ostream &out) {
  json choices = json::array(), dense = json::array();
  for (const auto &product : table.products)
    choices.push_back(raggedJson(product));
  for (const auto &product : table.dense)
    dense.push_back(denseJson(product));
  printJson({{"moert_products", kTableVersion},
             {"device", table.device},
             {"source", table.source},
             {"choices", choices},
             {"dense", dense}},
            out);
}

} // namespace moert::calibrate
