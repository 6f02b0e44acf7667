//===- Advice.h - a plan in the frameworks that people use ------*- C++ -*-===//
//
// A plan becomes the arguments of a training framework. Features that the framework lacks are left out, and the planner
// reports their cost. docs/Frameworks.md has the table of features.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_FRAMEWORKS_ADVICE_H
#define MOE_FRAMEWORKS_ADVICE_H

#include "llvm/Support/VersionTuple.h"

#include "moe/Cost/Precision.h"
#include "moe/Import/ModelConfig.h"
#include "moe/Planner/AutoParallel.h"

namespace mlir::moe {

enum class Framework { Megatron, MegatronBridge, Torchtitan };
struct FrameworkNames {
  StringRef name, title; ///< for --emit, as in "megatron", and for people, as in "Megatron-LM"
  StringRef tagPrefix;   ///< beginning of its versions' names, as in "core_v0.19"
  /// Versions whose arguments are written. The first one is the default.
  SmallVector<llvm::VersionTuple, 4> versions;
};
const FrameworkNames &getNames(Framework framework);

/// A framework for which a plan is written.
struct FrameworkTarget {
  Framework framework = Framework::Megatron;
  llvm::VersionTuple version; ///< one of the framework's

  bool operator==(const FrameworkTarget &) const = default;
  static FrameworkTarget getDefault(Framework framework) { return {framework, getNames(framework).versions.front()}; }
  /// Name of the version in the repository of the framework, as in "core_v0.19".
  std::string getTag() const { return getNames(framework).tagPrefix.str() + version.getAsString(); }
};
/// All frameworks, with their default versions.
SmallVector<FrameworkTarget> getDefaultTargets();

/// A plan and its job.
struct PlannedJob {
  ModelConfig model; ///< a whole model
  Candidate plan;
  int64_t sequence = 0; ///< tokens
  std::string dtype;
  std::string optimizer = {}; ///< "adam", "sgd" or empty
  bool wideGradients = false;
  Precision precision = {};                      ///< narrow types of its products
  std::vector<FrameworkArgument> arguments = {}; ///< arguments of its dispatcher and its CUDA graphs
  std::string precisionFramework = {};           ///< name of the framework with these arguments

  bool hasExperts() const { return model.layer.experts > 0; }
  int64_t getGlobalBatch() const { return plan.batch * plan.parallel.getDp() * plan.microBatches; }
};

/// A feature of a plan that a framework lacks.
struct Omission {
  std::string feature; ///< "the order dualpipe-v"
  std::string reason;
  std::string instead;   ///< substitute of the framework; empty if MoePlan has no such plan
  double seconds = 0;    ///< length of a step without this feature alone; 0: not known
  std::string unknown{}; ///< reason if `seconds` is not known
  /// True: the arguments still have the feature, the framework cannot run them, and `unknown` is the remedy.
  bool isRefused = false;
};

struct Advice {
  FrameworkTarget target = FrameworkTarget::getDefault(Framework::Megatron);
  /// The plan without all omissions. `whole` has its step unless `unknown` gives a reason.
  Candidate runnable;
  std::string unknown;
  bool isTooLarge = false; ///< true if `runnable` does not fit into the memory of a device
  std::vector<Omission> omissions;
  /// Whether the framework cannot run the arguments. Then `runnable` is no plan of it, and its time means nothing.
  bool isRefused() const {
    return llvm::any_of(omissions, [](const Omission &one) { return one.isRefused; });
  }
  /// Parts of the model that the framework has no argument for.
  std::vector<std::string> modelGaps;
  SmallVector<int64_t> stageBlocks; ///< blocks of each stage, in the order of stages; empty without a pipeline
};

/// Adapts a plan to each of `targets`, and measures each omission's cost. `source` and `options` are those of its
/// search.
std::vector<Advice> advise(ArrayRef<FrameworkTarget> targets, const PlannedJob &job, const ModelSource &source,
                           const PlanOptions &options);

/// A plan in several frameworks.
struct FrameworkAdvice {
  PlannedJob job;
  std::vector<Advice> all;
};

/// Writes the arguments: for Megatron-LM a flag on each line, for Megatron-Bridge a function in Python, for torchtitan
/// TOML. Lines that begin with '#' name the omissions.
void writeArguments(const Advice &advice, const PlannedJob &job, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_FRAMEWORKS_ADVICE_H
