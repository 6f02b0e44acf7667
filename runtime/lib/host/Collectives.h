//===- Collectives.h - one member's share of a collective -----------------===//
//
// All members' operands lie in this process, so that each member pulls what it is due. Members run at the same time: in
// one phase no member writes what another one reads or writes.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_COLLECTIVES_H
#define MOERT_HOST_COLLECTIVES_H

#include "core/Exchange.h"
#include "core/Metadata.h"

#include <span>

namespace moert::host {

using Calls = std::span<const Call *const>;

/// How many phases (with all members' previous one done before each) a collective takes.
int collectivePhases(Kind kind);

/// What one member does in a collective, or of a channel (where member 0 sends to member 1): it moves bytes into its
/// own operands, and counts those of other members.
struct Share {
  Calls calls; ///< by member
  int64_t member;
  int64_t received = 0; ///< bytes

  const Call &of(int64_t other) const { return *calls[static_cast<size_t>(other)]; }
  const Call &mine() const { return of(member); }
  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  /// Copies from what `source` has.
  void copy(int64_t source, char *to, const char *from, int64_t bytes);
};

/// Runs one phase for share.member. Group and instance are for messages.
Status pullCollective(Share &share, int phase, const Group &group, int64_t instance);

/// Runs all phases for all members. `received` grows by the bytes that each receives.
Status pullWhole(Calls calls, std::span<int64_t> received, const Group &group, int64_t instance);

/// Copies what one member sends to where another one, or itself, receives it. `bytes` grows by what was copied.
Status copyPieces(const Side &from, const Side &to, int64_t &bytes);
/// Fills what nobody sends to the member.
void fillUnsent(const Call &call, int64_t size, int64_t member);

/// sources[i][0..count) summed in the order of i; `out` may be one of the sources.
Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

/// The gradients of shadows, in CollectivesShadow.cpp.
Status pullReduceExperts(Share &share);
/// The check of what is assumed replicated, in CollectivesReplicas.cpp: what `member` has against what member 0 has.
Status compareReplicas(const View &mine, const View &first, int64_t member, const Group &group, int64_t instance);

} // namespace moert::host

#endif // MOERT_HOST_COLLECTIVES_H
