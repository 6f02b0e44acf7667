//===- CollectiveFlows.h - collectives as flows -----------------*- C++ -*-===//
//
// The sends of each member of a group, in order, for a collective by a given algorithm. The link-level form simulates
// them, and the closed form adds them up.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_COST_COLLECTIVEFLOWS_H
#define MOE_LIB_COST_COLLECTIVEFLOWS_H

#include "moe/Cost/CostModel.h"

namespace mlir::moe {

/// Facts about a cluster that algorithms use.
struct NodeLayout {
  int64_t devicesPerNode = 1;
  std::vector<uint32_t> exits; ///< exit from the node, by device; equal for devices that share one, such as a NIC
  /// Whether the switches inside nodes, and those between nodes, add up values.
  bool nodeReduces = false, networkReduces = false;
};

struct Send {
  uint32_t to; ///< receiving member
  double bytes;
  uint32_t messages = 1; ///< number of messages for the bytes
};

/// A part of an algorithm. A member enters it when all its sends and receives of earlier parts have ended.
struct Phase {
  /// In a pipelined phase, members pass on what they receive in small pieces: all sends run at the same time and end
  /// together. The first byte goes over `hops` in order, `rounds` times. In any other phase, a member starts its sends
  /// in order, up to kSendsAtOnce at a time.
  bool isPipelined = false;
  std::vector<std::pair<uint32_t, uint32_t>> hops; ///< pairs of sender and receiver
  uint32_t rounds = 1;
  std::vector<Send> sends;     ///< sends by member
  std::vector<uint32_t> begin; ///< begin of each member's sends, and the end

  llvm::ArrayRef<Send> getSends(uint32_t member) const {
    return llvm::ArrayRef(sends).slice(begin[member], begin[member + 1] - begin[member]);
  }
};

/// Number of sends at the same time. With one, senders of uneven bytes wait for the same receiver and leave the exits
/// of nodes idle. NCCL has up to eight, which is at most 5% faster than two and takes ten times as long to compute.
inline constexpr size_t kSendsAtOnce = 2;

/// Makes the phases of an exchange, as docs/CostModel.md describes the algorithms. Only the first `senders` members
/// send. Rank r is on node r / devicesPerNode. Channel c leaves every node at the last member with exit c. The text of
/// an error is the expectation.
llvm::Expected<std::vector<Phase>> makePhases(const GroupExchange &exchange, Algorithm algorithm,
                                              const NodeLayout &layout, size_t senders = ~size_t(0));

/// Number of members on each node if all nodes with members have the same number; else 0.
int64_t getMembersPerNode(llvm::ArrayRef<int64_t> ranks, int64_t devicesPerNode);

} // namespace mlir::moe

#endif // MOE_LIB_COST_COLLECTIVEFLOWS_H
