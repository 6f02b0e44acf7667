//===- MoeRun.cpp - moe-run without its main function ---------------------===//

#include "run/MoeRun.h"
#include "run/Agreement.h"
#include "run/Inputs.h"
#include "run/Report.h"
#include "run/checkpoint/CheckpointWriter.h"
#include "run/checkpoint/Safetensors.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <chrono>
#include <exception>
#include <thread>

namespace moert::run {
namespace {

constexpr std::chrono::seconds kUntilFirstHasSpoken(2);

/// Errors inside a step mean that the plan does not work. All others mean that its input is bad.
int exitStatus(const Status &status) {
  switch (status.code) {
  case MOERT_OK:
    return Done;
  case MOERT_ERROR_STOPPED:
    return Stopped;
  case MOERT_ERROR_HANG:
  case MOERT_ERROR_OVERFLOW:
  case MOERT_ERROR_NOT_REPLICATED:
  case MOERT_ERROR_INTERNAL:
    return CheckFailed;
  default:
    return BadInput;
  }
}

/// Prints a warning if a launcher started several processes, none of which knows the others.
void warnOfOthers(const Options &options, std::ostream &err) {
  int64_t process = 0, processes = 1;
  if (moert_place(&process, &processes) == MOERT_OK && processes > 1 && process == 0)
    err << "moe-run: warning: a launcher started " + std::to_string(processes) +
               " processes, and each of them runs all ranks of the plan, because the backend is " + options.backend +
               "; give --backend=mpi or --backend=cuda to run one rank in each\n";
}

/// Finds the number of this process. In other processes than 0, clears the options that only process 0 carries out.
Status findProcess(Options &options, std::ostream &err) {
  if (options.backend != "mpi" && options.backend != "cuda") {
    warnOfOthers(options, err);
    return {};
  }
  MOERT_RETURN_IF_ERROR(checked(moert_place(&options.process, &options.processes)));
  if (options.processes > 1)
    options.agreement = agreementText(options);
  if (options.isFirst())
    return {};
  options.save.clear();
  // In training, process 0 needs the values of all others, so all keep the option.
  if (!options.train.enabled)
    options.saveCheckpoint.clear();
  options.trace.clear();
  options.train.log.clear();
  // All processes take part in reading the records.
  if (!options.recordRouting.empty())
    options.recordRouting = "/dev/null";
  return {};
}

/// Reports `status` and failed checks on `err`, and returns the exit status for them.
int conclude(const Options &options, const Status &status, const std::vector<std::string> &failures,
             std::ostream &err) {
  std::string who = options.isFirst() ? "moe-run: " : "moe-run: rank " + std::to_string(options.process) + ": ";
  // Failures come first, because wrong inputs may be why a step failed.
  for (const std::string &failure : failures)
    err << who + "check failed: " + failure + "\n";
  // Rank 0 reports itself an error that ends all processes.
  const bool isStopped = status.code == MOERT_ERROR_STOPPED;
  bool isSaid =
      !options.isFirst() && (isStopped || (exitStatus(status) == BadInput && status.message.starts_with("rank 0: ")));
  // The message is written at once, because other processes write too.
  if (!status.ok() && !isSaid)
    err << who + (isStopped ? "" : "error: ") + status.message + "\n";
  // A launcher ends all processes once one has failed. Rank 0 needs time to report first.
  if (isSaid && !isStopped)
    std::this_thread::sleep_for(kUntilFirstHasSpoken);
  return failures.empty() ? exitStatus(status) : CheckFailed;
}

/// Makes free() return memory to the system. An exact verification runs several programs one after another, and the
/// next one may not fit beside freed memory.
void returnFreedMemory() {
#ifdef __GLIBC__
  // Setting these keeps glibc from raising them.
  constexpr int kLarge = 1 << 18;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kLarge);
#endif
}

struct Job {
  Options options;
  std::ostream &out;
  std::ostream &err;
  bool isTerminal;
  Plan plan = {};
  Routing routing = {};
  Loads loads = {};
  CheckpointWriter checkpoint = {};
  Tensors inputs = {};
  RunResult result = {};
  Verification verification = {};

  std::vector<Value> arguments = {}; ///< arguments of all programs, in the plan's types
  bool isRun = true;                 ///< whether there are results

  Status open();
  Status load();
  Status run();
  Status write();
  Status writeCheckpoint();
  std::span<const Program> programs() const { return plan.programs(options.reference); }
};

Status Job::open() {
  MOERT_RETURN_IF_ERROR(Plan::open(options.plan, options.batch, options.seq, plan));
  const Metadata &metadata = plan.metadata;
  if (options.reference && !metadata.reference)
    return invalid("the plan has no reference program");
  if (!options.emulateLinks.empty())
    MOERT_RETURN_IF_ERROR(checkEmulated(options.emulateLinks, metadata));
  if (options.verify)
    MOERT_RETURN_IF_ERROR(checkComparable(metadata));
  arguments = argumentsOf(programs());
  plan.widen(options.wide);
  // The second step begins with the results of the first one.
  if (options.verify && options.wide == MOERT_WIDE_FIELD && !options.givesIters &&
      changesArguments(plan.programs(false)))
    options.iters = 2;
  return Routing::open(options, plan, routing);
}

Status Job::load() {
  MOERT_RETURN_IF_ERROR(loads.open(options.loads, arguments));
  const InputOptions made{.seed = options.seed,
                          .allowMissing = options.allowMissing,
                          .allowNan = options.allowNan,
                          .drawsStep = options.verifies() && loads.empty()};
  MOERT_RETURN_IF_ERROR(makeInputs(arguments, loads, made, err, inputs));
  MOERT_RETURN_IF_ERROR(widenInputs(plan.wide, arguments, options.seed, inputs));
  return options.saveCheckpoint.empty()
             ? Status{}
             : checkpoint.open(options.saveCheckpoint, arguments, loads, err, {options.shardBytes});
}

/// Writes results for arguments that steps changed, and inputs for the others.
Status Job::writeCheckpoint() {
  auto read = [&](const Value &argument, int64_t first, int64_t count, char *elements) {
    auto result = this->result.results.find(argument.name);
    bool isResult = argument.updated && result != this->result.results.end();
    copyElements(isResult ? result->second : inputs.at(argument.name), first, count, elements);
    return Status{};
  };
  return checkpoint.write(read, err);
}

Status Job::run() {
  MOERT_RETURN_IF_ERROR(checkMemory(plan, options.reference, options, 1));
  // The reference runs beside the results of the plan.
  if (options.verify)
    if (Status status = checkMemory(plan, true, options, 2); !status.ok())
      return Status::error(status.code, "reference: " + status.message);
  MOERT_RETURN_IF_ERROR(load());
  if (options.verifies())
    checkInputs(inputs, verification);
  std::ostream *progress = isTerminal && options.iters > 1 ? &err : nullptr;
  if (Status status = runPrograms(plan, options.reference, options, inputs, &routing, progress, result); !status.ok()) {
    // In exact arithmetic the inputs cannot be wrong, so a refused argument is the plan's error.
    if (plan.wide != MOERT_WIDE_FIELD || status.code != MOERT_ERROR_INVALID_ARGUMENT)
      return status;
    verification.failures.push_back(status.message);
    isRun = false;
    return {};
  }
  if (!options.isFirst())
    return {};
  if (options.verify)
    return verifyAgainstReference(plan, options, inputs, routing, isTerminal ? &err : nullptr, result, verification);
  checkReplicas(plan.metadata, options.tf32, result, verification);
  return options.gradients ? checkGradients(plan, options, inputs, routing, result, verification) : Status{};
}

Status Job::write() {
  if (!isRun)
    return {};
  if (Status status = routing.close(); !status.ok() || !options.isFirst())
    return status;
  if (!options.save.empty())
    MOERT_RETURN_IF_ERROR(writeSafetensors(options.save, result.results));
  if (!options.saveCheckpoint.empty())
    MOERT_RETURN_IF_ERROR(writeCheckpoint());
  Report report{options, plan.metadata, programs(), result, options.verifies() ? &verification : nullptr};
  if (!options.trace.empty())
    MOERT_RETURN_IF_ERROR(writeTrace(options.trace, report));
  if (options.json)
    printJson(report, out);
  else
    printTables(report, out);
  return {};
}

int runJob(Job job) {
  if (job.options.verify && job.options.wide == MOERT_WIDE_FIELD)
    returnFreedMemory();
  Status status = job.open();
  if (status.ok())
    status = job.run();
  if (status.ok())
    status = job.write();
  return conclude(job.options, status, job.verification.failures, job.err);
}

} // namespace

int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal) {
  Options options;
  if (Status status = parseOptions(arguments, options); !status.ok()) {
    err << "moe-run: error: " << status.message << "\n";
    return BadInput;
  }
  if (!options.information.empty()) {
    out << options.information;
    return Done;
  }
  try {
    Status status = findProcess(options, err);
    if (status.ok())
      status = checkDigest(options.plan, options.digest);
    if (status.ok() && !options.train.enabled)
      return runJob(Job{options, out, err, isTerminal && options.isFirst()});
    return conclude(options, status.ok() ? train(options, out, err) : status, {}, err);
  } catch (const std::exception &error) {
    err << "moe-run: error: " << error.what() << "\n";
    return BadInput;
  }
}

} // namespace moert::run
