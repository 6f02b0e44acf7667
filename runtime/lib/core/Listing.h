//===- Listing.h - what programs call, without running them ---------------===//
#ifndef MOERT_CORE_LISTING_H
#define MOERT_CORE_LISTING_H

#include "core/World.h"

namespace moert {

/// Functions that get the events between a program's calls.
struct EventVisit {
  std::function<void(int64_t event, int64_t stream)> record = [](int64_t, int64_t) {}, wait = record;
};

/// Calls `visit` for each call of a program in its order. It calls the entry as one of the program's ranks without a
/// world, so that nothing runs and no memory is needed. Operands have shapes, and addresses without memory.
Status listCalls(const Program &program, const std::vector<Group> &groups, ProgramEntry entry, int64_t rank,
                 const std::function<Status(const Call &)> &visit, const EventVisit &events = {});

struct ArenaPlace {
  int32_t space;
  int64_t offset;
};
/// Place of an operand of a call that listCalls visits; none for arguments and results.
std::optional<ArenaPlace> arenaPlaceOf(const View &view);

/// A sender and a receiver, ranks of the world.
using ChannelRanks = std::array<int64_t, 2>;

/// Lists the channels of all ranks, sorted. All ranks of a program send to the same member of their own instance.
Status listChannels(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<ChannelRanks> &channels);

/// Lists the routing calls of a step, program by program and in their order. Nothing runs.
Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings);

} // namespace moert

#endif // MOERT_CORE_LISTING_H
