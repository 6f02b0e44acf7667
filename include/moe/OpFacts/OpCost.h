//===- OpCost.h - what an op needs of the machine ---------------*- C++ -*-===//
//
// The first of three layers: *what* an op needs (here), *how long* that takes on a cluster (moe/Cost/CostModel.h), and
// *when* it runs among others (the simulator). Ops state it through MoeCostOpInterface, and plans carry it as
// #plan.cost.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_OPFACTS_OPCOST_H
#define MOE_OPFACTS_OPCOST_H

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>

namespace mlir::moe {

/// Hardware that an op keeps busy.
enum class Resource : uint8_t {
  None,     ///< no hardware: an alias or a marker
  Matrix,   ///< the device's matrix units, at the rate of the GEMM curve
  Memory,   ///< the device's memory
  Network,  ///< the links between the members of a group
  HostLink, ///< the link between the device and the host's memory
};
inline constexpr unsigned kNumResources = 5;

/// Kinds of work on a device: computation, exchanges with other ranks, and copies to and from the host's memory.
enum class WorkKind : uint8_t { None, Compute, Communication, Copy };
WorkKind getKind(Resource resource);

/// Exchanges between the members of a group. The value in brackets is the one that OpCost::payload counts, as in the
/// papers' formulas.
enum class Collective : uint8_t {
  None,
  AllGather,     ///< (the gathered output)
  ReduceScatter, ///< (the full input)
  AllReduce,     ///< (the full input)
  AllToAll,      ///< (one member's send buffer)
  Broadcast,     ///< (the tensor)
  Reduce,        ///< (the tensor)
};
inline constexpr unsigned kNumCollectives = 7;

/// Name in snake_case, as in #plan.cost and in cluster profiles.
llvm::StringRef getName(Resource resource);
llvm::StringRef getName(Collective collective);
std::optional<Resource> parseResource(llvm::StringRef name);
std::optional<Collective> parseCollective(llvm::StringRef name);

/// A product of `groups` pairs of matrices: [rows, depth] x [depth, columns] each.
struct GemmShape {
  int64_t groups = 0, rows = 0, columns = 0, depth = 0;

  bool operator==(const GemmShape &) const = default;
  double getFlops() const {
    return 2.0 * static_cast<double>(groups) * static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(depth);
  }
};

/// Computation of attention besides its scores' products, whose sizes are those of its GemmShape: a group for each head
/// of each sequence, a row for each query, a column for each key that a query sees on average, and a depth that adds up
/// all products with the scores.
struct AttentionShape {
  int64_t headColumns = 0; ///< columns of a head's keys or values, the larger number; 0: no attention
  int64_t products = 0;    ///< number of products with the scores: 2 forward, 5 backward

  bool operator==(const AttentionShape &) const = default;
};

/// Number of other members to which a member sends, and from which it receives, in phase `phase` of `phases` of an
/// all_to_all. With one phase it is all other members. OpCost defines which members they are.
int64_t getNumPeers(int64_t members, int64_t phase, int64_t phases);

/// Needs of one op on one rank.
struct OpCost {
  Resource resource = Resource::None;
  double flops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
  /// Product of Resource::Matrix. `raggedDepth` tells that the rows of experts in a ragged product are its depth (a
  /// weight gradient) and not its rows.
  GemmShape gemm;
  bool raggedDepth = false;
  AttentionShape attention;
  /// Exchange of Resource::Network, its bytes on one member, and the member that owns the value, if one does.
  Collective collective = Collective::None;
  int64_t payload = 0;
  int64_t root = 0;
  /// Phase of an all_to_all that is split into `phases` launches. The members are `phases` blocks of neighbours. In
  /// phase p, block b only sends to block b - p and receives from block b + p, modulo `phases`. `payload` is the size
  /// of a member's send buffer, with its part for itself, divided by `phases`. A ragged exchange that returns rows from
  /// experts (peerDim 0) has the opposite direction: block b returns the rows that block b + p sent in phase p.
  int64_t phase = 0, phases = 1;
  /// Number of rows for which the costs hold, in the dropless form. All costs scale with the rows in use, which are the
  /// sum of input number `countsInput` of the kernel, [sources, experts] i32. 0 means that the costs are fixed.
  int64_t raggedRows = 0;
  int64_t countsInput = -1;
  /// Dimension of input `countsInput` that has one equal part for each member, in a ragged all_to_all.
  int64_t peerDim = -1;
  /// Number of neighbouring members that hold each expert in such an exchange. All of them get its rows, and all their
  /// results return. With peerDim 1, the counts have one part per `copies` members. Payload and rows include every
  /// copy.
  int64_t copies = 1;

  bool operator==(const OpCost &) const = default;

  int64_t getBytesMoved() const { return bytesRead + bytesWritten; }
  /// Bytes of a row in a ragged exchange, whose payload and rows are those of a phase; 0 in other ops.
  int64_t getRowBytes() const { return raggedRows > 0 && collective != Collective::None ? payload / raggedRows : 0; }
  /// Sum of the counts of a ragged op if raggedRows are used. Rows that go to the experts are counted once, whatever
  /// their copies.
  int64_t getCountedRows() const { return peerDim == 1 ? raggedRows / copies : raggedRows; }
  /// Phase p of an all_to_all such that block b sends to block b - p. It differs from `phase` if rows return.
  int64_t getSendPhase() const { return peerDim == 0 ? (phases - phase) % phases : phase; }
  /// Whether member `from` of `members` sends to member `to` in this phase of an all_to_all.
  bool isPeer(int64_t members, int64_t from, int64_t to) const;
  /// Bytes that member `from` of `members` must send to member `to`, with even routing, and 0 to itself. Algorithms may
  /// send more. A broadcast and a reduce visit each member once, from neighbour to neighbour.
  int64_t getBytesToPeer(int64_t members, int64_t from, int64_t to) const;
  /// Bytes to all other members, the mean over `from`.
  int64_t getBytesSent(int64_t members) const;
};

llvm::hash_code hash_value(const OpCost &cost);

} // namespace mlir::moe

#endif // MOE_OPFACTS_OPCOST_H
