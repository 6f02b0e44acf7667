//===- Ranks.h - a small world of ranks to measure ------------------------===//
#ifndef MOERT_CALIBRATE_RANKS_H
#define MOERT_CALIBRATE_RANKS_H

#include "core/World.h"

#include <functional>
#include <memory>

namespace moert::calibrate {

struct RanksOptions {
  std::string backend = "host";
  int64_t ranks = 1;
  int64_t workers = 1;
  int64_t arenaBytes = 0;         ///< bytes of each rank's arena, filled with small numbers
  std::vector<Group> groups = {}; ///< groups; empty: one of all ranks
  std::string identity = "";      ///< BackendOptions::identity
};

/// Ranks on a backend. They have three streams and two events: op and stream 0 compute, stream 1 meets on groups, with
/// op 1 + g for group g, and stream 2 copies. Programs issue through the C ABI, as compiled plans do.
class Ranks {
public:
  static constexpr int64_t kCompute = 0, kMeet = 1, kCopy = 2;

  static Status create(const RanksOptions &options, std::unique_ptr<Ranks> &result);
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
  const moert_group &group(size_t index = 0) const { return abiGroups[index]; }
  Device &device() { return *backend.device; }
  /// First rank of this process.
  int64_t local() const { return backend.device->ranks().front(); }

  /// Buffer of a value in the arena.
  static moert_buffer buffer(int32_t dtype, int64_t offset, std::initializer_list<int64_t> dims);

  /// Issues `count` launches of almost no work. Returns a moert_status.
  static int32_t launchLittle(moert_rank_t rank, int64_t count);

  struct StepTime {
    double issue = 0; ///< CPU seconds of all ranks for issuing
    double work = 0;  ///< CPU seconds of everything else in the process
    double wall = 0;
  };
  /// Runs one step. `issue` returns a moert_status.
  Status run(const std::function<int32_t(moert_rank_t)> &issue, StepTime &time);
  /// Measures the typical times of `passes` steps after a first one.
  Status measure(const std::function<int32_t(moert_rank_t)> &issue, int passes, StepTime &time);
  /// Gives process 0's value to all processes, which must all call it.
  Status agree(double &value);

private:
  Ranks() = default;
  Status allocate(int64_t arenaBytes);

  Program program;
  std::vector<Group> groups;
  std::vector<moert_group> abiGroups;
  Backend backend;
  std::vector<moert_rank> ranks; ///< ranks in order; only those of this process have memory
};

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_RANKS_H
