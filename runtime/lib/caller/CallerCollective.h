//===- CallerCollective.h - collectives by a caller's functions -*- C++ -*-===//
#ifndef MOERT_CALLER_CALLERCOLLECTIVE_H
#define MOERT_CALLER_CALLERCOLLECTIVE_H

#include "core/Exchange.h"
#include "core/Metadata.h"
#include "moert/world.h"

namespace moert::caller {

/// Runs one rank's share of collectives over several ranks. Its sums equal those of backend host bit for bit: members
/// exchange their inputs and add them in the order of members.
class CallerCollectives {
public:
  CallerCollectives(const moert_communicator &table, const std::vector<Group> &groups) : table(table), groups(groups) {}

  /// Runs the collective until it is done. `received` bytes came from other members.
  Status run(const Call &call, int64_t &received);

private:
  Status exchange(const Call &call);
  Status exchangePieces(const Call &call);
  Status allReduce(const Call &call);
  Status reduceScatter(const Call &call);
  Status reduce(const Call &call);
  Status reduceExperts(const Call &call);
  Status compareReplicas(const Call &call);
  Status sumAll(const Call &call, int64_t count);
  Status sumParts(const char *parts, int64_t bytes, int32_t dtype, const void *own, void *out);
  Status sumSegments(const void *in, int64_t elements, int32_t dtype, void *out);
  Status allToAll(const void *send, std::span<const int64_t> sent, void *receive, std::span<const int64_t> bytes);
  Status allGather(const void *send, int64_t bytes, void *receive);
  Status located(int32_t code, const char *function) const;
  int64_t size() const { return members.count; }

  const moert_communicator &table;
  const std::vector<Group> &groups;
  // State of the running collective.
  const Group *group = nullptr;
  int64_t instance = 0;
  std::vector<int64_t> ranks;
  moert_members members{};
  int64_t received = 0;
  // Memory that grows, and that the next collective uses again.
  std::vector<char> outgoing, incoming, ownSum;
};

} // namespace moert::caller

#endif // MOERT_CALLER_CALLERCOLLECTIVE_H
