//===- ClusterRates.h - what passes know of a cluster -----------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_CLUSTERRATES_H
#define MOE_DIALECT_MOE_IR_CLUSTERRATES_H

#include "llvm/ADT/Hashing.h"

#include <cstdint>

namespace mlir::moe {

/// The rates of #moe.cluster in SI units, of one rank and a second unless stated otherwise. A rate of 0 is unknown. The
/// first rates default to those of devices of 2024, which is enough to compare the stages of a pipeline.
struct ClusterRates {
  /// Number of consecutive ranks that share a node.
  int64_t nodeRanks = 8;
  /// Floating-point operations of products, and bytes of the device's memory.
  double flops = 5e14, memoryBytes = 3e12;
  /// Bytes exchanged with ranks of the same node, and of other nodes.
  double insideBytes = 4e11, outsideBytes = 5e10;

  /// Rates at the sizes of the model's first MoE layer: operations of the experts' products, bytes of a member's send
  /// buffer in an exchange of the experts' rows, seconds of that exchange without bytes, and bytes of one expert's
  /// weights sent to all members.
  double expertFlops = 0, expertBytes = 0, expertStart = 0, broadcastBytes = 0;
  /// Bytes over a rank's own link, and over all links of a node to other nodes. They are 0 if one node has all ranks of
  /// the exchange.
  double linkBytes = 0, nodeLinkBytes = 0;

  /// Terms of Parm's Eq. 12, alpha in seconds and beta in seconds a byte: of EP&ESP-AlltoAll, of MP-AllGather, and of
  /// S2's second AlltoAll with its MP-AllGather, by the bytes of the AlltoAll.
  double allToAllAlpha = 0, allToAllBeta = 0;
  double allGatherAlpha = 0, allGatherBeta = 0;
  double overlappedAlpha = 0, overlappedBeta = 0;

  bool operator==(const ClusterRates &) const = default;
};

llvm::hash_code hash_value(const ClusterRates &rates);

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_IR_CLUSTERRATES_H
