//===- HostClock.h - when hosts issue launches ------------------*- C++ -*-===//
//
// A rank's host issues its launches one after the other, in program order, and the device takes them when it can. Where
// the host has to know how many rows a launch has, it waits until the device has counted them. What it issues after
// that is late, and the device may have nothing to do until then.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_HOSTCLOCK_H
#define MOE_LIB_SIMULATOR_HOSTCLOCK_H

#include "moe/Simulator/SimWorld.h"

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::moe {

/// What the host of a rank does in a step; the same for all ranks of a program.
struct HostProgram {
  /// By launch: seconds from the step's begin until it is issued, if the host never waits.
  std::vector<double> issued;
  /// Before `launch` is issued, `writer` has to end, which wrote the counts that `launch` is the first to read.
  struct Wait {
    uint32_t launch, writer;
  };
  std::vector<Wait> waits;                    ///< in program order
  llvm::DenseMap<uint32_t, uint32_t> waitFor; ///< by writer: into the waits

  HostProgram(const SimProgram &program, const HostIssue &host);
};

/// Seconds in which the host issues a step, if it never waits.
double getIssueSeconds(const SimProgram &program, const HostIssue &host);

/// A host at work.
class HostClock {
public:
  HostClock(const HostProgram &program, double countsSeconds);

  /// When `launch` is issued; none while the host waits before it.
  std::optional<double> getIssued(uint32_t launch) const;
  /// `launch` ended at `now`; its number among the step's launches that ended is `time`. Whether the host goes on.
  bool end(uint32_t launch, double now, int32_t time);
  /// The number of the launch for which the host waited last; -1 where it did not.
  int32_t getCause() const { return cause; }

private:
  bool isWaiting() const { return next < program->waits.size(); }

  const HostProgram *program;
  double countsSeconds;
  struct State {
    double counted = 0; ///< when the writer ended
    int32_t time = -1;  ///< as which time; -1: it has not
    double delay = 0;   ///< by which launches after the wait are late
  };
  double getDelay(size_t numWaits) const { return numWaits == 0 ? 0 : states[numWaits - 1].delay; }
  std::vector<State> states; ///< by wait
  size_t next = 0;           ///< into the waits: the one before which the host stands
  int32_t cause = -1;
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_HOSTCLOCK_H
