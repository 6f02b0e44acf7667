//===- Calibrate.h - what is measured -------------------------------------===//
#ifndef MOERT_CALIBRATE_CALIBRATE_H
#define MOERT_CALIBRATE_CALIBRATE_H

#include "calibrate/DeviceBench.h"
#include "calibrate/Profile.h"

namespace moert::calibrate {

struct Settings {
  std::string backend = "host";
  int64_t workers = 0;              ///< processors of the profile; 0: one for each core. Of the host
  int64_t largestRows = 0;          ///< of a device's kernels, of 512 values; 0: the host's sizes
  bool quick = false;               ///< fewer points and repetitions
  std::ostream *progress = nullptr; ///< null: silent
};

/// Settings::largestRows that keep all of a GPU busy.
constexpr int64_t kDeviceRows = 1 << 14;
/// Bytes that a rank on a device has for collectives; twice what is used until caches forget an operand.
inline int64_t arenaBytes(const Settings &settings) { return settings.largestRows << 15; }

/// Matrix products of the pool's type over a grid of shapes.
Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate);
/// Every kernel that is no product, over sizes, on values of the pool's type.
Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits);
/// Bytes per second of a kernel that only reads, from memory that no cache holds.
Status measureMemory(Pool &pool, const Settings &settings, double &bytesPerSecond);
/// Every collective over sizes and group sizes, among ranks that share the host's processors or one device; sums by
/// type.
Status calibrateShares(const Settings &settings, std::vector<ExchangeFit> &fits);
/// The groups that a plan for `ranks` ranks may have, `perNode` of them on a node: one for each number of members and
/// of those on one node.
std::vector<Group> allGroups(int64_t ranks, int64_t perNode);
int64_t membersOnNode(const Group &group, int64_t perNode);
/// Every collective over sizes in `groups`, which are those of the bench's ranks. All processes call it.
Status calibrateGroups(DeviceBench &bench, const std::vector<Group> &groups, int64_t perNode, const Settings &settings,
                       std::vector<ExchangeFit> &fits);
/// What launches cost, and how processors slow each other.
Status calibrateExecutor(const Settings &settings, Profile &profile);
/// How computation, copies and, in the group numbered `group`, communication slow each other on a device. Without
/// `group` nothing is communicated. All processes call it.
Status calibrateInterference(DeviceBench &bench, const Settings &settings, std::optional<size_t> group,
                             std::vector<Interference> &sets);

/// The day, as sources give it.
std::string today();

/// All of that on the host. settings.workers must not be 0.
Status calibrateHost(const Settings &settings, Profile &profile);
/// On the backend's devices; settings.largestRows must not be 0. All processes call it, and what process 0 gets counts.
Status calibrateDevice(const Settings &settings, Profile &profile);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_CALIBRATE_H
