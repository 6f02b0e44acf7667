//===- FrameworkProfile.h - description of a training framework --------*- C++ -*-===//
//
// Content of a share/frameworks/*.json file; docs/Clusters.md documents the format. A framework runs the plan's work by
// its own kernels and libraries, and issues it by its own host program. The description changes a cluster's profile
// accordingly. It holds only numbers with their sources, so that neither the cost model nor the simulator knows
// frameworks.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_FRAMEWORKPROFILE_H
#define MOE_COST_FRAMEWORKPROFILE_H

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/PlanRules.h"

namespace mlir::moe {

/// The speed of a class of host processors.
struct HostSpeed {
  std::string cpu;
  double times = 1; ///< times as long as on the hosts that `launch_s` is for
};

/// Kernels of the framework on some devices.
struct FrameworkKernels {
  std::vector<std::string> devices; ///< beginnings of names of devices
  std::vector<KernelFactor> factors;
};

/// Clusters on which a part of a framework works. Names are beginnings.
struct PartPlaces {
  std::vector<std::string> networks, otherNetworks; ///< it works on these (empty: all), and not on the other ones
  std::vector<std::string> devices;                 ///< empty for all

  bool contains(const ClusterProfile &profile) const;
};

/// A part of a step that the framework runs as CUDA graphs.
struct GraphScope {
  std::string name;
  double hostShare = 1;                  ///< part of the host's time that remains
  std::vector<FrameworkKernels> kernels; ///< kernels that it runs instead of others
  std::vector<PlanRule> runs;            ///< needs of this part
  bool isPlanned = true;                 ///< whether the planner tries it
  std::vector<FrameworkArgument> arguments;
};

/// Exchanges of a dispatcher on some clusters.
struct PlacedExchange {
  std::string network;              ///< empty for any
  std::vector<std::string> devices; ///< beginnings of names; empty for all
  TokenExchange exchange;

  bool isFor(const ClusterProfile &profile) const;
};

/// A library that sends tokens to their experts and back.
struct Dispatcher {
  std::string name;
  bool sendsOnce = false; ///< whether a token goes once to each rank or node, as with the plan's `once`
  TokenExchange exchange;
  std::vector<PlacedExchange> placed;    ///< exchanges on some clusters, instead; the last one that fits counts
  llvm::StringMap<double> kernelSeconds; ///< as in HostIssue, for launches that are part of its calls
  std::vector<std::string> awaited;      ///< as in HostIssue
  std::vector<std::string> inOrder;      ///< as in HostIssue
  std::optional<double> countsSeconds;   ///< as in HostIssue
  /// Speed of computation beside communication, instead of the profile's: exchanges occupy a part of the device.
  std::optional<double> computeBeside;
  std::vector<PlanRule> runs; ///< needs of this part
  bool isPlanned = true;      ///< whether the planner tries it
  PartPlaces places;
  std::vector<FrameworkArgument> arguments;
};

/// A precision of the framework on some devices.
struct PrecisionChoice {
  std::vector<std::string> devices; ///< beginnings of names; empty for all
  std::string needs;                ///< part that other devices lack, for errors
  Precision precision;
  double hostSeconds = 0;   ///< further seconds of the host for each launch of its products
  double exchangeTimes = 1; ///< bytes of tokens on their way to experts and back, over those in their own type
};

/// A class of measured steps, with the runs that it is for.
struct MeasuredClass {
  std::vector<std::string> devices;  ///< beginnings of names; empty for all
  std::string precision;             ///< empty for the types of the plan
  std::optional<bool> hasWholeGraph; ///< whether the whole iteration is one CUDA graph; absent for any
  StepClass steps;
};

/// Choices of a run among the parts of its framework.
struct FrameworkUse {
  std::string dispatcher;     ///< empty for the first one of the description
  std::string graph;          ///< empty for none
  std::string precision = {}; ///< empty for the types of the plan

  /// "dispatcher deepep, CUDA graphs of moe_router".
  std::string describe() const;
};

struct FrameworkProfile {
  std::string name, description;
  HostIssue host;
  std::vector<HostSpeed> cpus;
  std::vector<GraphScope> graphs;
  std::vector<FrameworkKernels> kernels;
  std::vector<Dispatcher> dispatchers;
  std::vector<PrecisionChoice> precisions; ///< entries of one name are for different devices
  std::vector<MeasuredClass> measured;     ///< coarse classes first
  double pairError = 0;                    ///< as in MeasuredSteps
  std::vector<PlanRule> runs;              ///< needs of the framework
  bool wholeBlocks = false;                ///< as in PlanRules
  bool keepsRoutedRows = false;            ///< whether it allocates the rows that arrive, and no reserve

  /// Reads and checks a description. The text of an error is a complete diagnostic.
  static llvm::Expected<FrameworkProfile> parse(llvm::StringRef text, llvm::StringRef fileName);
  /// parse() of the file at `path`.
  static llvm::Expected<FrameworkProfile> load(llvm::StringRef path);

  /// Whether the description has the dispatcher and the graph scope of `use`.
  bool has(const FrameworkUse &use) const;
  /// Whether the dispatcher of that name sends a token once; an empty name is the first one's.
  bool sendsOnce(llvm::StringRef dispatcher) const;
  /// The dispatchers that the planner tries on a cluster; the first one of the description if there are no others.
  std::vector<std::string> getPlannedDispatchers(const ClusterProfile &profile) const;
  /// The graph scopes that it tries.
  std::vector<std::string> getPlannedGraphs() const;
  /// Arguments of the framework for the parts of `use`.
  std::vector<FrameworkArgument> getArguments(const FrameworkUse &use) const;
  /// Needs of the framework and of the parts of `use`, which it has.
  PlanRules getRules(const FrameworkUse &use) const;
  /// Changes `profile` to the times that the framework needs on it. Fails if the description lacks a part of `use`.
  llvm::Error apply(ClusterProfile &profile, const FrameworkUse &use) const;
};

} // namespace mlir::moe

#endif // MOE_COST_FRAMEWORKPROFILE_H
