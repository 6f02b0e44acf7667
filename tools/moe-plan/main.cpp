//===- main.cpp - moe-plan: how to split a model over GPUs ----------------===//
//
// Answers which groups a training run needs, how long a step is, and whether it fits. All options of moe-compile that
// make a plan are options here, with the defaults of a training run of a whole model.
//
//===----------------------------------------------------------------------===//

#include "CompileCommandLine.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Report/Explanations.h"
#include "moe/Report/PlanAnswer.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

static cl::OptionCategory category("moe-plan options");
static CompileCommandLine compiling(category);
static cl::opt<std::string> gpus(cl::Positional, cl::desc("<GPUs>"), cl::cat(category));
static cl::opt<std::string> clusterName(cl::Positional, cl::desc("<cluster>"), cl::cat(category));
static cl::opt<std::string> jsonFile("json",
                                     cl::desc("Print the answer and the reasons as JSON, or write them to this file.\n"
                                              "   Default: off"),
                                     cl::value_desc("file"), cl::ValueOptional, cl::init(""), cl::cat(category));
static cl::opt<std::string> htmlFile("html", cl::desc("Write the reasons to this file, as one page"),
                                     cl::value_desc("file"), cl::cat(category));

namespace {
/// Parser of NAME[:VERSION].
class FrameworkParser : public NameParser<Framework> {
public:
  using NameParser::NameParser;

  bool parse(cl::Option &option, StringRef name, StringRef text, Framework &value) {
    auto [framework, number] = text.split(':');
    if (NameParser::parse(option, name, framework, value))
      return true;
    version = FrameworkTarget::getDefault(value).version;
    if (framework == text)
      return false;
    SmallVector<std::string> known;
    for (const llvm::VersionTuple &one : getNames(value).versions) {
      known.push_back((framework + ":" + one.getAsString()).str());
      if (known.back() == text)
        version = one;
    }
    SmallVector<StringRef> names(known.begin(), known.end());
    return !llvm::is_contained(known, text) && option.error(describeUnknownName(text, names));
  }

  llvm::VersionTuple version; ///< version of the framework that was parsed last
};
} // namespace

static cl::opt<Framework, false, FrameworkParser> emit(
    "emit",
    cl::desc("Print the plan as arguments of this framework, instead of the answer. Comments\n"
             "   say what it cannot do of the plan, and what that costs. NAME:VERSION, as in\n"
             "   megatron:0.16, writes for this version"),
    cl::values(clEnumValN(Framework::Megatron, "megatron", "A flag of Megatron-LM on each line"),
               clEnumValN(Framework::MegatronBridge, "megatron-bridge", "Python that changes a recipe's configuration"),
               clEnumValN(Framework::Torchtitan, "torchtitan", "A job of torchtitan: Python, or a .toml file for 0.2")),
    cl::cat(category));

/// Options of moe-compile that moe-plan takes as arguments instead.
static constexpr StringLiteral argumentOptions[] = {"world", "cluster"};

/// Moves the arguments, which are GPUS and CLUSTER alone with --megatron-args.
static void shiftArguments() {
  if (!isGiven("megatron-args") || !clusterName.empty())
    return;
  clusterName = gpus.getValue();
  gpus = compiling.getInput().str();
  compiling.setInput("");
}

/// Sets defaults: a step of at least 256 sequences, and 4 for each GPU, since published runs have such batches.
static LogicalResult setDefaults(MLIRContext &context) {
  int64_t world = 0;
  shiftArguments();
  if (clusterName.empty() || StringRef(gpus).getAsInteger(10, world) || world < 1)
    return emitUsageError(context) << "expected MODEL GPUS CLUSTER, as in 'moe-plan mixtral-8x7b 64 hgx-h100'"
                                   << (isGiven("megatron-args") ? ", and no MODEL with --megatron-args" : "");
  for (StringRef name : argumentOptions)
    if (isGiven(name))
      return emitUsageError(context)
             << "expected GPUS and CLUSTER after the model, as in 'moe-plan mixtral-8x7b 64 hgx-h100', and no --"
             << name;
  if (failed(compiling.takeJob(context, world)))
    return failure();
  setDefault("world", gpus);
  setDefault("cluster", clusterName);
  // A job has groups of its own.
  if (!isGiven("megatron-args"))
    compiling.openGroups();
  setDefault("parallel", "auto");
  setDefault("schedule", "auto");
  if (compiling.isTraining())
    setDefault("optimizer", "adam");
  // A graph has its own tokens and types.
  if (compiling.isGraph())
    return success();
  setDefault("whole-model", "true");
  setDefault("dtype", "bf16");
  setDefault("seq", "4096");
  if (!isGiven("micro-batches"))
    setDefault("global-batch", std::to_string(std::max<int64_t>(256, 4 * world)));
  return success();
}

static PlanQuestion getQuestion(const ClusterProfile &cluster, const ParallelSearchInput &search, int64_t sequence) {
  PlanQuestion question;
  question.model = compiling.getInput().str();
  question.cluster = cluster.name;
  question.device = cluster.deviceName;
  question.precision = cluster.precision.name;
  if (!cluster.framework.empty())
    question.framework = cluster.framework;
  question.trials = compiling.getTrials();
  question.dispatcher = compiling.getUse().dispatcher;
  question.graph = compiling.getUse().graph;
  question.optimizer = !search.options.optimizer                               ? ""
                       : search.options.optimizer->kind == OptimizerKind::Adam ? "Adam"
                                                                               : "SGD";
  question.gpus = search.request.world;
  if (!compiling.isGraph()) {
    question.dtype = compiling.getDType().str();
    question.sequence = sequence;
  }
  bool isHost = cluster.processors.count > 0;
  question.memoryLimit = search.options.memoryLimit ? static_cast<double>(search.options.memoryLimit)
                         : isHost                   ? 0
                                                    : cluster.getPlanBytes();
  return question;
}

/// Refuses two reports on standard output, which would be no format at all.
static LogicalResult checkOutputs(MLIRContext &context) {
  if (emit.getNumOccurrences() && jsonFile.getNumOccurrences() && (jsonFile.empty() || jsonFile == "-"))
    return emitUsageError(context) << "expected --json=FILE with --emit, which prints to the standard output";
  return success();
}

static StringRef getJsonPath() { return jsonFile.empty() ? StringRef("-") : StringRef(jsonFile); }

/// Frameworks that the outputs need.
static SmallVector<FrameworkTarget> getTargets() {
  bool isFull = jsonFile.getNumOccurrences() || !htmlFile.empty();
  SmallVector<FrameworkTarget> targets;
  if (isFull && !compiling.isGraph() && compiling.isTraining())
    targets = getDefaultTargets();
  if (!emit.getNumOccurrences())
    return targets;
  FrameworkTarget emitted{emit, emit.getParser().version};
  auto *same = llvm::find_if(targets, [](const FrameworkTarget &one) { return one.framework == emit; });
  if (same == targets.end())
    return {emitted};
  *same = emitted;
  return targets;
}

/// Prints all to the terminal.
static void printAll(const PlanExplanation &explanation, const PlanQuestion &question, const Candidate &chosen,
                     const AnswerParts &parts) {
  printAnswer(question, chosen, parts, llvm::outs());
  if (!compiling.isGraph())
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
  bool isJsonGiven = jsonFile.getNumOccurrences() > 0;
  StringRef jsonPath = getJsonPath();
  if (emit.getNumOccurrences()) {
    auto one = llvm::find_if(advice->all, [](const Advice &advice) { return advice.target.framework == emit; });
    if (failed(writeFile(context, "-", [&](llvm::raw_pwrite_stream &os) { writeArguments(*one, advice->job, os); })))
      return failure();
  } else if (!isJsonGiven || jsonPath != "-") {
    printAll(explanation, question, chosen, parts);
  }
  if (isJsonGiven && failed(writeFile(context, jsonPath, [&](llvm::raw_pwrite_stream &os) {
        llvm::raw_string_ostream why(parts.explanation), elsewhere(parts.frameworks);
        writeExplanation(explanation, &context, why);
        if (advice)
          writeAdvice(*advice, elsewhere);
        writeAnswer(question, chosen, parts, os);
      })))
    return failure();
  if (htmlFile.empty())
    return success();
  return writeFile(context, htmlFile, [&](llvm::raw_pwrite_stream &os) {
    writeExplanationPage(command, question.model, cluster, explanation, advice ? &*advice : nullptr, &context, os);
  });
}

static LogicalResult run(Session &session) {
  MLIRContext &context = session.context;
  if (failed(checkOutputs(context)) || failed(setDefaults(context)))
    return failure();
  FailureOr<ClusterProfile> cluster = compiling.loadCluster(context);
  if (failed(cluster) || failed(compiling.checkInput()))
    return failure();
  FailureOr<PlanOptions> options = compiling.getOptions(context, *cluster);
  FailureOr<SmallVector<ImportShape>> shapes = compiling.getShapes();
  if (failed(options) || failed(shapes))
    return failure();
  if (!compiling.isOpen())
    return emitUsageError(context)
           << "expected --parallel=auto: moe-plan chooses the groups; moe-sim says how long a step of given ones takes";
  FailureOr<ParallelSearchInput> search = compiling.getSearch(session, *options);
  if (failed(search))
    return failure();
  PlanQuestion question = getQuestion(*cluster, *search, shapes->front().seq);
  SearchWatch watch([&](const Candidate &best) {
    if (!jsonFile.getNumOccurrences())
      return printAnswer(question, best, AnswerParts(), llvm::outs());
    (void)writeFile(context, getJsonPath(),
                    [&](llvm::raw_pwrite_stream &os) { writeAnswer(question, best, AnswerParts(), os); });
  });
  watch.attach(search->request, search->options);
  FailureOr<GroupsExplanation> explanation = failure();
  std::optional<JobLadder> ladder;
  AnswerParts parts;
  if (failed(watch.run([&]() -> LogicalResult {
        explanation = compiling.chooseParallel(context, *search);
        if (succeeded(explanation) && compiling.hasJob())
          ladder = compiling.compareJob(context, *search, *explanation, question.memoryLimit);
        if (succeeded(explanation))
          parts.memory = compiling.getRoutedMemory(*search, *explanation->getChosen());
        return explanation;
      })))
    return failure();
  if (ladder) {
    parts.ladder = &*ladder;
    parts.jobMemory = compiling.getRoutedMemory(*search, ladder->job);
  }
  // The parts of the framework are chosen now.
  question = getQuestion(*search->options.cluster, *search, shapes->front().seq);
  std::optional<FrameworkAdvice> advice;
  if (SmallVector<FrameworkTarget> targets = getTargets(); !targets.empty()) {
    FailureOr<FrameworkAdvice> found = compiling.advise(context, *search, *explanation->getChosen(), targets);
    if (failed(found))
      return failure();
    advice = std::move(*found);
  }
  return writeAll(context, question, *search->options.cluster, session.command, *explanation, std::move(parts), advice);
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  for (StringRef name : argumentOptions)
    cl::getRegisteredOptions().lookup(name)->setHiddenFlag(cl::ReallyHidden);
  return runTool(argc, argv, "moe-plan",
                 "Finds how to split a model over GPUs, how long a step takes, and whether it fits into memory. "
                 "With --megatron-args=FILE it also compares a Megatron-LM job with the best plan. "
                 "Example:\n\n  moe-plan mixtral-8x7b 64 hgx-h100\n",
                 &compiling, run);
}
