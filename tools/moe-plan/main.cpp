//===- main.cpp - moe-plan: how to split a model over GPUs ----------------===//
//
// The first question of who trains a model: which groups, how long is a step, does it fit? All options of moe-compile
// that make a plan are options here, with the defaults of a training run of a whole model.
//
//===----------------------------------------------------------------------===//
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"

#include "CompileCommandLine.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Report/Explanations.h"
#include "moe/Report/PlanAnswer.h"
#include "moe/Simulator/Prediction.h"

#include "../StandardOutput.h"
#include "../Version.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

/// Exit status for bad usage or input.
static constexpr int badInput = 2;

static cl::OptionCategory category("moe-plan options");
static CompileCommandLine compiling(category, CompileCommandLine::Use::Planning);
static cl::opt<std::string> gpus(cl::Positional, cl::desc("<GPUs>"), cl::cat(category));
static cl::opt<std::string> clusterName(cl::Positional, cl::desc("<cluster>"), cl::cat(category));
static cl::opt<std::string> jsonFile("json",
                                     cl::desc("Print the answer and the reasons as JSON, or write them to this file.\n"
                                              "   Default: off"),
                                     cl::value_desc("file"), cl::ValueOptional, cl::init(""), cl::cat(category));
static cl::opt<std::string> htmlFile("html", cl::desc("Write the reasons to this file, as one page"),
                                     cl::value_desc("file"), cl::cat(category));

/// Options of moe-compile that moe-plan takes as arguments instead.
static constexpr StringLiteral argumentOptions[] = {"world", "cluster"};

/// Gives an option a value as if it stood on the command line, unless it does.
static void setDefault(StringRef name, const llvm::Twine &value) {
  cl::Option *option = cl::getRegisteredOptions().lookup(name);
  assert(option && "moe-plan has all options of moe-compile");
  // The option keeps what it parses, and not the text.
  llvm::SmallString<16> text;
  if (!option->getNumOccurrences())
    option->addOccurrence(/*pos=*/0, name, value.toStringRef(text));
}

static bool isGiven(StringRef name) { return cl::getRegisteredOptions().lookup(name)->getNumOccurrences() > 0; }

/// A step of 4 sequences for each GPU, and at least 256: the batches of published runs are of this size or larger.
static LogicalResult setDefaults(MLIRContext &context) {
  int64_t world = 0;
  if (clusterName.empty() || StringRef(gpus).getAsInteger(10, world) || world < 1)
    return emitError(UnknownLoc::get(&context))
           << "expected MODEL GPUS CLUSTER, as in 'moe-plan mixtral-8x7b 64 hgx-h100'";
  for (StringRef name : argumentOptions)
    if (isGiven(name))
      return emitError(UnknownLoc::get(&context))
             << "expected GPUS and CLUSTER after the model, as in 'moe-plan mixtral-8x7b 64 hgx-h100', and no --"
             << name;
  setDefault("world", gpus);
  setDefault("cluster", clusterName);
  setDefault("parallel", "auto");
  setDefault("schedule", "auto");
  if (compiling.isTraining())
    setDefault("optimizer", "adam");
  // A graph has its tokens and types.
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

static StringRef getJsonPath() { return jsonFile.empty() ? StringRef("-") : StringRef(jsonFile); }

static LogicalResult writeAll(MLIRContext &context, const PlanQuestion &question, const ClusterProfile &cluster,
                              StringRef command, const GroupsExplanation &explanation) {
  const Candidate &chosen =
      *llvm::find_if(explanation.candidates, [](const Candidate &one) { return one.verdict == Verdict::Chosen; });
  // Reports read what a plan says of itself.
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  setExplanation(*module, explanation);
  if (chosen.maxLoad) {
    module->getOperation()->setAttr(kDefaultMaxLoadAttrName, Builder(&context).getF64FloatAttr(*chosen.maxLoad));
    module->getOperation()->setAttr(kParallelAttrName, chosen.parallel);
  }
  bool isJsonGiven = jsonFile.getNumOccurrences() > 0;
  StringRef jsonPath = getJsonPath();
  if (!isJsonGiven || jsonPath != "-") {
    printAnswer(question, chosen, llvm::outs());
    llvm::outs() << "\n";
    printExplanation(*module, llvm::outs());
    llvm::outs().flush();
  }
  if (isJsonGiven && failed(writeFile(context, jsonPath, [&](llvm::raw_pwrite_stream &os) {
        std::string why;
        llvm::raw_string_ostream stream(why);
        writeExplanation(*module, stream);
        writeAnswer(question, chosen, stream.str(), os);
        return success();
      })))
    return failure();
  if (htmlFile.empty())
    return success();
  return writeFile(context, htmlFile, [&](llvm::raw_pwrite_stream &os) {
    ModuleOp one = *module;
    writeExplanationPage(command, makeSimHeader(one, question.model, cluster), one, os);
    return success();
  });
}

static LogicalResult run(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0, StringRef command) {
  if (failed(setDefaults(context)))
    return failure();
  FailureOr<ClusterProfile> cluster = compiling.loadCluster(context, argv0);
  if (failed(cluster) || failed(compiling.checkInput(argv0)))
    return failure();
  FailureOr<CompileOptions> options = compiling.getOptions(context, *cluster);
  FailureOr<SmallVector<ImportShape>> shapes = compiling.getShapes();
  if (failed(options) || failed(shapes))
    return failure();
  if (!compiling.isOpen())
    return emitError(UnknownLoc::get(&context))
           << "expected --parallel=auto: moe-plan chooses the groups; moe-sim says how long a step of given ones takes";
  FailureOr<ParallelSearchInput> search = compiling.getSearch(context, sources, argv0, *options);
  if (failed(search))
    return failure();
  PlanQuestion question = getQuestion(*cluster, *search, shapes->front().seq);
  SearchWatch watch([&](const Candidate &best) {
    if (!jsonFile.getNumOccurrences())
      return printAnswer(question, best, llvm::outs());
    (void)writeFile(context, getJsonPath(), [&](llvm::raw_pwrite_stream &os) {
      writeAnswer(question, best, "", os);
      return success();
    });
  });
  watch.attach(search->request, search->options);
  FailureOr<GroupsExplanation> explanation = failure();
  if (failed(watch.run([&]() -> LogicalResult {
        explanation = chooseParallel(search->source, search->request, search->options);
        return explanation;
      })))
    return failure();
  return writeAll(context, question, *cluster, command, *explanation);
}

int main(int argc, char **argv) {
  keepStandardOutputClosed();
  std::string command = getCommand(argc, argv);
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  for (StringRef name : argumentOptions)
    cl::getRegisteredOptions().lookup(name)->setHiddenFlag(cl::ReallyHidden);
  setVersion("moe-plan");
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Finds how to split a model over GPUs, how long a step takes, and whether it fits into memory. "
          "Example:\n\n  moe-plan mixtral-8x7b 64 hgx-h100\n",
          &llvm::errs()))
    return badInput;
  DialectRegistry registry;
  registerDialects(registry);
  std::unique_ptr<llvm::ThreadPoolInterface> threads = compiling.makeThreads();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  if (threads)
    context.setThreadPool(*threads);
  ToolDiagnostics diagnostics(context, "moe-plan");
  return succeeded(run(context, diagnostics.getSources(), argv[0], command)) ? 0 : badInput;
}
