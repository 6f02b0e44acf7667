//===- Exchange.h - who sends what to whom in a collective ----------------===//
//
// Describes collectives that move bytes and compute nothing, for all communicators: the runs of bytes that a member
// sends to another one, and the place to which that member puts them. The caller must be able to read counts and the
// flags of shadows.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_EXCHANGE_H
#define MOERT_CORE_EXCHANGE_H

#include "core/Call.h"

#include <span>
#include <vector>

namespace moert {

/// A run of bytes of an operand.
struct Piece {
  int64_t offset;
  int64_t bytes;
};
using Pieces = std::vector<Piece>;
int64_t bytesOf(const Pieces &pieces);

/// Checks operands and attributes of the call of `member` on a group of `size`. Reads no values.
Status checkCollective(const Call &call, int64_t size, int64_t member);

/// Whether the collective only moves bytes. Sums and the check of replicas do not.
bool isExchange(Kind kind);
/// Operands whose values a communicator must read: counts, and flags of shadows.
std::span<const size_t> valueOperands(Kind kind);

/// Operands that a collective takes values from and gives them to. A send and a receive have one operand, which is
/// both.
const View &sentOperand(const Call &call);
const View &receivedOperand(const Call &call);

/// Checks the values that `call` of `member` depends on: they must stay inside the operands.
Status checkExchangeValues(const Call &call, int64_t size, int64_t member);
/// Checks the values that must be equal on all members, if the caller can read other members' values. `first` is member
/// 0's call.
Status checkAlike(const Call &call, int64_t member, const Call &first);

/// Lists what `member` of `size` sends to `to`, which may be itself: pieces of sentOperand, in the number and order in
/// which `to` lists them for `member`. On a channel, member 0 of 2 sends to member 1.
void piecesSent(const Call &call, int64_t size, int64_t member, int64_t to, Pieces &pieces);
/// Lists what it sends to each member, by target.
void piecesSentToAll(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &byTarget);
/// Lists what `member` receives, by source: pieces of receivedOperand.
void piecesReceived(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &bySource);
/// Lists the pieces of receivedOperand that nobody sends. They become the same pieces of `addend`, or zero if it is
/// absent.
void piecesFilled(const Call &call, int64_t size, int64_t member, Pieces &pieces, View &addend);

/// Bytes that `member` receives in a collective that sums `count` elements of its input. Each member takes the others'
/// inputs of its segment of the elements, and then the others' sums, if it needs them.
int64_t summedBytes(const Call &call, int64_t size, int64_t member, int64_t count);

/// Number of elements that an all_reduce sums: all, or those of the used rows.
Status reducedElements(const Call &call, int64_t &elements);

/// A value [.., size * n, ..] that is cut along `dim` into `parts`. Each part has `outer` runs of `run` bytes. Run o of
/// part p begins at (o * parts + p) * run.
struct Cut {
  int64_t outer = 1;
  int64_t run = 0;
  int64_t parts;

  Cut(const View &whole, int64_t dim, int64_t parts);
  /// Copies the parts one after another, each as it is alone.
  void pack(const char *from, char *to) const;
};

/// Experts that a member owns in reduce_experts: `count` experts of `elements` elements and `bytes` bytes each, from
/// number `first` on. Inputs hold shadowed experts alone, and there the member's experts begin at number `place`.
struct OwnedExperts {
  int64_t count, elements, bytes, first, place = 0;

  OwnedExperts(const Call &call, int64_t member);
};

/// Pieces that a member sends to another one, or receives from it.
struct Side {
  const Call &call;
  int64_t member;
  const Pieces &pieces;
};
/// Fails unless the pieces of `from` have the sizes that `to` expects.
Status checkPieces(const Side &from, const Side &to);
Status piecesDisagree(const Call &call, int64_t from, int64_t to);

} // namespace moert

#endif // MOERT_CORE_EXCHANGE_H
