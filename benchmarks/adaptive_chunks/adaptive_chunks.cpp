//===- adaptive_chunks.cpp - steps whose chunk count is learnt ------------===//
//
// Usage: adaptive_chunks PLAN.so STEPS SEED WORKERS [LINKS]
//
// Runs steps of shapes that are drawn at random from the plan's. Granularity chooses each step's number of chunks. The
// first step of a variant touches its memory and is run once more before, untimed. Prints one JSON object: the steps,
// the number of trials and the ranges found.
//
//===----------------------------------------------------------------------===//

#include "Granularity.h"
#include "run/Inputs.h"
#include "run/Runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>

using namespace moert;
using namespace moert::run;
using nlohmann::json;

namespace {

using Shape = std::pair<int64_t, int64_t>; ///< batch, sequence

/// A variant's world, which is kept from step to step.
struct Active {
  RunResult result;
  std::unique_ptr<Runner> runner;
};

struct Session {
  const Options &options;
  std::vector<Plan> plans = {};                            ///< all variants
  std::map<Shape, std::map<int64_t, size_t>> choices = {}; ///< index of the variant of a shape and a chunk count
  std::optional<Granularity> policy = {};
  std::map<size_t, Active> worlds = {}; ///< by index of the variant
  json steps = json::array();

  Status open();
  Status run();
  Status runStep(const Shape &shape);
  Status activate(size_t index);
  json report() const;
};

Status Session::open() {
  moert_plan_t opened = nullptr;
  MOERT_RETURN_IF_ERROR(checked(moert_plan_open(options.plan.c_str(), &opened)));
  std::shared_ptr<moert_plan> handle(opened, moert_plan_close);
  std::vector<Metadata> variants;
  MOERT_RETURN_IF_ERROR(parseMetadata(moert_plan_metadata(opened), variants));
  for (size_t i = 0; i < variants.size(); ++i) {
    const Metadata &metadata = variants[i];
    choices[{metadata.batch, metadata.sequence}].try_emplace(metadata.chunks, i);
    plans.push_back({handle, static_cast<int64_t>(i), metadata, MOERT_WIDE_NONE});
  }
  std::vector<int64_t> chunks;
  for (const auto &[count, index] : choices.begin()->second)
    if (std::ranges::all_of(choices, [&](const auto &choice) { return choice.second.contains(count); }))
      chunks.push_back(count);
  return Granularity::create(std::move(chunks), policy);
}

Status Session::activate(size_t index) {
  if (worlds.contains(index))
    return {};
  const Plan &plan = plans[index];
  Active &active = worlds[index];
  active.runner = std::make_unique<Runner>(plan, false, options, active.result);
  MOERT_RETURN_IF_ERROR(active.runner->create());
  Tensors inputs;
  std::ostringstream ignored;
  MOERT_RETURN_IF_ERROR(makeInputs(argumentsOf(plan.programs(false)), "", options.seed, ignored, inputs));
  MOERT_RETURN_IF_ERROR(active.runner->writeInputs(inputs));
  return active.runner->runSteps(1, nullptr);
}

Status Session::runStep(const Shape &shape) {
  int64_t tokens = shape.first * shape.second, chunks = 0;
  bool isTrial = false;
  MOERT_RETURN_IF_ERROR(policy->choose(tokens, {}, chunks, isTrial));
  size_t index = choices.at(shape).at(chunks);
  MOERT_RETURN_IF_ERROR(activate(index));
  Active &active = worlds.at(index);
  MOERT_RETURN_IF_ERROR(active.runner->runSteps(1, nullptr));
  double seconds = active.result.stepSeconds.back();
  steps.push_back({{"batch", shape.first},
                   {"sequence", shape.second},
                   {"chunks", chunks},
                   {"seconds", seconds},
                   {"trial", isTrial}});
  return policy->report(tokens, chunks, seconds);
}

Status Session::run() {
  std::mt19937_64 random(options.seed);
  for (int64_t step = 0; step < options.iters; ++step) {
    auto shape = std::next(choices.begin(), static_cast<std::ptrdiff_t>(random() % choices.size()));
    MOERT_RETURN_IF_ERROR(runStep(shape->first));
  }
  return {};
}

json Session::report() const {
  json ranges = json::array();
  for (const Granularity::Range &range : policy->ranges())
    ranges.push_back({{"chunks", range.chunks}, {"lower", range.lower}, {"upper", range.upper}});
  return {{"steps", steps}, {"trials", policy->trials()}, {"ranges", ranges}};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5 && argc != 6) {
    std::cerr << "usage: adaptive_chunks PLAN.so STEPS SEED WORKERS [LINKS]\n";
    return 2;
  }
  Options options;
  options.plan = argv[1];
  options.iters = std::stoll(argv[2]);
  options.seed = std::stoull(argv[3]);
  options.workers = std::stoll(argv[4]);
  options.emulateLinks = argc == 6 ? argv[5] : "";
  Session session{options};
  Status status = session.open();
  if (status.ok())
    status = session.run();
  if (!status.ok()) {
    std::cerr << "adaptive_chunks: error: " << status.message << "\n";
    return 2;
  }
  std::cout << session.report().dump(2) << "\n";
  return 0;
}
