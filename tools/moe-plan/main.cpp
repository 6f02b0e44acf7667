//===- main.cpp - moe-plan: how to split a model over GPUs ----------------===//
//
// Answers which groups a training run needs, how long a step is, and whether it fits. All options of moe-compile that
// make a plan are options here, with the defaults of a training run of a whole model.
//
//===----------------------------------------------------------------------===//

#include "../Tools.h"
#include "llvm/ADT/StringSet.h"

#include "CompileCommandLine.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Report/Explanations.h"
#include "moe/Report/PlanAnswer.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

namespace {
/// A framework, and the file for its arguments.
struct EmittedFile {
  static constexpr StringLiteral kName = "name[:version][=file]";
  FrameworkTarget target;
  std::string path;
  /// Returns the mistake in `text`; empty if there is none.
  std::string parse(StringRef text);
};

std::string EmittedFile::parse(StringRef text) {
  auto [name, file] = text.split('=');
  if (text.contains('=') && file.empty())
    return "expected a file behind '" + text.str() + "'";
  path = file.empty() ? "-" : file.str();
  SmallVector<std::string> known;
  for (const FrameworkTarget &one : getDefaultTargets()) {
    const FrameworkNames &names = getNames(one.framework);
    if (name == names.name)
      target = one;
    known.push_back(names.name.str());
    for (const llvm::VersionTuple &version : names.versions) {
      known.push_back((names.name + ":" + version.getAsString()).str());
      if (name == known.back())
        target = {one.framework, version};
    }
  }
  if (llvm::is_contained(known, name))
    return "";
  StringRef framework = name.split(':').first;
  bool isVersion = framework != name && llvm::is_contained(known, framework);
  llvm::erase_if(known, [&](StringRef one) {
    auto [other, version] = one.split(':');
    return isVersion ? version.empty() || other != framework : !version.empty();
  });
  return describeUnknownName(name, SmallVector<StringRef>(known.begin(), known.end()));
}
} // namespace

namespace {
/// The options. They exist only while this tool runs, since one program has several tools.
struct Options {
  cl::OptionCategory category{"moe-plan options"};
  CompileCommandLine compiling{category};
  cl::opt<std::string> gpus{cl::Positional, cl::desc("<GPUs>"), cl::cat(category)};
  cl::opt<std::string> clusterName{cl::Positional, cl::desc("<cluster>"), cl::cat(category)};
  cl::opt<std::string> jsonFile{"json",
                                cl::desc("Print the answer and the reasons as JSON, or write them to this file.\n"
                                         "   Default: off"),
                                cl::value_desc("file"),
                                cl::ValueOptional,
                                cl::init(""),
                                cl::cat(category)};
  cl::opt<std::string> htmlFile{"html", cl::desc("Write the reasons to this file, as one page"), cl::value_desc("file"),
                                cl::cat(category)};
  cl::list<EmittedFile> emit{
      "emit",
      cl::desc("Write the plan as arguments of this framework: megatron (a flag of Megatron-LM\n"
               "   on each line), megatron-bridge (Python that changes a recipe's configuration)\n"
               "   or torchtitan (a job: Python, or a .toml file for 0.2). Comments say what it\n"
               "   cannot do of the plan, and what that costs. megatron:0.16 is for this version,\n"
               "   megatron=FILE writes to this file. Without a file, the arguments are printed\n"
               "   instead of the answer. More than one --emit writes more than one file"),
      cl::cat(category)};
};
} // namespace

static Options *given = nullptr;

/// Options of moe-compile that moe-plan takes as arguments instead.
static constexpr StringLiteral argumentOptions[] = {"world", "cluster"};

/// Moves the arguments, which are GPUS and CLUSTER alone with --megatron-args.
static void shiftArguments() {
  if (!isGiven("megatron-args") || !given->clusterName.empty())
    return;
  given->clusterName = given->gpus.getValue();
  given->gpus = given->compiling.getInput().str();
  given->compiling.setInput("");
}

/// Sets defaults: a step of at least 256 sequences, and 4 for each GPU, since published runs have such batches.
static LogicalResult setDefaults(MLIRContext &context) {
  int64_t world = 0;
  shiftArguments();
  if (given->clusterName.empty() || StringRef(given->gpus).getAsInteger(10, world) || world < 1)
    return emitUsageError(context) << "expected MODEL GPUS CLUSTER, as in 'moe-plan mixtral-8x7b 64 hgx-h100'"
                                   << (isGiven("megatron-args") ? ", and no MODEL with --megatron-args" : "");
  for (StringRef name : argumentOptions)
    if (isGiven(name))
      return emitUsageError(context)
             << "expected GPUS and CLUSTER after the model, as in 'moe-plan mixtral-8x7b 64 hgx-h100', and no --"
             << name;
  if (failed(given->compiling.takeJob(context, world)))
    return failure();
  setDefault("world", given->gpus);
  setDefault("cluster", given->clusterName);
  // A job has groups of its own.
  if (!isGiven("megatron-args"))
    given->compiling.openGroups();
  setDefault("parallel", "auto");
  setDefault("schedule", "auto");
  if (given->compiling.isTraining())
    setDefault("optimizer", "adam");
  // A graph has its own tokens and types.
  if (given->compiling.isGraph())
    return success();
  setDefault("whole-model", "true");
  setDefault("dtype", "bf16");
  setDefault("seq", "4096");
  if (!isGiven("micro-batches"))
    setDefault("global-batch", std::to_string(std::max<int64_t>(256, 4 * world)));
  return success();
}

static PlanQuestion getQuestion(const ClusterProfile &cluster, const ParallelSearchInput &search, int64_t sequence,
                                ParameterCounts parameters) {
  PlanQuestion question;
  question.parameters = parameters.all;
  question.activeParameters = parameters.active;
  question.model = given->compiling.getInput().str();
  question.cluster = cluster.name;
  question.device = cluster.deviceName;
  question.precision = cluster.precision.name;
  if (!cluster.framework.empty())
    question.framework = cluster.framework;
  question.trials = given->compiling.getTrials();
  question.dispatcher = given->compiling.getUse().dispatcher;
  question.graph = given->compiling.getUse().graph;
  question.optimizer = !search.options.optimizer                               ? ""
                       : search.options.optimizer->kind == OptimizerKind::Adam ? "Adam"
                                                                               : "SGD";
  question.gpus = search.request.world;
  if (!given->compiling.isGraph()) {
    question.dtype = given->compiling.getDType().str();
    question.sequence = sequence;
  }
  bool isHost = cluster.processors.count > 0;
  question.memoryLimit = search.options.memoryLimit ? static_cast<double>(search.options.memoryLimit)
                         : isHost                   ? 0
                                                    : cluster.getPlanBytes();
  return question;
}

static StringRef getJsonPath() { return given->jsonFile.empty() ? StringRef("-") : StringRef(given->jsonFile); }

/// Returns how many files of frameworks are printed.
static int64_t countPrinted() {
  return llvm::count_if(given->emit, [](const EmittedFile &file) { return file.path == "-"; });
}

/// Refuses two reports on standard output, which would be no format at all.
static LogicalResult checkOutputs(MLIRContext &context) {
  if (countPrinted() > 1)
    return emitUsageError(context) << "expected --emit=NAME=FILE for all frameworks but one, which is printed";
  llvm::StringSet<> paths;
  for (const EmittedFile &file : given->emit)
    if (!paths.insert(file.path).second)
      return emitUsageError(context) << "expected a file of its own for each --emit, but got '" << file.path
                                     << "' twice";
  if (countPrinted() > 0 && given->jsonFile.getNumOccurrences() && getJsonPath() == "-")
    return emitUsageError(context) << "expected --json=FILE with --emit, which prints to the standard output";
  return success();
}

/// Frameworks that the outputs need.
static SmallVector<FrameworkTarget> getTargets() {
  SmallVector<FrameworkTarget> targets;
  for (const EmittedFile &file : given->emit)
    if (!llvm::is_contained(targets, file.target))
      targets.push_back(file.target);
  bool isFull = given->jsonFile.getNumOccurrences() || !given->htmlFile.empty();
  if (isFull && !given->compiling.isGraph() && given->compiling.isTraining())
    for (const FrameworkTarget &one : getDefaultTargets())
      if (llvm::none_of(given->emit, [&](const EmittedFile &file) { return file.target.framework == one.framework; }))
        targets.push_back(one);
  llvm::stable_sort(targets, [](const FrameworkTarget &one, const FrameworkTarget &other) {
    return one.framework < other.framework;
  });
  return targets;
}

static LogicalResult writeFrameworks(MLIRContext &context, const FrameworkAdvice &advice) {
  for (const EmittedFile &file : given->emit) {
    auto one = llvm::find_if(advice.all, [&](const Advice &advice) { return advice.target == file.target; });
    if (failed(
            writeFile(context, file.path, [&](llvm::raw_pwrite_stream &os) { writeArguments(*one, advice.job, os); })))
      return failure();
  }
  return success();
}

/// Prints all to the terminal.
static void printAll(const PlanExplanation &explanation, const PlanQuestion &question, const Candidate &chosen,
                     const AnswerParts &parts) {
  printAnswer(question, chosen, parts, llvm::outs());
  if (!given->compiling.isGraph())
    llvm::outs()
        << "use     --emit=megatron, megatron-bridge or torchtitan prints the plan as that framework's arguments\n";
  llvm::outs() << "\n";
  printExplanation(explanation, llvm::outs());
  llvm::outs().flush();
}

static LogicalResult writeAll(MLIRContext &context, const PlanQuestion &question, const ClusterProfile &cluster,
                              StringRef command, const GroupsExplanation &groups, AnswerParts parts,
                              const std::optional<FrameworkAdvice> &advice) {
  const Candidate &chosen = *groups.getChosen();
  PlanExplanation explanation{groups, std::nullopt, describeDefaultMaxLoad(chosen.maxLoad, chosen.parallel)};
  bool isJsonGiven = given->jsonFile.getNumOccurrences() > 0;
  StringRef jsonPath = getJsonPath();
  if (countPrinted() == 0 && (!isJsonGiven || jsonPath != "-"))
    printAll(explanation, question, chosen, parts);
  if (!given->emit.empty() && failed(writeFrameworks(context, *advice)))
    return failure();
  if (isJsonGiven && failed(writeFile(context, jsonPath, [&](llvm::raw_pwrite_stream &os) {
        llvm::raw_string_ostream why(parts.explanation), elsewhere(parts.frameworks);
        writeExplanation(explanation, &context, why);
        if (advice)
          writeAdvice(*advice, elsewhere);
        writeAnswer(question, chosen, parts, os);
      })))
    return failure();
  if (given->htmlFile.empty())
    return success();
  return writeFile(context, given->htmlFile, [&](llvm::raw_pwrite_stream &os) {
    writeExplanationPage(command, question.model, cluster, explanation, advice ? &*advice : nullptr, &context, os);
  });
}

static LogicalResult run(Session &session) {
  MLIRContext &context = session.context;
  if (failed(checkOutputs(context)) || failed(setDefaults(context)))
    return failure();
  FailureOr<ClusterProfile> cluster = given->compiling.loadCluster(context);
  if (failed(cluster) || failed(given->compiling.checkInput()))
    return failure();
  FailureOr<PlanOptions> options = given->compiling.getOptions(context, *cluster);
  FailureOr<SmallVector<ImportShape>> shapes = given->compiling.getShapes();
  if (failed(options) || failed(shapes))
    return failure();
  if (!given->compiling.isOpen())
    return emitUsageError(context)
           << "expected --parallel=auto: moe-plan chooses the groups; moe-sim says how long a step of given ones takes";
  FailureOr<ParallelSearchInput> search = given->compiling.getSearch(session, *options);
  if (failed(search))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> model = search->source.read(context, {.batch = 1});
  if (failed(model))
    return failure();
  const ParameterCounts parameters = countParameters(**model);
  PlanQuestion question = getQuestion(*cluster, *search, shapes->front().seq, parameters);
  SearchWatch watch([&](const Candidate &best) {
    if (!given->jsonFile.getNumOccurrences())
      return printAnswer(question, best, AnswerParts(), llvm::outs());
    (void)writeFile(context, getJsonPath(),
                    [&](llvm::raw_pwrite_stream &os) { writeAnswer(question, best, AnswerParts(), os); });
  });
  watch.attach(search->request, search->options);
  FailureOr<GroupsExplanation> explanation = failure();
  std::optional<JobLadder> ladder;
  AnswerParts parts;
  if (failed(watch.run([&]() -> LogicalResult {
        explanation = given->compiling.chooseParallel(context, *search);
        if (succeeded(explanation) && given->compiling.hasJob())
          ladder = given->compiling.compareJob(context, *search, *explanation, question.memoryLimit);
        if (succeeded(explanation))
          parts.memory = given->compiling.getRoutedMemory(*search, *explanation->getChosen());
        return explanation;
      })))
    return failure();
  if (ladder) {
    parts.ladder = &*ladder;
    parts.jobMemory = given->compiling.getRoutedMemory(*search, ladder->job);
  }
  // The parts of the framework are chosen now.
  question = getQuestion(*search->options.cluster, *search, shapes->front().seq, parameters);
  std::optional<FrameworkAdvice> advice;
  if (SmallVector<FrameworkTarget> targets = getTargets(); !targets.empty()) {
    FailureOr<FrameworkAdvice> found = given->compiling.advise(context, *search, *explanation->getChosen(), targets);
    if (failed(found))
      return failure();
    advice = std::move(*found);
  }
  return writeAll(context, question, *search->options.cluster, session.command, *explanation, std::move(parts), advice);
}

int mlir::moe::runPlan(int argc, char **argv) {
  Options options;
  given = &options;
  cl::HideUnrelatedOptions(given->category);
  for (StringRef name : argumentOptions)
    cl::getRegisteredOptions().lookup(name)->setHiddenFlag(cl::ReallyHidden);
  return runTool(argc, argv, "moe-plan",
                 "Finds how to split a model over GPUs, how long a step takes, and whether it fits into memory. "
                 "With --megatron-args=FILE it also compares a Megatron-LM job with the best plan. "
                 "Example:\n\n  moe-plan mixtral-8x7b 64 hgx-h100\n",
                 &given->compiling, run);
}
