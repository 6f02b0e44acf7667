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

/// What algorithms know of a cluster.
struct NodeLayout {
  int64_t devicesPerNode = 1;
  std::vector<uint32_t> exits; ///< by device: its way out of the node; equal where devices share one, such as a NIC
  /// Whether the switch inside a node, and the one between nodes, adds up.
  bool nodeReduces = false, networkReduces = false;
};

struct Send {
  uint32_t to; ///< a member
  double bytes;
  uint32_t messages = 1; ///< that the bytes are sent in
};

/// A part of an algorithm. A member enters it when all that it sends and receives in the parts before has ended.
struct Phase {
  /// Members pass on what they receive in small pieces: all sends are under way at once and end together, and the first
  /// byte goes over `hops`, one after the other, `rounds` times. Else a member does its sends in their order, up to
  /// kSendsAtOnce at a time.
  bool isPipelined = false;
  std::vector<std::pair<uint32_t, uint32_t>> hops; ///< from and to, members
  uint32_t rounds = 1;
  std::vector<Send> sends;     ///< by member
  std::vector<uint32_t> begin; ///< of each member's sends, and the end

  llvm::ArrayRef<Send> getSends(uint32_t member) const {
    return llvm::ArrayRef(sends).slice(begin[member], begin[member + 1] - begin[member]);
  }
};

/// With one, senders of uneven bytes wait for the same receiver and leave ways out of nodes idle. NCCL has up to eight
/// under way, which is not more than 5% faster than two and takes ten times as long to compute.
inline constexpr size_t kSendsAtOnce = 2;

/// n members, payload x as in OpCost. *Channels*: where the group has several nodes, as many as ways out of each node
/// lead from its members; each has a part of the bytes. Channel c leaves every node at the last member on way c.
///   ring: one pipelined phase; in each channel a ring of all members, node by node. all_gather, reduce_scatter: x (n -
///   1) / n from each member to the next; all_reduce: twice that; broadcast, reduce: x, but none into the root, or none
///   out of it;
///   tree (broadcast, reduce): a pipelined binomial tree, the longest strides next to the root: x on each edge;
///   tree (all_reduce): in each channel a chain in each node from the member where the channel leaves, and two binary
///   trees of nodes with half of the bytes each, where inner nodes of one are leaves of the other: up and down;
///   nvls (all_reduce), d members on each node: the node's switch adds up and copies, so that x (1 + 1 / d) go from
///   each member to the switch and back; x / d of each then go over the tree's nodes, or once to the network and back
///   where that adds up;
///   pairwise (all_to_all): one phase of n - 1 sends, to the next node, then to the one after it, .., and to the own
///   node in between: x / n each, or what the matrix says, where zeros are skipped;
///   hierarchical, d members on each of k nodes, `same index` being those with the same place in their nodes:
///     all_to_all: pairwise inside nodes, what is for all members of the same index; then pairwise between same
///     indices; reduce_scatter: one pipelined phase of rings of x / d inside nodes, and of x / n between same indices;
///     all_gather: the same; all_reduce: twice. With one node, or one member a node, what is left of that.
/// One of several phases of an all_to_all is pairwise whatever the algorithm: x / members of a block to each of its
/// peers.
/// Members are `exchange.ranks`; rank r is on node r / devicesPerNode. Sends are those of the first `senders` members
/// only. The error names what was expected.
llvm::Expected<std::vector<Phase>> makePhases(const GroupExchange &exchange, Algorithm algorithm,
                                              const NodeLayout &layout, size_t senders = ~size_t(0));

/// How many members each node has, where it is the same for all that have any; else 0.
int64_t getMembersPerNode(llvm::ArrayRef<int64_t> ranks, int64_t devicesPerNode);

} // namespace mlir::moe

#endif // MOE_LIB_COST_COLLECTIVEFLOWS_H
