//===- main.cpp - moe-sim: a plan in virtual time -------------------------===//
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "../Tools.h"
#include "CompileCommandLine.h"
#include "RoutingCommandLine.h"
#include "moe/Conversion/Variants.h"
#include "moe/Report/AstraSim.h"
#include "moe/Report/Chakra.h"
#include "moe/Report/SimOutput.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

namespace {
/// The options. They exist only while this tool runs, since one program has several tools.
struct Options {
  cl::OptionCategory category{"moe-sim options"};
  CompileCommandLine compiling{category};
  cl::opt<CostForm, false, NameParser<CostForm>> network{
      "network", cl::desc("How the time of an exchange is computed. Default: closed-form"),
      cl::init(CostForm::ClosedForm),
      cl::values(clEnumValN(CostForm::ClosedForm, "closed-form", "Each exchange takes alpha + beta * bytes"),
                 clEnumValN(CostForm::LinkLevel, "link-level", "Exchanges are flows that share links")),
      cl::cat(category)};
  RoutingCommandLine routingOptions{category};
  cl::opt<std::string> writeRouting{"write-routing",
                                    cl::desc("Write the routing of --synthetic-routing to this file, as a trace that\n"
                                             "   --routing takes"),
                                    cl::value_desc("file"), cl::Hidden, cl::cat(category)};
  cl::opt<int64_t> iteration{"iteration",
                             cl::desc("Iteration of the routing trace to simulate. Default: the first one"),
                             cl::init(-1), cl::Hidden, cl::cat(category)};
  cl::list<std::string> stragglers{"straggler",
                                   cl::desc("Make the work of one rank FACTOR times slower, not its exchanges. May be\n"
                                            "   repeated. Example: 3:1.5"),
                                   cl::value_desc("RANK:FACTOR"), cl::cat(category)};
  cl::list<std::string> linkFaults{"link-fault",
                                   cl::desc("Give a link, in one direction, only FACTOR of its bandwidth. May be\n"
                                            "   repeated. Example: node0/nic,network:0.5"),
                                   cl::value_desc("FROM,TO:FACTOR"), cl::Hidden, cl::cat(category)};
  cl::opt<bool> emulateLinks{"emulate-links",
                             cl::desc("Predict a run with moe-run --emulate-links, in which transfers take at least\n"
                                      "   the time that the plan says. Default: off"),
                             cl::init(false), cl::Hidden, cl::cat(category)};
  cl::opt<bool> allIterations{"all-iterations",
                              cl::desc("Simulate every iteration of a plan's loops, even where they repeat\n"
                                       "   themselves in time. Default: off"),
                              cl::Hidden, cl::cat(category)};
  cl::opt<bool> allRanks{"all-ranks",
                         cl::desc("Simulate every rank. Default: one rank stands for all that do the same"), cl::Hidden,
                         cl::cat(category)};
  cl::opt<bool> fromSamples{"from-samples",
                            cl::desc("Compose the step of a whole model from a few of its blocks and micro-batches,\n"
                                     "   in about a second. There is no timeline. Default: off"),
                            cl::cat(category)};
  cl::opt<std::string> jsonFile{
      "json",
      cl::desc("Print one JSON object instead of tables, or write it to this file beside the\n"
               "   tables. Default: off"),
      cl::value_desc("file"), cl::ValueOptional, cl::cat(category)};
  cl::opt<std::string> traceFile{"trace", cl::desc("Write the timeline to this file, as a Perfetto/Chrome trace"),
                                 cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> htmlFile{"html", cl::desc("Write timeline, memory and roofline to this file, as one page"),
                                cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> chakraFolder{
      "chakra",
      cl::desc("Write the step to this folder as Chakra execution traces, which ASTRA-sim\n"
               "   reads: moeplan.RANK.et of each rank, the communicators in\n"
               "   moeplan.groups.json, and files that describe the cluster"),
      cl::value_desc("folder"), cl::Hidden, cl::cat(category)};
  cl::opt<std::string> rooflineSchedules{
      "roofline",
      cl::desc("Other schedules to compile and simulate, each as in --schedule. One\n"
               "   DDL-roofline shows them and the plan. Example: s1,s2"),
      cl::value_desc("schedule,.."), cl::cat(category)};
  cl::opt<std::string> compareFile{"compare",
                                   cl::desc("Compare the prediction with this trace, which moe-run --trace wrote"),
                                   cl::value_desc("file"), cl::cat(category)};
};
} // namespace

static Options *given = nullptr;

static bool isJson() { return given->jsonFile.getNumOccurrences() > 0; }
/// True if the JSON object replaces the tables.
static bool isJsonPrinted() { return isJson() && (given->jsonFile.empty() || given->jsonFile == "-"); }

/// Reads the input, a model or a plan.
static FailureOr<OwningOpRef<ModuleOp>> readInput(Session &session, const PlanOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> module = given->compiling.readModule(session, {options.parallel.getDp()});
  if (failed(module))
    return failure();
  if (size_t variants = plan::getVariants(**module).size())
    return emitUsageError(session.context) << "expected a plan of one shape but got one of " << variants
                                           << " variants; compile it with one --batch and one --seq";
  return module;
}

static bool isPlan(ModuleOp module) { return llvm::any_of(module.getOps<func::FuncOp>(), plan::isRankProgram); }

/// Splits the schedules of --roofline. A number or one of these words continues the schedule before its comma.
static SmallVector<std::string> getRooflineSchedules() {
  SmallVector<StringRef> parts;
  StringRef(given->rooflineSchedules)
      .split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!given->rooflineSchedules.empty());
  SmallVector<std::string> schedules;
  for (StringRef part : parts) {
    StringRef word = part.take_until([](char c) { return c == '+' || c == ':'; });
    bool isArgument = is_contained({"algorithm1", "prefix", "simulate", "ring", "topology"}, word) ||
                      (!part.empty() && llvm::isDigit(part.front()));
    if (!schedules.empty() && isArgument)
      schedules.back() += "," + part.str();
    else
      schedules.push_back(part.str());
  }
  return schedules;
}

/// Splits `RANK:FACTOR` or `FROM,TO:FACTOR` into the part before the colon and a positive factor.
static FailureOr<std::pair<StringRef, double>> parseFactor(MLIRContext &context, StringRef option, StringRef text) {
  auto [what, number] = text.rsplit(':');
  double factor = 0;
  if (what.empty() || number.getAsDouble(factor) || !(factor > 0) || !std::isfinite(factor))
    return emitUsageError(context) << "expected --" << option << " to end in ':' and a positive factor but got '"
                                   << text << "'";
  return std::pair(what, factor);
}

static FailureOr<std::vector<Straggler>> parseStragglers(MLIRContext &context, int64_t ranks) {
  std::vector<Straggler> result;
  for (const std::string &text : given->stragglers) {
    auto parts = parseFactor(context, "straggler", text);
    if (failed(parts))
      return failure();
    Straggler straggler{0, parts->second};
    if (parts->first.getAsInteger(10, straggler.rank) || straggler.rank < 0 || straggler.rank >= ranks)
      return emitUsageError(context) << "expected --straggler to name a rank below " << ranks << " but got '" << text
                                     << "'";
    result.push_back(straggler);
  }
  return result;
}

static FailureOr<std::vector<LinkFault>> parseLinkFaults(MLIRContext &context) {
  std::vector<LinkFault> result;
  for (const std::string &text : given->linkFaults) {
    auto parts = parseFactor(context, "link-fault", text);
    if (failed(parts))
      return failure();
    auto [from, to] = parts->first.split(',');
    if (from.empty() || to.empty() || parts->second > 1)
      return emitUsageError(context) << "expected --link-fault=FROM,TO:FACTOR with a factor of at most 1 but got '"
                                     << text << "'";
    result.push_back({from.str(), to.str(), parts->second});
  }
  return result;
}

/// Makes the options' routing; none for an even one. Writes a synthetic one for --write-routing if `isFirst`.
static FailureOr<std::optional<RoutingTrace>> makeRouting(MLIRContext &context, ModuleOp plan, bool isFirst) {
  FailureOr<std::optional<RoutingSource>> source = given->routingOptions.getSource(context);
  if (failed(source))
    return failure();
  if (!given->routingOptions.isSynthetic() && !given->writeRouting.empty())
    return emitUsageError(context) << "--write-routing needs --synthetic-routing";
  if (!*source)
    return std::optional<RoutingTrace>();
  // A trace of another plan is an error, since this step is simulated.
  if ((*source)->trace)
    return std::move((*source)->trace);
  llvm::Expected<RoutingTrace> trace = makeTrace(plan, &**source);
  if (!trace)
    return reportError(context, trace.takeError());
  if (trace->getNumLayers() == 0)
    return emitUsageError(context) << "--synthetic-routing needs a plan with MoE layers";
  if (isFirst && !given->writeRouting.empty() &&
      failed(writeFile(context, given->writeRouting, [&](llvm::raw_ostream &os) { trace->write(os); })))
    return failure();
  return std::optional<RoutingTrace>(std::move(*trace));
}

static SimHeader makeHeader(ModuleOp plan, const ClusterProfile &cluster) {
  SimHeader header = makeSimHeader(plan, given->compiling.getInput(), cluster);
  header.form = given->network == CostForm::ClosedForm ? "closed-form" : "link-level";
  header.routing = given->routingOptions.describe();
  return header;
}

/// Writes a file into the folder of --chakra.
static LogicalResult writeChakraFile(MLIRContext &context, const Twine &name,
                                     llvm::function_ref<void(llvm::raw_ostream &)> print) {
  SmallString<128> path(given->chakraFolder);
  llvm::sys::path::append(path, name);
  return writeFile(context, path, print, /*isBinary=*/true);
}

/// Writes ASTRA-sim's description of the cluster beside the traces.
static LogicalResult writeAstraSim(MLIRContext &context, const ClusterProfile &cluster, const SimResult &result,
                                   int64_t ranks) {
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, CostForm::ClosedForm);
  if (!model)
    return reportError(context, model.takeError());
  llvm::Expected<std::vector<AstraSimFile>> files = makeAstraSimFiles(result, **model);
  if (!files)
    return reportError(context, files.takeError());
  for (const AstraSimFile &file : *files)
    if (failed(writeChakraFile(context, file.name, [&](llvm::raw_ostream &os) { os << file.text; })))
      return failure();
  return success();
}

/// Writes the files of --chakra for all ranks, however many they are.
static LogicalResult writeChakra(MLIRContext &context, const SimHeader &header, const ClusterProfile &cluster,
                                 const SimResult &result) {
  constexpr uint64_t gibibyte = uint64_t(1) << 30, most = 16 * gibibyte;
  llvm::Expected<ChakraTraces> traces = ChakraTraces::create(header, result);
  if (!traces)
    return reportError(context, traces.takeError());
  if (uint64_t bytes = traces->getBytes(); bytes > most)
    return emitUsageError(context) << "expected at most " << most / gibibyte << " GiB of --chakra but got "
                                   << llvm::divideCeil(bytes, gibibyte) << " GiB for " << traces->getNumRanks()
                                   << " ranks; take fewer ranks, --layers or --micro-batches";
  if (std::error_code error = llvm::sys::fs::create_directories(given->chakraFolder.getValue()))
    return emitUsageError(context) << "cannot write '" << given->chakraFolder << "': " << error.message();
  for (int64_t rank = 0; rank < traces->getNumRanks(); ++rank)
    if (failed(writeChakraFile(context, "moeplan." + Twine(rank) + ".et",
                               [&](llvm::raw_ostream &os) { traces->write(rank, os); })))
      return failure();
  if (failed(
          writeChakraFile(context, "moeplan.groups.json", [&](llvm::raw_ostream &os) { traces->writeGroups(os); })) ||
      failed(writeAstraSim(context, cluster, result, traces->getNumRanks())))
    return failure();
  for (const std::string &note : traces->getNotes())
    emitWarning(UnknownLoc::get(&context)) << "--chakra: " << note;
  return success();
}

/// Writes all outputs that the options ask for.
static LogicalResult writeOutputs(MLIRContext &context, StringRef command, const SimHeader &header,
                                  const ClusterProfile &cluster, const SimResult &result, const SimReport &report) {
  std::vector<MeasuredOp> measured;
  std::optional<Comparison> comparison;
  if (!given->compareFile.empty()) {
    llvm::Expected<std::vector<MeasuredOp>> trace = loadTrace(given->compareFile);
    if (!trace)
      return reportError(context, trace.takeError());
    measured = std::move(*trace);
    numberLaunches(result, measured);
    llvm::Expected<Comparison> compared = compare(result, measured);
    if (!compared)
      return reportError(context, compared.takeError());
    comparison = std::move(*compared);
  }
  const Comparison *compared = comparison ? &*comparison : nullptr;
  if (!given->traceFile.empty() &&
      failed(writeFile(context, given->traceFile, [&](llvm::raw_ostream &os) { writeTrace(result, os); })))
    return failure();
  if (!given->chakraFolder.empty() && failed(writeChakra(context, header, cluster, result)))
    return failure();
  if (!given->htmlFile.empty() && failed(writeFile(context, given->htmlFile, [&](llvm::raw_ostream &os) {
        writeHtml(command, header, result, report, measured, compared, os);
      })))
    return failure();
  auto printJson = [&](llvm::raw_ostream &os) { writeJson(header, result, report, compared, os); };
  if (isJson() && !isJsonPrinted() && failed(writeFile(context, given->jsonFile, printJson)))
    return failure();
  return writeFile(context, "-", [&](llvm::raw_ostream &os) {
    if (isJsonPrinted())
      return printJson(os);
    printText(header, result, report, os);
    if (compared)
      printComparison(*compared, os);
  });
}

/// Fails if an option needs the launches of a whole step.
static LogicalResult checkSampled(MLIRContext &context) {
  std::reference_wrapper<const cl::Option> others[] = {
      given->network,      given->writeRouting,      given->iteration,  given->stragglers, given->linkFaults,
      given->emulateLinks, given->allIterations,     given->allRanks,   given->traceFile,  given->htmlFile,
      given->chakraFolder, given->rooflineSchedules, given->compareFile};
  for (const cl::Option &other : others)
    if (other.getNumOccurrences())
      return emitUsageError(context) << "--from-samples cannot be combined with --" << other.ArgStr
                                     << ", which needs all launches of a step";
  return success();
}

/// Prints a step from samples.
static LogicalResult runSampled(Session &session, const PlanOptions &options) {
  if (failed(checkSampled(session.context)))
    return failure();
  FailureOr<SampledStep> step = given->compiling.sampleStep(session, options);
  if (failed(step))
    return failure();
  SimHeader header;
  header.plan = given->compiling.getInput();
  header.cluster = options.cluster->name;
  header.framework = options.cluster->framework;
  header.precision = options.cluster->precision.name;
  header.schedule = options.schedule;
  header.mode = options.train ? "train" : "forward";
  header.form = "closed-form";
  header.routing = given->routingOptions.describe();
  header.memoryBytes = options.cluster->getPlanBytes();
  auto printJson = [&](llvm::raw_ostream &os) { writeJson(header, *step, os); };
  if (isJson() && !isJsonPrinted() && failed(writeFile(session.context, given->jsonFile, printJson)))
    return failure();
  return writeFile(session.context, "-", [&](llvm::raw_ostream &os) {
    if (isJsonPrinted())
      return printJson(os);
    printText(header, *step, os);
  });
}

/// Simulates a step of a plan under the options' conditions.
static FailureOr<SimResult> simulatePlan(MLIRContext &context, ModuleOp plan, const ClusterProfile &cluster,
                                         bool isFirst) {
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Once);
  if (!programs)
    return reportError(context, programs.takeError());
  int64_t ranks = programs->back().firstRank + programs->back().numRanks;
  SimOptions simulation;
  FailureOr<std::vector<Straggler>> slow = parseStragglers(context, ranks);
  FailureOr<std::vector<LinkFault>> faults = parseLinkFaults(context);
  if (failed(slow) || failed(faults))
    return failure();
  FailureOr<std::optional<RoutingTrace>> routing = makeRouting(context, plan, isFirst);
  if (failed(routing))
    return failure();
  simulation.stragglers = std::move(*slow);
  simulation.allRanks = given->allRanks;
  // Copies of iterations have no bytes of pairs.
  simulation.allIterations = given->allIterations || !given->chakraFolder.empty();
  simulation.pairBytes = !given->chakraFolder.empty();
  simulation.emulateLinks = given->emulateLinks;
  if (*routing) {
    simulation.routing = &**routing;
    simulation.iteration =
        given->iteration.getNumOccurrences() ? given->iteration.getValue() : (*routing)->getIterations().front();
  } else if (given->iteration.getNumOccurrences()) {
    return emitUsageError(context) << "--iteration needs --routing or --synthetic-routing";
  }
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, given->network, *faults);
  if (!model)
    return reportError(context, model.takeError());
  llvm::Expected<SimResult> result = simulate(plan, **model, simulation);
  if (!result)
    return reportError(context, result.takeError());
  return std::move(*result);
}

/// Adds the plans of --roofline for the same model.
static LogicalResult addOthers(MLIRContext &context, ModuleOp model, PlanOptions options, SimReport &report) {
  for (const std::string &schedule : getRooflineSchedules()) {
    options.schedule = schedule;
    FailureOr<OwningOpRef<ModuleOp>> plan = planAndCompile(model, options);
    if (failed(plan))
      return emitUsageError(context) << "no plan for '" << schedule << "' of --roofline";
    FailureOr<SimResult> result = simulatePlan(context, **plan, *options.cluster, /*isFirst=*/false);
    if (failed(result))
      return failure();
    report.others.push_back(makeReport(*result).roofline);
    report.others.back().schedule = makeSimHeader(**plan, given->compiling.getInput(), *options.cluster).schedule;
  }
  return success();
}

/// Says that exchanges of tokens ignore the dispatcher's rates.
static void warnOfDispatcher(MLIRContext &context, const ClusterProfile &cluster) {
  const TokenExchange &tokens = cluster.tokenExchange;
  bool hasRates =
      tokens.fixedSeconds > 0 || tokens.messageSeconds > 0 || tokens.insideTimes != 1 || tokens.betweenTimes != 1;
  if (given->network == CostForm::LinkLevel && hasRates)
    emitWarning(UnknownLoc::get(&context)) << "--network=link-level takes the links' rates for tokens, and not those "
                                              "of the dispatcher; --network=closed-form takes the dispatcher's";
}

static LogicalResult run(Session &session) {
  MLIRContext &context = session.context;
  if (failed(given->compiling.takeJob(context)))
    return failure();
  FailureOr<std::optional<RoutingSource>> routing = given->routingOptions.getSource(context);
  if (failed(routing))
    return failure();
  FailureOr<ClusterProfile> cluster = given->compiling.loadCluster(context, *routing ? &**routing : nullptr);
  if (failed(cluster))
    return failure();
  FailureOr<PlanOptions> options = given->compiling.getOptions(context, *cluster);
  if (failed(options) || failed(given->compiling.checkInput()))
    return failure();
  if (given->compiling.isOpen() && !given->rooflineSchedules.empty())
    return emitUsageError(context) << "--roofline needs sizes in --parallel, such as those that --parallel=auto "
                                      "chose";
  options->routing = *routing ? &**routing : nullptr;
  if (failed(given->compiling.setStages(session, *options)))
    return failure();
  warnOfDispatcher(context, *cluster);
  if (given->fromSamples)
    return runSampled(session, *options);
  if (given->compiling.isOpen())
    watchInterrupts(*options);
  FailureOr<OwningOpRef<ModuleOp>> input =
      given->compiling.isOpen() ? given->compiling.compileAuto(session, *options) : readInput(session, *options);
  if (failed(input))
    return failure();
  bool isModel = !isPlan(**input);
  if (!isModel && !given->rooflineSchedules.empty())
    return emitUsageError(context) << "--roofline needs a model, which it compiles by other schedules, but '"
                                   << given->compiling.getInput() << "' is a plan";
  FailureOr<OwningOpRef<ModuleOp>> compiled;
  if (isModel) {
    warnOfNoExperts(**input, *options);
    if (failed(compiled = planAndCompile(**input, *options)))
      return failure();
    noteDefaultMaxLoad(**compiled);
  }
  ModuleOp plan = isModel ? **compiled : **input;
  warnOfMemory(plan, *cluster);
  FailureOr<SimResult> result = simulatePlan(context, plan, *cluster, /*isFirst=*/true);
  if (failed(result))
    return failure();
  // These outputs show each launch.
  if (isJson() || !given->traceFile.empty() || !given->chakraFolder.empty() || !given->htmlFile.empty() ||
      !given->compareFile.empty()) {
    llvm::Expected<SimResult> whole = writeOut(std::move(*result), plan);
    if (!whole)
      return reportError(context, whole.takeError());
    result = std::move(*whole);
  }
  SimReport report = makeReport(*result, getStepWork(plan));
  setMeasured(report, *result, *cluster, /*hasEvenRouting=*/given->routingOptions.describe() == "even");
  if (failed(addOthers(context, **input, *options, report)))
    return failure();
  return writeOutputs(context, session.command, makeHeader(plan, *cluster), *cluster, *result, report);
}

int mlir::moe::runSim(int argc, char **argv) {
  Options options;
  given = &options;
  cl::HideUnrelatedOptions(given->category);
  return runTool(argc, argv, "moe-sim",
                 "Predicts how long a step takes on a cluster, and why. Example:\n\n  moe-sim "
                 "mixtral-8x7b --parallel=dp=8,ep=8 --cluster=hgx-h100\n",
                 &given->compiling, run);
}
