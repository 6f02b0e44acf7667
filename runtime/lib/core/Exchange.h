//===- Exchange.h - who sends what to whom in a collective ----------------===//
//
// The collectives that move bytes and compute nothing, said once for all communicators: which runs of bytes of its
// input a member sends to another one, and where that one puts them. Counts, and which experts are shadows, must be
// readable by the caller.
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

/// Checks operands and attributes of the call of `member` on a group of `size`; reads no values.
Status checkCollective(const Call &call, int64_t size, int64_t member);

/// Whether the collective only moves bytes: all but those that sum, and the check of replicas.
bool isExchange(Kind kind);
/// The operands whose values a communicator must read: counts, and which experts are shadows.
std::span<const size_t> valueOperands(Kind kind);

/// The operands that a collective takes values from and gives them to. A send receives nothing, a receive sends
/// nothing.
const View &sentOperand(const Call &call);
const View &receivedOperand(const Call &call);

/// Checks the values that `call` of `member` hangs on: they must stay inside the operands.
Status checkExchangeValues(const Call &call, int64_t size, int64_t member);
/// Checks the values that all members must have alike, for who can read another member's: `first` is member 0's call.
Status checkAlike(const Call &call, int64_t member, const Call &first);

/// What `member` of `size` sends to `to`, which may be itself: pieces of sentOperand, as many as `to` lists for
/// `member` and in the same order. Of a channel, member 0 of 2 sends to member 1.
void piecesSent(const Call &call, int64_t size, int64_t member, int64_t to, Pieces &pieces);
/// The same of what it sends to each, by target.
void piecesSentToAll(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &byTarget);
/// What `member` receives, by source: pieces of receivedOperand.
void piecesReceived(const Call &call, int64_t size, int64_t member, std::vector<Pieces> &bySource);
/// The pieces of receivedOperand that nobody sends: they become the same pieces of `addend`, or zero where it is
/// absent.
void piecesFilled(const Call &call, int64_t size, int64_t member, Pieces &pieces, View &addend);

/// Bytes that `member` receives in a collective that sums `count` elements of its input, where members share the work:
/// each takes the others' inputs of its segment of the elements, then, as far as it wants them, the others' sums.
int64_t summedBytes(const Call &call, int64_t size, int64_t member, int64_t count);

/// The elements that an all_reduce sums: all, or those of the used rows.
Status reducedElements(const Call &call, int64_t &elements);

/// A value [.., size * n, ..] cut along `dim` into `parts`: `outer` runs of `run` bytes for each part, that of part p
/// of run o at (o * parts + p) * run.
struct Cut {
  int64_t outer = 1;
  int64_t run = 0;

  Cut(const View &whole, int64_t dim, int64_t parts);
};

/// The experts that a member owns, as reduce_experts has them: `count` of `elements` and `bytes` each, the first of
/// them number `first` of all. In the inputs, which hold shadowed experts alone, theirs are from number `place` on.
struct OwnedExperts {
  int64_t count, elements, bytes, first, place = 0;

  OwnedExperts(const Call &call, int64_t member);
};

/// What a member sends to another one, or receives from it.
struct Side {
  const Call &call;
  int64_t member;
  const Pieces &pieces;
};
/// Whether `from` sends what `to` expects of it, and the error where that is known not to be so.
Status checkPieces(const Side &from, const Side &to);
Status piecesDisagree(const Call &call, int64_t from, int64_t to);

} // namespace moert

#endif // MOERT_CORE_EXCHANGE_H
