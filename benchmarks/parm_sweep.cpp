//===- parm_sweep.cpp - Parm's grid of layers, simulated ------------------===//
//
// The layers of Parm's Table III on its two testbeds (share/clusters/parm-a.json, parm-b.json). Each is compiled with
// the baseline and with Parm's schedules, forward and backward, and simulated in closed form with even routing. The
// program prints speed-ups beside the paper's, the cases in which S1 or S2 is faster, and the losses of Algorithm 1.
// The exit status is 1 if a claim does not hold. With --search, it instead writes the choices of --schedule=auto, for
// auto_papers.py.
//
//===----------------------------------------------------------------------===//
#include "ParmFigures.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

#include "CompileCommandLine.h"
#include "Session.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Simulator/Report.h"
#include "moe/Support/InputFile.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace mlir::moe;
using namespace parm_sweep;
namespace cl = llvm::cl;

static cl::OptionCategory category("Options");
static cl::opt<std::string> onlyTestbed("testbed", cl::desc("Only this testbed: a or b"), cl::cat(category));
static cl::opt<std::string> csvFile("csv", cl::desc("Write all cases"), cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string> svgPrefix("svg", cl::desc("Write PREFIX-histogram.svg and PREFIX-wins.svg"),
                                      cl::value_desc("prefix"), cl::cat(category));
static cl::opt<int64_t> limit("limit", cl::desc("Number of cases, spread over the grid; 0: all"), cl::init(0),
                              cl::cat(category));
static cl::opt<std::string>
    searchFile("search", cl::desc("Only write each case's step with parm-auto and with the choice of --schedule=auto"),
               cl::value_desc("file"), cl::cat(category));
static cl::opt<unsigned> numThreads("jobs", cl::desc("Threads; 0: one for each core"), cl::init(0), cl::cat(category));
static cl::opt<bool> terms("terms", cl::desc("Print the parts of the steps"), cl::cat(category));
static cl::opt<bool> progress("progress", cl::desc("Show progress even if stderr is no terminal"), cl::cat(category));

template <typename T> static T check(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  llvm::errs() << "parm_sweep: error: " << llvm::toString(value.takeError()) << "\n";
  std::exit(1);
}

namespace {
/// Compiles and simulates on one thread.
class Worker {
public:
  Worker(const std::vector<Testbed> &testbeds, const std::vector<ClusterProfile> &profiles)
      : testbeds(testbeds), profiles(profiles) {
    registerDialects(registry);
  }
  LogicalResult run(Case &what);

private:
  FailureOr<OwningOpRef<ModuleOp>> compile(const Case &what, StringRef schedule, int64_t memoryLimit = 0);
  LogicalResult run(const Case &what, Schedule schedule, Run &result, int64_t *bytes);
  LogicalResult runAll(Case &what);
  LogicalResult search(Case &what);
  CostModel &getModel(const Testbed &testbed);

  const std::vector<Testbed> &testbeds;
  const std::vector<ClusterProfile> &profiles;
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  std::map<const Testbed *, std::unique_ptr<CostModel>> models;
};
} // namespace

/// Two layers with ReLU for each expert, no biases, and the tokens of all data-parallel ranks.
static std::string getGraph(const Case &what) {
  std::string x =
      llvm::formatv("tensor<{0}x{1}xf32>", what.testbed->ranks / what.mp * what.getTokens(), what.embedding);
  std::string gate = llvm::formatv("tensor<{0}x{1}xf32>", what.embedding, what.getExperts());
  std::string w1 = llvm::formatv("tensor<{0}x{1}x{2}xf32>", what.getExperts(), what.embedding, what.hidden);
  std::string w2 = llvm::formatv("tensor<{0}x{1}x{2}xf32>", what.getExperts(), what.hidden, what.embedding);
  auto describe = [](const char *name, const char *role) {
    return llvm::formatv("{{moe.name = \"{0}\", moe.role = \"{1}\"}", name, role).str();
  };
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "func.func @model(%x: " << x << describe("x", "input") << ", %gate: " << gate << describe("gate", "parameter")
     << ", %w1: " << w1 << describe("w1", "parameter") << ", %w2: " << w2 << describe("w2", "parameter") << ") -> ("
     << x << describe("y", "output") << ", tensor<f32>" << describe("aux", "output") << ") {\n"
     << "%y, %aux = moe.layer \"layer\" %x gate(%gate) experts(%w1, %w2) {top_k = " << kTopK
     << " : i64, activation = #moe<activation relu>, capacity_factor = " << llvm::formatv("{0:E}", what.factor)
     << " : f64} : (" << x << ", " << gate << ", " << w1 << ", " << w2 << ") -> (" << x << ", tensor<f32>)\n"
     << "return %y, %aux : " << x << ", tensor<f32>\n}\n";
  return text;
}

/// Whether a launch sums a parameter's gradient over data-parallel ranks. The paper leaves these sums out of its times.
static bool isGradientSum(plan::LaunchOp launch, func::FuncOp program) {
  GroupAttr group = launch.getGroupAttr();
  if (launch.getOpCost().collective != Collective::AllReduce ||
      !llvm::is_contained({"dp", "edp", "world"}, group.getName()))
    return false;
  return llvm::any_of(launch.getOutputs(), [&](Value output) {
    auto argument = dyn_cast<BlockArgument>(output);
    auto role = argument ? program.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttrName) : StringAttr();
    return role && role == "gradient";
  });
}

/// The same program with gradient sums that take no time.
static SimProgram withoutGradientSums(SimProgram program, func::FuncOp function) {
  for (auto [launch, simulated] : llvm::zip_equal(function.getOps<plan::LaunchOp>(), program.launches))
    if (isGradientSum(launch, function))
      simulated.cost = OpCost();
  return program;
}

static Term getTerm(const SimLaunch &launch) {
  switch (launch.cost.collective) {
  case Collective::AllGather:
    return Term::AllGather;
  case Collective::AllToAll:
    return Term::AllToAll;
  case Collective::AllReduce:
    return Term::AllReduce;
  case Collective::ReduceScatter:
    return Term::ReduceScatter;
  default:
    break;
  }
  if (launch.cost.resource == Resource::None)
    return Term::Waiting;
  return StringRef(launch.kernel).starts_with("grouped_matmul") ? Term::Products : Term::Compute;
}

CostModel &Worker::getModel(const Testbed &testbed) {
  std::unique_ptr<CostModel> &model = models[&testbed];
  if (!model)
    model = check(CostModel::create(profiles[testbed.profile], testbed.ranks, CostForm::ClosedForm));
  return *model;
}

FailureOr<OwningOpRef<ModuleOp>> Worker::compile(const Case &what, StringRef schedule, int64_t memoryLimit) {
  const ClusterProfile &profile = profiles[what.testbed->profile];
  OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(getGraph(what), context.get());
  PlanOptions options;
  options.schedule = schedule;
  options.reference = false;
  options.memoryLimit = memoryLimit;
  options.devicesPerNode = profile.devicesPerNode;
  options.cluster = &profile;
  FailureOr<ParallelAttr> parallel =
      parseParallel(context.get(), llvm::formatv("dp={0},mp={1},ep={2},esp={3}", what.testbed->ranks / what.mp, what.mp,
                                                 what.getExperts(), what.esp)
                                       .str());
  if (!graph || failed(parallel))
    return failure();
  options.parallel = *parallel;
  return mlir::moe::planAndCompile(*graph, options);
}

LogicalResult Worker::run(const Case &what, Schedule schedule, Run &result, int64_t *bytes) {
  const ClusterProfile &profile = profiles[what.testbed->profile];
  FailureOr<OwningOpRef<ModuleOp>> plan = compile(what, getName(schedule));
  if (failed(plan))
    return failure();
  auto program = (*plan)->lookupSymbol<func::FuncOp>("rank");
  if (bytes)
    *bytes = getMemory(program).getPlanBytes();
  if (bytes && static_cast<double>(*bytes) > profile.memoryBytes)
    return success();
  CostModel &model = getModel(*what.testbed);
  std::vector<SimProgram> programs = check(makeSimPrograms(**plan));
  std::vector<SimProgram> withoutSums = {withoutGradientSums(programs.front(), program)};
  result.withSums = check(simulate(std::move(programs), model, {})).seconds;
  SimResult simulated = check(simulate(std::move(withoutSums), model, {}));
  result.seconds = simulated.seconds;
  for (const CriticalPiece &piece : makeReport(simulated).criticalPath) {
    Term term = Term::Waiting;
    if (piece.time >= 0) {
      const SimTime &time = simulated.times[static_cast<size_t>(piece.time)];
      term = getTerm(simulated.programs[simulated.ranks[time.rank].program].launches[time.launch]);
    }
    result.terms[static_cast<size_t>(term)] += piece.end - piece.begin;
  }
  return success();
}

/// Runs a case. There is no speed-up if the baseline, which needs the most memory, does not fit.
LogicalResult Worker::runAll(Case &what) {
  for (Schedule schedule : getSchedules()) {
    bool isBaseline = schedule == Schedule::Baseline;
    if (failed(run(what, schedule, what.runs[static_cast<size_t>(schedule)], isBaseline ? &what.bytes : nullptr)))
      return failure();
    what.fits = static_cast<double>(what.bytes) <= profiles[what.testbed->profile].memoryBytes;
    if (!what.fits)
      return success();
  }
  return success();
}

/// Finds both choices as the search simulates them, with gradient sums. The choice may need as much memory as the
/// device has, or as parm-auto's plan if that is more.
LogicalResult Worker::search(Case &what) {
  const ClusterProfile &profile = profiles[what.testbed->profile];
  auto limit = static_cast<int64_t>(profile.memoryBytes);
  for (auto [schedule, choice] : {std::pair("parm-auto", &what.own), std::pair("auto", &what.chosen)}) {
    FailureOr<OwningOpRef<ModuleOp>> plan = compile(what, schedule, choice == &what.own ? 0 : limit);
    if (failed(plan))
      return failure();
    limit = std::max(limit, getMemory(getLargestProgram(**plan)).getDeviceBytes());
    choice->seconds = check(predict(**plan, "", profile)).result.seconds;
    choice->schedule = (**plan)->getAttrOfType<StringAttr>(plan::kScheduleAttrName).str();
  }
  return success();
}

LogicalResult Worker::run(Case &what) {
  // Each case has its own context, because a context keeps every attribute that it has seen.
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Prints only errors. Remarks tell of padded capacities.
  ScopedDiagnosticHandler diagnostics(context.get(), [](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      llvm::errs() << "parm_sweep: error: " << diagnostic << "\n";
    return success();
  });
  if (succeeded(searchFile.empty() ? runAll(what) : search(what)))
    return success();
  llvm::errs() << "parm_sweep: error: no plan for " << describe(what) << "\n";
  return failure();
}

static std::vector<Case> makeCases(const std::vector<Testbed> &testbeds) {
  std::vector<Case> cases;
  for (const Testbed &testbed : testbeds)
    for (int64_t mp : {1, 2, 4})
      for (int64_t esp : {1, 2, 4})
        for (int64_t batch : {2, 4, 8})
          for (int64_t sequence : {512, 1024, 2048})
            for (int64_t embedding : {1024, 2048, 4096})
              for (int64_t hidden : {1024, 2048, 4096})
                for (double factor : {1.2, 2.4})
                  cases.push_back({&testbed, mp, esp, batch, sequence, embedding, hidden, factor});
  if (limit <= 0 || limit >= static_cast<int64_t>(cases.size()))
    return cases;
  // A step that has no common factor with any side of the grid.
  constexpr size_t step = 1009;
  std::vector<Case> some;
  for (int64_t i = 0; i < limit; ++i)
    some.push_back(cases[static_cast<size_t>(i) * step % cases.size()]);
  return some;
}

/// Runs all cases on several threads. Returns false if one failed.
static bool runAll(std::vector<Case> &cases, const std::vector<Testbed> &testbeds,
                   const std::vector<ClusterProfile> &profiles) {
  std::atomic<size_t> next = 0, done = 0;
  std::atomic<bool> ok = true;
  std::mutex terminal;
  bool isShown = progress || llvm::sys::Process::StandardErrIsDisplayed();
  auto work = [&] {
    Worker worker(testbeds, profiles);
    for (size_t i; ok && (i = next++) < cases.size();) {
      if (failed(worker.run(cases[i])))
        ok = false;
      std::lock_guard lock(terminal);
      if (size_t count = ++done; isShown && (count % 10 == 0 || count == cases.size()))
        llvm::errs() << "\r\033[K" << count << "/" << cases.size() << " " << describe(cases[i]);
    }
  };
  std::vector<std::thread> threads;
  unsigned count = numThreads > 0 ? numThreads : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  if (isShown)
    llvm::errs() << "\r\033[K";
  return ok;
}

static bool write(StringRef path, const std::vector<Case> &cases,
                  void (*print)(const std::vector<Case> &, llvm::raw_ostream &)) {
  MLIRContext context;
  Session session(context, "parm_sweep", "");
  return succeeded(writeFile(context, path, [&](llvm::raw_pwrite_stream &os) {
    print(cases, os);
    return success();
  }));
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Parm's grid of layers, simulated\n");
  if (!llvm::is_contained({"", "a", "b"}, onlyTestbed)) {
    llvm::errs() << "parm_sweep: error: expected --testbed to be a or b but got '" << onlyTestbed << "'\n";
    return 1;
  }
  std::vector<ClusterProfile> profiles;
  for (StringRef name : {"parm-a", "parm-b"})
    profiles.push_back(check(ClusterProfile::load(check(findShareFile("clusters", name)))));
  std::vector<Testbed> testbeds;
  if (onlyTestbed != "b")
    testbeds.push_back({'A', 0, 8});
  if (onlyTestbed != "a")
    for (int64_t ranks : {8, 16, 32})
      testbeds.push_back({'B', 1, ranks});

  std::vector<Case> cases = makeCases(testbeds);
  if (!runAll(cases, testbeds, profiles))
    return 1;
  if (!searchFile.empty())
    return write(searchFile, cases, writeChoices) ? 0 : 1;
  printCounts(cases, llvm::outs());
  printSpeedups(cases, llvm::outs());
  printCluster(cases, llvm::outs());
  printWins(cases, llvm::outs());
  printChoice(cases, llvm::outs());
  if (terms)
    printTerms(cases, llvm::outs());
  bool isWritten = csvFile.empty() || write(csvFile, cases, writeCsv);
  if (!svgPrefix.empty())
    isWritten &=
        write(svgPrefix + "-histogram.svg", cases, drawHistogram) && write(svgPrefix + "-wins.svg", cases, drawWins);
  return printChecks(cases, llvm::outs()) && isWritten ? 0 : 1;
}
