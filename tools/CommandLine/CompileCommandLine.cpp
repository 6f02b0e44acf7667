//===- CompileCommandLine.cpp - what tools that compile have in common ----===//
#include "CompileCommandLine.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"

#include "moe/Compiler/Schedule.h"
#include "moe/Cost/FrameworkProfile.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Frameworks/RunAnchor.h"
#include "moe/Support/InputFile.h"
#include "moe/Support/UsageError.h"

#include <atomic>
#include <csignal>
#include <ctime>

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

CompileCommandLine::CompileCommandLine(cl::OptionCategory &category)
    : input(cl::Positional, cl::desc("<model.mlir | config.json | model name>"), cl::cat(category)),
      parallel("parallel",
               cl::desc("Sizes of the groups of ranks: pp (pipeline), dp (data), cp (context), mp\n"
                        "   (tensor), ep (expert) and esp (expert tensor parallelism). Example:\n"
                        "   dp=4,mp=2,ep=4,esp=2. Without a size, dp is at least ep x esp / (cp x mp), and\n"
                        "   the others are 1. auto searches the best sizes for --world ranks, and keeps\n"
                        "   given ones, as in auto,pp=4,cp=2. In moe-plan, auto may be left out.\n"
                        "   Default: one rank; in moe-plan auto"),
               cl::value_desc("sizes"), cl::init(""), cl::cat(category)),
      schedule("schedule",
               cl::desc("How MoE layers are computed: baseline, s1, s2, s2+saa, ppmoe, parm-auto or\n"
                        "   auto, the best on the cluster. More parts may follow, as in s1+chunks:4:\n"
                        "   chunks:N|auto[,RING], mpipe-s1 to mpipe-s4, mpipe-auto, once:rank,\n"
                        "   once:node[,RANKS], hier[:RANKS], shadow[:MAX,POLICY], smart[:RANKS,ORDER]\n"
                        "   and topology-gate (docs/Schedules.md). Default: baseline; in moe-plan auto"),
               cl::value_desc("parts"), cl::init("baseline"), cl::cat(category)),
      mode("mode", cl::desc("train (forward and backward) or forward. Default: train"), cl::value_desc("train|forward"),
           cl::init("train"), cl::cat(category)),
      order("order",
            cl::desc("Order in which a rank issues its kernels and exchanges: search (the best\n"
                     "   order found on the cluster), mpipemoe, fastermoe, or program (as in the\n"
                     "   program). Default: search for layers in chunks, otherwise program"),
            cl::value_desc("order"), cl::init(""), cl::Hidden, cl::cat(category)),
      cluster("cluster",
              cl::desc("Cluster to plan for: a profile file, or the name of a shared profile.\n"
                       "   Example: hgx-h100. moe-plan has an argument for it. Default: localhost"),
              cl::value_desc("cluster"), cl::init("localhost"), cl::cat(category)),
      framework("framework",
                cl::desc("Framework whose times to predict, and whose plans to search: a description\n"
                         "   file, or the name of a shared one. Example: megatron. Default: moeplan,\n"
                         "   MoePlan's own runtime"),
                cl::value_desc("framework"), cl::init("moeplan"), cl::cat(category)),
      dispatcher("dispatcher",
                 cl::desc("Library of the framework that sends tokens to experts. Example: deepep.\n"
                          "   Default: the first one of its description"),
                 cl::value_desc("name"), cl::init(""), cl::Hidden, cl::cat(category)),
      cudaGraph("cuda-graph",
                cl::desc("Part of the step that the framework runs as CUDA graphs. Example:\n"
                         "   full_iteration. Default: none"),
                cl::value_desc("scope"), cl::init(""), cl::Hidden, cl::cat(category)),
      precision("precision",
                cl::desc("Types in which the framework computes products: bf16, fp8-tensor, fp8-block,\n"
                         "   mxfp8, nvfp4, or others of its description. It needs --framework.\n"
                         "   Default: bf16"),
                cl::value_desc("name"), cl::init("bf16"), cl::cat(category)),
      objective("objective",
                cl::desc("Goal of --parallel=auto: throughput (tokens per second and device) or\n"
                         "   step-time (the shortest step). They differ only if the candidates have\n"
                         "   different numbers of tokens per step. Default: throughput"),
                cl::value_desc("goal"), cl::init("throughput"), cl::Hidden, cl::cat(category)),
      memoryLimit("memory-limit",
                  cl::desc("Memory that one rank may use, as in 80GB or 74.5GiB. If a plan needs more,\n"
                           "   the compiler tries more chunks and keeps less for the backward. Default: 0,\n"
                           "   no limit; with --parallel=auto the memory of the cluster's devices"),
                  cl::cat(category)),
      world("world", cl::desc("Number of ranks for --parallel=auto. moe-plan has an argument for it"),
            cl::value_desc("ranks"), cl::init(0), cl::cat(category)),
      vary("vary",
           cl::desc("Options that --parallel=auto may change: all that are not given, none, or a\n"
                    "   list. Names: batch, interleave, max-load, pipeline, recompute,\n"
                    "   ring-attention, sequence-parallel and zero. batch needs --global-batch, zero\n"
                    "   needs --optimizer, and max-load needs a dropless model. Default: all.\n"
                    "   drops lets --schedule=auto take schedules that drop other tokens than the\n"
                    "   baseline; all does not include it"),
           cl::value_desc("options"), cl::CommaSeparated, cl::cat(category)),
      measured("measured",
               cl::desc("Anchor the times of --framework in step times of your own jobs: logs of\n"
                        "   Megatron-LM, one for each job, or JSON lists of jobs (docs/Clusters.md).\n"
                        "   Default: none"),
               cl::value_desc("file,.."), cl::CommaSeparated, cl::cat(category)),
      stageBlocks("stage-blocks", cl::CommaSeparated,
                  cl::desc("Number of the model's blocks in each stage of a pipeline, in the order of the\n"
                           "   model. Needs --whole-model. Default: stages take about equal time.\n"
                           "   Example: 11,12,12,13"),
                  cl::value_desc("numbers"), cl::Hidden, cl::cat(category)),
      globalBatch("global-batch",
                  cl::desc("Sequences in one step of all ranks (GBS): dp x --batch x --micro-batches.\n"
                           "   Give this or --micro-batches. In moe-plan 4 per GPU, and at least 256"),
                  cl::value_desc("number"), cl::init(0), cl::cat(category)),
      threads("num-threads",
              cl::desc("Number of threads that compile and search. It changes no result. Default: 0,\n"
                       "   one per core"),
              cl::value_desc("number"), cl::init(0), cl::Hidden, cl::cat(category)),
      reference("reference",
                cl::desc("Also compile the model for one rank, with which moe-run --verify compares.\n"
                         "   Default: true; --reference=false leaves it out"),
                cl::init(true), cl::Hidden, cl::cat(category)),
      exhaustive("exhaustive",
                 cl::desc("Let --schedule=auto simulate every candidate, also those that cannot be the\n"
                          "   best. Default: off"),
                 cl::init(false), cl::Hidden, cl::cat(category)),
      importing(category), step(category) {}

/// More than any machine has; a pool of far more threads ends the program.
static constexpr unsigned kMaxThreads = 1024;

LogicalResult CompileCommandLine::checkInput() const {
  if (isGraph() || job)
    return success();
  llvm::Expected<std::string> path = findShareFile("models", input);
  return path ? success() : printError(path.takeError());
}

/// The upper end of published capacity factors: docs/Routing.md, "Room for dropless rows".
static constexpr double kDefaultMaxLoad = 2;

FailureOr<PlanOptions> CompileCommandLine::getOptions(MLIRContext &context, const ClusterProfile &cluster) {
  if (mode != "train" && mode != "forward")
    return reportUnknownName(context, mode, {"train", "forward"});
  if (threads > kMaxThreads)
    return emitUsageError(context) << "expected --num-threads to be at most " << kMaxThreads << " but got "
                                   << uint64_t(threads);
  FailureOr<GivenGroups> given = parseGroups(&context, parallel);
  if (failed(given))
    return failure();
  groups = *given;
  FailureOr<ParallelAttr> fixed = makeParallel(&context, isOpen() ? GivenGroups() : groups);
  if (failed(fixed))
    return failure();
  bool hasWorld = world.getNumOccurrences() > 0;
  if ((job ? isOpen() && !hasWorld : isOpen() != hasWorld) || world < 0)
    return emitUsageError(context) << "expected --world=RANKS together with --parallel=auto: each needs the other";
  if (!parseObjective(objective))
    return reportUnknownName(context, objective, {"throughput", "step-time"});
  if (!stageBlocks.empty() && (isOpen() || isGraph() || groups.pp.value_or(1) == 1))
    return emitUsageError(context) << "--stage-blocks needs a configuration, and more than one stage in --parallel";
  if (objective.getNumOccurrences() && !isOpen())
    return emitUsageError(context)
           << "--objective needs --parallel=auto: with given groups all steps have as many tokens";
  FailureOr<std::optional<GlobalBatch>> sequences = getGlobalBatch(context);
  if (failed(sequences) || failed(parseSchedule(&context, schedule)) || failed(checkVary(context)))
    return failure();
  PlanOptions options;
  if (!order.empty()) {
    options.order = parseOrderPolicy(order);
    if (!options.order)
      return reportUnknownName(context, order, {"search", "mpipemoe", "fastermoe", "program"});
  }
  options.parallel = *fixed;
  options.schedule = schedule;
  options.train = mode == "train";
  options.memoryLimit = memoryLimit.number;
  options.reference = reference;
  options.exhaustive = exhaustive;
  options.keepsDrops = schedule == "auto" && !isVaried("drops");
  options.devicesPerNode = cluster.devicesPerNode;
  options.cluster = &cluster;
  if (failed(step.setOptions(context, options, *sequences, isOpen())))
    return failure();
  // A host has memory for the worst case.
  bool hasDevices = cluster.processors.count == 0;
  if (hasDevices)
    importing.setDefaultMaxLoad(kDefaultMaxLoad);
  if (!isOpen())
    warnOfBubble(options);
  return options;
}

std::unique_ptr<llvm::ThreadPoolInterface> CompileCommandLine::makeThreads() const {
  llvm::ThreadPoolStrategy strategy = llvm::hardware_concurrency(std::min<unsigned>(threads, kMaxThreads));
  if (strategy.compute_thread_count() < 2)
    return nullptr;
  return std::make_unique<llvm::DefaultThreadPool>(strategy);
}

FailureOr<std::optional<GlobalBatch>> CompileCommandLine::getGlobalBatch(MLIRContext &context) const {
  if (!globalBatch.getNumOccurrences())
    return std::optional<GlobalBatch>();
  if (globalBatch < 1 || isGraph())
    return emitUsageError(context) << "expected --global-batch of at least 1, and with a configuration: the batch of a "
                                      "model graph is fixed";
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  if (shapes->size() > 1)
    return emitUsageError(context) << "expected one --batch and one --seq with --global-batch";
  return std::optional(GlobalBatch{globalBatch, shapes->front().batch});
}

LogicalResult CompileCommandLine::checkVary(MLIRContext &context) const {
  SmallVector<StringRef> known = {"drops"};
  visitChoices([&](auto, const ChoiceInfo &info) {
    if (info.isSearched)
      known.push_back(info.option);
  });
  llvm::sort(known);
  for (StringRef name : vary) {
    bool isKnown = llvm::is_contained(known, name) || name == "all" || (name == "none" && vary.size() == 1);
    if (!isKnown)
      return emitUsageError(context) << "expected --vary to be all, none, or a list of " << llvm::join(known, ", ")
                                     << " but got '" << name << "'";
    bool isOfSchedule = name == "drops" || name == "none";
    if (!isOpen() && !(isOfSchedule && schedule == "auto"))
      return emitUsageError(context) << "--vary=" << name << " needs --parallel=auto"
                                     << (isOfSchedule ? " or --schedule=auto" : "");
    if (name == "drops" && schedule != "auto")
      return emitUsageError(context) << "--vary=drops needs --schedule=auto";
  }
  return success();
}

bool CompileCommandLine::isVaried(StringRef option) const {
  bool isAll = vary.empty() || llvm::is_contained(vary, "all");
  return llvm::is_contained(vary, option) || (isAll && option != "drops");
}

void CompileCommandLine::setSpace(ParallelRequest &request, const PlanOptions &options, int64_t givenBatch) const {
  request.space = getStepSpace(options, [&](StringRef option) { return !isGiven(option) && isVaried(option); });
  request.space.batches = {givenBatch};
  if (!importing.hasBatch() && globalBatch.getNumOccurrences() && isVaried("batch"))
    request.space.batches = {1, 2, 4, 8};
  if (std::optional<double> load = importing.getDefaultMaxLoad()) {
    request.space.maxLoads = {*load};
    if (isVaried("max-load"))
      request.space.maxLoads.append({1.5, 1.25});
  }
}

LogicalResult CompileCommandLine::checkRules(MLIRContext &context, const PlanOptions &options) const {
  LogicalResult result = success();
  visitChoices([&](auto member, const ChoiceInfo &info) {
    std::string text = getText(options.*member);
    bool isOpen = !isGiven(info.option) || text == "auto";
    if (isOpen || failed(result) || rules.allows(info.getKey(), text))
      return;
    result = emitUsageError(context) << "framework '" << rules.framework << "' does not run --" << info.option << "="
                                     << text << "; it runs " << rules.listValues(info.getKey());
  });
  return result;
}

ModelReader CompileCommandLine::makeReader(ModuleOp graph, ImportShape shape) const {
  if (!graph)
    return [this, shape](MLIRContext &own, const ModelForm &form) -> FailureOr<OwningOpRef<ModuleOp>> {
      llvm::Expected<OwningOpRef<ModuleOp>> module =
          importing.importFile(own, input, form, /*loss=*/mode == "train", shape);
      if (module)
        return std::move(*module);
      return reportError(own, module.takeError());
    };
  std::string text;
  llvm::raw_string_ostream(text) << graph;
  return [text = std::move(text)](MLIRContext &own, const ModelForm &) -> FailureOr<OwningOpRef<ModuleOp>> {
    if (OwningOpRef<ModuleOp> read = parseSourceString<ModuleOp>(text, &own))
      return read;
    return failure();
  };
}

FailureOr<ModelSource> CompileCommandLine::getSource(Session &session, ImportShape shape) const {
  ModelSource source;
  source.isFixed = isGraph();
  OwningOpRef<ModuleOp> graph;
  if (isGraph()) {
    FailureOr<OwningOpRef<ModuleOp>> read = readModule(session, {});
    if (failed(read))
      return failure();
    if (isSpmdProgram(**read) || !plan::getRankPrograms(**read).empty())
      return emitUsageError(session.context) << "--parallel=auto cannot be combined with '" << input
                                             << "': it is a rank program, whose groups are fixed";
    graph = std::move(*read);
  } else {
    llvm::Expected<std::vector<int64_t>> kinds = importing.getBlockKinds(input);
    if (!kinds)
      return printError(kinds.takeError());
    source.kinds = std::move(*kinds);
  }
  source.read = makeReader(graph ? *graph : ModuleOp(), shape);
  return source;
}

FailureOr<ParallelSearchInput> CompileCommandLine::getSearch(Session &session, const PlanOptions &options) const {
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  if (shapes->size() > 1)
    return emitUsageError(session.context) << "expected one --batch and one --seq with --parallel=auto";
  ParallelSearchInput search;
  search.options = options;
  if (!rules.rules.empty())
    search.options.rules = &rules;
  search.request.world = world;
  search.request.microBatches = options.microBatches;
  if (globalBatch.getNumOccurrences())
    search.request.globalBatch = globalBatch;
  search.request.objective = *parseObjective(objective);
  if (failed(checkRules(session.context, search.options)))
    return failure();
  setSpace(search.request, search.options, shapes->front().batch);
  search.request.given = groups;
  search.request.describeRemedies = [this, &session](const Candidate &smallest, const PlanOptions &compiled,
                                                     int64_t bytes, int64_t limit) {
    PlanRequest asked{compiled, {}};
    asked.model.maxLoad = smallest.maxLoad;
    return describeRemedies(session, asked, bytes, limit);
  };
  FailureOr<ModelSource> source = getSource(session, shapes->front());
  if (failed(source))
    return failure();
  search.source = std::move(*source);
  addJob(search);
  return search;
}

FailureOr<SampledStep> CompileCommandLine::sampleStep(Session &session, const PlanOptions &options) const {
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  if (isGraph() || isOpen() || shapes->size() > 1)
    return emitUsageError(session.context)
           << "samples need a configuration, the sizes of --parallel, one --batch and one --seq";
  FailureOr<ModelSource> source = getSource(session, shapes->front());
  if (failed(source))
    return failure();
  if (source->kinds.empty())
    return emitUsageError(session.context) << "samples need a whole model: --whole-model";
  if (!isSampled(options))
    return emitUsageError(session.context)
           << "samples need --pipeline=1f1b or 1f1b-overlap and another --schedule than auto, and neither "
              "--side-by-side nor --memory-limit";
  Candidate candidate;
  static_cast<StepChoice &>(candidate) = options;
  candidate.batch = shapes->front().batch;
  std::string reason;
  std::optional<SampledStep> step = moe::sampleStep(*source, options, candidate, reason);
  if (!step)
    return emitUsageError(session.context) << "samples do not tell the step: " << reason;
  return *step;
}

FailureOr<OwningOpRef<ModuleOp>> CompileCommandLine::compileAuto(Session &session, const PlanOptions &options) const {
  FailureOr<ParallelSearchInput> search = getSearch(session, options);
  if (failed(search))
    return failure();
  SearchWatch watch;
  watch.attach(search->request, search->options);
  FailureOr<OwningOpRef<ModuleOp>> plan = failure();
  if (failed(watch.run([&]() -> LogicalResult {
        plan = compileBestParallel(search->source, search->request, search->options);
        return plan;
      })))
    return failure();
  noteChoice(**plan, options);
  noteDefaultMaxLoad(**plan);
  return plan;
}

std::string CompileCommandLine::describeRemedies(Session &session, const PlanRequest &asked, int64_t bytes,
                                                 int64_t limit) const {
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  // Standard input can be read once.
  if (input == "-" || failed(shapes) || shapes->size() > 1)
    return "";
  std::vector<MemoryFlag> flags;
  OwningOpRef<ModuleOp> graph;
  if (isGraph()) {
    FailureOr<OwningOpRef<ModuleOp>> read = readModule(session, {asked.options.parallel.getDp()});
    if (failed(read) || isSpmdProgram(**read))
      return "";
    graph = std::move(*read);
  } else {
    flags = importing.getMemoryFlags(shapes->front(), globalBatch.getNumOccurrences() > 0, asked.model);
  }
  ModelReader read = makeReader(graph ? *graph : ModuleOp(), shapes->front());
  return moe::describeRemedies(asked, bytes, std::move(flags), read, limit);
}

std::string CompileCommandLine::findCluster() const {
  llvm::Expected<std::string> path = findShareFile("clusters", cluster);
  if (path)
    return std::move(*path);
  llvm::consumeError(path.takeError());
  return "";
}

FailureOr<ClusterProfile> CompileCommandLine::loadCluster(MLIRContext &context, const RoutingSource *routing) {
  llvm::Expected<std::string> path = findShareFile("clusters", cluster);
  if (!path)
    return printError(path.takeError());
  llvm::Expected<ClusterProfile> profile = ClusterProfile::load(*path);
  if (!profile)
    return printError(profile.takeError());
  if (llvm::Error error = useFramework(context, *profile, routing))
    return printError(std::move(error));
  return std::move(*profile);
}

llvm::Error CompileCommandLine::useFramework(MLIRContext &context, ClusterProfile &profile,
                                             const RoutingSource *routing) {
  if (framework == "moeplan" && precision.getNumOccurrences() > 0)
    return llvm::createStringError("error: --precision needs --framework, because MoePlan's runtime computes products "
                                   "in --dtype and not in FP8");
  if (framework == "moeplan") {
    if (!measured.empty())
      return llvm::createStringError("error: --measured needs --framework, which says whose steps were measured; "
                                     "moe-calibrate measures a machine for MoePlan's own runtime");
    if (dispatcher.empty() && cudaGraph.empty())
      return llvm::Error::success();
    return llvm::createStringError(Twine("error: --") + (dispatcher.empty() ? cudaGraph : dispatcher).ArgStr +
                                   " needs --framework, because MoePlan's runtime has none");
  }
  llvm::Expected<std::string> path = findShareFile("frameworks", framework);
  if (!path)
    return path.takeError();
  llvm::Expected<FrameworkProfile> read = FrameworkProfile::load(*path);
  if (!read)
    return read.takeError();
  description = std::move(*read);
  if (profile.processors.count > 0)
    return llvm::createStringError("error: --framework needs a cluster of GPUs, but the devices of '" + profile.name +
                                   "' share processors");
  std::string narrow = precision == "bf16" ? "" : precision.getValue();
  if (!narrow.empty() && !isGraph() && getDType() != "bf16")
    return llvm::createStringError("error: --precision=" + precision +
                                   " needs --dtype=bf16 but got --dtype=" + getDType());
  const ClusterProfile cluster = profile;
  if (llvm::Error error = description->apply(profile, {dispatcher, cudaGraph, narrow}))
    return llvm::createStringError("error: " + llvm::toString(std::move(error)));
  rules = description->getRules({dispatcher, cudaGraph});
  if (!measured.empty())
    if (llvm::Error error = useMeasured(context, *description, cluster, routing, profile))
      return error;
  // The schedule of a plan in text is its own, and a search compares schedules with and without.
  if (description->sendsOnce(dispatcher) && !isGraph() && schedule != "auto" && !StringRef(schedule).contains("once:"))
    emitWarning(UnknownLoc::get(&context))
        << "--dispatcher=" << dispatcher << " sends a token once, but --schedule=" << schedule
        << " sends it once for each choice; add once:rank or once:node to the schedule";
  return llvm::Error::success();
}

llvm::Error CompileCommandLine::useMeasured(MLIRContext &context, const FrameworkProfile &framework,
                                            const ClusterProfile &cluster, const RoutingSource *routing,
                                            ClusterProfile &profile) const {
  std::vector<MeasuredRun> runs;
  for (const std::string &path : measured) {
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
    if (!file)
      return file.takeError();
    llvm::Expected<std::vector<MeasuredRun>> its = readMeasuredRuns((*file)->getBuffer(), path);
    if (!its)
      return its.takeError();
    llvm::append_range(runs, *its);
  }
  std::vector<std::string> remarks;
  llvm::Expected<AnchorFit> fit = fitAnchorToRuns(context, runs, cluster, framework, routing, remarks);
  for (const std::string &remark : remarks)
    llvm::errs() << remark << "\n";
  if (!fit)
    return fit.takeError();
  printAnchor(runs, *fit, llvm::errs());
  applyAnchor(fit->anchor, profile);
  setAnchoredRange(llvm::map_to_vector(runs, [](const MeasuredRun &run) { return run.seconds; }), *fit, profile);
  return llvm::Error::success();
}

FailureOr<SmallVector<ImportShape>> CompileCommandLine::getShapes() const {
  llvm::Expected<llvm::SmallVector<ImportShape>> shapes = importing.getShapes();
  if (shapes)
    return std::move(*shapes);
  return printError(shapes.takeError());
}

FailureOr<OwningOpRef<ModuleOp>> CompileCommandLine::readModule(Session &session, const ModelForm &form,
                                                                std::optional<ImportShape> shape,
                                                                const ReducedSizes *reduced) const {
  if (!isGraph()) {
    llvm::Expected<OwningOpRef<ModuleOp>> module =
        importing.importFile(session.context, input, form, /*loss=*/mode == "train", shape, reduced);
    if (module)
      return std::move(*module);
    return printError(module.takeError());
  }
  if (StringRef given = importing.getGivenOption(); !given.empty())
    return emitUsageError(session.context)
           << "--" << given << " cannot be combined with '" << input << "': it is a model graph, and no configuration";
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(input);
  llvm::Error error = file ? checkMlirText((*file)->getBuffer(), input) : file.takeError();
  if (error)
    return printError(std::move(error));
  session.sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(session.sources, &session.context);
  if (!module)
    return failure();
  return module;
}

/// "4 micro-batches of 1 sequence"; of a fixed graph, whose batch is its own, "4 micro-batches".
static std::string describeBatches(const Candidate &one, bool isFixed) {
  auto count = [](int64_t number, StringRef what) {
    return llvm::formatv("{0} {1}{2}", number, what, number == 1 ? "" : "s").str();
  };
  std::string micro = count(one.microBatches, "micro-batch");
  if (one.microBatches != 1)
    micro.insert(micro.size() - 1, "e");
  return isFixed ? micro : micro + " of " + count(one.batch, "sequence");
}

void CompileCommandLine::noteChoice(ModuleOp plan, PlanOptions options) const {
  std::optional<GroupsExplanation> groups = getGroupsExplanation(plan);
  if (!groups || !groups->getChosen())
    return;
  const Candidate &chosen = *groups->getChosen();
  ParallelAttr all = options.parallel = chosen.parallel;
  options.microBatches = chosen.microBatches;
  std::string text = llvm::formatv(
      "{0} --parallel={1} (PP {2}, DP {3}, TP {4}, EP {5}, ETP {6}) and --schedule={7}, with {8}",
      groups->isComplete ? "chose" : "was interrupted; the best so far is", describe(all), all.getPp(), all.getDp(),
      all.getMp(), all.getEp(), all.getEsp(), chosen.schedule, describeBatches(chosen, isGraph()));
  std::string figures = llvm::formatv(
      "a step takes {0:F3} ms and {1:F1} of {2:F1} GB of memory, for {3:F0} tokens/s on each device; moe-compile "
      "--explain=- says why",
      chosen.getStepSeconds() * 1e3, static_cast<double>(chosen.getBytes()) / 1e9,
      options.cluster->getPlanBytes() / 1e9, chosen.speed.tokensPerSecond);
  emitRemark(UnknownLoc::get(plan.getContext())) << text;
  emitRemark(UnknownLoc::get(plan.getContext())) << figures;
  if (describeChoices(chosen) != chosen.schedule || !chosen.stageBoundaries.empty())
    emitRemark(UnknownLoc::get(plan.getContext())) << "the same plan without a search: " << describeOptions(chosen);
  warnOfBubble(options);
}

void mlir::moe::noteDefaultMaxLoad(ModuleOp module) {
  if (std::string bound = describeDefaultMaxLoad(module); !bound.empty())
    emitRemark(UnknownLoc::get(module.getContext())) << "dropless rows have " << bound;
}

/// Set by Ctrl-C or SIGTERM, which give the best so far.
static std::atomic<bool> isInterrupted = false;

/// Ends the program at a second signal. `timeout` sends two at once, so the second one must come later.
static void interrupt(int signal) {
  constexpr std::time_t least = 2; // seconds
  static std::atomic<std::time_t> first = 0;
  const std::time_t now = std::time(nullptr);
  if (!isInterrupted.exchange(true))
    first = now;
  else if (now - first >= least) {
    llvm::sys::RunInterruptHandlers();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

/// Shows the progress of a long search, on a terminal.
static void showProgress(const ScheduleExplanation &result, double bestSeconds) {
  constexpr double milli = 1e3;
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\x1b[K" << result.applied << " schedules applied, " << result.simulated << " simulated, best "
                 << llvm::format("%.3f ms", bestSeconds * milli);
}

void mlir::moe::watchInterrupts(PlanOptions &options) {
  options.showProgress = showProgress;
  options.isStopped = [] { return isInterrupted.load(); };
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, interrupt);
}
