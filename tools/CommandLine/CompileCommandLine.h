//===- CompileCommandLine.h - what tools that compile have in common -*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H

#include "llvm/Support/ThreadPool.h"

#include <deque>

#include "ImportCommandLine.h"
#include "SearchWatch.h"
#include "Session.h"
#include "StepCommandLine.h"
#include "moe/Cost/FrameworkProfile.h"
#include "moe/Frameworks/Advice.h"
#include "moe/Frameworks/MegatronJob.h"
#include "moe/Planner/JobLadder.h"
#include "moe/Planner/RoutedMemory.h"

namespace mlir::moe {
struct FrameworkProfile;

/// The question of --parallel=auto.
struct ParallelSearchInput {
  ModelSource source; ///< refers to the command line
  ParallelRequest request;
  PlanOptions options;
};

/// A search for plans with some parts of the framework.
struct FrameworkTrial {
  FrameworkUse use;
  ClusterProfile cluster; ///< with the times of these parts
  PlanRules rules;
  std::optional<GroupsExplanation> groups; ///< absent if no plan was found
  std::string error;                       ///< reason for that
};

/// The input and the options from which a plan is made: the model, its import, --parallel, --schedule, --mode,
/// --cluster, --memory-limit and others. Errors are reported through the context, without a place if they are about the
/// command line.
class CompileCommandLine {
public:
  explicit CompileCommandLine(llvm::cl::OptionCategory &category);

  /// Takes the model and the options of --megatron-args, if it is given, for those that are not on the command line. A
  /// search on `ranks`, or an open --parallel, chooses the groups and their options. With 0 `ranks` they are the job's,
  /// on --world or as many ranks as it starts. Fails if there is neither a model nor a job.
  LogicalResult takeJob(MLIRContext &context, int64_t ranks = 0);
  /// Lets stages of a pipeline begin with the blocks of --stage-blocks, or else where the job's do, unless its groups
  /// were replaced.
  LogicalResult setStages(Session &session, PlanOptions &options) const;
  /// The step of `options`, which are getOptions()', from samples of a configuration's blocks.
  FailureOr<SampledStep> sampleStep(Session &session, const PlanOptions &options) const;
  /// Replaces the model by `name`.
  void setInput(llvm::StringRef name) { input = name.str(); }

  /// Advice on how to use a plan that `search` chose in frameworks. Fails for a model graph.
  FailureOr<FrameworkAdvice> advise(MLIRContext &context, const ParallelSearchInput &search, const Candidate &chosen,
                                    llvm::ArrayRef<FrameworkTarget> targets) const;

  llvm::StringRef getInput() const { return input; }
  llvm::StringRef getDType() const { return importing.getDType(); }
  bool isTraining() const { return mode == "train"; }
  /// Whether the input is a model graph, which has its tokens and types, and not a configuration.
  bool isGraph() const { return llvm::StringRef(input).ends_with(".mlir") || input == "-"; }
  /// Fails if no model has the input's name. Reading the input finds further errors.
  LogicalResult checkInput() const;
  /// Returns options that refer to the cluster. Also bounds dropless rows by default, in plans for devices.
  FailureOr<PlanOptions> getOptions(MLIRContext &context, const ClusterProfile &cluster);
  /// Those of --num-threads, for a context that they outlive; null for one thread.
  std::unique_ptr<llvm::ThreadPoolInterface> makeThreads() const;
  /// Whether --parallel leaves groups open: "auto", or "auto" and the sizes that are given, joined by ','.
  bool isOpen() const { return parallel == "auto" || llvm::StringRef(parallel).starts_with("auto,"); }
  /// Leaves the groups open whose sizes --parallel does not give.
  void openGroups() {
    if (!isOpen())
      parallel = parallel.empty() ? "auto" : "auto," + parallel;
  }
  /// `options` are getOptions()'.
  FailureOr<ParallelSearchInput> getSearch(Session &session, const PlanOptions &options) const;
  /// Calls chooseParallel() for `search`. With --framework it does so with each dispatcher and graph scope that is
  /// open, and leaves `search` with the times and rules of the fastest.
  FailureOr<GroupsExplanation> chooseParallel(MLIRContext &context, ParallelSearchInput &search);
  /// The dispatcher and the graph scope that were given or chosen.
  FrameworkUse getUse() const { return {dispatcher, cudaGraph, ""}; }
  /// Compares the job of --megatron-args, which `search` has, with each single change of it and with the choice of
  /// `groups`. `memoryLimit` is that of a device in bytes, or 0.
  JobLadder compareJob(MLIRContext &context, ParallelSearchInput search, const GroupsExplanation &groups,
                       double memoryLimit);
  /// The memory of a plan by the rows that arrive, if --framework allocates as many.
  std::optional<RoutedMemory> getRoutedMemory(const ParallelSearchInput &search, const Candidate &plan) const;
  bool hasJob() const { return job.has_value(); }
  /// Those that chooseParallel() compared, and the seconds of their steps; 0: no plan was found.
  std::vector<std::pair<std::string, double>> getTrials() const;
  /// The plan of the best groups, which a note names; `options` are getOptions()'. Shows progress.
  FailureOr<OwningOpRef<ModuleOp>> compileAuto(Session &session, const PlanOptions &options) const;
  /// Flags that would make the plan of `asked`, of `bytes`, fit into `limit`, each of which is tried; may be empty.
  std::string describeRemedies(Session &session, const PlanRequest &asked, int64_t bytes, int64_t limit) const;
  /// The file that --cluster names, or the shared one of that name; empty where there is none.
  std::string findCluster() const;
  /// The profile in it, with the times of the framework that --framework names, anchored in the steps of --measured,
  /// which have this routing; null: an even one.
  FailureOr<ClusterProfile> loadCluster(MLIRContext &context, const RoutingSource *routing = nullptr);
  /// The batch shapes that --batch and --seq ask for, one unless they are lists.
  FailureOr<SmallVector<ImportShape>> getShapes() const;
  /// Reads an MLIR file as it is, or a configuration in `form`, in the smallest sizes for `reduced`.
  FailureOr<OwningOpRef<ModuleOp>> readModule(Session &session, const ModelForm &form,
                                              std::optional<ImportShape> shape = std::nullopt,
                                              const ReducedSizes *reduced = nullptr) const;

private:
  /// Changes `profile` to the times of --framework. The text of an error is a complete diagnostic.
  llvm::Error useFramework(MLIRContext &context, ClusterProfile &profile, const RoutingSource *routing);
  /// Anchors `profile`, which has the times of `framework`, in the steps of --measured, and prints them. `cluster` is
  /// the profile without these times.
  llvm::Error useMeasured(MLIRContext &context, const FrameworkProfile &framework, const ClusterProfile &cluster,
                          const RoutingSource *routing, ClusterProfile &profile) const;
  /// Sets the profile and the rules of `trial` by its parts, and lets `options` refer to them.
  LogicalResult setUse(MLIRContext &context, FrameworkTrial &trial, PlanOptions &options);
  /// The parts of the job as far as the framework's description has them; without a job its first ones.
  FrameworkUse getJobUse() const;
  /// The parts that differ from those of the job in one thing, with the name of the change.
  std::vector<std::pair<std::string, FrameworkUse>> listUses(const ClusterProfile &profile) const;
  /// The job with its step in its own parts, or the reason why it has none.
  Candidate findJob(const ParallelSearchInput &search, const GroupsExplanation &groups) const;
  /// Adds the job with each of them to its changes.
  void addUses(MLIRContext &context, const ParallelSearchInput &search, JobLadder &ladder);
  /// Searches plans with the parts of `use`, and adds a trial.
  void tryUse(MLIRContext &context, ParallelSearchInput &search, const FrameworkUse &use);
  /// Fails if an option asks for what the framework does not run in any plan.
  LogicalResult checkRules(MLIRContext &context, const PlanOptions &options) const;
  /// The job's options that do not depend on its groups, and then those that do.
  void setStepDefaults(bool isOpen);
  void setPlanDefaults();
  /// The first block of each stage, by --stage-blocks.
  FailureOr<SmallVector<int64_t>> readStageBlocks(MLIRContext &context, int64_t stages, int64_t blocks) const;
  /// Lets `search` compare its choice with the job, if there is one, and adds the job's values to those that are open.
  void addJob(ParallelSearchInput &search) const;
  FailureOr<ModelSource> getSource(Session &session, ImportShape shape) const;
  /// Reads `graph` again, or the configuration if it is null.
  ModelReader makeReader(ModuleOp graph, ImportShape shape) const;
  /// Says which groups were chosen for `plan`, with its step, and how to see why.
  void noteChoice(ModuleOp plan, PlanOptions options) const;
  FailureOr<std::optional<GlobalBatch>> getGlobalBatch(MLIRContext &context) const;
  /// Fails if --vary names options that are unknown, or that nothing searches.
  LogicalResult checkVary(MLIRContext &context) const;
  /// Whether --vary leaves an option open.
  bool isVaried(llvm::StringRef option) const;
  /// Sets the choices that --vary leaves open; `givenBatch` is --batch.
  void setSpace(ParallelRequest &request, const PlanOptions &options, int64_t givenBatch) const;

  llvm::cl::opt<std::string> input, parallel, schedule, mode, order, cluster, framework, dispatcher, cudaGraph,
      precision, objective;
  llvm::cl::opt<Bytes> memoryLimit;
  llvm::cl::opt<int64_t> world;
  llvm::cl::list<std::string> vary, measured;
  llvm::cl::list<int64_t> stageBlocks;
  llvm::cl::opt<int64_t> globalBatch;
  llvm::cl::opt<unsigned> threads;
  llvm::cl::opt<bool> reference, exhaustive;
  ImportCommandLine importing;
  StepCommandLine step;
  std::optional<MegatronJob> job;
  std::optional<FrameworkProfile> description; ///< the parts of --framework, after loadCluster()
  std::deque<FrameworkTrial> trials;           ///< made by chooseParallel(); searches refer to them
  PlanRules rules;                             ///< needs of --framework, after loadCluster()
  GivenGroups groups;                          ///< sizes in --parallel, after getOptions()
};

/// Notes the bound of dropless rows that was taken by default in `module`, a model or a plan.
void noteDefaultMaxLoad(ModuleOp module);

/// Shows progress on a terminal. The first interrupt ends a search with the best so far, a second one the program.
void watchInterrupts(PlanOptions &options);

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H
