//===- CollectiveFlows.h - collectives as flows -----------------*- C++ -*-===//
//
// What each member of a group sends to whom, in which order, when it carries out a collective by a given algorithm. The
// link-level form plays this, the closed form adds it up.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_COST_COLLECTIVEFLOWS_H
#define MOE_LIB_COST_COLLECTIVEFLOWS_H

#include "moe/Cost/CostModel.h"

namespace mlir::moe {

struct Send {
  uint32_t to; ///< a member
  double bytes;
};

/// A part of an algorithm. A member enters it when all that it sends and receives in the parts before has ended; in it
/// the member does its sends one after another. `repeats` such parts follow each other.
struct Phase {
  uint32_t repeats = 1;
  /// Members pass on what they receive as it comes: all send at once, and the first byte takes all ways one after the
  /// other.
  bool isPipelined = false;
  std::vector<Send> sends;     ///< by member
  std::vector<uint32_t> begin; ///< of each member's sends, and the end

  llvm::ArrayRef<Send> getSends(uint32_t member) const {
    return llvm::ArrayRef(sends).slice(begin[member], begin[member + 1] - begin[member]);
  }
};

/// n members, payload x as in OpCost:
///   ring (all_gather, reduce_scatter, all_reduce): n - 1 phases, 2 (n - 1) for all_reduce: x / n to the next member;
///   ring (broadcast, reduce): one pipelined phase, x from each member to the next one; none into the root of a
///     broadcast, none out of that of a reduce;
///   tree (broadcast, reduce; all_reduce: both): ceil(log2 n) phases of a binomial tree, the longest strides next to
///   the root:
///     x on each edge;
///   pairwise (all_to_all): one phase of n - 1 sends, to the next member, the one after it, ..: x / n each, or what the
///   matrix
///     says, where zeros are skipped;
///   hierarchical, d members on each of k nodes, `same index` being those with the same place in their nodes:
///     all_to_all: pairwise inside nodes, what is for all members of the same index; then pairwise between same
///     indices; reduce_scatter: rings of x / d inside nodes, then of x / n between same indices; all_gather: the
///     reverse; all_reduce: both. With one node, or one member a node, what is left of that: the plain algorithm.
/// One of several phases of an all_to_all is pairwise whatever the algorithm: x / members of a block to each of its
/// peers.
/// Members are `exchange.ranks`; rank r is on node r / devicesPerNode. Sends are those of the first `senders` members
/// only. The error names what was expected.
llvm::Expected<std::vector<Phase>> makePhases(const Exchange &exchange, Algorithm algorithm, int64_t devicesPerNode,
                                              size_t senders = ~size_t(0));

/// How many members each node has, where it is the same for all that have any; else 0.
int64_t getMembersPerNode(llvm::ArrayRef<int64_t> ranks, int64_t devicesPerNode);

} // namespace mlir::moe

#endif // MOE_LIB_COST_COLLECTIVEFLOWS_H
