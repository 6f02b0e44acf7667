//===- Calibrate.h - what is measured -------------------------------------===//
#ifndef MOERT_CALIBRATE_CALIBRATE_H
#define MOERT_CALIBRATE_CALIBRATE_H

#include "calibrate/DeviceBench.h"
#include "calibrate/Profile.h"
#include "core/ProcessPlace.h"

namespace moert::calibrate {

/// What is measured on a device: at first as much as keeps all of a GPU busy.
struct DeviceSizes {
  int64_t kernelRows = 1 << 14;            ///< most rows, of 512 values, of a kernel that is no product
  int64_t productSize = 1 << 13;           ///< most rows, columns and depth of a product
  int64_t coldBytes = int64_t(256) << 20;  ///< used until a kernel's operand is again; what one call takes is no more
  int64_t arenaBytes = int64_t(512) << 20; ///< of a rank, or of all that share a device: four times the largest payload
  int64_t copyBytes = int64_t(16) << 20;   ///< of the largest copy to the host, and of what interferes
  int64_t raggedSize = int64_t(1) << 15;   ///< most rows of an expert, columns and depth where methods are compared
  double sustainedSeconds = 10;            ///< of products one after the other, for the device to reach its power limit
};

struct Settings {
  std::string backend = "host";
  int64_t workers = 0;              ///< processors of the profile. Of the host
  DeviceSizes device;               ///< of other backends; the host has sizes of its own
  bool quick = false;               ///< fewer points and repetitions
  std::ostream *progress = nullptr; ///< null: silent

  bool isDevice() const { return backend != "host"; }
};

/// Matrix products of the pool's type over a grid of shapes.
Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate);
/// Causal attention of the pool's type over lengths and heads, as fractions of the rate of its products.
Status calibrateAttention(Pool &pool, const Settings &settings, const Rate &rate, std::vector<AttentionCurve> &curves);
/// Every kernel that is no product, over sizes, on values of the pool's type.
Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits);
/// Bytes per second of a kernel that only reads, from memory that no cache holds.
Status measureMemory(Pool &pool, const Settings &settings, double &bytesPerSecond);
/// Every collective over sizes and group sizes, among ranks that share the host's processors or one device; sums by
/// type.
Status calibrateShares(const Settings &settings, std::vector<ExchangeFit> &fits);
/// The groups that a plan for `ranks` ranks may have, `perNode` of them on a node: one for each number of members and
/// of those on one node, without those that membersOnNode has no number for.
std::vector<Group> allGroups(int64_t ranks, int64_t perNode);
/// How many members each node has that has any, where it is the same in all instances of the group; else 0.
int64_t membersOnNode(const Group &group, int64_t ranks, int64_t perNode);
/// What all processes must have alike to measure together, a line for each of it.
std::string identityOf(const ProcessPlace &place, const Settings &settings, const std::vector<Group> &groups);
/// Every collective over sizes in `groups`, which are those of the bench's ranks. All processes call it.
Status calibrateGroups(DeviceBench &bench, const std::vector<Group> &groups, int64_t perNode, const Settings &settings,
                       std::vector<ExchangeFit> &fits);
/// What launches cost, and how processors slow each other.
Status calibrateExecutor(const Settings &settings, Profile &profile);
/// How computation, copies and, in the group numbered `group`, communication slow each other on a device. Without
/// `group` nothing is communicated. All processes call it.
Status calibrateInterference(DeviceBench &bench, const Settings &settings, std::optional<size_t> group,
                             std::vector<Interference> &sets);

/// Typical seconds of an operation on each stream while there are operations on all of them, by when they ran: of those
/// whose middle is in that time, or of all where none is. No stream is empty.
std::vector<double> secondsTogether(const std::vector<std::vector<OpTime>> &streams);

/// The day, as sources give it.
std::string today();
/// The source of what is measured on a device.
std::string measuredOn(const Settings &settings, const std::string &device);

/// All of that on the host. settings.workers must not be 0.
Status calibrateHost(const Settings &settings, Profile &profile);
/// On the backend's devices. All processes call it, and what process 0 gets counts.
Status calibrateDevice(const Settings &settings, Profile &profile);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_CALIBRATE_H
