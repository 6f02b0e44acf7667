//===- host_speed.cpp - a plan's step against its floor -------------------===//
//
// One rank's forward and backward of an MoE layer on the host, next to plain dnnl_sgemm calls of the same shapes and to
// the memory copies of dispatch and combine, step by step in one process on one thread. Usage: host_speed plan.so
// [steps]. The plan has one layer of one rank in the capacity form, f32, compiled from the model in
// benchmarks/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//
#include "moert/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" void omp_set_num_threads(int);

namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check(int32_t status) {
  if (status == MOERT_OK)
    return;
  std::fprintf(stderr, "host_speed: %s\n", moert_last_error());
  std::exit(2);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Shape {
  int64_t experts, rows, model, hidden, tokens;
};

/// Cost of the layer's GEMMs and copies by themselves.
class Floor {
public:
  explicit Floor(Shape shape)
      : shape(shape), narrow(shape.experts * shape.rows * shape.model, 0.5f),
        wide(shape.experts * shape.rows * shape.hidden, 0.5f),
        weights(shape.experts * shape.model * shape.hidden, 0.5f), copy(narrow.size()) {}

  /// Seconds of the forward, input gradients and weight gradients of both matrices of every expert.
  double gemms() {
    const auto [experts, rows, model, hidden, tokens] = shape;
    Clock::time_point start = Clock::now();
    for (int64_t e = 0; e < experts; ++e) {
      float *x = &narrow[e * rows * model], *h = &wide[e * rows * hidden], *w = &weights[e * model * hidden];
      for (int pass = 0; pass < 2; ++pass) { // h = x w1 and dh = dy w2^T
        dnnl_sgemm('N', pass ? 'T' : 'N', rows, hidden, model, 1, x, model, w, pass ? model : hidden, 0, h, hidden);
        dnnl_sgemm('N', pass ? 'T' : 'N', rows, model, hidden, 1, h, hidden, w, pass ? hidden : model, 0, x, model);
      }
      dnnl_sgemm('T', 'N', model, hidden, rows, 1, x, model, h, hidden, 0, w, hidden);
      dnnl_sgemm('T', 'N', hidden, model, rows, 1, h, hidden, x, model, 0, w, model);
    }
    return secondsSince(start);
  }

  /// Seconds of dispatch and combine, forward and backward, as plain copies of the tokens.
  double copies() {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < 4; ++i)
      std::memcpy(copy.data(), narrow.data(),
                  std::min<size_t>(narrow.size(), shape.tokens * shape.model) * sizeof(float));
    return secondsSince(start);
  }

private:
  Shape shape;
  std::vector<float> narrow, wide, weights, copy;
};

struct Plan {
  moert_plan_t plan;
  moert_world_t world;
  nlohmann::json program;
  Shape shape;
};

Plan open(const char *path) {
  Plan plan;
  check(moert_plan_open(path, &plan.plan));
  nlohmann::json metadata = nlohmann::json::parse(moert_plan_metadata(plan.plan));
  plan.program = metadata["programs"][0];
  // An op that equals an earlier one is stored as that op's number.
  for (nlohmann::json &op : plan.program["ops"])
    if (op.is_number())
      op = nlohmann::json(plan.program["ops"][op.get<size_t>()]);
  moert_world_config config = {};
  config.size = sizeof(config);
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.workers = 1;
  check(moert_world_create(plan.plan, &config, &plan.world));
  std::mt19937 engine(1);
  int64_t index = 0;
  for (const nlohmann::json &argument : plan.program["arguments"]) {
    std::vector<int64_t> shape = argument["local_shape"];
    int64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    bool parameter = argument["role"] == "parameter";
    std::normal_distribution<float> values(0, parameter ? 0.03f : 1.0f);
    std::vector<float> data(elements);
    for (float &value : data)
      value = values(engine);
    check(moert_world_write(plan.world, 0, index++, data.data(), elements * sizeof(float)));
    if (argument["name"] == "x")
      plan.shape.tokens = shape[0];
    if (argument["name"] == "layer0.w1")
      plan.shape.experts = shape[0], plan.shape.model = shape[1], plan.shape.hidden = shape[2];
  }
  // Capacity that the expert GEMMs have after padding.
  for (const nlohmann::json &op : plan.program["ops"])
    if (op["name"] == "grouped_matmul")
      plan.shape.rows =
          static_cast<int64_t>(op["flops"].get<double>() / 2 /
                               static_cast<double>(plan.shape.experts * plan.shape.model * plan.shape.hidden));
  return plan;
}

/// Seconds of the last step's ops whose name begins with "grouped_matmul".
double expertGemms(const Plan &plan) {
  std::vector<moert_op_time> times(plan.program["ops"].size() + 16);
  int64_t count = 0;
  check(moert_world_timeline(plan.world, 0, times.data(), static_cast<int64_t>(times.size()), &count));
  double seconds = 0;
  for (int64_t i = 0; i < std::min<int64_t>(count, static_cast<int64_t>(times.size())); ++i)
    if (times[i].op >= 0 && plan.program["ops"][times[i].op]["name"].get<std::string>().starts_with("grouped_matmul"))
      seconds += times[i].end_s - times[i].begin_s;
  return seconds;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: host_speed plan.so [steps]\n");
    return 2;
  }
  omp_set_num_threads(1);
  Plan plan = open(argv[1]);
  int steps = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
  Floor floor(plan.shape);
  std::vector<double> step, gemm, plain, copy;
  floor.gemms();
  check(moert_world_run(plan.world, nullptr));
  for (int i = 0; i < steps; ++i) {
    double seconds = 0;
    check(moert_world_run(plan.world, &seconds));
    step.push_back(seconds);
    gemm.push_back(expertGemms(plan));
    plain.push_back(floor.gemms());
    copy.push_back(floor.copies());
  }
  const auto [experts, rows, model, hidden, tokens] = plan.shape;
  std::printf("E=%lld M=%lld H=%lld, %lld tokens, %lld rows an expert; medians of %d steps, one thread\n",
              (long long)experts, (long long)model, (long long)hidden, (long long)tokens, (long long)rows, steps);
  double flops = 12.0 * static_cast<double>(experts * rows * model * hidden);
  std::printf("  plain dnnl_sgemm calls          %9.1f ms  %6.1f GFLOP/s\n", median(plain) * 1e3,
              flops / median(plain) / 1e9);
  std::printf("  expert GEMMs inside the plan    %9.1f ms  %6.1f %% of plain speed (at least 90 wanted)\n",
              median(gemm) * 1e3, 100 * median(plain) / median(gemm));
  std::printf("  copies of dispatch and combine  %9.1f ms\n", median(copy) * 1e3);
  std::printf("  whole forward and backward      %9.1f ms  %6.3f x GEMMs and copies (at most 1.15 wanted)\n",
              median(step) * 1e3, median(step) / (median(plain) + median(copy)));
  moert_world_destroy(plan.world);
  moert_plan_close(plan.plan);
  return 0;
}
