//===- Calibrate.h - what is measured -------------------------------------===//
#ifndef MOERT_CALIBRATE_CALIBRATE_H
#define MOERT_CALIBRATE_CALIBRATE_H

#include "calibrate/DeviceBench.h"
#include "calibrate/Profile.h"
#include "core/ProcessPlace.h"

#include <limits>

namespace moert::calibrate {

/// Sizes to measure on a device. The largest keep all of a GPU busy.
struct DeviceSizes {
  int64_t kernelRows = 1 << 14;            ///< most rows, of 512 values each, of a kernel that is no product
  int64_t productSize = 1 << 13;           ///< most rows, columns and depth of a product
  int64_t coldBytes = int64_t(256) << 20;  ///< bytes used between two uses of an operand; also the most bytes of a call
  int64_t arenaBytes = int64_t(512) << 20; ///< bytes of a rank, or of a shared device: four times the largest payload
  int64_t copyBytes = int64_t(16) << 20;   ///< bytes of the largest copy to the host, and of interfering work
  int64_t raggedSize = int64_t(1) << 15;   ///< most rows of an expert, columns and depth for comparing methods
  double sustainedSeconds = 10;            ///< time of successive products, for the device to reach its power limit
};

struct Settings {
  std::string backend = "host";
  int64_t workers = 0; ///< processors of the profile of a host; 0: one for each core
  DeviceSizes device;  ///< sizes of other backends; the host has its own
  bool quick = false;  ///< whether to measure fewer points with fewer repetitions
  /// Seconds after which no further product is measured for a table of methods.
  double limit = std::numeric_limits<double>::infinity();
  std::ostream *progress = nullptr; ///< output for progress, or null

  bool isDevice() const { return backend != "host"; }
};

/// Measures matrix products of the pool's type over a grid of shapes.
Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate);
/// Measures causal attention of the pool's type over lengths and heads, as fractions of the rate of its products.
Status calibrateAttention(Pool &pool, const Settings &settings, const Rate &rate, std::vector<AttentionCurve> &curves);
/// Sets the attributes of causal attention in sequences of `length` tokens. Its gradients have the same attributes.
void setCausal(Call &call, int64_t length, int64_t heads, int64_t headColumns);
/// Measures every kernel that is no product, over sizes, on values of the pool's type.
Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits);
/// Measures the bytes per second of a kernel that only reads from memory that no cache holds.
Status measureMemory(Pool &pool, const Settings &settings, double &bytesPerSecond);
/// Measures every collective over sizes and group sizes, among ranks that share the host's processors or one device.
/// Sums are measured for each type.
Status calibrateShares(const Settings &settings, std::vector<ExchangeFit> &fits);
/// Groups that a plan for `ranks` ranks may have, `perNode` of them on a node: one for each number of members and of
/// members on a node. Groups for which membersOnNode is 0 are left out.
std::vector<Group> allGroups(int64_t ranks, int64_t perNode);
/// Number of members on each node that has any, if it is the same in all instances of the group; otherwise 0.
int64_t membersOnNode(const Group &group, int64_t ranks, int64_t perNode);
/// Text that all processes must have alike to measure together, with one line for each condition.
std::string identityOf(const ProcessPlace &place, const Settings &settings, const std::vector<Group> &groups);
/// Measures every collective over sizes in `groups`, which are those of the bench's ranks. All processes call it.
Status calibrateGroups(DeviceBench &bench, const std::vector<Group> &groups, int64_t perNode, const Settings &settings,
                       std::vector<ExchangeFit> &fits);
/// Measures the cost of launches, and how processors slow each other.
Status calibrateExecutor(const Settings &settings, Profile &profile);
/// Measures how computation, copies and communication in the group numbered `group` slow each other on a device.
/// Without `group` there is no communication. All processes call it.
Status calibrateInterference(DeviceBench &bench, const Settings &settings, std::optional<size_t> group,
                             std::vector<Interference> &sets);

/// Typical seconds of an operation on each stream while all streams have operations: of the operations whose middle is
/// in that time, or of all if there are none. No stream is empty.
std::vector<double> secondsTogether(const std::vector<std::vector<OpTime>> &streams);

/// Source of today's measurements on a processor or a device.
std::string measuredOn(const Settings &settings, const std::string &device);

/// Measures all of a profile on the host. settings.workers must not be 0.
Status calibrateHost(const Settings &settings, Profile &profile);
/// Measures all of a profile on the backend's devices. All processes call it, and process 0 gets the profile.
Status calibrateDevice(const Settings &settings, Profile &profile);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_CALIBRATE_H
