//===- ErrorBudget.h - errors of predicted times ----------------*- C++ -*-===//
//
// A profile says how far its measurements are from its curves, on average. Each part of a predicted time has the error
// of its own curve at its own size. Parts of one kind have the same kernel and size, and the same relative error
// wherever they run. Parts of different kinds have independent errors. So the errors of parts that two steps have in
// common cancel in their difference.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_ERRORBUDGET_H
#define MOE_SIMULATOR_ERRORBUDGET_H

#include <cstdint>
#include <map>

namespace mlir::moe {

class ErrorBudget {
public:
  /// Says that `seconds` of the time may be wrong because of `kind`.
  void add(uint64_t kind, double seconds) { errors[kind] += seconds; }
  void add(const ErrorBudget &other, double times);

  /// Expected error of the time in seconds; 0 if nothing is known.
  double getSeconds() const { return getDifference({}); }
  /// Expected error of the difference between this time and the time of `other`, in seconds.
  double getDifference(const ErrorBudget &other) const;

private:
  std::map<uint64_t, double> errors; ///< by kind
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ERRORBUDGET_H
