//===- Repetition.h - loops whose times repeat themselves -------*- C++ -*-===//
//
// When all that goes on at one time goes on again a period later, it goes on so until a loop ends. So of a long loop a
// few iterations are simulated, and the others are copies of these.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_REPETITION_H
#define MOE_LIB_SIMULATOR_REPETITION_H

#include "moe/Simulator/Simulator.h"

#include <optional>

namespace mlir::moe {

/// The numbers of times by rank and launch.
using TimeNumbers = std::vector<std::vector<uint32_t>>;

/// Of a step in which every program has a loop, without the iterations of `leftOut` micro-batches: a multiple of those
/// of the period that is found. None where times do not repeat themselves for as long as iterations depend on each
/// other. `host` issues the launches.
std::optional<SimResult::Repetition> findRepetition(const SimResult &step, int64_t leftOut, const HostIssue &host);

/// A time of a step some of whose iterations are left out: `number` of SimResult::times, `periods` later.
struct RepeatedTime {
  int32_t number = -1;
  int64_t periods = 0;
};

/// Finds causes in such a step.
class Repeated {
public:
  explicit Repeated(const SimResult &step);

  RepeatedTime getLast() const;
  /// As SimTime::cause.
  RepeatedTime getCause(RepeatedTime time) const;
  double getLater(RepeatedTime time) const { return static_cast<double>(time.periods) * step.repetition.seconds; }
  uint32_t getLaunchesInPeriod(uint32_t rank) const;

private:
  const SimResult &step;
  TimeNumbers numbers;
};

/// The step with all iterations. `programs` have them.
SimResult repeat(const SimResult &step, std::vector<SimProgram> programs);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_REPETITION_H
