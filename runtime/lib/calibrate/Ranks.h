//===- Ranks.h - a small world of ranks to measure ------------------------===//
#ifndef MOERT_CALIBRATE_RANKS_H
#define MOERT_CALIBRATE_RANKS_H

#include "core/World.h"

#include <functional>
#include <memory>

namespace moert::calibrate {

/// Ranks on the host executor, all members of one group. They have two streams, two events and two ops: op and stream 0
/// are compute, op and stream 1 meet on the group. Programs issue through the C ABI, as compiled plans do.
class Ranks {
public:
  static constexpr int64_t kCompute = 0, kMeet = 1;

  /// Each rank gets an arena of `arenaBytes`, filled with small numbers.
  static Status create(int64_t ranks, int64_t workers, int64_t arenaBytes, std::unique_ptr<Ranks> &result);
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
  const moert_group &group() const { return abiGroup; }

  /// A value in the arena.
  static moert_buffer buffer(int32_t dtype, int64_t offset, std::initializer_list<int64_t> dims);

  struct StepTime {
    double issue = 0; ///< CPU seconds that all ranks issued
    double work = 0;  ///< CPU seconds of everything else in the process
  };
  /// One step: `issue` returns a moert_status.
  Status run(const std::function<int32_t(moert_rank_t)> &issue, StepTime &time);
  /// The typical times of `passes` steps after a first one.
  Status measure(const std::function<int32_t(moert_rank_t)> &issue, int passes, StepTime &time);

private:
  Ranks() = default;
  Status allocate(int64_t arenaBytes);

  Program program;
  std::vector<Group> groups;
  moert_group abiGroup{};
  Backend backend;
  std::vector<moert_rank> ranks;
};

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_RANKS_H
