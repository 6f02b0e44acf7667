//===- Collectives.h - one member's share of a collective -----------------===//
//
// All members' operands lie in this process, and each member pulls its share. Members run at the same time: in one
// phase no member writes what another one reads or writes.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_COLLECTIVES_H
#define MOERT_HOST_COLLECTIVES_H

#include "core/Exchange.h"
#include "core/Metadata.h"

#include <span>

namespace moert::host {

using Calls = std::span<const Call *const>;

/// Number of phases of a collective. A phase begins when all members have done the one before.
int collectivePhases(Kind kind);

/// The work of one member in a collective, or on a channel, where member 0 sends to member 1. It moves bytes into its
/// own operands, and counts those of other members.
struct Share {
  Calls calls; ///< by member
  int64_t member;
  int64_t received = 0; ///< bytes

  const Call &of(int64_t other) const { return *calls[other]; }
  const Call &mine() const { return of(member); }
  int64_t size() const { return std::ssize(calls); }
  /// Copies bytes of `source`.
  void copy(int64_t source, char *to, const char *from, int64_t bytes);
};

/// Runs one phase for share.member. Messages name group and instance.
Status pullCollective(Share &share, int phase, const Group &group, int64_t instance);

/// Runs all phases for all members. Adds the bytes that each receives to `received`.
Status pullWhole(Calls calls, std::span<int64_t> received, const Group &group, int64_t instance);

/// Copies the pieces that one member sends to their places at another member, or at itself. Adds the copied bytes to
/// `bytes`.
Status copyPieces(const Side &from, const Side &to, int64_t &bytes);
/// Fills the pieces that nobody sends to the member.
void fillUnsent(const Call &call, int64_t size, int64_t member);

/// Sums sources[i][0..count) in the order of i; `out` may be one of the sources.
Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype);

/// Sums the gradients of shadows.
Status pullReduceExperts(Share &share);
/// Compares a value that is assumed replicated with member 0's.
Status compareReplicas(const View &mine, const View &first, int64_t member, const Group &group, int64_t instance);

} // namespace moert::host

#endif // MOERT_HOST_COLLECTIVES_H
