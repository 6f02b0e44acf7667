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
  int64_t arenaBytes = 0;         ///< of each rank, filled with small numbers
  std::vector<Group> groups = {}; ///< empty: one of all ranks
  std::string identity = "";      ///< BackendOptions::identity
  std::string raggedMethod = "";  ///< BackendOptions::raggedMethod
  int64_t denseProposal = 0;      ///< BackendOptions::denseProposal
};

/// Ranks on a backend. They have three streams and two events: op and stream 0 are compute, stream 1 meets on groups,
/// those of group g in op 1 + g, stream 2 copies. Programs issue through the C ABI, as compiled plans do.
class Ranks {
public:
  static constexpr int64_t kCompute = 0, kMeet = 1, kCopy = 2;

  static Status create(const RanksOptions &options, std::unique_ptr<Ranks> &result);
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
  const moert_group &group(size_t index = 0) const { return abiGroups[index]; }
  Device &device() { return *backend.device; }
  /// The first rank of this process.
  int64_t local() const { return backend.device->ranks().front(); }

  /// A value in the arena.
  static moert_buffer buffer(int32_t dtype, int64_t offset, std::initializer_list<int64_t> dims);

  /// Launches that do next to nothing, `count` of them. Returns a moert_status.
  static int32_t launchLittle(moert_rank_t rank, int64_t count);

  struct StepTime {
    double issue = 0; ///< CPU seconds that all ranks issued
    double work = 0;  ///< CPU seconds of everything else in the process
    double wall = 0;
  };
  /// One step: `issue` returns a moert_status.
  Status run(const std::function<int32_t(moert_rank_t)> &issue, StepTime &time);
  /// The typical times of `passes` steps after a first one.
  Status measure(const std::function<int32_t(moert_rank_t)> &issue, int passes, StepTime &time);
  /// Process 0's value in all processes, which must all ask.
  Status agree(double &value);

private:
  Ranks() = default;
  Status allocate(int64_t arenaBytes);

  Program program;
  std::vector<Group> groups;
  std::vector<moert_group> abiGroups;
  Backend backend;
  std::vector<moert_rank> ranks; ///< by rank; only those of this process have memory
};

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_RANKS_H
