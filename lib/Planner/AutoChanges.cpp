//===- AutoChanges.cpp - what the choice of a schedule depends on ---------===//
#include "LayerSamples.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"

#include "moe/Planner/AutoSchedule.h"

using namespace mlir;
using namespace mlir::moe;

static void scaleNetwork(ClusterProfile &cluster, double factor) {
  for (LinkPattern &link : cluster.links) {
    link.bytesPerSecond *= factor;
    link.backBytesPerSecond *= factor;
  }
  for (FabricLevel &level : cluster.fabric)
    level.bytesPerSecond *= factor;
  for (CollectiveFit &fit : cluster.collectives) {
    fit.beta /= factor;
    // The time of the first and least bytes of a curve is its start-up.
    for (MeasuredPoint &point : llvm::reverse(fit.points))
      point.seconds = fit.points[0].seconds + (point.seconds - fit.points[0].seconds) / factor;
  }
}

static void scaleDevices(ClusterProfile &cluster, double factor) {
  cluster.memoryBytesPerSecond *= factor;
  for (DeviceRate &rate : cluster.rates)
    rate.flopsPerSecond *= factor;
  for (KernelRate &kernel : cluster.kernels) {
    kernel.latency /= factor;
    kernel.bytesPerSecond *= factor;
  }
}

namespace {
/// A schedule that is tried again, and the order that is best for it now.
struct Form {
  std::string schedule;
  std::optional<OrderPolicy> order;
};
} // namespace

/// The fastest of `forms` that fit, for a graph and options; empty if none is possible.
static std::string chooseFrom(ArrayRef<Form> forms, ModuleOp graph, const PlanOptions &options, double tokens = 1) {
  // Shadows cannot be combined with all parts of schedules.
  ScopedDiagnosticHandler quiet(graph.getContext(), [](Diagnostic &) { return success(); });
  LayerSamples layers(graph, options, tokens);
  if (!layers.isLegal())
    return "";
  std::string best;
  double bestSeconds = std::numeric_limits<double>::infinity();
  for (const Form &form : forms) {
    Candidate candidate;
    candidate.order = form.order;
    FailureOr<ParsedSchedule> schedule = parseSchedule(graph.getContext(), form.schedule);
    if (failed(schedule))
      continue;
    layers.apply(*schedule, candidate);
    if (candidate.verdict == Verdict::Illegal || candidate.bound >= bestSeconds)
      continue;
    layers.simulate(*schedule, candidate);
    if (candidate.verdict != Verdict::Simulated || !layers.fits(candidate) || candidate.estimate.seconds >= bestSeconds)
      continue;
    bestSeconds = candidate.estimate.seconds;
    best = form.schedule;
  }
  return best;
}

/// Finds the first factor at which the choice changes, up to 8 times as much or down to an eighth.
static void addChangesOf(StringRef what, const PlanOptions &options, ScheduleExplanation &result,
                         function_ref<std::string(double)> choose) {
  const std::string &now = result.candidates[*result.best].schedule;
  for (bool more : {false, true})
    for (double factor : {2.0, 4.0, 8.0}) {
      if (options.isStoppedEarly())
        return;
      std::string then = choose(more ? factor : 1 / factor);
      if (then.empty() || then == now)
        continue;
      std::string text;
      llvm::raw_string_ostream(text) << what
                                     << (more ? llvm::format(" x %.0f", factor) : llvm::format(" / %.0f", factor));
      result.changes->push_back({text, then});
      break;
    }
}

/// Finds the choice for unbalanced experts, late in training: shadows are made for them.
static void addChangeOfSkew(ModuleOp graph, const PlanOptions &options, ArrayRef<Form> forms,
                            ScheduleExplanation &result) {
  if (options.routing)
    return;
  SmallVector<Form> all(forms);
  for (const Form &form : forms) {
    ParsedSchedule schedule = *parseSchedule(graph.getContext(), form.schedule);
    schedule.shadows.emplace();
    all.push_back({schedule.getName(), std::nullopt});
  }
  RoutingSource skewed;
  skewed.synthetic.preset = kUnbalancedRouting;
  skewed.synthetic.first = kUnbalancedRouting.first;
  PlanOptions changed = options;
  changed.routing = &skewed;
  if (std::string then = chooseFrom(all, graph, changed);
      !then.empty() && then != result.candidates[*result.best].schedule)
    result.changes->push_back({"routing that nothing balances, late in training (preset=unbalanced)", then});
}

void mlir::moe::addChanges(ModuleOp graph, const PlanOptions &options, ScheduleExplanation &result) {
  if (!result.best)
    return;
  result.changes.emplace();
  // All kinds that fit are tried again, each in its present best form: other forms seldom win elsewhere.
  constexpr size_t nearest = 6;
  SmallVector<Form> forms;
  llvm::StringSet<> classes;
  for (const Candidate *candidate : sortBySeconds(result.candidates))
    if (candidate->verdict != Verdict::TooLarge &&
        (classes.insert(candidate->scheduleClass).second || forms.size() < nearest))
      forms.push_back({candidate->schedule, candidate->order});
  auto onCluster = [&](function_ref<void(ClusterProfile &)> change) {
    ClusterProfile cluster = *options.cluster;
    change(cluster);
    PlanOptions changed = options;
    changed.cluster = &cluster;
    return chooseFrom(forms, graph, changed);
  };
  addChangesOf("the network's bandwidth", options, result, [&](double factor) {
    return onCluster([&](ClusterProfile &cluster) { scaleNetwork(cluster, factor); });
  });
  addChangesOf("the devices' speed", options, result, [&](double factor) {
    return onCluster([&](ClusterProfile &cluster) { scaleDevices(cluster, factor); });
  });
  addChangesOf("tokens", options, result, [&](double factor) { return chooseFrom(forms, graph, options, factor); });
  if (!options.isStoppedEarly())
    addChangeOfSkew(graph, options, forms, result);
  // A part of the changes would look like all of them.
  if (options.isStoppedEarly())
    result.changes.reset();
}
