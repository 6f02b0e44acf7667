//===- Ragged.h - one member's all_to_all_v -------------------------------===//
#ifndef MOERT_CORE_RAGGED_H
#define MOERT_CORE_RAGGED_H

#include "core/Exchange.h"

namespace moert {

/// Sizes of an all_to_all_v, in the terms of moert.h. They are equal on all members. Devices use them, too.
struct RaggedSizes {
  bool toExperts;
  int64_t blocks, experts, copies, stored, ownExperts;
  int64_t expertRows, blockRows, rowBytes;
  int64_t width, phase, phases; ///< members in a block, number of the exchange phase, and of all

  RaggedSizes(const Call &call, int64_t size);

  /// Number of sources of the expert side: each block of each member that sends.
  constexpr int64_t sources() const { return width * blocks; }
  /// First member of the block whose rows the expert side of `member` has in this phase.
  constexpr int64_t firstSourceOf(int64_t member) const { return (member / width + phase) % phases * width; }
  /// First member of the block whose expert sides have the rows of `member`.
  constexpr int64_t firstHolderOf(int64_t member) const { return (member / width + phases - phase) % phases * width; }
  /// First of the experts that member `holder` holds.
  constexpr int64_t firstExpert(int64_t holder) const { return holder / copies * ownExperts; }
  /// First row of a block on the block side, in the copy whose rows go to `holder` or come from there.
  constexpr int64_t firstRow(int64_t holder, int64_t block) const {
    const int64_t copy = !toExperts || stored > 1 ? holder % copies : 0;
    return (copy * blocks + block) * blockRows;
  }
};

/// One member's all_to_all_v.
class Ragged : RaggedSizes {
public:
  Ragged(const Call &call, int64_t size, int64_t member);

  /// Checks the counts, which come from the plan's memory: rows must stay inside both sides.
  Status check() const;
  void listSent(int64_t to, Pieces &pieces) const;
  void listSentToAll(std::vector<Pieces> &byTarget) const;
  void listReceived(std::vector<Pieces> &bySource) const;
  /// Lists rows of the block side that no expert sends.
  void listFilled(Pieces &pieces) const;

private:
  int64_t blockCount(int64_t block, int64_t expert) const { return blockCounts[block * experts + expert]; }
  int64_t expertCount(int64_t source, int64_t expert) const { return expertCounts[source * ownExperts + expert]; }
  bool isHolder(int64_t member) const { return member >= firstHolder && member < firstHolder + width; }
  /// Number of rows of a block before those for `expert`.
  int64_t rowsBefore(int64_t block, int64_t expert) const;
  Piece rows(int64_t first, int64_t count) const { return {first * rowBytes, count * rowBytes}; }

  void listToExperts(int64_t to, Pieces &pieces) const;
  /// Calls visit(member, piece) for all that goes back, in the order in which each member receives it.
  template <class Visit> void forEachFromExperts(Visit visit) const;
  void listArrived(std::vector<Pieces> &bySource) const;
  void listReturned(std::vector<Pieces> &bySource) const;

  const int32_t *blockCounts;  ///< [blocks, experts]
  const int32_t *expertCounts; ///< [width * blocks, ownExperts]
  int64_t member, firstSource, firstHolder;
};

} // namespace moert

#endif // MOERT_CORE_RAGGED_H
