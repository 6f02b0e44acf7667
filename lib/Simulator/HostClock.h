//===- HostClock.h - issue of launches by hosts -----------------*- C++ -*-===//
//
// A rank's host issues its launches in program order, and the device takes them when it can. If the host has to know
// the number of rows of a launch, it waits until the device has counted them. A framework may also wait for results.
// The launches after that are late, and the device may have nothing to do until they come.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_HOSTCLOCK_H
#define MOE_LIB_SIMULATOR_HOSTCLOCK_H

#include "moe/Simulator/SimWorld.h"

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::moe {

/// Work of a rank's host in a step; the same for all ranks of a program.
struct HostProgram {
  /// Seconds from the begin of the step until the launch is issued if the host never waits. By launch.
  std::vector<double> issued;
  /// The host waits before `launch` until `writer` has ended. `launch` is the first to read the counts, or the awaited
  /// results, that `writer` wrote.
  struct Wait {
    uint32_t launch, writer;
  };
  std::vector<Wait> waits;                    ///< in program order
  llvm::DenseMap<uint32_t, uint32_t> waitFor; ///< index of the wait, by writer

  HostProgram(const SimProgram &program, const HostIssue &host);
};

/// Seconds that the host takes to issue the launches if it never waits.
double getIssueSeconds(llvm::ArrayRef<SimLaunch> launches, const HostIssue &host);

/// A host at work.
class HostClock {
public:
  HostClock(const HostProgram &program, double countsSeconds);

  /// Time at which `launch` is issued. None if the host is waiting before it.
  std::optional<double> getIssued(uint32_t launch) const;
  /// Notes that `launch` ended at `now` as number `time` of SimResult::times. Returns whether the host goes on.
  bool end(uint32_t launch, double now, int32_t time);
  /// Number of the launch for which the host waited last; -1 if it did not wait.
  int32_t getCause() const { return cause; }

private:
  bool isWaiting() const { return next < program->waits.size(); }

  const HostProgram *program;
  double countsSeconds;
  struct State {
    double counted = 0; ///< time at which the writer ended
    int32_t time = -1;  ///< number of the writer in SimResult::times; -1 until it ends
    double delay = 0;   ///< delay of the launches after the wait
  };
  double getDelay(size_t numWaits) const { return numWaits == 0 ? 0 : states[numWaits - 1].delay; }
  std::vector<State> states; ///< by wait
  size_t next = 0;           ///< index of the wait before which the host stands
  int32_t cause = -1;
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_HOSTCLOCK_H
