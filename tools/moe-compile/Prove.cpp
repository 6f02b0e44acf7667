//===- Prove.cpp - moe-compile --prove ------------------------------------===//
#include "Prove.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include "moe/Compiler/Schedule.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/SameProgram.h"
#include "moe/Support/UsageError.h"
#include "moe/Target/Object.h"

using namespace mlir;
using namespace mlir::moe;

/// Number of sizes of the small model that are tried, each twice as large as the one before.
static constexpr int64_t kMostTries = 4;

namespace {
/// A plan and its input: for a configuration, the shape and the changes of a search.
struct Subject {
  ModuleOp plan;
  PlanOptions options;
  std::optional<ImportShape> shape = std::nullopt;
  ModelForm form = {};
};

class Prover {
public:
  Prover(const Subject &subject, const CompileCommandLine &command, Session &session)
      : plan(subject.plan), context(*plan.getContext()), command(command), options(subject.options),
        shape(subject.shape), form(subject.form), session(session) {
    form.dataParallel = options.parallel.getDp();
  }

  /// Errors are among its failures.
  Proof prove();

private:
  LogicalResult fixChoices();
  FailureOr<OwningOpRef<ModuleOp>> readModel(const ReducedSizes *reduced) const {
    return command.readModule(session, form, shape, reduced);
  }
  FailureOr<OwningOpRef<ModuleOp>> compileSmall(int64_t attempt, Proof &proof);
  FailureOr<OwningOpRef<ModuleOp>> compileSingle(int64_t factor);
  FailureOr<llvm::json::Object> run(ModuleOp module, StringRef flag, StringRef prefix, Proof &proof);
  LogicalResult compareResults(ModuleOp module, Proof &proof);
  LogicalResult checkGradients(ModuleOp module, Proof &proof);
  InFlightDiagnostic emitError() { return mlir::emitError(UnknownLoc::get(&context)); }

  ModuleOp plan;
  MLIRContext &context;
  const CompileCommandLine &command;
  PlanOptions options;
  const std::optional<ImportShape> shape;
  ModelForm form;
  OwningOpRef<ModuleOp> choices;
  Session &session;
};
} // namespace

/// Fixes the decisions that depend on times and bytes, which differ in a small model.
LogicalResult Prover::fixChoices() {
  options.schedule = plan->getAttrOfType<StringAttr>(plan::kScheduleAttrName).getValue().str();
  options.memoryLimit = 0;
  options.runPasses = nullptr;
  options.reference = true;
  FailureOr<ParsedSchedule> schedule = parseSchedule(&context, options.schedule);
  FailureOr<OwningOpRef<ModuleOp>> graph = readModel(/*reduced=*/nullptr);
  if (failed(schedule) || failed(graph))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> prepared = prepareGraph(**graph, options);
  if (failed(prepared))
    return failure();
  CompileOptions forward = options;
  forward.stage = Stage::Forward;
  FailureOr<OwningOpRef<ModuleOp>> program = compileSchedule(**prepared, *schedule, forward);
  if (failed(program))
    return failure();
  choices = std::move(*program);
  options.choices = *choices;
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> Prover::compileSmall(int64_t attempt, Proof &proof) {
  FailureOr<ParsedSchedule> schedule = parseSchedule(&context, options.schedule);
  if (failed(schedule))
    return failure();
  ReducedSizes sizes{options.parallel, std::max<int64_t>(1, schedule->chunks), proof.factor = int64_t(1) << attempt};
  PlanOptions small = options;
  small.microBatches = proof.microBatches = getFewestMicroBatches(options, attempt);
  proof.sequence = reduceSequence(shape->seq, sizes);
  FailureOr<OwningOpRef<ModuleOp>> graph = readModel(&sizes);
  if (failed(graph))
    return failure();
  return planAndCompile(**graph, small);
}

/// Reads the verification of a report of moe-run --json; null without one.
static std::optional<llvm::json::Object> readVerification(StringRef text) {
  llvm::Expected<llvm::json::Value> report = llvm::json::parse(text);
  if (!report) {
    llvm::consumeError(report.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *root = report->getAsObject();
  const llvm::json::Object *verify = root ? root->getObject("verify") : nullptr;
  return verify && verify->getArray("values") ? std::optional(llvm::json::Object(*verify)) : std::nullopt;
}

/// Runs `module` with `flag`. The errors that moe-run finds are among the proof's failures, after `prefix`.
FailureOr<llvm::json::Object> Prover::run(ModuleOp module, StringRef flag, StringRef prefix, Proof &proof) {
  SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("moe-prove", folder))
    return emitError() << "cannot make a folder for the proof: " << error.message();
  auto removeFolder = llvm::make_scope_exit([&] { llvm::sys::fs::remove_directories(folder); });
  const std::string library = (folder + "/small.so").str(), out = (folder + "/out").str(),
                    errors = (folder + "/errors").str();
  if (failed(lowerToLLVM(module)) || failed(emitSharedLibrary(module, library)))
    return failure();
  std::string own = llvm::sys::fs::getMainExecutable(nullptr, reinterpret_cast<void *>(&writeProofs));
  llvm::ErrorOr<std::string> runner = llvm::sys::findProgramByName("moe-run", {llvm::sys::path::parent_path(own)});
  if (!runner)
    runner = llvm::sys::findProgramByName("moe-run");
  if (!runner)
    return emitError() << "expected moe-run beside moe-compile, or in PATH, for --prove";
  std::string message;
  const int status = llvm::sys::ExecuteAndWait(*runner, {"moe-run", library, flag, "--json"}, std::nullopt,
                                               {StringRef(), StringRef(out), StringRef(errors)}, 0, 0, &message);
  auto read = [](StringRef path) {
    auto file = llvm::MemoryBuffer::getFile(path);
    return file ? (*file)->getBuffer().str() : std::string();
  };
  std::optional<llvm::json::Object> verification = readVerification(read(out));
  if (!verification && status == 0)
    return emitError() << "moe-run gave no report for the proof";
  // Status 1 means wrong results or a step that does not work, others that it could not run, as for want of memory.
  if (status != 0) {
    std::string said = read(errors);
    proof.isWrong = status == 1;
    if (said.empty())
      said = "moe-run ended with status " + std::to_string(status) + (message.empty() ? "" : ": " + message);
    for (StringRef line : llvm::split(StringRef(said).rtrim(), '\n')) {
      line.consume_front("moe-run: ");
      line.consume_front("check failed: ");
      proof.failures.push_back((prefix + line).str());
    }
  }
  return verification ? std::move(*verification) : llvm::json::Object();
}

LogicalResult Prover::compareResults(ModuleOp module, Proof &proof) {
  FailureOr<llvm::json::Object> verification = run(module, "--verify=exact", "", proof);
  if (failed(verification))
    return failure();
  if (const llvm::json::Array *values = verification->getArray("values"))
    proof.results = static_cast<int64_t>(values->size());
  proof.draws = verification->getInteger("draws").value_or(0);
  if (const llvm::json::Object *departure = verification->getObject("departure"))
    proof.departure = llvm::json::Object(*departure);
  return success();
}

/// Checks gradients on the forward alone, since the reference uses the same rules of differentiation.
LogicalResult Prover::checkGradients(ModuleOp module, Proof &proof) {
  FailureOr<llvm::json::Object> verification =
      run(module, "--verify=gradients", "in the model on one rank, without any parallelism: ", proof);
  if (failed(verification))
    return failure();
  const llvm::json::Array *values = verification->getArray("values");
  const llvm::json::Object *all = values && !values->empty() ? (*values)[0].getAsObject() : nullptr;
  proof.gradientError = all ? all->getNumber("relative_error") : std::nullopt;
  return success();
}

/// The small model on one rank, whose gradients are results.
FailureOr<OwningOpRef<ModuleOp>> Prover::compileSingle(int64_t factor) {
  PlanOptions single;
  single.parallel = ParallelAttr::getSingle(&context);
  single.cluster = options.cluster;
  ReducedSizes sizes{options.parallel, 1, factor, /*keepsPadding=*/false};
  ModelForm whole = form;
  whole.dataParallel = 1;
  FailureOr<OwningOpRef<ModuleOp>> graph = command.readModule(session, whole, shape, &sizes);
  if (failed(graph))
    return failure();
  return planAndCompile(**graph, single);
}

Proof Prover::prove() {
  // The plan's warnings were reported when it was compiled. Errors are reasons why there is no proof.
  std::string reason;
  FirstErrorHandler keepErrors(&context, reason);
  Proof proof;
  auto parallel = plan->getAttrOfType<ParallelAttr>(kParallelAttrName);
  proof.ranks = parallel ? parallel.getWorld() : 1;
  proof.programs = static_cast<int64_t>(plan::getRankPrograms(plan).size());
  proof.deviceBytes = getDeviceBytes(plan);
  proof.usesOwnReference = command.isGraph();
  proof.isTraining = options.train;
  auto runToEnd = [&](ModuleOp module) {
    proof.failures.clear();
    if (failed(compareResults(module, proof)))
      proof.failures.push_back(reason);
    if (!proof.failures.empty() || !options.train || command.isGraph())
      return std::move(proof);
    FailureOr<OwningOpRef<ModuleOp>> single = compileSingle(proof.factor);
    if (failed(single) || failed(checkGradients(**single, proof)))
      proof.failures.push_back(reason);
    return std::move(proof);
  };
  if (command.isGraph()) {
    OwningOpRef<ModuleOp> copy = plan.clone();
    // The copy has a reference if a function of it has groups of its own.
    if (llvm::any_of(copy->getOps<func::FuncOp>(), [](func::FuncOp one) { return one->hasAttr(kParallelAttrName); }))
      return runToEnd(*copy);
    proof.failures.push_back("the plan has no reference, the model on one rank, to compare it with");
    return proof;
  }
  if (failed(fixChoices())) {
    proof.failures.push_back(reason);
    return proof;
  }
  for (int64_t attempt = 0; attempt < kMostTries; ++attempt) {
    reason.clear();
    FailureOr<OwningOpRef<ModuleOp>> small = compileSmall(attempt, proof);
    std::optional<std::string> difference = "it cannot be compiled: " + reason;
    if (succeeded(small))
      difference = plan::findDifference(plan, options.microBatches, **small, proof.microBatches);
    if (!difference)
      return runToEnd(**small);
    proof.failures.push_back(
        llvm::formatv("a model with sequences of {0} tokens has other programs: {1}", proof.sequence, *difference));
  }
  return proof;
}

/// Sets the groups, schedule and shape that a search chose.
static LogicalResult setChosen(Subject &subject) {
  std::optional<GroupsExplanation> groups = getGroupsExplanation(subject.plan);
  if (!groups || !groups->getChosen())
    return emitError(UnknownLoc::get(subject.plan.getContext()))
           << "cannot prove the plan: it does not say which groups were chosen";
  const Candidate &chosen = *groups->getChosen();
  subject.options = getChoiceOptions(chosen, subject.options);
  subject.form.maxLoad = chosen.maxLoad;
  if (subject.shape)
    subject.shape->batch = chosen.batch;
  return success();
}

FailureOr<SmallVector<Proof>> mlir::moe::proveResults(ModuleOp module, const CompileCommandLine &command,
                                                      const PlanOptions &options, Session &session) {
  std::vector<Subject> subjects;
  for (ModuleOp variant : plan::getVariants(module)) {
    auto getSize = [&](StringRef name) { return variant->getAttrOfType<IntegerAttr>(name).getInt(); };
    subjects.push_back(
        {variant, options, ImportShape{getSize(plan::kBatchAttrName), getSize(plan::kSequenceAttrName)}});
  }
  const bool isOne = subjects.empty();
  if (isOne)
    subjects.push_back({module, options});
  if (isOne && !command.isGraph()) {
    FailureOr<SmallVector<ImportShape>> shapes = command.getShapes();
    if (failed(shapes))
      return failure();
    subjects.front().shape = shapes->front();
  }
  SmallVector<Proof> proofs;
  for (Subject &subject : subjects) {
    if (command.isOpen() && failed(setChosen(subject)))
      return failure();
    Proof &proof = proofs.emplace_back(Prover(subject, command, session).prove());
    if (isOne)
      continue;
    proof.shape = subject.shape;
    proof.schedule = subject.plan->getAttrOfType<StringAttr>(plan::kScheduleAttrName).getValue();
  }
  return proofs;
}

static void writeProof(const Proof &proof, llvm::json::OStream &json) {
  if (proof.shape) {
    json.attribute("batch", proof.shape->batch);
    json.attribute("sequence", proof.shape->seq);
    json.attribute("schedule", proof.schedule);
  }
  json.attribute("proved", proof.failures.empty());
  json.attribute("wrong", proof.isWrong);
  json.attribute("ranks", proof.ranks);
  json.attribute("programs", proof.programs);
  json.attribute("device_bytes", proof.deviceBytes);
  json.attributeObject("small_model", [&] {
    json.attribute("sequence", proof.sequence);
    json.attribute("micro_batches", proof.microBatches);
    json.attribute("factor", proof.factor);
  });
  json.attribute("results", proof.results);
  json.attribute("compared_with", proof.usesOwnReference ? "reference" : "model");
  json.attribute("draws", proof.draws);
  json.attribute("gradient_error", proof.gradientError);
  json.attribute("departure", proof.departure ? llvm::json::Value(llvm::json::Object(*proof.departure)) : nullptr);
  json.attributeArray("failures", [&] {
    for (const std::string &failure : proof.failures)
      json.value(failure);
  });
}

static void writeText(const Proof &proof, llvm::raw_ostream &os) {
  if (proof.shape)
    os << llvm::formatv("== batch {0}, sequence {1}, schedule {2} ==\n", proof.shape->batch, proof.shape->seq,
                        proof.schedule);
  os << llvm::formatv("{0} ranks, {1} program{2}\n", proof.ranks, proof.programs, proof.programs == 1 ? "" : "s")
     << "proved: no hang, no race, no stale read, no access out of bounds\n"
     << llvm::formatv("proved: at most {0:F3} GB of device memory on a rank\n",
                      static_cast<double>(proof.deviceBytes) * 1e-9);
  if (proof.failures.empty())
    os << llvm::formatv("proved: all {0} results equal {1}, in exact arithmetic with {2} draws of the inputs\n",
                        proof.results, proof.usesOwnReference ? "those of the input's reference" : "the model's",
                        proof.draws);
  if (proof.failures.empty() && proof.factor > 0)
    os << llvm::formatv(
        "  on the same model with sequences of {0} tokens and {1} micro-batch{2}, whose programs differ "
        "in sizes alone\n",
        proof.sequence, proof.microBatches, proof.microBatches == 1 ? "" : "es");
  if (proof.failures.empty() && proof.gradientError)
    os << llvm::formatv("checked: gradients of that model on one rank agree with difference quotients of its loss, "
                        "to {0:e1}\n",
                        *proof.gradientError);
  if (proof.failures.empty() && proof.isTraining && !proof.gradientError)
    os << "not checked: the gradients of the reference itself; moe-run --verify=gradients compares those of a plan "
          "with "
          "difference quotients of its loss\n";
  for (const std::string &failure : proof.failures)
    os << (proof.isWrong ? "WRONG: " : "not proved: ") << failure << "\n";
}

void mlir::moe::writeProofs(ArrayRef<Proof> proofs, bool asJson, llvm::raw_ostream &os) {
  if (!asJson) {
    for (const Proof &proof : proofs)
      writeText(proof, os);
    return;
  }
  if (proofs.front().shape)
    return writeVariants(proofs, writeProof, os);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] { writeProof(proofs.front(), json); });
  os << "\n";
}
