//===- AutoParallel.cpp - the best groups for a model on a cluster --------===//
#include "moe/Planner/AutoParallel.h"

#include "Explanation.h"
#include "ModelSamples.h"
#include "Threads.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

#include "moe/Conversion/Variants.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Simulator/Prediction.h"

#include <atomic>
#include <mutex>

using namespace mlir;
using namespace mlir::moe;

StringRef mlir::moe::getName(ParallelVerdict verdict) {
  static const StringLiteral names[] = {"illegal", "too large", "skipped", "slower", "estimated", "compiled", "chosen"};
  return names[static_cast<unsigned>(verdict)];
}

static constexpr StringLiteral kObjectiveNames[] = {"throughput", "step-time"};

StringRef mlir::moe::getName(Objective objective) { return kObjectiveNames[static_cast<unsigned>(objective)]; }

std::optional<Objective> mlir::moe::parseObjective(StringRef name) {
  const auto *found = llvm::find(kObjectiveNames, name);
  if (found == std::end(kObjectiveNames))
    return std::nullopt;
  return static_cast<Objective>(found - std::begin(kObjectiveNames));
}

double ParallelCandidate::getSecondsPerSequence(bool isFixed) const {
  int64_t sequences = isFixed ? microBatches : batch * parallel.getDp() * microBatches;
  return getStepSeconds() / static_cast<double>(sequences);
}

static SmallVector<int64_t> getDivisors(int64_t number) {
  SmallVector<int64_t> divisors;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0)
      divisors.push_back(divisor);
  return divisors;
}

std::vector<ParallelAttr> mlir::moe::getParallelSpace(MLIRContext *context, int64_t world, int64_t maxStages,
                                                      int64_t maxExperts, int64_t devicesPerNode) {
  context->loadDialect<MoeDialect>();
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  auto refuse = [&] { return emitError(UnknownLoc::get(context)); };
  // Farther than that nothing is gained by cutting single products.
  int64_t mostCuts = 2 * devicesPerNode;
  std::vector<ParallelAttr> space;
  for (int64_t pp : getDivisors(world)) {
    if (pp > maxStages)
      break;
    for (int64_t mp : getDivisors(world / pp))
      for (int64_t ep : getDivisors(world / pp))
        for (int64_t esp : getDivisors(world / pp / ep)) {
          if (mp > mostCuts || ep > maxExperts || esp > mostCuts)
            continue;
          if (auto one = ParallelAttr::getChecked(refuse, context, world, pp, world / pp / mp, mp, ep, esp))
            space.push_back(one);
        }
  }
  return space;
}

static std::string describe(ParallelAttr parallel) {
  std::string text;
  llvm::raw_string_ostream(text) << "pp=" << parallel.getPp() << ",dp=" << parallel.getDp()
                                 << ",mp=" << parallel.getMp() << ",ep=" << parallel.getEp()
                                 << ",esp=" << parallel.getEsp();
  return text;
}

namespace {
class ParallelSearch {
public:
  ParallelSearch(const ModelSource &source, const ParallelRequest &request, const CompileOptions &options)
      : source(source), request(request), options(options), context(options.parallel.getContext()) {}

  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  bool isSampled() const { return !source.kinds.empty(); }
  LogicalResult addSpace();
  /// The batch of each data-parallel rank, and micro-batches; a reason where there are none.
  void setBatches(ParallelCandidate &candidate) const;
  CompileOptions getOptions(const ParallelCandidate &candidate) const;
  /// Schedules that are simple enough to be tried with all groups.
  SmallVector<std::string> getSchedules(ParallelAttr parallel) const;
  bool fits(double bytes) const { return limit == 0 || bytes <= static_cast<double>(limit); }
  void refuse(ParallelCandidate &candidate, ParallelVerdict verdict, const std::string &reason) const {
    candidate.verdict = verdict;
    candidate.reason = reason;
  }
  void refuseSize(ParallelCandidate &candidate, StringRef what);

  void measureWhole(ParallelCandidate &candidate);
  void roughlyEstimateAll();
  void roughlyEstimate(MutableArrayRef<ParallelCandidate *> alike);
  void estimateNearest();
  void estimate(ParallelCandidate &candidate);
  /// Seconds, by which candidates are compared.
  double getCost(const ParallelCandidate &candidate) const {
    return request.objective == Objective::StepTime ? candidate.getStepSeconds()
                                                    : candidate.getSecondsPerSequence(source.isFixed);
  }
  /// Those that may be taken, the fastest first.
  SmallVector<ParallelCandidate *> sort();
  void compileNearest();
  LogicalResult failToFind();
  LogicalResult setFigures(ModuleOp module, ParallelCandidate &best) const;
  DictionaryAttr getFields(const ParallelCandidate &candidate) const;
  FailureOr<OwningOpRef<ModuleOp>> finish();
  FailureOr<OwningOpRef<ModuleOp>> compileOne(const ParallelCandidate &candidate, bool findChanges);
  void searchNearest();
  ParallelCandidate *choose();
  void addMargin(const ParallelCandidate &best, NamedAttrList &fields) const;
  void showProgress(StringRef what, size_t done, size_t all) const;
  /// Does 0 to `count` - 1, or fewer where the search is stopped; each must leave the others alone.
  void visitAll(StringRef what, size_t count, function_ref<void(size_t)> run);
  /// Asks `isGood` of one after the other until it has been so of `enough`.
  void visitBest(StringRef what, ArrayRef<ParallelCandidate *> sorted, size_t enough,
                 function_ref<bool(ParallelCandidate &)> isGood);
  /// What is known from now on is all that there will be.
  bool isStopped() { return stopped = stopped || options.isStoppedEarly(); }

  const ModelSource &source;
  const ParallelRequest &request;
  const CompileOptions &options;
  MLIRContext *context;
  int64_t limit = 0;
  int64_t tokens = 0; ///< of a sequence; of a fixed graph, of a micro-batch
  SmallVector<int64_t> kinds;
  SmallVector<size_t> kindOf; ///< of each block, its place in `kinds`
  std::vector<ParallelCandidate> candidates;
  std::atomic<bool> stopped = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// The space
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

void ParallelSearch::setBatches(ParallelCandidate &candidate) const {
  candidate.batch = request.batch;
  candidate.microBatches = request.microBatches;
  int64_t pp = candidate.parallel.getPp(), sequences = candidate.batch * candidate.parallel.getDp();
  if (request.globalBatch) {
    candidate.microBatches = *request.globalBatch / sequences;
    if (candidate.microBatches < 1 || *request.globalBatch % sequences != 0)
      return refuse(candidate, ParallelVerdict::Illegal, "dp x --batch does not divide the global batch");
    if (candidate.microBatches > kMaxMicroBatches)
      return refuse(candidate, ParallelVerdict::Illegal,
                    "the global batch is more than " + std::to_string(kMaxMicroBatches) + " micro-batches");
  }
  if (options.interleave > 1 && (pp == 1 || candidate.microBatches % pp != 0))
    refuse(candidate, ParallelVerdict::Illegal,
           "--interleave needs a pipeline, and micro-batches that are a multiple of pp");
}

LogicalResult ParallelSearch::addSpace() {
  int64_t most = options.cluster->getMaxDevices();
  if (request.world > most)
    return emitUsageError(context) << "expected --world of at most the " << most << " devices of cluster '"
                                   << options.cluster->name << "' but got " << request.world;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, /*dataParallel=*/1, /*batch=*/1, {});
  if (failed(graph))
    return failure();
  tokens = getTokens(**graph);
  int64_t layers = 0, experts = 1;
  (*graph)->walk([&](LayerOp layer) {
    ++layers;
    experts = std::max(experts, layer.getW1().getType().getDimSize(0));
  });
  int64_t stages = isSampled() ? static_cast<int64_t>(source.kinds.size()) : std::max<int64_t>(layers, 1);
  for (ParallelAttr parallel :
       getParallelSpace(context, request.world, stages, experts, options.cluster->devicesPerNode)) {
    ParallelCandidate &candidate = candidates.emplace_back();
    candidate.parallel = parallel;
    setBatches(candidate);
  }
  return success();
}

CompileOptions ParallelSearch::getOptions(const ParallelCandidate &candidate) const {
  CompileOptions one = options;
  one.parallel = candidate.parallel;
  one.microBatches = candidate.microBatches;
  one.stage = Stage::Plan;
  one.reference = false;
  one.memoryLimit = 0;
  one.findChanges = false;
  one.schedule = candidate.schedule;
  return one;
}

SmallVector<std::string> ParallelSearch::getSchedules(ParallelAttr parallel) const {
  if (options.schedule != "auto")
    return {options.schedule};
  SmallVector<std::string> schedules = {"baseline"};
  // Without duplicates of tokens the others come to the same.
  if (parallel.getMp() > 1)
    schedules.append({"s1", "s2", "ppmoe"});
  return schedules;
}

void ParallelSearch::showProgress(StringRef what, size_t done, size_t all) const {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\x1b[K" << what << ": " << done << " of " << all;
}

static void endProgress() {
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\n";
}

void ParallelSearch::visitAll(StringRef what, size_t count, function_ref<void(size_t)> run) {
  std::mutex mutex;
  size_t done = 0;
  forAll(context, count, [&](size_t index) {
    if (isStopped())
      return;
    run(index);
    std::lock_guard lock(mutex);
    showProgress(what, ++done, count);
  });
  endProgress();
}

void ParallelSearch::visitBest(StringRef what, ArrayRef<ParallelCandidate *> sorted, size_t enough,
                               function_ref<bool(ParallelCandidate &)> isGood) {
  takeWhileFew(
      context, sorted.size(), enough, [&](size_t index) { return !isStopped() && isGood(*sorted[index]); },
      [&](size_t good) {
        showProgress(what, good, enough);
        return !isStopped();
      });
  endProgress();
}

void ParallelSearch::refuseSize(ParallelCandidate &candidate, StringRef what) {
  std::string reason;
  llvm::raw_string_ostream(reason) << llvm::format("%.1f GB a rank, more than %.1f GB; ",
                                                   static_cast<double>(candidate.memory) / 1e9,
                                                   static_cast<double>(limit) / 1e9)
                                   << what;
  refuse(candidate, ParallelVerdict::TooLarge, reason);
}

//===----------------------------------------------------------------------===//
// Graphs that are small enough to be compiled in all groups
//===----------------------------------------------------------------------===//

static std::string describeMemory(const ProgramMemory &memory) {
  std::string text;
  auto giga = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  llvm::raw_string_ostream(text) << llvm::format(
      "%.1f GB parameters, %.1f GB gradients and states, %.1f GB values and arena", giga(memory.parameters),
      giga(memory.gradients + memory.states + memory.getOptimizerStates()), giga(memory.values + memory.arena));
  return text;
}

/// The fastest of the schedules that fit, or the smallest.
void ParallelSearch::measureWhole(ParallelCandidate &candidate) {
  std::optional<std::pair<std::string, StepFigures>> best;
  std::string first;
  for (const std::string &schedule : getSchedules(candidate.parallel)) {
    candidate.schedule = schedule;
    std::string reason;
    std::optional<StepFigures> step = measureStep(source, {}, candidate.batch, getOptions(candidate), reason);
    if (first.empty())
      first = reason;
    if (!step)
      continue;
    auto rank = [&](const StepFigures &one) {
      auto bytes = static_cast<double>(one.memory.getDeviceBytes());
      return fits(bytes) ? std::pair(0.0, one.time.seconds) : std::pair(bytes, one.time.seconds);
    };
    if (!best || rank(*step) < rank(best->second))
      best = {schedule, *step};
  }
  if (!best)
    return refuse(candidate, ParallelVerdict::Illegal, first);
  candidate.schedule = best->first;
  candidate.estimate = candidate.seconds = best->second.time.seconds;
  candidate.memory = best->second.memory.getDeviceBytes();
  candidate.uncertainty = best->second.uncertainty;
  candidate.verdict = ParallelVerdict::Estimated;
  if (!fits(static_cast<double>(candidate.memory)))
    refuseSize(candidate, describeMemory(best->second.memory));
}

//===----------------------------------------------------------------------===//
// Whole models
//===----------------------------------------------------------------------===//

/// `options` for a sample, which has all blocks in one stage.
static CompileOptions getSampleOptions(CompileOptions options) {
  ParallelAttr all = options.parallel;
  options.parallel = ParallelAttr::get(all.getContext(), all.getDp() * all.getMp(), /*pp=*/1, all.getDp(), all.getMp(),
                                       all.getEp(), all.getEsp());
  options.interleave = 1;
  return options;
}

static double getEstimatedBytes(const PipelineEstimate &estimate, bool isLower, const ModelCost &cost) {
  // A rough one is without what lies on the ends of the pipeline, and without states, which more ranks may divide.
  return isLower ? estimate.bytes - cost.rest.held : estimate.bytes;
}

/// Of groups that differ in pp alone, from one sample of the most frequent block. What a step does once is left out,
/// and so are states: the number of data-parallel ranks decides them.
void ParallelSearch::roughlyEstimate(MutableArrayRef<ParallelCandidate *> alike) {
  ParallelCandidate &smallest = *alike.back();
  smallest.schedule = getSchedules(smallest.parallel).front();
  int64_t frequent = *llvm::max_element(
      kinds, [&](int64_t a, int64_t b) { return llvm::count(source.kinds, a) < llvm::count(source.kinds, b); });
  CompileOptions one = getSampleOptions(getOptions(smallest));
  one.microBatches = 1;
  std::string reason;
  std::optional<ModelCost> cost = sampleModel(source, {frequent}, smallest.batch, one, reason);
  if (!cost)
    for (ParallelCandidate *candidate : alike)
      refuse(*candidate, ParallelVerdict::Illegal, reason);
  if (!cost)
    return;
  cost->kinds.front().held = cost->kinds.front().parameters * (options.train ? 2 : 1);
  SmallVector<size_t> blocks(source.kinds.size(), 0);
  for (ParallelCandidate *candidate : alike) {
    PipelineEstimate rough =
        estimatePipeline(*cost, blocks, candidate->parallel.getPp(), options.interleave, candidate->microBatches);
    candidate->estimate = rough.seconds;
    candidate->memory = static_cast<int64_t>(getEstimatedBytes(rough, /*isLower=*/true, *cost));
    candidate->verdict = ParallelVerdict::Slower;
    candidate->reason = "by a rough estimate";
    if (!fits(static_cast<double>(candidate->memory)))
      refuseSize(*candidate, "by a rough estimate without the optimizer's states");
  }
}

void ParallelSearch::roughlyEstimateAll() {
  std::vector<SmallVector<ParallelCandidate *>> groups;
  llvm::StringMap<size_t> places;
  for (ParallelCandidate &candidate : candidates) {
    if (candidate.verdict == ParallelVerdict::Illegal)
      continue;
    ParallelAttr all = candidate.parallel;
    std::string name = llvm::formatv("{0} {1} {2} {3}", all.getMp(), all.getEp(), all.getEsp(), candidate.batch);
    auto [place, isNew] = places.try_emplace(name, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[place->second].push_back(&candidate);
  }
  visitAll("rough estimates", groups.size(), [&](size_t index) { roughlyEstimate(groups[index]); });
}

void ParallelSearch::estimate(ParallelCandidate &candidate) {
  std::string first, best;
  std::optional<PipelineEstimate> fastest;
  for (const std::string &schedule : getSchedules(candidate.parallel)) {
    candidate.schedule = schedule;
    std::string reason;
    std::optional<ModelCost> cost =
        sampleModel(source, kinds, candidate.batch, getSampleOptions(getOptions(candidate)), reason);
    if (first.empty())
      first = reason;
    if (!cost)
      continue;
    PipelineEstimate one =
        estimatePipeline(*cost, kindOf, candidate.parallel.getPp(), options.interleave, candidate.microBatches);
    auto rank = [&](const PipelineEstimate &one) { return std::pair(fits(one.bytes) ? 0 : one.bytes, one.seconds); };
    if (fastest && rank(*fastest) <= rank(one))
      continue;
    fastest = one;
    best = schedule;
  }
  if (!fastest)
    return refuse(candidate, ParallelVerdict::Illegal, first);
  candidate.schedule = best;
  candidate.estimate = fastest->seconds;
  candidate.memory = static_cast<int64_t>(fastest->bytes);
  candidate.reason.clear();
  candidate.verdict = ParallelVerdict::Estimated;
  if (!fits(fastest->bytes))
    refuseSize(candidate, "by samples");
}

/// Closer estimates in the order of the rough ones, until enough fit.
void ParallelSearch::estimateNearest() {
  constexpr size_t enough = 10;
  SmallVector<ParallelCandidate *> sorted;
  for (ParallelCandidate &candidate : candidates)
    if (candidate.verdict == ParallelVerdict::Slower)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](ParallelCandidate *a, ParallelCandidate *b) { return getCost(*a) < getCost(*b); });
  visitBest("estimates that fit", sorted, enough, [&](ParallelCandidate &candidate) {
    estimate(candidate);
    return candidate.verdict == ParallelVerdict::Estimated;
  });
}

SmallVector<ParallelCandidate *> ParallelSearch::sort() {
  SmallVector<ParallelCandidate *> sorted;
  for (ParallelCandidate &candidate : candidates)
    if (candidate.verdict == ParallelVerdict::Estimated || candidate.verdict == ParallelVerdict::Compiled)
      sorted.push_back(&candidate);
  llvm::stable_sort(sorted, [&](ParallelCandidate *a, ParallelCandidate *b) {
    // What was compiled is known, and goes before what was not.
    auto key = [&](ParallelCandidate *one) {
      return std::pair(one->verdict != ParallelVerdict::Compiled, getCost(*one));
    };
    return key(a) < key(b);
  });
  return sorted;
}

/// The nearest by estimate as they are, in as many micro-batches as fill the pipeline: from there on each takes as long
/// as the one before, and no more memory.
void ParallelSearch::compileNearest() {
  constexpr size_t compared = 3;
  visitBest("whole plans", sort(), compared, [&](ParallelCandidate &candidate) {
    CompileOptions one = getOptions(candidate);
    FewMicroBatches few(one);
    std::string reason;
    auto measure = [&](int64_t microBatches) {
      one.microBatches = microBatches;
      return measureStep(source, {}, candidate.batch, one, reason);
    };
    std::optional<StepFigures> step = measure(few.getCount());
    std::optional<double> seconds;
    if (step)
      seconds = few.getSeconds(step->time, [&](int64_t count) {
        std::optional<StepFigures> more = measure(count);
        return more ? std::optional(more->time) : std::nullopt;
      });
    if (!seconds) {
      refuse(candidate, ParallelVerdict::Illegal, reason);
      return false;
    }
    candidate.seconds = *seconds;
    candidate.memory = step->memory.getDeviceBytes();
    candidate.uncertainty = step->uncertainty;
    candidate.verdict = ParallelVerdict::Compiled;
    if (fits(static_cast<double>(candidate.memory)))
      return true;
    refuseSize(candidate, describeMemory(step->memory));
    return false;
  });
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

LogicalResult ParallelSearch::failToFind() {
  const ParallelCandidate *smallest = nullptr, *illegal = nullptr;
  for (const ParallelCandidate &candidate : candidates) {
    if (candidate.verdict == ParallelVerdict::TooLarge && (!smallest || candidate.memory < smallest->memory))
      smallest = &candidate;
    if (candidate.verdict == ParallelVerdict::Illegal && !illegal)
      illegal = &candidate;
  }
  if (stopped)
    return emitUsageError(context) << "expected groups of " << request.world
                                   << " ranks but the search was interrupted before any "
                                   << (smallest ? "that fit " : "") << "were compared";
  if (smallest)
    return emitUsageError(context) << "expected groups of " << request.world << " ranks in which a plan has at most "
                                   << limit << " bytes a rank, but the smallest of " << candidates.size()
                                   << " needs more, that of " << describe(smallest->parallel) << ": "
                                   << smallest->reason;
  InFlightDiagnostic error = emitUsageError(context) << "expected groups of " << request.world << " ranks that can be";
  if (illegal)
    error << ", but of " << describe(illegal->parallel) << " the passes say: " << illegal->reason;
  return error;
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::compileOne(const ParallelCandidate &candidate, bool findChanges) {
  CompileOptions one = options;
  one.parallel = candidate.parallel;
  one.microBatches = candidate.microBatches;
  one.findChanges = findChanges;
  if (isStopped())
    one.schedule = candidate.schedule;
  else if (options.schedule == "auto")
    one.memoryLimit = limit;
  FailureOr<OwningOpRef<ModuleOp>> graph = source.read(*context, candidate.parallel.getDp(), candidate.batch, {});
  return failed(graph) ? FailureOr<OwningOpRef<ModuleOp>>(failure()) : compile(**graph, one);
}

/// Some of the nearest in the best schedule of each.
void ParallelSearch::searchNearest() {
  constexpr size_t compared = 3;
  visitBest("groups with their best schedules", sort(), compared, [&](ParallelCandidate &candidate) {
    if (candidate.verdict == ParallelVerdict::Compiled)
      return true;
    CompileOptions one = getOptions(candidate);
    one.schedule = options.schedule;
    one.memoryLimit = limit;
    one.showProgress = nullptr;
    std::string reason;
    std::optional<StepFigures> step = measureStep(source, {}, candidate.batch, one, reason);
    // A search that was stopped has nothing to say against the candidate.
    if (!step && !isStopped())
      refuse(candidate, ParallelVerdict::Illegal, reason);
    if (!step)
      return false;
    candidate.seconds = step->time.seconds;
    candidate.memory = step->memory.getDeviceBytes();
    candidate.uncertainty = step->uncertainty;
    candidate.schedule = step->schedule;
    candidate.verdict = ParallelVerdict::Compiled;
    return true;
  });
}

/// The fastest with the schedule that is asked for; null where there is none.
ParallelCandidate *ParallelSearch::choose() {
  // A large model is compiled once: its nearest were compared as a whole, in a simple schedule.
  if (options.schedule == "auto" && !isSampled() && !isStopped())
    searchNearest();
  SmallVector<ParallelCandidate *> sorted = sort();
  return sorted.empty() ? nullptr : sorted.front();
}

/// How far `best` is from the others that were compared in the same way.
void ParallelSearch::addMargin(const ParallelCandidate &best, NamedAttrList &fields) const {
  auto getChoice = [&](const ParallelCandidate &one) {
    return Choice{describe(one.parallel), getCost(one), one.uncertainty};
  };
  SmallVector<Choice> others;
  for (const ParallelCandidate &one : candidates)
    if (&one != &best && one.verdict == best.verdict)
      others.push_back(getChoice(one));
  mlir::moe::addMargin(getChoice(best), std::move(others), fields, context);
}

DictionaryAttr ParallelSearch::getFields(const ParallelCandidate &candidate) const {
  Builder builder(context);
  double perSequence = candidate.getSecondsPerSequence(source.isFixed);
  double rankTokens = static_cast<double>(tokens) / static_cast<double>(request.world);
  NamedAttrList fields;
  fields.append("parallel", builder.getStringAttr(describe(candidate.parallel)));
  fields.append("verdict", builder.getStringAttr(getName(candidate.verdict)));
  fields.append("batch", builder.getI64IntegerAttr(candidate.batch));
  fields.append("micro_batches", builder.getI64IntegerAttr(candidate.microBatches));
  fields.append("memory", builder.getI64IntegerAttr(candidate.memory));
  fields.append("estimate", builder.getF64FloatAttr(candidate.estimate));
  fields.append("seconds", builder.getF64FloatAttr(candidate.seconds));
  fields.append("uncertainty", builder.getF64FloatAttr(candidate.uncertainty));
  fields.append("seconds_per_sequence", builder.getF64FloatAttr(perSequence));
  fields.append("tokens_per_second", builder.getF64FloatAttr(perSequence > 0 ? rankTokens / perSequence : 0));
  fields.append("objective", builder.getStringAttr(getName(request.objective)));
  fields.append("schedule", builder.getStringAttr(candidate.schedule));
  fields.append("reason", builder.getStringAttr(candidate.reason));
  return fields.getDictionary(builder.getContext());
}

/// Of the plan that is taken.
LogicalResult ParallelSearch::setFigures(ModuleOp module, ParallelCandidate &best) const {
  llvm::Expected<Prediction> prediction = predict(module, "", *options.cluster, options.routing);
  if (!prediction)
    return emitUsageError(context) << llvm::toString(prediction.takeError());
  best.verdict = ParallelVerdict::Chosen;
  best.seconds = prediction->result.seconds;
  best.memory = getMemory(getLargestProgram(module)).getDeviceBytes();
  if (auto schedule = module->getAttrOfType<StringAttr>(plan::kScheduleAttrName))
    best.schedule = schedule.str();
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::finish() {
  FailureOr<OwningOpRef<ModuleOp>> module = failure();
  NamedAttrList fields;
  while (failed(module)) {
    ParallelCandidate *best = choose();
    if (!best)
      return failToFind();
    fields.clear();
    addMargin(*best, fields);
    module = compileOne(*best, options.findChanges);
    if (failed(module) || failed(setFigures(**module, *best)))
      return failure();
    if (fits(static_cast<double>(best->memory)))
      break;
    // More micro-batches, and another schedule, took more than the plan that was compared.
    refuseSize(*best, describeMemory(getMemory(getLargestProgram(**module))));
    module = failure();
  }
  SmallVector<Attribute> all;
  for (const ParallelCandidate &candidate : candidates)
    all.push_back(getFields(candidate));
  fields.append("candidates", ArrayAttr::get(context, all));
  fields.append("complete", BoolAttr::get(context, !stopped));
  (**module)->setAttr(plan::kExplainParallelAttrName, fields.getDictionary(context));
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> ParallelSearch::run() {
  if (failed(addSpace()))
    return failure();
  limit = options.memoryLimit;
  // What a host has is not known here.
  if (limit == 0 && options.cluster->processors.count == 0)
    limit = static_cast<int64_t>(options.cluster->memoryBytes);
  kinds = getKinds(source);
  for (int64_t kind : source.kinds)
    kindOf.push_back(llvm::find(kinds, kind) - kinds.begin());
  if (isSampled()) {
    roughlyEstimateAll();
    estimateNearest();
    compileNearest();
    return finish();
  }
  visitAll("groups", candidates.size(), [&](size_t index) {
    if (candidates[index].verdict != ParallelVerdict::Illegal)
      measureWhole(candidates[index]);
  });
  return finish();
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::compileBestParallel(const ModelSource &source,
                                                                const ParallelRequest &request,
                                                                const CompileOptions &options) {
  return ParallelSearch(source, request, options).run();
}
