//===- Adaptive.cpp - steps whose chunk count is learnt as they run -------===//

#include "run/Adaptive.h"
#include "run/Inputs.h"

#include <algorithm>
#include <random>
#include <set>
#include <sstream>

namespace moert::run {
namespace {

using Shape = std::pair<int64_t, int64_t>; ///< batch, sequence

std::string shapeName(const Shape &shape) { return std::to_string(shape.first) + " x " + std::to_string(shape.second); }

struct PolicyDestroyer {
  void operator()(moert_granularity_t policy) const { moert_granularity_destroy(policy); }
};

/// A variant's world, kept from step to step.
struct Active {
  RunResult result;
  std::unique_ptr<Runner> runner;
};

struct Session {
  const Options &options;
  std::ostream *log;
  AdaptiveResult &result;
  std::vector<Plan> plans;                            ///< all variants
  std::vector<std::vector<Value>> arguments;          ///< of each, in its own types
  std::map<Shape, std::map<int64_t, size_t>> choices; ///< index of the variant of a shape and a chunk count
  std::vector<int64_t> chunks;                        ///< that all shapes have
  std::unique_ptr<moert_granularity, PolicyDestroyer> policy;
  std::map<size_t, std::unique_ptr<Active>> worlds; ///< by index of the variant
  std::set<size_t> seen;

  Status open();
  Status findChoices();
  Status checkPlan(const Plan &plan);
  Status run();
  Status runStep(const Shape &shape);
  Status activate(size_t index);
  Status prepare(size_t index, Active &active);
  Status checkFirstStep(const Plan &plan, const Tensors &inputs, Routing &routing, const RunResult &run);
  Status summarise();
};

Status Session::open() {
  MOERT_RETURN_IF_ERROR(Plan::openVariants(options.plan, plans));
  MOERT_RETURN_IF_ERROR(findChoices());
  for (Plan &plan : plans) {
    arguments.push_back(argumentsOf(plan.programs(false)));
    plan.widen(options.wide);
  }
  for (const auto &[shape, variants] : choices)
    for (int64_t count : chunks)
      MOERT_RETURN_IF_ERROR(checkPlan(plans[variants.at(count)]));
  moert_granularity_t made = nullptr;
  Status status = checked(moert_granularity_create(chunks.data(), static_cast<int64_t>(chunks.size()), &made));
  policy.reset(made);
  return status;
}

/// The variants of the shapes that are asked for. Of several of one shape and chunk count the first is taken.
Status Session::findChoices() {
  std::vector<Metadata> known;
  for (size_t i = 0; i < plans.size(); ++i) {
    const Metadata &metadata = plans[i].metadata;
    known.push_back(metadata);
    if ((options.batch && options.batch != metadata.batch) || (options.seq && options.seq != metadata.sequence))
      continue;
    auto &variants = choices[{metadata.batch, metadata.sequence}];
    if (metadata.chunks > 0)
      variants.try_emplace(metadata.chunks, i);
  }
  if (choices.empty())
    return invalid("expected a batch and a sequence that the plan was compiled for, " + shapesText(known));
  for (const auto &[count, index] : choices.begin()->second) {
    auto has = [count = count](const auto &choice) { return choice.second.count(count) > 0; };
    if (std::all_of(choices.begin(), choices.end(), has))
      chunks.push_back(count);
  }
  if (chunks.size() >= 2)
    return {};
  return invalid(
      "--adaptive needs a plan with variants of several chunk counts, the same for each shape; this one has " +
      std::to_string(chunks.size()) + " chunk counts that all of its shapes have");
}

Status Session::checkPlan(const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkRanks(options.ranks, plan.metadata));
  if (!options.emulateLinks.empty())
    MOERT_RETURN_IF_ERROR(checkEmulated(options.emulateLinks, plan.metadata));
  return options.verify ? checkComparable(plan.metadata) : Status{};
}

Status Session::run() {
  std::vector<Shape> shapes;
  for (const auto &[shape, variants] : choices)
    shapes.push_back(shape);
  std::mt19937_64 random(options.seed);
  for (int64_t step = 0; step < options.iters; ++step) {
    MOERT_RETURN_IF_ERROR(runStep(shapes[random() % shapes.size()]));
    if (log)
      *log << "\rstep " << step + 1 << "/" << options.iters << (step + 1 == options.iters ? "\n" : "") << std::flush;
  }
  return summarise();
}

Status Session::runStep(const Shape &shape) {
  int64_t tokens = shape.first * shape.second, count = 0;
  int32_t trial = 0;
  MOERT_RETURN_IF_ERROR(checked(moert_granularity_choose(policy.get(), tokens, nullptr, &count, &trial)));
  size_t index = choices.at(shape).at(count);
  MOERT_RETURN_IF_ERROR(activate(index));
  Active &active = *worlds.at(index);
  MOERT_RETURN_IF_ERROR(active.runner->runSteps(1, nullptr));
  double seconds = active.result.stepSeconds.back();
  result.ranks = active.result.ranks;
  for (size_t space : {0, 1}) {
    ArenaUse &most = result.arenas[space];
    const ArenaUse &use = active.result.arenas[space];
    most = {std::max(most.planned, use.planned), std::max(most.measured, use.measured)};
  }
  result.otherBytes = std::max(result.otherBytes, active.result.otherBytes);
  result.steps.push_back({shape.first, shape.second, count, seconds, trial != 0});
  return checked(moert_granularity_report(policy.get(), tokens, count, seconds));
}

/// Keeps all variants' worlds as long as there is memory for them.
Status Session::activate(size_t index) {
  if (worlds.count(index))
    return {};
  auto active = std::make_unique<Active>();
  Status status = prepare(index, *active);
  if (status.code == MOERT_ERROR_OUT_OF_MEMORY && !worlds.empty()) {
    active = std::make_unique<Active>();
    worlds.clear();
    status = prepare(index, *active);
  }
  if (status.ok())
    worlds[index] = std::move(active);
  return status;
}

Status Session::prepare(size_t index, Active &active) {
  const Plan &plan = plans[index];
  active.runner = std::make_unique<Runner>(Runner::of(plan, false, options, active.result));
  MOERT_RETURN_IF_ERROR(active.runner->create(plan, false));
  Tensors inputs;
  std::ostringstream ignored;
  MOERT_RETURN_IF_ERROR(makeInputs(arguments[index], "", options.seed, ignored, inputs));
  MOERT_RETURN_IF_ERROR(widenInputs(plan.wide, arguments[index], options.seed, inputs));
  MOERT_RETURN_IF_ERROR(active.runner->writeInputs(inputs));
  Routing chosen;
  MOERT_RETURN_IF_ERROR(Routing::open(options, plan, chosen));
  active.runner->routing = &chosen;
  MOERT_RETURN_IF_ERROR(active.runner->runSteps(1, nullptr));
  active.runner->routing = nullptr;
  if (chosen.hasKept())
    MOERT_RETURN_IF_ERROR(checked(moert_world_record_routing(active.runner->world.get(), 0)));
  if (seen.count(index))
    return {};
  MOERT_RETURN_IF_ERROR(active.runner->readResults());
  Status status = checkFirstStep(plan, inputs, chosen, active.result);
  // Only the world is needed from here on.
  active.result.results.clear();
  if (status.ok())
    seen.insert(index);
  return status;
}

Status Session::checkFirstStep(const Plan &plan, const Tensors &inputs, Routing &routing, const RunResult &run) {
  const Metadata &metadata = plan.metadata;
  CheckedVariant entry{metadata.batch, metadata.sequence, metadata.chunks, {}};
  Status status;
  if (!options.isFirst())
    return status;
  Options firstStep = options;
  firstStep.iters = 1;
  if (options.verify)
    status = verifyAgainstReference(plan, firstStep, inputs, routing, nullptr, run, entry.verification);
  else
    checkReplicas(plan.metadata, options.tf32, run, entry.verification);
  if (status.ok())
    result.checked.push_back(std::move(entry));
  return status;
}

Status Session::summarise() {
  int64_t count = 0;
  result.ranges.resize(chunks.size());
  Status status = checked(moert_granularity_status(policy.get(), &result.trials, result.ranges.data(),
                                                   static_cast<int64_t>(result.ranges.size()), &count));
  result.ranges.resize(static_cast<size_t>(count));
  return status;
}

} // namespace

std::string CheckedVariant::name() const {
  return shapeName({batch, sequence}) + " in " + std::to_string(chunks) + " chunks";
}

Status runAdaptive(const Options &options, std::ostream *log, AdaptiveResult &result) {
  Session session{options, log, result, {}, {}, {}, {}, {}, {}, {}};
  MOERT_RETURN_IF_ERROR(session.open());
  return session.run();
}

} // namespace moert::run
