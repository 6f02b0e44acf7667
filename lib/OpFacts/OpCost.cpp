//===- OpCost.cpp - what an op needs of the machine -----------------------===//
#include "moe/OpFacts/OpCost.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <algorithm>

using namespace mlir::moe;

static constexpr llvm::StringLiteral resourceNames[kNumResources] = {"none", "matrix", "memory", "network",
                                                                     "host_link"};
static constexpr llvm::StringLiteral collectiveNames[kNumCollectives] = {
    "none", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce"};

llvm::StringRef mlir::moe::getName(Resource resource) { return resourceNames[static_cast<unsigned>(resource)]; }
llvm::StringRef mlir::moe::getName(Collective collective) { return collectiveNames[static_cast<unsigned>(collective)]; }

WorkKind mlir::moe::getKind(Resource resource) {
  constexpr WorkKind kinds[kNumResources] = {WorkKind::None, WorkKind::Compute, WorkKind::Compute,
                                             WorkKind::Communication, WorkKind::Copy};
  return kinds[static_cast<unsigned>(resource)];
}

template <typename Enum>
static std::optional<Enum> parseName(llvm::ArrayRef<llvm::StringLiteral> names, llvm::StringRef name) {
  const auto *found = llvm::find(names, name);
  if (found == names.end())
    return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}
std::optional<Resource> mlir::moe::parseResource(llvm::StringRef name) {
  return parseName<Resource>(resourceNames, name);
}
std::optional<Collective> mlir::moe::parseCollective(llvm::StringRef name) {
  return parseName<Collective>(collectiveNames, name);
}

/// Keeps the divisor at least 1. A group that the phases do not divide is refused elsewhere.
static int64_t getBlockSize(int64_t members, int64_t phases) { return std::max<int64_t>(1, members / phases); }

int64_t mlir::moe::getNumPeers(int64_t members, int64_t phase, int64_t phases) {
  return getBlockSize(members, phases) - (phase == 0 ? 1 : 0);
}

bool OpCost::isPeer(int64_t members, int64_t from, int64_t to) const {
  int64_t size = getBlockSize(members, phases);
  return to / size == (from / size + phases - getSendPhase()) % phases;
}

int64_t OpCost::getBytesToPeer(int64_t members, int64_t from, int64_t to) const {
  if (from == to || members < 2)
    return 0;
  switch (collective) {
  case Collective::None:
    return 0;
  case Collective::AllGather:
  case Collective::ReduceScatter:
    return payload / members;
  case Collective::AllToAll:
    return isPeer(members, from, to) ? payload / getBlockSize(members, phases) : 0;
  case Collective::AllReduce:
    return 2 * (payload / members);
  case Collective::Broadcast:
  case Collective::Reduce: {
    if (to != (from + 1) % members)
      return 0;
    // Mean over the possible owners of values that have several.
    if (raggedRows > 0)
      return payload / members * (members - 1);
    return (collective == Collective::Broadcast ? to : from) == root ? 0 : payload;
  }
  }
  return 0;
}

int64_t OpCost::getBytesSent(int64_t members) const {
  if (members < 2)
    return 0;
  if (phases > 1)
    return payload / getBlockSize(members, phases) * getNumPeers(members, phase, phases);
  // Number of times that the payload is sent: a broadcast goes through all members but the last of a chain, and a
  // reduce through all but the owner.
  double passes = collective == Collective::None ? 0 : collective == Collective::AllReduce ? 2 : 1;
  return static_cast<int64_t>(passes * static_cast<double>(payload) * static_cast<double>(members - 1) /
                              static_cast<double>(members));
}

llvm::hash_code mlir::moe::hash_value(const OpCost &cost) {
  return llvm::hash_combine(cost.resource, llvm::bit_cast<uint64_t>(cost.flops), cost.bytesRead, cost.bytesWritten,
                            cost.gemm.groups, cost.gemm.rows, cost.gemm.columns, cost.gemm.depth, cost.raggedDepth,
                            cost.attention.headColumns, cost.attention.products, cost.collective, cost.payload,
                            cost.root, cost.phase, cost.phases, cost.raggedRows, cost.countsInput, cost.peerDim,
                            cost.copies);
}
