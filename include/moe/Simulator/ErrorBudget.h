//===- ErrorBudget.h - how wrong a predicted time may be --------*- C++ -*-===//
//
// A profile says how far its measurements are from its curves, on average. A time is made of parts that are wrong by
// their own curve's error at their own size. Parts of one kind, the same kernel at the same size, are wrong by the same
// fraction wherever they run. Parts of different kinds are taken as independent. So what two steps have in common
// cancels in their difference.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_ERRORBUDGET_H
#define MOE_SIMULATOR_ERRORBUDGET_H

#include <cstdint>
#include <map>

namespace mlir::moe {

class ErrorBudget {
public:
  /// `seconds` of the time may be wrong, because of `kind`.
  void add(uint64_t kind, double seconds) { errors[kind] += seconds; }
  void add(const ErrorBudget &other, double times);

  /// Expected error of the time in seconds; 0 where nothing is known.
  double getSeconds() const { return getDifference({}); }
  /// Expected error of the difference between the times of this and of `other`, in seconds.
  double getDifference(const ErrorBudget &other) const;

private:
  std::map<uint64_t, double> errors; ///< by kind
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ERRORBUDGET_H
