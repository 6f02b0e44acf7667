//===- OpCost.h - what an op needs of the machine ---------------*- C++ -*-===//
//
// The first of three layers: *what* an op needs (here), *how long* that takes on a cluster (moe/Cost/CostModel.h), and
// *when* it runs among others (the simulator). Ops state it through MoeCostOpInterface; plans carry it as #plan.cost.
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

/// What an op keeps busy.
enum class Resource : uint8_t {
  None,     ///< nothing: an alias or a marker
  Matrix,   ///< the device's matrix units, at the rate of the GEMM curve
  Memory,   ///< the device's memory
  Network,  ///< the links between the members of a group
  HostLink, ///< the link between the device and the host's memory
};
inline constexpr unsigned kNumResources = 5;

/// How the members of a group exchange data. In brackets, what OpCost::payload counts, as in the papers' formulas.
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

/// snake_case, as in #plan.cost and in cluster profiles.
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

/// What attention computes besides its scores' products, whose sizes are those of its GemmShape: a group for each head
/// of each sequence, a row for each query, a column for each key that a query sees on average, and a depth that adds up
/// all products with the scores.
struct AttentionShape {
  int64_t headColumns = 0; ///< of a head: the most of its keys and its values; 0: no attention
  int64_t products = 0;    ///< with the scores: 2 forward, 5 backward

  bool operator==(const AttentionShape &) const = default;
};

/// How many other members one sends to, and receives from, in phase `phase` of `phases` of an all_to_all: all others
/// where there is one phase. OpCost says who they are.
int64_t getNumPeers(int64_t members, int64_t phase, int64_t phases);

/// What one op needs on one rank.
struct OpCost {
  Resource resource = Resource::None;
  double flops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
  /// Of Resource::Matrix. Of a ragged one, `raggedDepth` says that the experts' rows are its depth (a weight gradient)
  /// and not its rows.
  GemmShape gemm;
  bool raggedDepth = false;
  AttentionShape attention;
  /// Of Resource::Network: the exchange, its bytes on one member, and the member that owns the value where one does.
  Collective collective = Collective::None;
  int64_t payload = 0;
  int64_t root = 0;
  /// An all_to_all may take place in `phases` launches, of which this is number `phase`. The members are `phases`
  /// blocks of neighbours; in phase p block b sends to block b - p alone and receives from block b + p, both modulo
  /// `phases`. `payload` is what a member would send in this phase, to itself included: its whole send buffer / phases.
  /// A ragged one whose rows come back from the experts (peerDim 0) goes the other way: what block b + p sent in phase
  /// p returns to it.
  int64_t phase = 0, phases = 1;
  /// Dropless form: the rows for which the figures hold. All of them scale with the rows really used, which are the sum
  /// of the kernel's input number `countsInput`, [sources, experts] i32. 0: the figures are fixed.
  int64_t raggedRows = 0;
  int64_t countsInput = -1;
  /// Of a ragged all_to_all: the dimension of that input whose equal parts are the rows for each member.
  int64_t peerDim = -1;
  /// Of such an exchange: each expert is held by so many neighbouring members, which all get its rows, and whose
  /// results all come back. With peerDim 1 the counts have a part for each `copies` members. Payload and rows count
  /// every copy.
  int64_t copies = 1;

  bool operator==(const OpCost &) const = default;

  int64_t getBytesMoved() const { return bytesRead + bytesWritten; }
  /// What the counts of a ragged op add up to where raggedRows are used. Rows that go to the experts are counted once,
  /// whatever their copies.
  int64_t getCountedRows() const { return peerDim == 1 ? raggedRows / copies : raggedRows; }
  /// The phase p of an all_to_all, such that block b sends to block b - p: not `phase` where rows come back.
  int64_t getSendPhase() const { return peerDim == 0 ? (phases - phase) % phases : phase; }
  /// Of an all_to_all: whether member `from` of `members` sends to member `to` in this phase.
  bool isPeer(int64_t members, int64_t from, int64_t to) const;
  /// Bytes that member `from` of `members` must get to member `to`, with even routing; 0 to itself. The least that does
  /// it: an algorithm may send more. A broadcast and a reduce pass each member once, from neighbour to neighbour.
  int64_t getBytesToPeer(int64_t members, int64_t from, int64_t to) const;
  /// The same to all other members, the mean over `from`.
  int64_t getBytesSent(int64_t members) const;
};

llvm::hash_code hash_value(const OpCost &cost);

} // namespace mlir::moe

#endif // MOE_OPFACTS_OPCOST_H
