//===- Profile.h - a cluster profile as calibration makes it --------------===//
//
// The part of the format of docs/Clusters.md that describes ranks on the processors of one machine, or on devices of
// their own whose links are known by what collectives take.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CALIBRATE_PROFILE_H
#define MOERT_CALIBRATE_PROFILE_H

#include "calibrate/Fit.h"

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace moert::calibrate {

/// Calls of a kernel whose leading integer parameters are these.
struct KernelCalls {
  std::string kernel;
  std::vector<int64_t> params;
};

/// The fraction of the peak that products reach; efficiency in the order rows, columns, depth, groups, the last
/// fastest.
struct Curve {
  std::vector<KernelCalls> calls; ///< empty: all
  int64_t columnsMultiple = 1;    ///< only where this divides the columns
  std::vector<int64_t> rows, columns, depth;
  std::vector<double> efficiency;
  bool isRagged = false; ///< only products of experts whose rows vary
  std::string note = ""; ///< what the source says of it besides
  /// Products of one launch, whose rows are those of each of them, also in a weight gradient. Empty: of launches of one
  /// product, or of as many as the note says.
  std::vector<int64_t> groups = {};
};

/// The fraction of the peak that attention reaches in causal sequences of `length` tokens with so many heads in all, in
/// the order length, heads. There are 2 products with the scores forward, and 5 backward.
struct AttentionCurve {
  std::string dtype;
  int64_t headColumns = 0, products = 0;
  std::vector<int64_t> length, heads;
  std::vector<double> efficiency;
};

struct Rate {
  std::string dtype;
  double flopsPerSecond = 0;
  std::vector<Curve> curves; ///< the general one, then special ones; the last that fits a product holds for it
};

struct KernelFit {
  KernelCalls calls;
  std::string dtype;
  Fit fit;
  std::vector<Sample> samples;
};

/// A collective in groups of minMembers to maxMembers, of which so many are on one node; on shared processors one
/// member's share of it.
struct ExchangeFit {
  std::string collective;
  std::string dtype; ///< empty: any
  int64_t minMembers = 0, maxMembers = 0;
  int64_t minPerNode = 0, maxPerNode = 0;
  Fit fit;
  std::vector<Sample> samples;
  bool isCurve = false; ///< the samples are the model, where there are at least two, and not the fit
};

/// Speed of one processor where 1, 2, .. of them are busy.
struct Speeds {
  std::vector<double> matrix, memory, network;
};

/// Kinds of work at the same time, and the fraction of its speed that each keeps.
struct Interference {
  std::vector<std::string> running;
  std::vector<double> speeds;
};

struct Profile {
  std::string name, description;
  std::string deviceName, source;
  int64_t nodes = 1;
  /// Ranks that share processors are as many as the format allows on a node.
  int64_t devicesPerNode = 1024;
  int64_t processors = 1;                    ///< 0: each rank has a device of its own
  double memoryBytes = 0, reservedBytes = 0; ///< of them, what the driver and libraries took
  double memoryBytesPerSecond = 0;
  double sustained = 1; ///< of the rate of products, what is left after seconds of them
  double launchSeconds = 0, kernelSeconds = 0;
  /// From the end of a call that writes counts until a product starts that the host enqueues by them; absent: the host
  /// computes them.
  std::optional<double> countsSeconds;
  std::optional<Fit> hostLink; ///< absent: the host's memory is the device's
  std::vector<Rate> rates;
  std::vector<AttentionCurve> attention;
  std::vector<KernelFit> kernels;
  std::vector<ExchangeFit> exchanges;
  Speeds speeds; ///< of shared processors
  std::vector<Interference> interference;
};

/// Writes the profile as JSON, lists of numbers on lines of their own.
void writeProfile(const Profile &profile, std::ostream &out);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_PROFILE_H
