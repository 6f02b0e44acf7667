//===- ClusterProfile.h - description of a cluster --------------*- C++ -*-===//
//
// Content of a share/clusters/*.json file; docs/Clusters.md documents the format. Units are seconds, bytes and FLOPs. A
// profile only holds numbers with their sources. CostModel.h computes times from them.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_CLUSTERPROFILE_H
#define MOE_COST_CLUSTERPROFILE_H

#include "moe/Cost/MeasuredSteps.h"
#include "moe/Cost/Precision.h"
#include "moe/OpFacts/OpCost.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// Fraction of the peak rate that products reach, on a grid: values[((r * columns.size() + c) * depth.size() + d) *
/// groups.size() + g] for rows[r], columns[c], depth[d] and groups[g]. All axes are sorted.
struct EfficiencyCurve {
  std::vector<double> rows, columns, depth, values;
  std::vector<double> groups = {1};                   ///< products of one launch
  std::optional<double> relativeError = std::nullopt; ///< mean over the measurements, if the source states it
};

/// Fraction of the peak rate that attention reaches, counting only FLOPs of used scores: values[l * heads.size() + h]
/// for causal sequences of length[l] tokens, with heads[h] heads in all sequences. Both axes are sorted.
struct AttentionCurve {
  std::string dtype;
  int64_t headColumns = 0; ///< columns of the keys and values of one head
  int64_t products = 0;    ///< number of products with scores: 2 forward, 5 backward
  std::vector<double> length, heads, values;
  std::optional<double> relativeError; ///< mean over the measurements, if the source states it
};

/// Calls of a kernel with these leading integer parameters.
struct KernelCalls {
  std::string kernel;
  std::vector<int64_t> params;
};

/// Products with another efficiency than others of their size, because of transposed operands, the alignment of their
/// rows in memory, or varying rows of experts.
struct SpecialCurve {
  std::vector<KernelCalls> calls; ///< empty for any call
  int64_t columnsMultiple = 1;    ///< divisor that the columns must have
  EfficiencyCurve efficiency;
  bool isRagged = false; ///< whether it is only for dropless products of experts
};

/// GEMM speed for one element type.
struct DeviceRate {
  std::string dtype; ///< f32, f64, bf16, f16, tf32
  double flopsPerSecond = 0;
  EfficiencyCurve efficiency;
  /// The last one that fits a product is used. If none does, `grouped` for launches with several products, and
  /// `efficiency` for others.
  std::vector<SpecialCurve> special;
  std::optional<EfficiencyCurve> grouped = std::nullopt;
  /// Name of the entry whose curves these are, with those of attention; empty if they are its own.
  std::string like = {};
};

/// A measurement behind a fit. Bytes are those in the fit's formula.
struct MeasuredPoint {
  double bytes = 0, seconds = 0;
};

/// Measured time of a kernel that is no GEMM: latency + bytes / bytesPerSecond.
struct KernelRate {
  std::string kernel;
  std::string dtype;           ///< empty for any type
  std::vector<int64_t> params; ///< leading parameters of the call; empty for any
  double latency = 0;
  double bytesPerSecond = 0;
  std::optional<double> relativeError; ///< mean over the measurements, if the source states it
  std::vector<MeasuredPoint> points;
};

/// A directed link. Vertices are `node<n>/<name>`; devices are `node<n>/device<i>`, and fabric switches have their own
/// names.
struct Link {
  std::string from, to;
  double bytesPerSecond = 0;
  double latency = 0;
  double post = 0; ///< seconds to send one message over it; messages of one member add up
};

/// A link in the file, inside every node and in both directions. A name may be a pattern: it ends in `*` for all device
/// numbers, or in `[a-b]` for the numbers a to b. A pattern in one name links each of its vertices with the other
/// vertex. Patterns in both names link their vertices pairwise, in order. `network` is the vertex that connects the
/// nodes.
struct LinkPattern {
  std::string from, to;
  double bytesPerSecond = 0;     ///< from -> to
  double backBytesPerSecond = 0; ///< to -> from; 0 if there is no link back
  double latency = 0;
  double post = 0;      ///< as in Link
  bool reduces = false; ///< whether `to` is a switch that adds up and copies the data of its links
};

/// Switches above the nodes: one for each `nodes` neighbouring nodes, with one link up and one down. Levels are sorted
/// from the nodes up. Above the last level is one switch that never blocks.
struct FabricLevel {
  std::string name;
  int64_t nodes = 0;
  double bytesPerSecond = 0;
  double latency = 0;
};

/// Speed of each kind of work, as a fraction of its speed alone, while a set of kinds runs on one device.
struct Interference {
  bool compute = false, communication = false, copy = false; ///< the set of kinds
  double computeSpeed = 1, communicationSpeed = 1, copySpeed = 1;
};

enum class Algorithm : uint8_t {
  Ring,
  Tree,
  Pairwise,
  Hierarchical,
  Nvls,    ///< switches of the nodes add up
  Fastest, ///< the fastest of ring, tree and nvls for the bytes, as NCCL chooses
};
inline constexpr unsigned kNumAlgorithms = 6;
llvm::StringRef getName(Algorithm algorithm);

/// How a library sends data. Each exchange uses the protocol that is the fastest for its bytes. It adds `base` seconds,
/// and multiplies the links' latencies, posts and bandwidths by its factors. Trees have a separate factor of latency,
/// because their members wait for several others.
struct Protocol {
  std::string name = "simple";
  double base = 0;
  double latency = 1, treeLatency = 1, post = 1, bandwidth = 1;
  std::vector<Algorithm> algorithms; ///< algorithms that have it; empty for all
};

/// Measured time of a collective: alpha + perMember * members + beta * payload, with payload as in OpCost, or a curve.
struct CollectiveFit {
  Collective collective = Collective::None;
  std::string dtype; ///< empty for any type
  /// Groups that the fit is for: numbers of members, and of members on one node.
  int64_t minMembers = 0, maxMembers = 0;
  int64_t minPerNode = 0, maxPerNode = 0;
  /// Whether `points` are the model. Between them the logarithm of the time is linear in the logarithm of the bytes.
  /// There are at least two, sorted by bytes, and the three figures below are 0.
  bool isCurve = false;
  double alpha = 0;
  double perMember = 0;
  double beta = 0;
  std::optional<double> relativeError; ///< mean over the measurements, if the source states it
  std::vector<MeasuredPoint> points;
};

/// A host that issues launches: that of MoePlan's runtime, or of a framework.
struct HostIssue {
  std::array<double, kNumResources> launchSeconds{}; ///< seconds from one launch to the next, by Resource
  llvm::StringMap<double> kernelSeconds = {};        ///< the same for single kernels, instead of their resource's
  /// Seconds from the end of a launch that writes counts until the host goes on, if the host reads the counts before it
  /// issues the first launch whose size they decide. None if the host does not wait for counts.
  std::optional<double> countsSeconds = std::nullopt;
  /// Kernels for whose results the host waits before it issues the first launch that reads them.
  llvm::StringSet<> awaited = {};
  /// Kernels of exchanges that run in the order of issue with the computation of the same direction, forward or
  /// backward.
  llvm::StringSet<> inOrder = {};

  double getLaunchSeconds(llvm::StringRef kernel, Resource resource) const {
    auto its = kernelSeconds.find(kernel);
    return its != kernelSeconds.end() ? its->second : launchSeconds[static_cast<unsigned>(resource)];
  }
};

/// Launches that take `times` as long as the profile says. Without a kernel, all that only move memory.
struct KernelFactor {
  KernelCalls calls;
  double times = 1;
};

/// Processors that the devices of a node share. A ready op waits for a free one. `speed[resource][k]` is the speed of
/// one of k + 1 busy processors, as a fraction.
struct Processors {
  int64_t count = 0; ///< processors of a node; 0 if each device is its own
  std::array<std::vector<double>, kNumResources> speed;
};

/// How the exchanges of tokens between experts differ from those of the collectives' library.
struct TokenExchange {
  double fixedSeconds = 0;                  ///< added to each exchange between nodes
  double insideTimes = 1, betweenTimes = 1; ///< factors of the time of a byte, inside a node and between nodes
  double messageSeconds = 0;                ///< least time of a row to another node, which is a message of its own
};

struct ClusterProfile {
  std::string name, description;
  int64_t maxNodes = 1;
  int64_t devicesPerNode = 1;

  std::string deviceName;
  double memoryBytes = 0;
  double reservedBytes = 0;        ///< part of them for the driver and libraries
  double memoryBytesPerSecond = 0; ///< bandwidth that streaming kernels reach, less than in the data sheet
  std::string framework;           ///< framework with these times; empty for MoePlan's runtime
  std::string cpu;                 ///< class of the hosts' processors; may be empty
  std::string network;             ///< kind of network between nodes, such as efa-v2; may be empty
  HostIssue host;                  ///< host of MoePlan's runtime; FrameworkProfile::apply() replaces it
  double kernelSeconds = 0;        ///< least seconds of a kernel on the device
  double sustained = 1;            ///< part of the rate of products that remains at the power limit
  std::vector<DeviceRate> rates;
  /// entries of one dtype and number of products are sorted by columns of a head
  std::vector<AttentionCurve> attention;
  std::vector<KernelRate> kernels;
  std::vector<KernelFactor> factors; ///< the last one that fits a launch holds; FrameworkProfile::apply() sets them
  Precision precision;               ///< types of products; FrameworkProfile::apply() sets it
  std::optional<double> hostBytesPerSecond; ///< between device and host memory, in one direction
  double hostLatency = 0;
  Processors processors;

  std::vector<LinkPattern> links;
  std::vector<FabricLevel> fabric;
  std::vector<Protocol> protocols = {Protocol()};
  std::vector<Interference> interference;
  std::vector<CollectiveFit> collectives;
  TokenExchange tokenExchange; ///< FrameworkProfile::apply() sets it
  MeasuredSteps measured;      ///< FrameworkProfile::apply() sets it; empty for MoePlan's runtime
  /// Algorithm of each collective in the link-level form, by Collective.
  std::array<Algorithm, kNumCollectives> algorithms;

  /// Reads and checks a profile. The text of an error is a complete diagnostic, `file:line:column: error: 'key':
  /// expected ..`. `base` has the profile that `like` names, whose keys hold where the text lacks them; null if there
  /// is none.
  static llvm::Expected<ClusterProfile> parse(llvm::StringRef text, llvm::StringRef fileName,
                                              const llvm::json::Object *base = nullptr);
  /// parse() of the file at `path`, with the profile beside it that its `like` names.
  static llvm::Expected<ClusterProfile> load(llvm::StringRef path);

  /// Memory of a device that plans may use.
  double getPlanBytes() const { return memoryBytes - reservedBytes; }
  int64_t getMaxDevices() const { return maxNodes * devicesPerNode; }
  const DeviceRate *getRate(llvm::StringRef dtype) const;
};

} // namespace mlir::moe

#endif // MOE_COST_CLUSTERPROFILE_H
