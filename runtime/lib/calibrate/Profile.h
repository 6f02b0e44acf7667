//===- Profile.h - a cluster profile as calibration makes it --------------===//
//
// The part of the format of docs/Clusters.md that describes ranks on the processors of one machine, or on devices of
// their own whose links are known by what collectives take.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CALIBRATE_PROFILE_H
#define MOERT_CALIBRATE_PROFILE_H

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace moert::calibrate {

/// Measurement: a call that moves `bytes` takes `seconds`.
struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// Line of seconds = latency + perByte * bytes.
struct Fit {
  double latency = 0;
  double perByte = 0;
  double r2 = 1;            ///< share of the variance of log(seconds) that the fit explains
  double relativeError = 0; ///< mean of |predicted - measured| / measured

  double at(double bytes) const { return latency + perByte * bytes; }
};

/// Fits a line by least squares of the relative errors: a microsecond counts for more in a call of ten than in one of a
/// thousand. Neither coefficient is negative. Samples must have positive bytes and seconds.
Fit fitLine(const std::vector<Sample> &samples);

/// Mean distance of a curve's values from the interpolation of their two neighbours, as a fraction of them. The
/// interpolation is linear in logarithms, along an axis whose points are `stride` values apart. 0 if no point has two
/// neighbours.
double neighbourError(const std::vector<double> &axis, const std::vector<double> &values, size_t stride);

/// Calls of a kernel with these leading integer parameters.
struct KernelCalls {
  std::string kernel;
  std::vector<int64_t> params;
};

/// Fractions of the peak that products reach, in the order rows, columns, depth, groups, the last fastest.
struct Curve {
  std::vector<KernelCalls> calls; ///< calls of these kernels; empty: of all
  int64_t columnsMultiple = 1;    ///< divisor of the columns
  std::vector<int64_t> rows, columns, depth;
  std::vector<double> efficiency;
  bool isRagged = false; ///< whether the curve is for products of experts whose rows vary
  std::string note = ""; ///< addition to the source
  /// Numbers of products in one launch, each with `rows` rows, also in a weight gradient. If empty, a launch has one
  /// product, or as many as the note says.
  std::vector<int64_t> groups = {};
};

/// Fractions of the peak that attention reaches in causal sequences of `length` tokens with `heads` heads in all, in
/// the order length, heads. There are 2 products with the scores in the forward, and 5 in the backward.
struct AttentionCurve {
  std::string dtype;
  int64_t headColumns = 0, products = 0;
  std::vector<int64_t> length, heads;
  std::vector<double> efficiency;
};

struct Rate {
  std::string dtype;
  double flopsPerSecond = 0;
  std::vector<Curve> curves; ///< general curve, then special ones; the last that fits a product holds for it
};

struct KernelFit {
  KernelCalls calls;
  std::string dtype;
  Fit fit;
  std::vector<Sample> samples;
};

/// Collective in groups of minMembers to maxMembers, with the given members on a node. On shared processors it is one
/// member's share.
struct ExchangeFit {
  std::string collective;
  std::string dtype; ///< name of the type; empty: any type
  int64_t minMembers = 0, maxMembers = 0;
  int64_t minPerNode = 0, maxPerNode = 0;
  Fit fit;
  std::vector<Sample> samples;
  bool isCurve = false; ///< whether the samples are the model in place of the fit, if there are at least two
};

/// Speeds of one processor while 1, 2, .. of them are busy.
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
  /// Ranks per node. If ranks share processors, it is the largest number that the profile's format allows.
  int64_t devicesPerNode = 1024;
  int64_t processors = 1;                    ///< number of shared processors; 0: each rank has a device of its own
  double memoryBytes = 0, reservedBytes = 0; ///< memory, and the part that the driver and libraries took
  double memoryBytesPerSecond = 0;
  double sustained = 1; ///< rate of products after some seconds of them, as a fraction
  double launchSeconds = 0, kernelSeconds = 0;
  /// Time from the end of a call that writes counts until a product starts that the host enqueues by them; absent if
  /// the host computes them.
  std::optional<double> countsSeconds;
  std::optional<Fit> hostLink; ///< absent if the host's memory is the device's
  std::vector<Rate> rates;
  std::vector<AttentionCurve> attention;
  std::vector<KernelFit> kernels;
  std::vector<ExchangeFit> exchanges;
  Speeds speeds; ///< speeds of shared processors
  std::vector<Interference> interference;
};

/// Writes the profile as JSON, with lists of numbers on lines of their own.
void writeProfile(const Profile &profile, std::ostream &out);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_PROFILE_H
