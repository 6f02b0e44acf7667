//===- ClusterRates.h - what passes know of a cluster -----------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_CLUSTERRATES_H
#define MOE_DIALECT_MOE_IR_CLUSTERRATES_H

#include "llvm/ADT/Hashing.h"

#include <cstdint>

namespace mlir::moe {

/// What #moe.cluster holds, in SI units. Rates are of one rank and a second, except where said. A rate of 0 is not
/// known. The first ones default to those of devices of 2024, which is enough to compare the stages of a pipeline.
struct ClusterRates {
  /// Consecutive ranks that share a node.
  int64_t nodeRanks = 8;
  /// Floating-point operations of products, and bytes of the device's memory.
  double flops = 5e14, memoryBytes = 3e12;
  /// Bytes exchanged with ranks of the same node, and of other nodes.
  double insideBytes = 4e11, outsideBytes = 5e10;

  /// At the sizes of the model's first MoE layer: the experts' products, bytes of a member's send buffer in an exchange
  /// of the experts' rows, seconds of that exchange without bytes, and bytes of one expert's weights sent to all.
  double expertFlops = 0, expertBytes = 0, expertStart = 0, broadcastBytes = 0;
  /// Bytes over a rank's own link, and over all that connects one node to others. 0 where one node has all that
  /// exchange.
  double linkBytes = 0, nodeLinkBytes = 0;

  /// Parm's Eq. 12, alpha in seconds and beta in seconds a byte: EP&ESP-AlltoAll, MP-AllGather, and S2's second
  /// AlltoAll with its MP-AllGather, by the bytes of the former.
  double allToAllAlpha = 0, allToAllBeta = 0;
  double allGatherAlpha = 0, allGatherBeta = 0;
  double overlappedAlpha = 0, overlappedBeta = 0;

  bool operator==(const ClusterRates &) const = default;

  /// Calls `visitor(name, member)` for each rate, with its name in #moe.cluster.
  template <typename Rates, typename Visitor> static void visitRates(Rates &rates, Visitor &&visitor) {
    visitor("flops", rates.flops);
    visitor("memory_bytes", rates.memoryBytes);
    visitor("inside_bytes", rates.insideBytes);
    visitor("outside_bytes", rates.outsideBytes);
    visitor("expert_flops", rates.expertFlops);
    visitor("expert_bytes", rates.expertBytes);
    visitor("expert_start", rates.expertStart);
    visitor("broadcast_bytes", rates.broadcastBytes);
    visitor("link_bytes", rates.linkBytes);
    visitor("node_link_bytes", rates.nodeLinkBytes);
    visitor("all_to_all_alpha", rates.allToAllAlpha);
    visitor("all_to_all_beta", rates.allToAllBeta);
    visitor("all_gather_alpha", rates.allGatherAlpha);
    visitor("all_gather_beta", rates.allGatherBeta);
    visitor("overlapped_alpha", rates.overlappedAlpha);
    visitor("overlapped_beta", rates.overlappedBeta);
  }
};

llvm::hash_code hash_value(const ClusterRates &rates);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_CLUSTERRATES_H
