//===- ClusterProfile.h - what a cluster is made of -------------*- C++ -*-===//
//
// The content of a share/clusters/*.json file; docs/Clusters.md documents the format. Units are seconds, bytes and
// FLOPs. A profile holds numbers with their sources and decides nothing: CostModel.h says what follows from them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_CLUSTERPROFILE_H
#define MOE_COST_CLUSTERPROFILE_H

#include "moe/OpFacts/OpCost.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// How much of the peak rate products reach, on a grid: values[((r * columns.size() + c) * depth.size() + d) *
/// groups.size() + g] for rows[r], columns[c], depth[d], groups[g], each of these rising.
struct EfficiencyCurve {
  std::vector<double> rows, columns, depth, values;
  std::vector<double> groups = {1};                   ///< products of one launch
  std::optional<double> relativeError = std::nullopt; ///< mean over the measurements, where the source states it
};

/// How much of the peak rate attention reaches, its FLOPs being those of scores that are used: values[l *
/// heads.size() + h] for causal sequences of length[l] tokens and heads[h] heads of all sequences, both rising.
struct AttentionCurve {
  std::string dtype;
  int64_t headColumns = 0; ///< keys and values of one head
  int64_t products = 0;    ///< with the scores: 2 forward, 5 backward
  std::vector<double> length, heads, values;
  std::optional<double> relativeError; ///< mean over the measurements, where the source states it
};

/// The calls of a kernel whose leading integer parameters are these.
struct KernelCalls {
  std::string kernel;
  std::vector<int64_t> params;
};

/// Products that reach more or less than others of their size: by how their operands are transposed, by the alignment
/// of their rows in memory, or because the rows of experts vary.
struct SpecialCurve {
  std::vector<KernelCalls> calls; ///< empty: any
  int64_t columnsMultiple = 1;    ///< only where the columns are a multiple of it
  EfficiencyCurve efficiency;
  bool isRagged = false; ///< only dropless products of experts
};

/// GEMM speed for one element type.
struct DeviceRate {
  std::string dtype; ///< f32, f64, bf16, f16, tf32
  double flopsPerSecond = 0;
  EfficiencyCurve efficiency;
  /// The last one that fits a product holds for it, else `grouped` where there are several in a launch, else
  /// `efficiency`.
  std::vector<SpecialCurve> special;
  std::optional<EfficiencyCurve> grouped = std::nullopt;
  /// Whose curves these are, those of attention too; else empty.
  std::string like = {};
};

/// What a fit came from. Its bytes are those that the fit's formula counts.
struct MeasuredPoint {
  double bytes = 0, seconds = 0;
};

/// Measured time of a kernel that is no GEMM: latency + bytes / bytesPerSecond.
struct KernelRate {
  std::string kernel;
  std::string dtype;           ///< empty: any
  std::vector<int64_t> params; ///< of the call, its leading ones; empty: any
  double latency = 0;
  double bytesPerSecond = 0;
  double r2 = 1;
  std::optional<double> relativeError; ///< mean over the measurements, where the source states it
  std::vector<MeasuredPoint> points;
};

/// A way for bytes from `from` to `to`. Vertices are `node<n>/<name>`; devices are `node<n>/device<i>`, and fabric
/// switches have names of their own.
struct Link {
  std::string from, to;
  double bytesPerSecond = 0;
  double latency = 0;
  double post = 0; ///< seconds to send one message over it, which messages of one member pay one after the other
};

/// A link as the file gives it: inside every node, both ways. A `*` at the end of a name stands for the numbers of all
/// devices, `[a-b]` for some. A pattern in one name joins all that it stands for with the other vertex, patterns in
/// both join their vertices pairwise in order. `network` is where the nodes meet.
struct LinkPattern {
  std::string from, to;
  double bytesPerSecond = 0;     ///< from -> to
  double backBytesPerSecond = 0; ///< to -> from; 0: no way back
  double latency = 0;
  double post = 0;      ///< as in Link
  bool reduces = false; ///< `to` is a switch that adds up, and copies, what its links carry
};

/// Switches above the nodes: one for each `nodes` neighbouring nodes, with one link up, both ways. Levels stand from
/// the nodes up; above the last is one switch that never blocks.
struct FabricLevel {
  std::string name;
  int64_t nodes = 0;
  double bytesPerSecond = 0;
  double latency = 0;
};

/// Speed of each kind, as a fraction of its speed alone, where a set of kinds is at work on one device.
struct Interference {
  bool compute = false, communication = false, copy = false; ///< the set
  double computeSpeed = 1, communicationSpeed = 1, copySpeed = 1;
};

enum class Algorithm : uint8_t {
  Ring,
  Tree,
  Pairwise,
  Hierarchical,
  Nvls,    ///< switches of the nodes add up
  Fastest, ///< of ring, tree and nvls for its bytes, as NCCL chooses
};
inline constexpr unsigned kNumAlgorithms = 6;
llvm::StringRef getName(Algorithm algorithm);

/// How a library sends. Times from links are those of the protocol that is the fastest for its bytes: `base` seconds,
/// the links' latencies and posts times these factors, and their bandwidths times `bandwidth`. Latencies in trees have
/// a factor of their own, as members wait for several others there.
struct Protocol {
  std::string name = "simple";
  double base = 0;
  double latency = 1, treeLatency = 1, post = 1, bandwidth = 1;
  std::vector<Algorithm> algorithms; ///< that have it; empty: all
};

/// Measured time of a collective: alpha + perMember * members + beta * payload, payload as in OpCost; or a curve.
struct CollectiveFit {
  Collective collective = Collective::None;
  std::string dtype; ///< empty: any
  /// Groups that it holds for: numbers of members, and how many of them are on one node.
  int64_t minMembers = 0, maxMembers = 0;
  int64_t minPerNode = 0, maxPerNode = 0;
  /// `points` are the model: between them the logarithm of the time is linear in that of the bytes. At least two,
  /// with rising bytes. The three figures below are then 0.
  bool isCurve = false;
  double alpha = 0;
  double perMember = 0;
  double beta = 0;
  double r2 = 1;
  std::optional<double> relativeError; ///< mean over the measurements, where the source states it
  std::vector<MeasuredPoint> points;
};

/// A way in which the hosts of ranks issue launches: that of a runtime or of a framework.
struct HostIssue {
  std::string name;                                  ///< empty: that of the device, `launch_s`
  std::array<double, kNumResources> launchSeconds{}; ///< by Resource: from one launch to the next
  /// The host reads counts before it issues the first launch whose size they decide: seconds from the end of the launch
  /// that wrote them until the host goes on. None: it does not wait for them.
  std::optional<double> countsSeconds = std::nullopt;

  double getLaunchSeconds(Resource resource) const { return launchSeconds[static_cast<unsigned>(resource)]; }
};

/// Devices that are not processors of their own: those of a node share `count` ones, and a ready op waits for a free
/// one. `speed[resource][k]` is how fast one runs, as a fraction, where k + 1 of them are busy.
struct Processors {
  int64_t count = 0; ///< 0: every device is its own
  std::array<std::vector<double>, kNumResources> speed;
};

struct ClusterProfile {
  std::string name, description;
  int64_t minNodes = 1, maxNodes = 1;
  int64_t devicesPerNode = 1;

  std::string deviceName;
  double memoryBytes = 0;
  double reservedBytes = 0;        ///< of them, for the driver and libraries
  double memoryBytesPerSecond = 0; ///< reached by kernels that stream, not the data sheet's
  HostIssue host;                  ///< that simulations take; useHost() chooses one of `hosts`
  std::vector<HostIssue> hosts;    ///< with names
  double kernelSeconds = 0;        ///< at least, for each kernel on the device
  double sustained = 1;            ///< of the rate of products, what is left at the power limit
  std::vector<DeviceRate> rates;
  std::vector<AttentionCurve> attention; ///< of one dtype and number of products by rising columns of a head
  std::vector<KernelRate> kernels;
  std::optional<double> hostBytesPerSecond; ///< between device and host memory, one way
  double hostLatency = 0;
  Processors processors;

  std::vector<LinkPattern> links;
  std::vector<FabricLevel> fabric;
  std::vector<Protocol> protocols = {Protocol()};
  std::vector<Interference> interference;
  std::vector<CollectiveFit> collectives;
  /// How the link-level model carries each collective out; by Collective.
  std::array<Algorithm, kNumCollectives> algorithms;

  /// Reads and checks a profile. An error is a complete diagnostic, `file:line:column: error: 'key': expected ..`.
  static llvm::Expected<ClusterProfile> parse(llvm::StringRef text, llvm::StringRef fileName);
  /// parse() of the file at `path`.
  static llvm::Expected<ClusterProfile> load(llvm::StringRef path);

  /// Takes the host of that name from now on; fails where there is none.
  llvm::Error useHost(llvm::StringRef name);
  /// What a device has for plans.
  double getPlanBytes() const { return memoryBytes - reservedBytes; }
  int64_t getMaxDevices() const { return maxNodes * devicesPerNode; }
  const DeviceRate *getRate(llvm::StringRef dtype) const;
};

} // namespace mlir::moe

#endif // MOE_COST_CLUSTERPROFILE_H
