//===- World.h - the ranks of a plan and their memory ---------------------===//
#ifndef MOERT_CORE_WORLD_H
#define MOERT_CORE_WORLD_H

#include "core/Device.h"
#include "core/Instrument.h"
#include "moert/world.h"

#include <map>

namespace moert {

/// Number of a call of `op` after `before` calls of it in the step: an op in a loop routes in each iteration. A program
/// has `ops` ops.
inline int64_t routingNumber(int64_t op, int64_t before, size_t ops) { return op + before * static_cast<int64_t>(ops); }

/// Pages of one rank, by the number of the call. Pages are made while no step runs. In a step, the rank's issuing
/// thread looks pages up, and each call writes its own.
class RoutingBook {
public:
  RoutingPage &page(int64_t number) { return pages[number]; }
  void beginStep() { calls.clear(); }
  /// Number of the page of the next call of an op in a step; -1 if there are no pages.
  int64_t next(int64_t op, size_t ops) { return pages.empty() ? -1 : routingNumber(op, calls[op]++, ops); }
  /// Returns a page by its number; null if the call is neither forced nor recorded.
  RoutingPage *find(int64_t number) {
    auto it = pages.find(number);
    return it == pages.end() ? nullptr : &it->second;
  }

private:
  std::map<int64_t, RoutingPage> pages;
  std::map<int64_t, int64_t> calls; ///< calls of this step, by op
};

} // namespace moert

/// State of one rank, which its program gets as a handle.
struct moert_rank {
  moert::Device *device = nullptr;
  moert::Communicator *communicator = nullptr;
  const moert::Program *program = nullptr;
  const std::vector<moert::Group> *groups = nullptr;
  int64_t rank = 0;
  char *arenas[2] = {}; ///< by moert_space
  /// Null in production, and if the caller gives the memory.
  const moert::Instrument *instrument = nullptr;
  moert::Repetition repetition; ///< loop whose calls the rank issues
  int64_t leastShadows = 0;     ///< least number of shadows of a layer that may have some; negative: none
  /// End of the last byte that a call used, by arena; only the rank's issuing thread uses it.
  int64_t touched[2] = {0, 0};
  std::vector<char *> values; ///< arguments, then results
  moert::RoutingBook routing;
};

namespace moert {

/// Turns a call of another rank of the same program into the call that `rank` issued, which has other addresses and
/// another place in groups and page of routing.
Status bindCall(moert_rank &rank, Call &call);

using ProgramEntry = int32_t (*)(moert_rank_t);

struct WorldOptions {
  std::string backend = "host";
  BackendOptions device;
  double timeout = 0; ///< seconds; 0: no limit
  VerifyModes modes;
  int64_t leastShadows = 0; ///< least number of shadows of a layer that may have some; negative: none
  bool isBound = false;     ///< the caller gives the memory of values and arenas
  int64_t otherBytes = 0;   ///< the caller takes them on the host
};

/// Programs of a world in the order of their ranks, and the functions that issue them.
struct WorldPrograms {
  std::span<const Program> programs;
  std::span<const ProgramEntry> entries;
};

class World {
public:
  /// Allocates all ranks' memory. Programs and `groups` must outlive the world.
  static Status create(const WorldPrograms &programs, const std::vector<Group> &groups, int64_t size,
                       const WorldOptions &options, std::unique_ptr<World> &world);
  /// Fails if this world has no room or no kernel for a call. Allocates nothing.
  static Status check(const WorldPrograms &programs, const std::vector<Group> &groups, int64_t size,
                      const WorldOptions &options);

  int64_t size() const { return worldSize; }
  const std::vector<int64_t> &localRanks() const { return backend.device->ranks(); }

  /// Writes a part of a rank of this process, or `bytes` bytes of it from byte `begin` on.
  Status write(int64_t rank, int64_t index, const void *data, int64_t bytes, std::optional<int64_t> begin = {});
  Status bind(int64_t rank, int64_t index, void *data, int64_t bytes);
  Status bindArena(int64_t rank, int32_t space, void *data, int64_t bytes);
  /// Reads in the same way from the process of the rank. All processes must make the same calls.
  Status read(int64_t rank, int64_t index, void *data, int64_t bytes, std::optional<int64_t> begin = {});
  /// Reads from a rank of this process. No other process takes part.
  Status readLocal(int64_t rank, int64_t index, void *data, int64_t bytes, int64_t begin);
  /// Waits for all processes. Returns the first error of any process in all.
  Status meet(const Status &own);
  /// Runs one step. `seconds` (may be null) is the time of the slowest process.
  Status run(double *seconds);
  /// See Device::finishStep.
  Status wait() { return backend.device->finishStep(); }

  /// See Device::timeOps.
  void timeOps(bool isTimed) { backend.device->timeOps(isTimed); }

  /// Sets the choices of routing op `op` of a rank in all later steps: [S, k], or empty if it shall choose itself.
  Status forceRouting(int64_t rank, int64_t op, std::vector<int32_t> experts);
  /// Says whether routing ops note their choices; with `own`, the choices that forced ops would make.
  Status recordRouting(bool isRecorded, bool own = false);
  /// Gets the choices of a routing op in the last step, [S, k].
  Status readRouting(int64_t rank, int64_t op, std::vector<int32_t> &experts);

  /// Gets the end of the last byte that any call so far used in the arena `space` of a rank.
  Status touchedBytes(int64_t rank, int32_t space, int64_t &bytes);
  /// Gets Device::deviceSeconds of this process.
  Status deviceSeconds(double &seconds) { return backend.device->deviceSeconds(seconds); }
  /// See Device::graphSteps.
  int64_t graphSteps() const { return backend.device->graphSteps(); }
  /// Gets Device::otherBytes of the process that runs `rank`.
  Status otherBytes(int64_t rank, int64_t &bytes);
  /// Gets the last step's ops on a rank, stream by stream.
  Status timeline(int64_t rank, std::vector<moert_op_time> &times);

  const Program &programOf(int64_t rank) const { return *ranks[rank].program; }
  /// See Device::isStuck.
  bool isStuck() const { return backend.device->isStuck(); }
  /// Whether `rank` runs in this process.
  bool isLocal(int64_t rank) const;

private:
  World(const WorldPrograms &run, const std::vector<Group> &groups, int64_t size, const WorldOptions &options);

  Status open();
  Status checkKernels() const;
  Status checkRoom() const;
  Status prepare() const;
  Status allocate();
  Status allocateRank(moert_rank &state);
  Status allocateBlock(int64_t rank, int32_t space, int64_t bytes, const std::string &what, char *&data);
  Status checkBound() const;
  int64_t bytesOf(const Value &value) const;
  double bytesOf(const Program &program) const;
  Status checkRank(int64_t rank) const;
  Status checkLocal(int64_t rank) const;
  template <class T, class Read> Status shared(int64_t rank, std::vector<T> &values, Read read);
  template <class Read> Status sharedNumber(int64_t rank, int64_t &number, Read read);
  Status slowest(double &seconds);
  /// Checks the number of bytes and finds the address of a value; null if its rank runs in another process.
  Status locate(int64_t rank, int64_t index, int64_t bytes, std::optional<int64_t> begin, char *&data);
  Status listOnce();
  Status findPage(int64_t rank, int64_t op, RoutingPage *&page, int64_t &choices);

  std::span<const Program> programs;
  std::vector<ProgramEntry> entries; ///< by program
  const std::vector<Group> &groups;
  int64_t worldSize;
  WorldOptions options;
  std::unique_ptr<Instrument> instrument; ///< null in production
  Backend backend;
  std::vector<moert_rank> ranks;                      ///< by rank; only those of this process have memory
  std::optional<std::vector<moert_routing>> routings; ///< empty until they are needed
};

} // namespace moert

#endif // MOERT_CORE_WORLD_H
