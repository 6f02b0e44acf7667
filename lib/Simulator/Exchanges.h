//===- Exchanges.h - what the members of a group exchange -------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_EXCHANGES_H
#define MOE_LIB_SIMULATOR_EXCHANGES_H

#include "Counts.h"

#include "moe/Cost/CostModel.h"

namespace mlir::moe {

/// Makes the cost model's exchanges of the launches in which members meet.
class Exchanges {
public:
  Exchanges(const SimWorld &world, Counts &counts);

  /// The ranks that meet there, by member. Valid until the next call.
  llvm::ArrayRef<int64_t> getMembers(int64_t rank, uint32_t launch);
  /// With what `rank` brings where all members are the same, with what each brings where a trace says that they are
  /// not. Valid until the next call.
  llvm::Expected<GroupExchange> make(int64_t rank, uint32_t launch);
  /// Bytes that a rank sends to the other members.
  llvm::Expected<double> getBytesSent(int64_t rank, uint32_t launch);
  /// Adds the bytes that a rank sends to each other one: `to[rank]`.
  llvm::Error addBytesSent(int64_t rank, uint32_t launch, llvm::MutableArrayRef<double> to, double times);

  /// Exchanges that differ by no more than the ranks and the rows used have one number.
  uint32_t getKind(uint32_t program, uint32_t launch) const { return kinds[program][launch]; }

private:
  /// The share of a ragged exchange's rows that a rank sends; 1 for others.
  llvm::Expected<double> getUse(int64_t rank, uint32_t launch);
  llvm::Error addRow(int64_t rank, uint32_t launch, int64_t members, llvm::SmallVectorImpl<int64_t> &bytes);
  bool hasMatrix(const SimLaunch &launch) const;

  const SimWorld &world;
  Counts &counts;
  std::vector<std::vector<uint32_t>> kinds;
  llvm::SmallVector<int64_t> ranks, matrix;
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_EXCHANGES_H
