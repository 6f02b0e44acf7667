//===- host_kernels.cpp - the host kernels against memcpy and plain sgemm --===//
//
// Each kernel runs beside the peer whose speed it should approach, on the same bytes or FLOPs. The counter is GB/s (or
// GFLOP/s), and the result is the ratio of two lines of one run. All runs use one thread.
//
//===----------------------------------------------------------------------===//
#include "host/Kernels.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstring>
#include <dnnl.h>
#include <random>
#include <vector>

using namespace moert;

namespace {

constexpr int64_t tokens = 4096, choices = 2, experts = 8, width = 768, hidden = 3072;
constexpr int64_t rows = tokens * choices;
constexpr int64_t activations = tokens * hidden; // 12.6 million

View view(std::vector<float> &data, std::initializer_list<int64_t> dims) {
  View result;
  result.data = data.data();
  result.dtype = MOERT_F32;
  result.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), result.dims.begin());
  return result;
}

View view(std::vector<int32_t> &data, std::initializer_list<int64_t> dims) {
  View result;
  result.data = data.data();
  result.dtype = MOERT_I32;
  result.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), result.dims.begin());
  return result;
}

std::vector<float> normal(int64_t count) {
  std::vector<float> data(count);
  std::mt19937 engine(1);
  std::normal_distribution<float> distribution;
  for (float &x : data)
    x = distribution(engine);
  return data;
}

/// Each token's choices as rows that are sorted by expert, none of them empty, as a dropless route makes them.
std::vector<int32_t> routedSlots() {
  std::vector<float> logits = normal(tokens * experts), scores(tokens * experts), weights(rows), aux(1);
  std::vector<int32_t> chosen(rows), slots(rows), counts(experts);
  host::route(view(logits, {tokens, experts}), {}, view(scores, {tokens, experts}), view(chosen, {tokens, choices}),
              view(slots, {tokens, choices}), view(weights, {tokens, choices}), view(counts, {1, experts}),
              view(aux, {}), {}, {});
  return slots;
}

void check(benchmark::State &state, const Status &status) {
  if (!status.ok())
    state.SkipWithError(status.message.c_str());
}

void setBytes(benchmark::State &state, int64_t bytes) {
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// Copies half of the argument's MB, so that the copy reads and writes that many MB.
void memcpyOf(benchmark::State &state) {
  const int64_t bytes = state.range(0);
  std::vector<char> in(bytes / 2, 1), out(bytes / 2, 2);
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), in.size());
    benchmark::ClobberMemory();
  }
  setBytes(state, bytes);
}

/// Reads each token once for each of its choices, and writes each row once.
void dispatch(benchmark::State &state) {
  std::vector<float> in = normal(tokens * width), out(rows * width), weights(rows, 0.5f);
  std::vector<int32_t> slots = routedSlots();
  View weighting = state.range(0) ? view(weights, {tokens, choices}) : View();
  for (auto _ : state)
    check(state, host::dispatch(view(in, {tokens, width}), view(slots, {tokens, choices}), weighting, {},
                                view(out, {rows, width})));
  setBytes(state, 2 * rows * width * 4);
}

void combine(benchmark::State &state) {
  std::vector<float> in = normal(rows * width), out(tokens * width), weights(rows, 0.5f);
  std::vector<int32_t> slots = routedSlots();
  for (auto _ : state)
    check(state, host::combine(view(in, {rows, width}), view(slots, {tokens, choices}),
                               view(weights, {tokens, choices}), {}, view(out, {tokens, width})));
  setBytes(state, (rows + tokens) * width * 4);
}

void slotDot(benchmark::State &state) {
  std::vector<float> in = normal(tokens * width), some = normal(rows * width), out(rows);
  std::vector<int32_t> slots = routedSlots();
  for (auto _ : state)
    check(state, host::slotDot(view(in, {tokens, width}), view(some, {rows, width}), view(slots, {tokens, choices}), {},
                               view(out, {tokens, choices})));
  setBytes(state, (rows + tokens) * width * 4);
}

void activation(benchmark::State &state) {
  const bool half = state.range(0) == MOERT_SWIGLU || state.range(0) == MOERT_SWIGLU_CLAMPED;
  std::vector<float> in = normal(activations), out(activations);
  for (auto _ : state)
    check(state, host::activation(view(in, {tokens, hidden}), {}, view(out, {tokens, half ? hidden / 2 : hidden}),
                                  state.range(0)));
  setBytes(state, activations * 4 + (half ? 2 : 4) * activations);
}

void activationGrad(benchmark::State &state) {
  const bool half = state.range(0) == MOERT_SWIGLU || state.range(0) == MOERT_SWIGLU_CLAMPED;
  std::vector<float> in = normal(activations), grad = normal(activations), out(activations);
  for (auto _ : state)
    check(state, host::activationGrad(view(in, {tokens, hidden}), view(grad, {tokens, half ? hidden / 2 : hidden}), {},
                                      view(out, {tokens, hidden}), state.range(0)));
  setBytes(state, activations * 8 + (half ? 2 : 4) * activations);
}

void biasGrad(benchmark::State &state) {
  std::vector<float> in = normal(activations), out(experts * hidden);
  for (auto _ : state)
    check(state,
          host::biasGrad(view(in, {experts, tokens / experts, hidden}), {}, {}, view(out, {experts, hidden}), 1.0));
  setBytes(state, activations * 4);
}

/// Tokens per second of a softmax route with 8 choices. The arguments are the number of experts, and the percentage of
/// choices that may leave home, an eighth of the experts. A negative percentage selects the plain gate.
void route(benchmark::State &state) {
  const int64_t e = state.range(0), k = 8;
  RouteOptions options;
  options.leave = state.range(1) < 0 ? -1 : tokens * state.range(1) / 100;
  options.homes = 8;
  std::vector<float> logits = normal(tokens * e), scores(tokens * e), weights(tokens * k), aux(1);
  std::vector<int32_t> chosen(tokens * k), slots(tokens * k), counts(e);
  for (auto _ : state)
    check(state, host::route(view(logits, {tokens, e}), {}, view(scores, {tokens, e}), view(chosen, {tokens, k}),
                             view(slots, {tokens, k}), view(weights, {tokens, k}), view(counts, {1, e}), view(aux, {}),
                             options, {}));
  state.SetItemsProcessed(state.iterations() * tokens);
}

void setFlops(benchmark::State &state) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * tokens * width * hidden, benchmark::Counter::kIsIterationInvariantRate);
}

void groupedMatmul(benchmark::State &state) {
  std::vector<float> in = normal(tokens * width), weights = normal(experts * width * hidden), out(tokens * hidden);
  for (auto _ : state)
    check(state,
          host::groupedMatmul(view(in, {experts, tokens / experts, width}), view(weights, {experts, width, hidden}), {},
                              view(out, {experts, tokens / experts, hidden}), false));
  setFlops(state);
}

/// A product with one expert's weights that has the same FLOPs.
void plainSgemm(benchmark::State &state) {
  std::vector<float> in = normal(tokens * width), weights = normal(width * hidden), out(tokens * hidden);
  for (auto _ : state)
    dnnl_sgemm('N', 'N', tokens, hidden, width, 1.0f, in.data(), width, weights.data(), hidden, 0.0f, out.data(),
               hidden);
  setFlops(state);
}

BENCHMARK(memcpyOf)->Arg(2 * rows * width * 4)->Arg((rows + tokens) * width * 4)->UseRealTime();
BENCHMARK(dispatch)->ArgName("weighted")->Arg(0)->Arg(1)->UseRealTime();
BENCHMARK(combine)->UseRealTime();
BENCHMARK(slotDot)->UseRealTime();
BENCHMARK(memcpyOf)->Arg(2 * activations * 4)->Arg(3 * activations * 4)->UseRealTime();
BENCHMARK(activation)->ArgName("kind")->DenseRange(MOERT_RELU, MOERT_SOFTPLUS)->UseRealTime();
BENCHMARK(activationGrad)->ArgName("kind")->DenseRange(MOERT_RELU, MOERT_SOFTPLUS)->UseRealTime();
BENCHMARK(biasGrad)->UseRealTime();
BENCHMARK(route)->ArgNames({"experts", "leave"})->ArgsProduct({{8, 64, 512}, {-1}})->UseRealTime();
BENCHMARK(route)->ArgNames({"experts", "leave"})->ArgsProduct({{64, 512}, {0, 25}})->UseRealTime();
BENCHMARK(plainSgemm)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(groupedMatmul)->Unit(benchmark::kMillisecond)->UseRealTime();

} // namespace

int main(int argc, char **argv) {
  host::initialiseThread();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
