//===- cuda_layer.cpp - an MoE layer on a GPU against its floor -----------===//
//
// Worker of ../cuda_layer.py. It reads each job as a line of JSON, and writes its measurements as another one:
//
//   {"do": "machine", "gemm": SIZE, "copy": BYTES}                            what the device can do
//   {"do": "verify", "plan": .., "reference": .., "routing": .., "seed": ..}  a plan against one in f64 on the host
//   {"do": "time", "plan": .., "routing": .., "seed": .., "steps": ..}        a plan, and plain cuBLAS of its products
//
// A job that fails answers {"error": TEXT}. The exit status is 77 if there is no CUDA device.
//
//===----------------------------------------------------------------------===//
#include "Floor.h"
#include "LayerPlan.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

using nlohmann::json;

namespace {

Choices readChoices(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  Choices choices{std::istreambuf_iterator<char>(file), {}};
  if (choices.empty())
    throw std::runtime_error("'" + path + "': cannot be read, or empty");
  return choices;
}

json measureMachine(Floor &floor, const json &job) {
  return {{"device", floor.device()},
          {"flops", floor.peak(job["gemm"], 20)},
          {"copy_bandwidth", floor.copyBandwidth(job["copy"], 20)}};
}

json verify(const json &job) {
  const Choices choices = readChoices(job["routing"]);
  LayerPlan plan(job["plan"], "cuda", job["seed"], choices, true);
  LayerPlan reference(job["reference"], "host", job["seed"], choices);
  // The third step is the replay of a graph.
  for (int i = 0; i < 3; ++i)
    plan.run();
  reference.run();
  return {{"errors", plan.errorsAgainst(reference)}, {"routed", plan.choosesAsExpected()}};
}

/// Measures steps as graphs and one call after the other, steps whose ops are timed, and plain products in turns, so
/// that all see the same clocks. All times are those of events of the device.
json measure(Floor &floor, const json &job) {
  const Choices choices = readChoices(job["routing"]);
  LayerPlan plan(job["plan"], "cuda", job["seed"], choices), graph(job["plan"], "cuda", job["seed"], choices, true);
  const std::vector<int64_t> counts = plan.counts();
  int64_t rows = 0;
  for (int64_t count : counts)
    rows += count;
  floor.prepare(plan.model(), plan.hidden(), plan.experts(), rows);
  const bool routed = plan.choosesAsExpected();
  std::vector<double> steps, eager, products, plain, rest;
  std::map<std::string, std::vector<double>> ops;
  constexpr int kWarmUp = 3;
  int64_t before = 0;
  for (int i = -kWarmUp; i < job["steps"].get<int>(); ++i) {
    before = i == 0 ? graph.graphSteps() : before;
    const double asGraph = graph.run(), seconds = plan.run(), floorSeconds = floor.products(counts);
    const std::map<std::string, double> timed = plan.runTimed();
    if (i < 0)
      continue;
    steps.push_back(asGraph);
    eager.push_back(seconds);
    plain.push_back(floorSeconds);
    products.push_back(0);
    rest.push_back(0);
    for (const auto &[name, opSeconds] : timed) {
      ops[name].push_back(opSeconds);
      (name.starts_with("grouped_matmul") ? products : rest).back() += opSeconds;
    }
  }
  floor.release();
  json answer = {{"counts", counts},
                 {"routed", routed},
                 {"step", median(steps)},
                 {"steps", steps},
                 {"graphs", graph.graphSteps() - before},
                 {"eager_graphs", plan.graphSteps()},
                 {"eager", median(eager)},
                 {"products", median(products)},
                 {"plain_products", median(plain)},
                 {"rest", median(rest)}};
  for (const auto &[name, seconds] : ops)
    answer["ops"][name] = median(seconds);
  return answer;
}

json answer(Floor &floor, const json &job) {
  const std::string what = job.at("do");
  if (what == "machine")
    return measureMachine(floor, job);
  if (what == "verify")
    return verify(job);
  if (what == "time")
    return measure(floor, job);
  throw std::runtime_error("expected \"do\" to be machine, verify or time, but got '" + what + "'");
}

} // namespace

int main() {
  int devices = 0;
  if (cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "cuda_layer: no CUDA device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  try {
    Floor floor;
    for (std::string line; std::getline(std::cin, line);) {
      json result;
      try {
        result = answer(floor, json::parse(line));
      } catch (const std::exception &error) {
        result = {{"error", error.what()}};
      }
      std::cout << result.dump() << std::endl;
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "cuda_layer: %s\n", error.what());
    return 2;
  }
  return 0;
}
