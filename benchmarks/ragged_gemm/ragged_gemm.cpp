//===- ragged_gemm.cpp - the methods of ragged products, compared ---------===//
//
// Times each method on the cases of a file, in bf16, and compares its results with cuBLASLt's. Prints one JSON object
// for each product, pass and method, one per line, as ../ragged_gemm_torch.py does:
//
//   {"model": .., "routing": .., "tokens": .., "pass": "forward" | "dgrad" | "wgrad", "method": .., "dtype": "bf16",
//    "experts": .., "rows": .., "n": .., "k": .., "ms": .., "tflops": ..}
//
// A method that fails, or whose result is wrong, has "error" in place of figures. The exit status is 77 if there is no
// CUDA device, and 1 if a result was wrong.
//
//===----------------------------------------------------------------------===//
#include "core/Convert.h"
#include "cuda/Ragged.cuh"
#include "cuda/RaggedGroups.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

using namespace moert;
using namespace moert::cuda;
using nlohmann::json;

namespace {

constexpr int64_t kElementBytes = 2;

void require(const Status &status) {
  if (!status.ok())
    throw std::runtime_error(status.message);
}
void require(cudaError_t error) { require(check(error, "CUDA")); }

/// Memory of bf16 values, random or cleared.
class Matrix {
public:
  Matrix(int64_t elements, const std::vector<uint16_t> &pattern) : elements(elements) {
    require(allocateDevice(std::max<int64_t>(elements * kElementBytes, 1), "a matrix", memory));
    const auto size = static_cast<int64_t>(pattern.size());
    for (int64_t at = 0; at < elements; at += size)
      require(cudaMemcpy(data() + at, pattern.data(),
                         static_cast<size_t>(std::min(size, elements - at) * kElementBytes), cudaMemcpyDefault));
    // Copies from pageable memory return when it is read, and other streams do not wait for the legacy stream.
    require(cudaStreamSynchronize(nullptr));
  }
  uint16_t *data() const { return static_cast<uint16_t *>(memory.get()); }

  /// Some of the values, evenly spread.
  std::vector<uint16_t> sample() const {
    constexpr int64_t kPieces = 64, kPiece = 16384;
    const int64_t piece = std::min(kPiece, elements),
                  pieces = std::min(kPieces, elements / std::max<int64_t>(piece, 1));
    std::vector<uint16_t> values(static_cast<size_t>(piece * pieces));
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t at = pieces > 1 ? (elements - piece) * i / (pieces - 1) : 0;
      require(cudaMemcpy(values.data() + i * piece, data() + at, static_cast<size_t>(piece * kElementBytes),
                         cudaMemcpyDefault));
    }
    return values;
  }

private:
  DeviceMemory memory;
  int64_t elements;
};

float widen(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

/// Largest difference, relative to the largest value.
double differenceOf(const std::vector<uint16_t> &got, const std::vector<uint16_t> &want) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double distance = std::abs(widen(got[i]) - widen(want[i]));
    largest = std::max(largest, std::abs(double(widen(want[i]))));
    difference = std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(difference, distance);
  }
  return largest > 0 ? difference / largest : difference;
}

std::vector<uint16_t> randomPattern() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0, 0.5f);
  // A period that no matrix is a multiple of, so that rows differ.
  std::vector<uint16_t> pattern((1 << 22) + 13);
  for (uint16_t &value : pattern) {
    const float number = normal(engine);
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    value = static_cast<uint16_t>(bits >> 16);
  }
  return pattern;
}

/// One product of a case in all three passes.
class Bench {
public:
  Bench(DeviceContext &device, StreamContext &stream, const json &rows, int64_t n, int64_t k,
        const std::vector<uint16_t> &pattern)
      : target{device, stream, Kind::GroupedMatmul, 0}, experts(static_cast<int64_t>(rows.size())), n(n), k(k) {
    std::vector<int32_t> counted = rows.get<std::vector<int32_t>>();
    for (int32_t count : counted)
      total += count;
    require(allocateDevice(experts * 4, "counts", memory));
    require(cudaMemcpy(memory.get(), counted.data(), counted.size() * 4, cudaMemcpyDefault));
    counts.data = memory.get();
    counts.dtype = MOERT_I32;
    counts.rank = 2;
    counts.dims = {1, experts};
    const std::vector<uint16_t> zeros(1 << 20);
    for (auto [matrix, elements, values] : {std::tuple(&x, total * k, &pattern),
                                            {&dy, total * n, &pattern},
                                            {&w, experts * n * k, &pattern},
                                            {&y, total * n, &zeros},
                                            {&dx, total * k, &zeros},
                                            {&dw, experts * n * k, &zeros}})
      *matrix = std::make_unique<Matrix>(elements, *values);
  }

  RaggedProduct product(const std::string &pass) const {
    const bool isWgrad = pass == "wgrad", isDgrad = pass == "dgrad";
    RaggedProduct product{isWgrad ? RaggedProduct::Pass::WeightGradient : RaggedProduct::Pass::Forward,
                          MOERT_BF16,
                          experts,
                          total,
                          isDgrad ? k : n,
                          isDgrad ? n : k,
                          isDgrad};
    product.a = isDgrad ? dy->data() : x->data();
    product.b = isWgrad ? dy->data() : w->data();
    product.c = result(pass).data();
    return product;
  }
  const Matrix &result(const std::string &pass) const { return pass == "wgrad" ? *dw : pass == "dgrad" ? *dx : *y; }

  void run(RaggedMethod method, const RaggedProduct &product) const {
    require(multiplyRagged(target, method, product, counts));
  }
  /// Median of some runs.
  double time(RaggedMethod method, const RaggedProduct &product, int steps) const {
    Event begin, end;
    require(createEvent(true, begin));
    require(createEvent(true, end));
    std::vector<float> times;
    constexpr int kWarmUp = 2;
    for (int i = -kWarmUp; i < steps; ++i) {
      require(cudaEventRecord(begin.get(), target.stream.stream));
      run(method, product);
      require(cudaEventRecord(end.get(), target.stream.stream));
      require(cudaEventSynchronize(end.get()));
      float milliseconds = 0;
      require(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
      if (i >= 0)
        times.push_back(milliseconds);
    }
    std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
    return times[static_cast<size_t>(steps / 2)];
  }

  Target target;
  int64_t experts, n, k, total = 0;

private:
  DeviceMemory memory;
  View counts;
  std::unique_ptr<Matrix> x, dy, w, y, dx, dw;
};

struct Options {
  std::string cases;
  std::vector<std::string> models;
  int steps = 10;
  double limit = std::numeric_limits<double>::infinity();
};

/// Measures a pass. Returns whether all results are right.
bool measure(const Bench &bench, const json &common, const std::string &pass, int steps) {
  const RaggedProduct product = bench.product(pass);
  bool isRight = true;
  std::vector<uint16_t> want;
  bench.run(RaggedMethod::CublasLt1, product);
  require(cudaStreamSynchronize(bench.target.stream.stream));
  want = bench.result(pass).sample();
  for (RaggedMethod method : kRaggedMethods) {
    if (!canCompute(method, bench.target, product))
      continue;
    json record = common;
    record.update({{"pass", pass},
                   {"method", methodName(method)},
                   {"dtype", "bf16"},
                   {"experts", bench.experts},
                   {"rows", bench.total},
                   {"n", bench.n},
                   {"k", bench.k}});
    try {
      const double milliseconds = bench.time(method, product, steps);
      // Sums may be in another order, and each is rounded once.
      constexpr double kTolerance = 1.0 / 64;
      if (double difference = differenceOf(bench.result(pass).sample(), want); difference > kTolerance)
        throw std::runtime_error("differs from cuBLASLt by " + std::to_string(difference) + " of the largest value");
      record["ms"] = milliseconds;
      record["tflops"] = 2.0 * double(bench.total) * double(bench.n) * double(bench.k) / milliseconds / 1e9;
    } catch (const std::exception &error) {
      record["error"] = error.what();
      isRight = false;
    }
    std::cout << record.dump() << std::endl;
  }
  return isRight;
}

bool isWanted(const Options &options, const std::string &model) {
  if (options.models.empty())
    return model != "tiny";
  return std::find(options.models.begin(), options.models.end(), model) != options.models.end();
}

bool measureAll(const Options &options) {
  std::ifstream file(options.cases);
  if (!file)
    throw std::runtime_error("'" + options.cases + "': cannot be read");
  const json cases = json::parse(file).at("cases");
  DeviceContext device;
  require(DeviceContext::create({}, device));
  Stream stream;
  require(createStream(stream));
  const std::vector<uint16_t> pattern = randomPattern();
  const auto begin = std::chrono::steady_clock::now();
  bool isRight = true;
  for (const std::string &model : options.models)
    if (std::none_of(cases.begin(), cases.end(), [&](const json &one) { return one.at("model") == model; }))
      throw std::runtime_error("'" + options.cases + "' has no case of the model '" + model + "'");
  for (const json &one : cases) {
    if (!isWanted(options, one.at("model")))
      continue;
    for (const json &product : one.at("products")) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > options.limit) {
        std::cerr << "ragged_gemm: time is up: cases are left\n";
        return isRight;
      }
      StreamContext context;
      RoutingTables tables;
      RaggedGroups groups;
      context.stream = stream.get();
      context.tables = &tables;
      context.groups = &groups;
      // The host knows the counts after the first product, so its wait for them is not measured.
      HostCounts counts;
      context.counts = &counts;
      const Bench bench(device, context, one.at("rows"), product.at("n"), product.at("k"), pattern);
      for (const char *pass : {"forward", "dgrad", "wgrad"})
        isRight &=
            measure(bench, {{"model", one.at("model")}, {"routing", one.at("routing")}, {"tokens", one.at("tokens")}},
                    pass, options.steps);
    }
  }
  return isRight;
}

double parsePositive(const std::string &name, const std::string &value, bool isWhole) {
  char *end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (*end != 0 || !(number > 0) || number > 1e6 || (isWhole && number != std::floor(number)))
    throw std::runtime_error("option '" + name + "': expected a " + (isWhole ? "whole number" : "number") +
                             " from above 0 to 1e6 but got '" + value + "'");
  return number;
}

Options parse(int argc, char **argv) {
  Options options;
  options.cases = "cases.json";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == argument.size())
      throw std::runtime_error("expected --cases=FILE, --model=NAME,.., --steps=N or --limit=SECONDS but got '" +
                               argument + "'");
    const std::string value = argument.substr(equals + 1);
    if (name == "--cases")
      options.cases = value;
    else if (name == "--steps")
      options.steps = static_cast<int>(parsePositive(name, value, true));
    else if (name == "--limit")
      options.limit = parsePositive(name, value, false);
    else if (name == "--model")
      for (size_t at = 0; at <= value.size();) {
        const size_t comma = std::min(value.find(',', at), value.size());
        options.models.push_back(value.substr(at, comma - at));
        at = comma + 1;
      }
    else
      throw std::runtime_error("unknown option '" + name + "'");
  }
  return options;
}

} // namespace

int main(int argc, char **argv) {
  int devices = 0;
  if (cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "ragged_gemm: no CUDA device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  try {
    return measureAll(parse(argc, argv)) ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "ragged_gemm: %s\n", error.what());
    return 2;
  }
}
