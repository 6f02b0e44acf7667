//===- CompileCommandLine.cpp - what tools that compile have in common ----===//
#include "CompileCommandLine.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Planner/AutoParallel.h"
#include "moe/Support/InputFile.h"
#include "moe/Support/ShareDir.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

CompileCommandLine::CompileCommandLine(cl::OptionCategory &category)
    : input(cl::Positional, cl::Required, cl::desc("<model.mlir | config.json | model name>"), cl::cat(category)),
      parallel("parallel",
               cl::desc("Group sizes, e.g. dp=4,mp=2,ep=4,esp=2, or auto for the best ones of --world ranks"),
               cl::init(""), cl::cat(category)),
      schedule("schedule",
               cl::desc("baseline, s1, s2, s2+saa, ppmoe, parm-auto (the shorter of S1 and S2 on the cluster), with "
                        "+pipeline:N or "
                        "+pipeline:auto (N chunks, or the best N; N,RING: values of RING chunks alive at once), "
                        "+mpipe-s1 .. mpipe-s4 or mpipe-auto (Eq. 10), "
                        "+shadow[:MAX,POLICY] (at most MAX experts; algorithm1, prefix or simulate), "
                        "+smart[:RANKS,ORDER] (groups of RANKS; ring or topology), +topology-gate"),
               cl::init("baseline"), cl::cat(category)),
      mode("mode", cl::desc("forward, or train for forward and backward"), cl::init("train"), cl::cat(category)),
      order(
          "order",
          cl::desc("Order of the launches: search (on the cluster), mpipemoe, fastermoe or program; search for chunked "
                   "layers, else program, unless given"),
          cl::init(""), cl::cat(category)),
      cluster("cluster", cl::desc("Cluster profile: a file, or the name of a shared one"), cl::init("localhost"),
              cl::cat(category)),
      objective(
          "objective",
          cl::desc("What --parallel=auto chooses by: throughput (tokens a second and device) or step-time; for one "
                   "number of tokens both are the same"),
          cl::init("throughput"), cl::cat(category)),
      memoryLimit("memory-limit",
                  cl::desc("Bytes that one rank may use; more chunks and less kept are tried; 0 for no limit"),
                  cl::init(0), cl::cat(category)),
      world("world", cl::desc("Ranks, with --parallel=auto"), cl::init(0), cl::cat(category)),
      globalBatch(
          "global-batch",
          cl::desc("Sequences of a step of all ranks, dp x --batch x micro-batches; instead of --micro-batches"),
          cl::init(0), cl::cat(category)),
      threads("num-threads",
              cl::desc("Threads to compile and search with; 0 for one on each core. They change no result"),
              cl::init(0), cl::cat(category)),
      reference("reference", cl::desc("Compile the one-rank reference, which moe-run --verify needs"), cl::init(true),
                cl::cat(category)),
      exhaustive("exhaustive",
                 cl::desc("--schedule=auto simulates every candidate, also those that cannot be the best"),
                 cl::init(false), cl::cat(category)),
      importing(category), step(category) {}

/// More than any machine has; a pool of far more threads ends the program.
static constexpr unsigned kMaxThreads = 1024;

static InFlightDiagnostic emitUsageError(MLIRContext &context) { return emitError(UnknownLoc::get(&context)); }

LogicalResult mlir::moe::reportError(MLIRContext &context, llvm::Error error) {
  return emitUsageError(context) << llvm::toString(std::move(error));
}

FailureOr<CompileOptions> CompileCommandLine::getOptions(MLIRContext &context, const ClusterProfile &cluster) const {
  if (mode != "train" && mode != "forward")
    return emitUsageError(context) << "expected --mode to be train or forward but got '" << mode << "'";
  if (threads > kMaxThreads)
    return emitUsageError(context) << "expected --num-threads to be at most " << kMaxThreads << " but got "
                                   << uint64_t(threads);
  if (memoryLimit < 0)
    return emitUsageError(context) << "expected --memory-limit to be at least 0 but got " << int64_t(memoryLimit);
  if (isOpen() != (world.getNumOccurrences() > 0) || world < 0)
    return emitUsageError(context) << "expected --world=RANKS with --parallel=auto, and with nothing else";
  if (!parseObjective(objective))
    return emitUsageError(context) << "expected --objective to be throughput or step-time but got '" << objective
                                   << "'";
  if (objective.getNumOccurrences() && !isOpen() && schedule != "auto")
    return emitUsageError(context) << "expected --objective with --parallel=auto or --schedule=auto: nothing else is "
                                      "chosen by it";
  FailureOr<ParallelAttr> groups = parseParallel(&context, isOpen() ? StringRef() : StringRef(parallel));
  FailureOr<std::optional<GlobalBatch>> sequences = getGlobalBatch(context);
  if (failed(groups) || failed(sequences))
    return failure();
  CompileOptions options;
  if (!order.empty()) {
    options.order = parseOrderPolicy(order);
    if (!options.order)
      return emitUsageError(context) << "expected --order to be search, mpipemoe, fastermoe or program but got '"
                                     << order << "'";
  }
  options.parallel = *groups;
  options.schedule = schedule;
  options.train = mode == "train";
  options.memoryLimit = memoryLimit;
  options.reference = reference;
  options.exhaustive = exhaustive;
  options.devicesPerNode = cluster.devicesPerNode;
  options.cluster = &cluster;
  if (failed(step.setOptions(context, options, *sequences, isOpen())))
    return failure();
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
    return emitUsageError(context) << "expected --global-batch of at least 1, and with a configuration: a model graph "
                                      "has the batch that it is for";
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  if (shapes->size() > 1)
    return emitUsageError(context) << "expected one --batch and one --seq with --global-batch";
  return std::optional(GlobalBatch{globalBatch, shapes->front().batch});
}

FailureOr<OwningOpRef<ModuleOp>> CompileCommandLine::compileAuto(MLIRContext &context, llvm::SourceMgr &sources,
                                                                 const char *argv0,
                                                                 const CompileOptions &options) const {
  FailureOr<SmallVector<ImportShape>> shapes = getShapes();
  if (failed(shapes))
    return failure();
  if (shapes->size() > 1)
    return emitUsageError(context) << "expected one --batch and one --seq with --parallel=auto";
  ParallelRequest request;
  request.world = world;
  request.batch = shapes->front().batch;
  request.microBatches = options.microBatches;
  if (globalBatch.getNumOccurrences())
    request.globalBatch = globalBatch;
  request.objective = *parseObjective(objective);
  ModelSource source;
  std::string text;
  if (isGraph()) {
    FailureOr<OwningOpRef<ModuleOp>> read = readModule(context, sources, argv0, /*dataParallel=*/1);
    if (failed(read))
      return failure();
    if (isSpmdProgram(**read))
      return emitUsageError(context) << "expected --parallel=auto with a model only: '" << input
                                     << "' is the program of a rank, which has its groups";
    llvm::raw_string_ostream(text) << **read;
    source.isFixed = true;
    source.read = [&](MLIRContext &own, int64_t, int64_t, ArrayRef<int64_t>) -> FailureOr<OwningOpRef<ModuleOp>> {
      if (OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(text, &own))
        return graph;
      return failure();
    };
    return compileBestParallel(source, request, options);
  }
  llvm::Expected<std::vector<int64_t>> kinds = importing.getBlockKinds(input, argv0);
  if (!kinds) {
    llvm::errs() << llvm::toString(kinds.takeError()) << "\n";
    return failure();
  }
  source.kinds = std::move(*kinds);
  source.read = [&](MLIRContext &own, int64_t dataParallel, int64_t batch,
                    ArrayRef<int64_t> blocks) -> FailureOr<OwningOpRef<ModuleOp>> {
    llvm::Expected<OwningOpRef<ModuleOp>> module = importing.importFile(
        own, input, argv0, dataParallel, /*loss=*/mode == "train", ImportShape{batch, shapes->front().seq}, blocks);
    if (module)
      return std::move(*module);
    return reportError(own, module.takeError());
  };
  return compileBestParallel(source, request, options);
}

std::string CompileCommandLine::findCluster(const char *argv0) const {
  llvm::Expected<std::string> path = findShareFile("clusters", cluster, argv0);
  if (path)
    return std::move(*path);
  llvm::consumeError(path.takeError());
  return "";
}

FailureOr<ClusterProfile> CompileCommandLine::loadCluster(MLIRContext &context, const char *argv0) const {
  llvm::Expected<std::string> path = findShareFile("clusters", cluster, argv0);
  if (!path) {
    llvm::errs() << llvm::toString(path.takeError()) << "\n";
    return failure();
  }
  llvm::Expected<ClusterProfile> profile = ClusterProfile::load(*path);
  if (!profile) {
    // It says its own place.
    llvm::errs() << llvm::toString(profile.takeError()) << "\n";
    return failure();
  }
  return std::move(*profile);
}

FailureOr<SmallVector<ImportShape>> CompileCommandLine::getShapes() const {
  llvm::Expected<llvm::SmallVector<ImportShape>> shapes = importing.getShapes();
  if (shapes)
    return std::move(*shapes);
  llvm::errs() << llvm::toString(shapes.takeError()) << "\n";
  return failure();
}

FailureOr<OwningOpRef<ModuleOp>> CompileCommandLine::readModule(MLIRContext &context, llvm::SourceMgr &sources,
                                                                const char *argv0, int64_t dataParallel,
                                                                std::optional<ImportShape> shape) const {
  if (!isGraph()) {
    llvm::Expected<OwningOpRef<ModuleOp>> module =
        importing.importFile(context, input, argv0, dataParallel, /*loss=*/mode == "train", shape);
    if (module)
      return std::move(*module);
    llvm::errs() << llvm::toString(module.takeError()) << "\n";
    return failure();
  }
  if (StringRef given = importing.getGivenOption(); !given.empty())
    return emitUsageError(context) << "expected --" << given << " with a configuration only: '" << input
                                   << "' is a model graph";
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(input);
  llvm::Error error = file ? checkMlirText((*file)->getBuffer(), input) : file.takeError();
  if (error) {
    llvm::errs() << llvm::toString(std::move(error)) << "\n";
    return failure();
  }
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  return module;
}

std::string mlir::moe::getCommand(int argc, char **argv) {
  std::string command = llvm::sys::path::filename(argv[0]).str();
  for (StringRef argument : ArrayRef(argv + 1, static_cast<size_t>(argc - 1)))
    if (argument.find_first_of(" \t\n\"'\\$&|;<>()*?[]#~`!{}") == StringRef::npos && !argument.empty()) {
      command += " " + argument.str();
    } else {
      command += " '";
      for (char c : argument)
        command += c == '\'' ? std::string("'\\''") : std::string(1, c);
      command += "'";
    }
  return command;
}

void mlir::moe::warnOfNoExperts(ModuleOp graph, const CompileOptions &options) {
  if (graph.walk([](LayerOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return;
  ParallelAttr parallel = options.parallel;
  auto warn = [&] { return emitWarning(UnknownLoc::get(graph.getContext())) << "the model has no MoE layer, so "; };
  if (parallel.getEp() > 1 || parallel.getEsp() > 1)
    warn() << "ep = " << parallel.getEp() << " and esp = " << parallel.getEsp()
           << " have no effect; --parallel=pp=" << parallel.getPp() << ",dp=" << parallel.getDp()
           << ",mp=" << parallel.getMp() << " is the same";
  if (options.schedule != "baseline" && options.schedule != "auto")
    warn() << "--schedule=" << options.schedule << " has no effect; leave it out";
}

/// Where the plan needs more memory than the cluster's devices have, how much.
static std::optional<std::string> findShortage(ModuleOp plan, const ClusterProfile &cluster) {
  auto parallel = plan->getAttrOfType<ParallelAttr>(kParallelAttrName);
  if (!parallel || plan::getRankPrograms(plan).empty())
    return std::nullopt;
  func::FuncOp program = getLargestProgram(plan);
  // Ranks that share processors share memory too.
  int64_t sharing = cluster.processors.count ? std::min(parallel.getWorld(), cluster.devicesPerNode) : 1;
  // The host's memory has no optimizer in it, a device's will.
  ProgramMemory memory = getMemory(program);
  double needed =
      static_cast<double>(cluster.processors.count ? memory.getPlanBytes() + memory.pinned : memory.getDeviceBytes());
  double bytes = needed * static_cast<double>(sharing);
  if (bytes <= cluster.memoryBytes)
    return std::nullopt;
  return llvm::formatv("the plan needs {0:F1} GB on each device, but those of cluster '{1}' have {2:F1} GB",
                       bytes / 1e9, cluster.name, cluster.memoryBytes / 1e9)
      .str();
}

void mlir::moe::warnOfMemory(ModuleOp plan, const ClusterProfile &cluster) {
  if (std::optional<std::string> shortage = findShortage(plan, cluster))
    emitWarning(UnknownLoc::get(plan.getContext())) << *shortage;
}

LogicalResult mlir::moe::checkMemory(ModuleOp plan, const ClusterProfile &cluster) {
  // What a host has is not known here: moe-run looks.
  if (cluster.processors.count > 0) {
    warnOfMemory(plan, cluster);
    return success();
  }
  std::optional<std::string> shortage = findShortage(plan, cluster);
  if (!shortage)
    return success();
  std::string report;
  llvm::raw_string_ostream stream(report);
  plan::printMemory(getLargestProgram(plan), stream);
  InFlightDiagnostic error = emitUsageError(*plan.getContext()) << *shortage;
  error.attachNote() << report;
  return error;
}

ToolDiagnostics::ToolDiagnostics(MLIRContext &context, StringRef tool)
    : inFiles(sources, &context), withoutPlace(&context, [tool = tool.str()](Diagnostic &diagnostic) {
        if (!isa<UnknownLoc>(diagnostic.getLocation()))
          return failure();
        StringRef kind = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? "error"
                         : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
                                                                                   : "note";
        llvm::errs() << tool << ": " << kind << ": " << diagnostic << "\n";
        for (Diagnostic &note : diagnostic.getNotes())
          llvm::errs() << "note: " << note << "\n";
        return success();
      }) {
  // A whole function after each error would hide what it says.
  context.printOpOnDiagnostic(false);
}

LogicalResult mlir::moe::writeFile(MLIRContext &context, StringRef path,
                                   function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write, bool isBinary) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, isBinary ? llvm::sys::fs::OF_None : llvm::sys::fs::OF_Text);
  if (error)
    return emitUsageError(context) << "cannot write '" << path << "': " << error.message();
  if (failed(write(file.os())))
    return failure();
  file.os().flush();
  if (file.os().has_error()) {
    error = file.os().error();
    file.os().clear_error();
    return emitUsageError(context) << "cannot write '" << path << "': " << error.message();
  }
  file.keep();
  return success();
}
