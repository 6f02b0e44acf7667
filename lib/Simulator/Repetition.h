//===- Repetition.h - loops whose times repeat themselves -------*- C++ -*-===//
//
// If all events repeat themselves one period later, they do so until a loop ends. So a few iterations of a long loop
// are simulated, and the others are copies of these.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_REPETITION_H
#define MOE_LIB_SIMULATOR_REPETITION_H

#include "moe/Simulator/Simulator.h"

#include <optional>

namespace mlir::moe {

/// Numbers in SimResult::times, by rank and launch.
using TimeNumbers = std::vector<std::vector<uint32_t>>;

/// Finds the period of a step in which every program has a loop, simulated without the iterations of `leftOut`
/// micro-batches. The micro-batches of the period divide `leftOut`. None if times do not repeat themselves for as long
/// as iterations depend on each other. `host` issues the launches.
std::optional<SimResult::Repetition> findRepetition(const SimResult &step, int64_t leftOut, const HostIssue &host);

/// A time of a step with left-out iterations: element `number` of SimResult::times, `periods` later.
struct RepeatedTime {
  int32_t number = -1;
  int64_t periods = 0;
};

/// Finds causes in a step with left-out iterations.
class Repeated {
public:
  explicit Repeated(const SimResult &step);

  RepeatedTime getLast() const;
  /// Like SimTime::cause.
  RepeatedTime getCause(RepeatedTime time) const;
  double getLater(RepeatedTime time) const { return static_cast<double>(time.periods) * step.repetition.seconds; }
  uint32_t getLaunchesInPeriod(uint32_t rank) const;

private:
  const SimResult &step;
  TimeNumbers numbers;
};

/// Returns the step with all iterations. `programs` have them.
SimResult repeat(const SimResult &step, std::vector<SimProgram> programs);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_REPETITION_H
