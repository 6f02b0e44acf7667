//===- ProductMethods.cpp - the fastest methods of products ---------------===//

#include "calibrate/ProductMethods.h"
#include "calibrate/JsonText.h"
#include "core/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

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

} // namespace

std::vector<RaggedShape> raggedShapes(const Settings &settings) {
  std::vector<RaggedShape> shapes;
  const int64_t most = settings.device.raggedSize;
  std::vector<int64_t> rows = {256, 2048, 32};
  if (settings.quick)
    rows.pop_back();
  for (int64_t each : rows)
    for (bool isSecond : {false, true}) {
      if (isSecond && settings.quick)
        continue;
      for (const Layer &layer : kLayers) {
        const int64_t n = isSecond ? layer.hidden : 2 * layer.inner, k = isSecond ? layer.inner : layer.hidden;
        const int64_t experts = std::min(layer.experts, std::max<int64_t>(most / 8, 1));
        const int64_t own = std::min(each, kMostRows / layer.experts);
        for (const RaggedShape &shape :
             {RaggedShape{false, false, experts, own, n, k}, RaggedShape{false, true, experts, own, k, n},
              RaggedShape{true, false, experts, own, n, k}})
          addShape(shapes, most, {&RaggedShape::rows, &RaggedShape::n, &RaggedShape::k}, shape);
      }
    }
  return shapes;
}

namespace {

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

std::string textOf(const RaggedShape &shape) {
  return joined(shape.isWeightGradient ? "the weight gradient"
                : shape.transposed     ? "transposed weights"
                                       : "forward",
                " of ", shape.experts, " experts with ", shape.rows, " rows, n ", shape.n, ", k ", shape.k);
}

std::string textOf(const DenseShape &shape) {
  return joined("m ", shape.m, ", n ", shape.n, ", k ", shape.k, shape.transposeA ? ", a transposed" : "",
                shape.transposeB ? ", b transposed" : "");
}

/// Most bytes of a call.
int64_t callBytes(const Settings &settings) {
  int64_t most = settings.device.coldBytes;
  for (int32_t dtype : kTypes) {
    for (const RaggedShape &shape : raggedShapes(settings))
      most = std::max(most, bytesOf(shape, dtype));
    for (const DenseShape &shape : denseShapes(settings))
      most = std::max(most, bytesOf(shape, dtype));
  }
  return most;
}

/// Measures products on one device, one after the other.
class Measurement {
public:
  Measurement(const Settings &settings, const SaveMethods &save, MethodTable &table, DeviceBench &bench)
      : settings(settings), save(save), table(table), device(bench.ranks().device()), bench(bench), counts(bench) {}

  /// Measures until the limit, which counts from `begin`.
  Status run(Clock::time_point begin);

private:
  template <class Shape>
  Status measureAll(const char *what, int32_t dtype, const std::vector<Shape> &shapes,
                    std::vector<MeasuredProduct<Shape>> &measured);
  Status measure(const RaggedShape &shape, std::vector<MeasuredMethod> &methods);
  Status measure(const DenseShape &shape, std::vector<MeasuredMethod> &methods);
  int passes() const { return settings.quick ? 2 : 5; }
  bool isLate() const { return std::chrono::duration<double>(Clock::now() - start).count() >= settings.limit; }

  const Settings &settings;
  const SaveMethods &save;
  MethodTable &table;
  Device &device;
  DeviceBench &bench;
  RaggedCounts counts;
  Pool pool;
  Clock::time_point start;
};

/// Measures a product by each method that can compute it.
Status Measurement::measure(const RaggedShape &shape, std::vector<MeasuredMethod> &methods) {
  std::vector<MakeCall> calls;
  for (bool isSkewed : {false, true}) {
    View view;
    MOERT_RETURN_IF_ERROR(counts.find(shape.experts, shape.rows, isSkewed, view));
    calls.push_back([this, &shape, view] { return makeRagged(pool, shape, view); });
  }
  for (const std::string &method : device.raggedMethods()) {
    MOERT_RETURN_IF_ERROR(device.forceRaggedMethod(method));
    std::vector<double> seconds;
    Status status = measureKernels(pool.bench(), calls, passes(), seconds);
    if (status.ok())
      methods.push_back({method, std::move(seconds)});
    else if (status.code != MOERT_ERROR_UNSUPPORTED)
      return status;
  }
  MOERT_RETURN_IF_ERROR(device.forceRaggedMethod(""));
  return methods.empty()
             ? Status::error(MOERT_ERROR_INTERNAL, "expected a method that computes products of experts in ",
                             dtypeName(pool.type()), ", but none can")
             : Status();
}

/// Measures a product by each algorithm that the library proposes, if it has several.
Status Measurement::measure(const DenseShape &shape, std::vector<MeasuredMethod> &methods) {
  for (int64_t proposal = 1; proposal <= kProposals; ++proposal) {
    device.forceProposal(proposal);
    std::string name;
    MOERT_RETURN_IF_ERROR(device.describeAlgorithm(makeDense(pool, shape), name));
    auto isKnown = [&](const MeasuredMethod &known) { return known.name == name; };
    if (name.empty() || std::ranges::any_of(methods, isKnown))
      continue;
    std::vector<double> seconds;
    MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), {[&] { return makeDense(pool, shape); }}, passes(), seconds));
    methods.push_back({name, std::move(seconds)});
  }
  device.forceProposal(0);
  return {};
}

/// Measures products of one type until the time is up. Saves the table after each.
template <class Shape>
Status Measurement::measureAll(const char *what, int32_t dtype, const std::vector<Shape> &shapes,
                               std::vector<MeasuredProduct<Shape>> &measured) {
  const std::string title = joined(what, " in ", dtypeName(dtype));
  Progress progress(settings.progress, title, shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (isLate()) {
      table.leftOut.push_back(
          joined(shapes.size() - i, " of ", shapes.size(), " ", title, ", from ", textOf(shapes[i]), " on"));
      return {};
    }
    MeasuredProduct<Shape> product{shapes[i], dtype, {}};
    MOERT_RETURN_IF_ERROR(measure(product.shape, product.methods));
    progress.step();
    if (product.methods.empty())
      continue;
    measured.push_back(std::move(product));
    MOERT_RETURN_IF_ERROR(save(table));
  }
  return {};
}

Status Measurement::run(Clock::time_point begin) {
  start = begin;
  const std::vector<RaggedShape> ragged = raggedShapes(settings);
  const std::vector<DenseShape> dense = denseShapes(settings);
  for (int32_t dtype : kTypes) {
    if (!isLate())
      MOERT_RETURN_IF_ERROR(pool.create(bench, dtype));
    MOERT_RETURN_IF_ERROR(measureAll("products of experts", dtype, ragged, table.products));
    MOERT_RETURN_IF_ERROR(measureAll("dense products", dtype, dense, table.dense));
  }
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

Status calibrateMethods(const Settings &settings, const SaveMethods &save, MethodTable &table) {
  const Clock::time_point begin = Clock::now();
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create({.backend = settings.backend, .arenaBytes = settings.device.arenaBytes}, ranks));
  int64_t bytes = 0;
  table.device = "GPU";
  MOERT_RETURN_IF_ERROR(ranks->device().describe(table.device, bytes));
  table.source = measuredOn(settings, table.device);
  std::unique_ptr<DeviceBench> bench;
  MOERT_RETURN_IF_ERROR(
      DeviceBench::create(*ranks, settings.device.arenaBytes, settings.device.coldBytes, bench, callBytes(settings)));
  return Measurement(settings, save, table, *bench).run(begin);
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

Status saveMethods(const MethodTable &table, const std::string &file) {
  const std::string next = file + ".new";
  OutputFile out;
  MOERT_RETURN_IF_ERROR(out.open(next));
  writeMethods(table, out);
  MOERT_RETURN_IF_ERROR(out.close());
  if (std::rename(next.c_str(), file.c_str()) != 0)
    return invalid("'", file, "': cannot be written: ", std::strerror(errno));
  return {};
}

} // namespace moert::calibrate
