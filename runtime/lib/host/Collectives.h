//===- Collectives.h - one member's share of a collective -----------------===//
//
// All members' operands lie in this process, so that each member pulls what it is due. Members run at the same time: in
// one phase no member writes what another one reads or writes.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_COLLECTIVES_H
#define MOERT_HOST_COLLECTIVES_H

#include "core/Call.h"
#include "core/Metadata.h"

#include <span>

namespace moert::host {

using Calls = std::span<const Call *const>;

/// How many phases (with all members' previous one done before each) a collective takes.
int collectivePhases(Kind kind);

/// Checks operands and attributes of one member's call on a group of `size`.
Status checkCollective(const Call &call, int64_t size);

/// Runs one phase for `member`. Group and instance are for messages.
Status pullCollective(Calls calls, int64_t member, int phase, const Group &group, int64_t instance);

/// sources[i][0..count) summed in the order of i; `out` may be one of the sources.
Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

/// The ragged exchange, in CollectivesRagged.cpp.
Status pullAllToAllV(Calls calls, int64_t member);
/// The check of what is assumed replicated, likewise: `member` against member 0.
Status compareReplicas(Calls calls, int64_t member, const Group &group, int64_t instance);

} // namespace moert::host

#endif // MOERT_HOST_COLLECTIVES_H
