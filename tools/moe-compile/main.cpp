//===- main.cpp - moe-compile: a model graph to a plan --------------------===//
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include "../Tools.h"
#include "CompileCommandLine.h"
#include "RoutingCommandLine.h"
#include "moe/Conversion/Variants.h"
#include "moe/Report/Explanations.h"
#include "moe/Report/PlanReport.h"
#include "moe/Report/SimOutput.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Support/UsageError.h"
#include "moe/Target/Object.h"

#include "PassOptions.h"
#include "Prove.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

/// Exit status if --prove found a plan wrong, or could not prove it.
static constexpr int notProved = 1;

namespace {
enum class Emit { L0, Spmd, Plan, LLVM, Object, SharedLibrary };
} // namespace

namespace {
/// The options. They exist only while this tool runs, since one program has several tools.
struct Options {
  cl::OptionCategory category{"moe-compile options"};
  cl::OptionCategory passCategory{"MLIR options",
                                  "Options of MLIR itself. They concern the passes that make the plan that is written"};
  CompileCommandLine compiling{category};
  RoutingCommandLine routingOptions{category};
  cl::opt<std::string> output{"o",
                              cl::desc("Output file; - means standard output. A plan .so needs a file. Default: -"),
                              cl::value_desc("file"), cl::init("-"), cl::cat(category)};
  cl::opt<Emit, false, NameParser<Emit>> emit{
      "emit", cl::desc("Form of the output. Default: so"), cl::init(Emit::SharedLibrary),
      cl::values(
          clEnumValN(Emit::L0, "l0", "The model graph, before it is divided over ranks"),
          clEnumValN(Emit::Spmd, "spmd", "The rank program and the reference. moe-compile takes this as input, too"),
          clEnumValN(Emit::Plan, "plan", "The plan as text"), clEnumValN(Emit::LLVM, "llvm", "The plan as LLVM IR"),
          clEnumValN(Emit::Object, "obj", "The plan as an object file"),
          clEnumValN(Emit::SharedLibrary, "so", "The plan as a shared library, which moe-run runs")),
      cl::cat(category)};
  cl::opt<bool> halves{"halves",
                       cl::desc("Make a forward and a backward that a training loop of your own calls, as the\n"
                                "   Python package moeplan.torch does. Default: off, one program of a step"),
                       cl::Hidden, cl::cat(category)};
  cl::opt<bool> digest{"digest",
                       cl::desc("Also write the SHA-256 of the plan .so to FILE.sha256. moe-run compares it\n"
                                "   before it loads the plan. Default: off"),
                       cl::Hidden, cl::cat(category)};
  cl::opt<std::string> targetCpu{"target-cpu",
                                 cl::desc("CPU of the machines that run the plan, as LLVM names it, such as x86-64-v3\n"
                                          "   or grace. Default: any CPU of this machine's architecture"),
                                 cl::value_desc("name"), cl::Hidden, cl::cat(category)};
  cl::list<std::string> reports{
      "report",
      cl::desc("Write a report of the plan to this file: JSON if the name ends in .json,\n"
               "   otherwise tables; - means standard output. May be repeated. Default: no report"),
      cl::value_desc("file"), cl::cat(category)};
  cl::list<std::string> explanations{
      "explain",
      cl::desc("Write to this file why --schedule=auto or --parallel=auto made its choice:\n"
               "   JSON if the name ends in .json, a page if in .html, otherwise text; - means\n"
               "   standard output. May be repeated. Default: no explanation"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> proof{
      "prove", cl::ValueOptional,
      cl::desc("Prove that the plan computes its model, and write what was proved to this file:\n"
               "   JSON if the name ends in .json, otherwise text. The model is made as small as its\n"
               "   groups allow, compiled in the same way and run in exact arithmetic. Without a\n"
               "   file, or with -, to standard output. No other output is needed then. The exit\n"
               "   status is 1 if the plan is wrong, or not proved. Default: off"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<bool> printPipeline{"print-pipeline",
                              cl::desc("Compile, but print the passes that make the plan and write no plan. A line\n"
                                       "   `stage: pipeline` stands for each stage; moe-opt takes the pipeline as\n"
                                       "   --pass-pipeline. Default: off"),
                              cl::Hidden, cl::cat(category)};
};
} // namespace

static Options *given = nullptr;

static bool isJson(StringRef path) { return path.ends_with(".json"); }

/// Writes `path`.sha256, in the format of sha256sum.
static LogicalResult writeDigest(MLIRContext &context, StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return emitUsageError(context) << "cannot read '" << path << "': " << file.getError().message();
  auto sum = llvm::SHA256::hash(llvm::arrayRefFromStringRef((*file)->getBuffer()));
  return writeFile(context, (path + ".sha256").str(), [&](llvm::raw_pwrite_stream &os) {
    os << llvm::toHex(sum, /*LowerCase=*/true) << "  " << llvm::sys::path::filename(path) << "\n";
  });
}

static LogicalResult writeModule(ModuleOp module) {
  MLIRContext &context = *module.getContext();
  switch (given->emit) {
  case Emit::L0:
  case Emit::Spmd:
  case Emit::Plan:
    return writeFile(context, given->output, [&](llvm::raw_pwrite_stream &os) {
      module.print(os);
      os << "\n";
    });
  case Emit::LLVM:
    return writeFile(context, given->output, [&](llvm::raw_pwrite_stream &os) { return emitLLVMIR(module, os); });
  case Emit::Object:
    return writeFile(
        context, given->output, [&](llvm::raw_pwrite_stream &os) { return emitObject(module, os, given->targetCpu); },
        /*isBinary=*/true);
  case Emit::SharedLibrary:
    if (failed(emitSharedLibrary(module, given->output, given->targetCpu)))
      return failure();
    return given->digest ? writeDigest(context, given->output) : success();
  }
  llvm_unreachable("all kinds of output are handled");
}

/// Writes a report of a plan of one shape. Figures that the profile lacks leave the prediction out, with a reason.
static LogicalResult printReport(ModuleOp plan, const ClusterProfile &cluster, bool asJson, llvm::raw_ostream &os) {
  llvm::Expected<Prediction> prediction = predict(plan, given->compiling.getInput(), cluster);
  std::string reason = prediction ? "" : llvm::toString(prediction.takeError());
  if (!reason.empty())
    emitWarning(UnknownLoc::get(plan.getContext())) << "no prediction: " << reason;
  if (asJson) {
    std::string json;
    llvm::raw_string_ostream text(json);
    if (prediction) {
      llvm::Expected<SimResult> whole = writeOut(std::move(prediction->result), plan);
      if (!whole)
        return emitError(UnknownLoc::get(plan.getContext())) << llvm::toString(whole.takeError());
      writeJson(prediction->header, *whole, prediction->report, /*comparison=*/nullptr, text);
    }
    writePlanReport(plan, text.str(), os);
    return success();
  }
  if (failed(printReport(plan, os)))
    return failure();
  os << "\n";
  if (prediction)
    printText(prediction->header, prediction->result, prediction->report, os);
  else
    os << "no prediction: " << reason << "\n";
  return success();
}

/// Writes the report of each variant under its shape and schedule.
static LogicalResult printReports(ArrayRef<ModuleOp> variants, const ClusterProfile &cluster, bool asJson,
                                  llvm::raw_ostream &os) {
  struct Item {
    int64_t batch, sequence;
    StringRef schedule;
    std::string text;
  };
  std::vector<Item> items;
  for (ModuleOp variant : variants) {
    auto getSize = [&](StringRef name) { return variant->getAttrOfType<IntegerAttr>(name).getInt(); };
    Item &item = items.emplace_back();
    item.batch = getSize(plan::kBatchAttrName);
    item.sequence = getSize(plan::kSequenceAttrName);
    item.schedule = variant->getAttrOfType<StringAttr>(plan::kScheduleAttrName).getValue();
    llvm::raw_string_ostream stream(item.text);
    if (failed(printReport(variant, cluster, asJson, stream)))
      return failure();
  }
  if (!asJson) {
    for (const Item &item : items)
      os << "== batch " << item.batch << ", sequence " << item.sequence << ", schedule " << item.schedule << " ==\n\n"
         << item.text << "\n";
    return success();
  }
  writeVariants(
      items,
      [](const Item &item, llvm::json::OStream &json) {
        json.attribute("batch", item.batch);
        json.attribute("sequence", item.sequence);
        json.attribute("schedule", item.schedule);
        json.attributeBegin("report");
        json.rawValue(StringRef(item.text).trim());
        json.attributeEnd();
      },
      os);
  return success();
}

static LogicalResult writeReport(ModuleOp plan, const ClusterProfile &cluster, StringRef path) {
  if (given->emit == Emit::Spmd)
    return plan.emitError() << "--report needs a plan: --emit=spmd makes none";
  SmallVector<ModuleOp> variants = plan::getVariants(plan);
  return writeFile(*plan.getContext(), path, [&](llvm::raw_pwrite_stream &os) {
    return variants.empty() ? printReport(plan, cluster, isJson(path), os)
                            : printReports(variants, cluster, isJson(path), os);
  });
}

/// Writes one object for one plan, and for several a list of them, each with its shape.
static void writeJsonExplanations(ArrayRef<PlanExplanation> plans, MLIRContext *context, llvm::raw_ostream &os) {
  if (plans.size() == 1)
    return writeExplanation(plans.front(), context, os);
  writeVariants(
      plans,
      [&](const PlanExplanation &plan, llvm::json::OStream &json) {
        std::string text;
        llvm::raw_string_ostream stream(text);
        writeExplanation(plan, context, stream);
        json.attribute("batch", plan.batch);
        json.attribute("sequence", plan.sequence);
        json.attributeBegin("explanation");
        json.rawValue(text.empty() ? "null" : StringRef(text).trim());
        json.attributeEnd();
      },
      os);
}

/// Finds the arguments of frameworks for the chosen plan of a whole model; none if no groups were chosen.
static FailureOr<std::optional<FrameworkAdvice>> findAdvice(ModuleOp module, Session &session,
                                                            const PlanOptions &options) {
  std::optional<GroupsExplanation> groups = getGroupsExplanation(module);
  if (!groups || given->compiling.isGraph() || !isGiven("whole-model") || !options.train)
    return std::optional<FrameworkAdvice>();
  MLIRContext &context = *module.getContext();
  FailureOr<ParallelSearchInput> search = given->compiling.getSearch(session, options);
  if (failed(search) || !groups->getChosen())
    return failure();
  FailureOr<FrameworkAdvice> advice =
      given->compiling.advise(context, *search, *groups->getChosen(), getDefaultTargets());
  return failed(advice) ? FailureOr<std::optional<FrameworkAdvice>>(failure()) : std::optional(std::move(*advice));
}

/// Writes the reasons for each shape's plan.
static LogicalResult writeExplanations(ModuleOp module, const ClusterProfile &cluster, StringRef command,
                                       StringRef file, const std::optional<FrameworkAdvice> &advice) {
  MLIRContext *context = module.getContext();
  std::vector<PlanExplanation> plans;
  for (ModuleOp variant : plan::getVariants(module))
    plans.push_back(getExplanation(variant));
  if (plans.empty())
    plans.push_back(getExplanation(module));
  if (llvm::none_of(plans, [](const PlanExplanation &plan) { return plan.groups || plan.schedules; }))
    return emitError(UnknownLoc::get(context))
           << "--explain needs --schedule=auto or --parallel=auto, and a model with MoE layers: nothing was "
              "chosen";
  return writeFile(*context, file, [&](llvm::raw_pwrite_stream &os) {
    if (file.ends_with(".html"))
      return writeExplanationPage(command, given->compiling.getInput(), cluster, plans, advice ? &*advice : nullptr,
                                  context, os);
    if (isJson(file))
      writeJsonExplanations(plans, context, os);
    else
      llvm::for_each(plans, [&](const PlanExplanation &plan) { printExplanation(plan, os); });
    if (advice && !isJson(file))
      printAdvice(*advice, os);
  });
}

/// Compiles one plan for all `shapes`.
static FailureOr<OwningOpRef<ModuleOp>> compileShapes(Session &session, ArrayRef<ImportShape> shapes,
                                                      const PlanOptions &options) {
  OwningOpRef<ModuleOp> merged = ModuleOp::create(UnknownLoc::get(&session.context));
  for (ImportShape shape : shapes) {
    FailureOr<OwningOpRef<ModuleOp>> graph = given->compiling.readModule(session, {options.parallel.getDp()}, shape);
    if (failed(graph))
      return failure();
    if (merged->getBody()->empty()) {
      warnOfNoExperts(**graph, options);
      noteAuxiliaryLoss(**graph, options);
    }
    if (failed(compileVariants(**graph, options, shape.batch, shape.seq, *merged)))
      return emitUsageError(session.context) << "no plan for --batch=" << shape.batch << " --seq=" << shape.seq;
  }
  return merged;
}

/// Makes the forward and the backward of each variant of a plan, or of the plan itself.
static FailureOr<OwningOpRef<ModuleOp>> makeHalves(ModuleOp module, const PlanOptions &options) {
  SmallVector<ModuleOp> variants = plan::getVariants(module);
  if (variants.empty())
    return compileHalves(module, options);
  OwningOpRef<ModuleOp> merged = ModuleOp::create(module.getLoc());
  for (ModuleOp variant : variants) {
    FailureOr<OwningOpRef<ModuleOp>> pair = compileHalves(variant, options);
    if (failed(pair))
      return failure();
    for (ModuleOp half : plan::getVariants(**pair)) {
      for (StringRef name : {plan::kBatchAttrName, plan::kSequenceAttrName, plan::kSecondsAttrName})
        if (Attribute value = variant->getAttr(name))
          half->setAttr(name, value);
      half->moveBefore(merged->getBody(), merged->getBody()->end());
    }
  }
  return merged;
}

/// Refuses options that a rank program or a plan has already decided. The others concern later stages.
static LogicalResult checkSpmdOptions(MLIRContext &context, StringRef what) {
  if (given->emit == Emit::L0 || (given->emit == Emit::Spmd && what == "plan"))
    return emitUsageError(context) << "expected --emit=" << (what == "plan" ? "" : "spmd, ")
                                   << "plan, llvm, obj or so with '" << given->compiling.getInput()
                                   << "', which is already a " << what;
  static constexpr StringLiteral behind[] = {"cluster",     "digest",    "emit",   "explain",
                                             "num-threads", "o",         "order",  "print-pipeline",
                                             "prove",       "reference", "report", "target-cpu"};
  for (const auto &option : cl::getRegisteredOptions())
    if (option.getValue()->getNumOccurrences() > 0 &&
        llvm::is_contained(option.getValue()->Categories, &given->category) &&
        !llvm::is_contained(behind, option.getKey()))
      return emitUsageError(context) << "expected --" << option.getKey() << " with a model only: '"
                                     << given->compiling.getInput() << "' is a " << what
                                     << ", in which this is fixed; leave the option out";
  return success();
}

/// Compiles the input to the stage that --emit asks for, or to the plan before it.
static FailureOr<OwningOpRef<ModuleOp>> compileInput(Session &session, const PlanOptions &options) {
  if (given->compiling.isOpen()) {
    if (given->emit == Emit::L0 || given->emit == Emit::Spmd)
      return emitUsageError(session.context) << "expected --emit=plan, llvm, obj or so with --parallel=auto";
    return given->compiling.compileAuto(session, options);
  }
  FailureOr<SmallVector<ImportShape>> shapes = given->compiling.getShapes();
  if (failed(shapes))
    return failure();
  if (shapes->size() > 1) {
    if (given->emit == Emit::L0 || given->emit == Emit::Spmd)
      return emitUsageError(session.context) << "expected one --batch and one --seq with --emit=l0 or spmd but got "
                                             << shapes->size() << " shapes; plan, llvm, obj and so hold several";
    return compileShapes(session, *shapes, options);
  }
  FailureOr<OwningOpRef<ModuleOp>> graph = given->compiling.readModule(session, {options.parallel.getDp()});
  if (failed(graph))
    return failure();
  if (isSpmdProgram(**graph)) {
    if (failed(checkSpmdOptions(session.context, "rank program")))
      return failure();
    return compileSpmd(**graph, options);
  }
  if (!plan::getRankPrograms(**graph).empty()) {
    if (failed(checkSpmdOptions(session.context, "plan")) || failed(provePlan(**graph, options)))
      return failure();
    return graph;
  }
  if (given->emit == Emit::L0)
    return graph;
  warnOfNoExperts(**graph, options);
  noteAuxiliaryLoss(**graph, options);
  return planAndCompile(**graph, options);
}

/// Checks --halves, which divides one step of layers.
static LogicalResult checkHalves(MLIRContext &context, const PlanOptions &options) {
  auto emitError = [&] { return emitUsageError(context); };
  if (given->emit == Emit::L0 || given->emit == Emit::Spmd)
    return emitError() << "expected --emit=plan, llvm, obj or so with --halves";
  if (options.parallel.getPp() > 1 || options.optimizer || options.microBatches > 1 || !options.train)
    return emitError() << "--halves cannot be combined with a pipeline, an optimizer, --micro-batches or "
                          "--mode=forward: the training loop that calls the halves does these";
  return success();
}

/// Sets `isProved` if the plan computes its model, and writes the verdict for --prove.
static LogicalResult prove(ModuleOp plan, Session &session, const PlanOptions &options, bool &isProved) {
  FailureOr<SmallVector<Proof>> proofs = proveResults(plan, given->compiling, options, session);
  if (failed(proofs))
    return failure();
  isProved = llvm::all_of(*proofs, [](const Proof &one) { return one.failures.empty(); });
  return writeFile(*plan.getContext(), given->proof.empty() ? StringRef("-") : StringRef(given->proof),
                   [&](llvm::raw_pwrite_stream &os) { writeProofs(*proofs, isJson(given->proof), os); });
}

/// Checks --print-pipeline, which writes nothing else.
static LogicalResult checkPrintPipeline(MLIRContext &context) {
  // std::addressof gives the option, since the `&` of a list gives its values.
  for (const cl::Option *other : std::initializer_list<const cl::Option *>{
           &given->output, std::addressof(given->reports), std::addressof(given->explanations), &given->digest})
    if (other->getNumOccurrences() > 0)
      return emitUsageError(context) << "--print-pipeline cannot be combined with '" << other->ArgStr
                                     << "': it prints the passes and writes nothing else";
  if (given->emit == Emit::L0)
    return emitUsageError(context)
           << "expected --emit=spmd, plan, llvm, obj or so with --print-pipeline: no pass makes the model graph";
  return success();
}

/// Runs the tool. Sets `isProved` to false if --prove fails.
static LogicalResult run(Session &session, bool &isProved) {
  MLIRContext &context = session.context;
  PassWatcher watcher(context);
  if (given->printPipeline)
    watcher.printPipelines();
  if (given->printPipeline && failed(checkPrintPipeline(context)))
    return failure();
  if (given->emit != Emit::SharedLibrary && given->digest)
    return emitUsageError(context) << "--digest needs a plan .so, but --emit asks for another form; use --emit=so";
  if (given->targetCpu.getNumOccurrences() > 0 && given->emit != Emit::SharedLibrary && given->emit != Emit::Object)
    return emitUsageError(context)
           << "--target-cpu needs machine code, but --emit asks for another form; use --emit=so";
  if (failed(checkCpu(given->targetCpu, [&] { return emitUsageError(context) << "--target-cpu: "; })))
    return failure();
  if (failed(given->compiling.takeJob(context)))
    return failure();
  FailureOr<ClusterProfile> cluster = given->compiling.loadCluster(context);
  if (failed(cluster))
    return failure();
  FailureOr<PlanOptions> options = given->compiling.getOptions(context, *cluster);
  if (failed(options) || failed(given->compiling.checkInput()))
    return failure();
  const bool proves = given->proof.getNumOccurrences() > 0;
  if (proves && (given->emit == Emit::L0 || given->emit == Emit::Spmd || given->halves))
    return emitUsageError(context) << "--prove needs a plan of a whole step";
  if (given->emit == Emit::SharedLibrary && given->output == "-" && !given->printPipeline && !proves)
    return emitUsageError(context) << "expected -o FILE for a plan .so";
  if (failed(given->compiling.setStages(session, *options)))
    return failure();
  options->findChanges = !given->explanations.empty();
  if (given->halves && failed(checkHalves(context, *options)))
    return failure();
  options->stage = given->emit == Emit::Spmd ? Stage::Spmd : Stage::Plan;
  FailureOr<std::optional<RoutingSource>> routing = given->routingOptions.getSource(context);
  if (failed(routing))
    return failure();
  options->routing = *routing ? &**routing : nullptr;
  options->clusterPath = given->compiling.findCluster();
  options->runPasses = watcher.getRunner();
  watchInterrupts(*options);
  FailureOr<OwningOpRef<ModuleOp>> module = compileInput(session, *options);
  if (failed(module))
    return failure();
  bool isLowered = given->emit != Emit::L0 && given->emit != Emit::Spmd && given->emit != Emit::Plan;
  if (given->printPipeline) {
    if (given->halves)
      module = makeHalves(**module, *options);
    return failed(module) || !isLowered ? LogicalResult(module) : lowerToLLVM(**module, options->runPasses);
  }
  if (given->emit == Emit::L0)
    return writeModule(**module);
  SmallVector<ModuleOp> plans = plan::getVariants(**module);
  if (plans.empty())
    plans.push_back(**module);
  auto describeRemedies = [&](int64_t bytes, int64_t limit) {
    return given->compiling.describeRemedies(session, {*options, {}}, bytes, limit);
  };
  for (ModuleOp plan : plans) {
    // A plan that can be simulated may be too large to run.
    if (given->emit == Emit::Plan)
      warnOfMemory(plan, *cluster);
    else if (options->stage == Stage::Plan && failed(checkMemory(plan, *cluster, describeRemedies)))
      return failure();
  }
  for (const std::string &path : given->reports)
    if (failed(writeReport(**module, *cluster, path)))
      return failure();
  if (!given->explanations.empty()) {
    FailureOr<std::optional<FrameworkAdvice>> advice = findAdvice(**module, session, *options);
    if (failed(advice))
      return failure();
    for (const std::string &path : given->explanations)
      if (failed(writeExplanations(**module, *cluster, session.command, path, *advice)))
        return failure();
  }
  if (proves && failed(prove(**module, session, *options, isProved)))
    return failure();
  if (proves && (!isProved || given->output.getNumOccurrences() == 0))
    return success();
  if (given->halves)
    module = makeHalves(**module, *options);
  if (failed(module) || (isLowered && failed(lowerToLLVM(**module, options->runPasses))))
    return failure();
  return writeModule(**module);
}

int mlir::moe::runCompile(int argc, char **argv) {
  Options options;
  given = &options;
  registerPassOptions(given->passCategory);
  cl::HideUnrelatedOptions({&given->category, &given->passCategory});
  bool isProved = true;
  int status = runTool(argc, argv, "moe-compile",
                       "Compiles a model to a parallel plan that moe-run runs. Example:\n\n  moe-compile "
                       "mixtral-8x7b --parallel=dp=8,ep=8 -o plan.so\n",
                       &given->compiling, [&](Session &session) { return run(session, isProved); });
  return status || isProved ? status : notProved;
}
