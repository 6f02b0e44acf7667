//===- Exchanges.h - exchanges of groups ------------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_EXCHANGES_H
#define MOE_LIB_SIMULATOR_EXCHANGES_H

#include "Counts.h"

#include "moe/Cost/CostModel.h"

namespace mlir::moe {

/// Makes the cost model's exchanges from launches in which members meet.
class Exchanges {
public:
  Exchanges(const SimWorld &world, Counts &counts) : world(world), counts(counts) {}

  /// Ranks that meet in the launch, by member. Valid until the next call.
  llvm::ArrayRef<int64_t> getMembers(int64_t rank, uint32_t launch);
  /// Uses the payload of `rank` if all members have the same, and the bytes of each member if a trace says that they
  /// differ. Valid until the next call.
  llvm::Expected<GroupExchange> make(int64_t rank, uint32_t launch);
  /// Bytes that a rank sends to the other members.
  llvm::Expected<double> getBytesSent(int64_t rank, uint32_t launch);
  /// Bytes that a rank sends to each member, if a trace says that members differ; else empty.
  llvm::Expected<llvm::SmallVector<int64_t>> getPairBytes(int64_t rank, uint32_t launch);
  /// Adds the bytes that a rank sends to each other rank to `to[rank]`.
  llvm::Error addBytesSent(int64_t rank, uint32_t launch, llvm::MutableArrayRef<double> to, double times);

private:
  /// Share of a ragged exchange's rows that a rank sends; 1 for other exchanges.
  llvm::Expected<double> getUse(int64_t rank, uint32_t launch);
  llvm::Error addRow(int64_t rank, uint32_t launch, int64_t members, llvm::SmallVectorImpl<int64_t> &bytes);
  bool hasMatrix(const SimLaunch &launch) const;

  const SimWorld &world;
  Counts &counts;
  llvm::SmallVector<int64_t> ranks, matrix;
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_EXCHANGES_H
