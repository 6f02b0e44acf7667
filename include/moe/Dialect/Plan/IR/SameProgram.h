//===- SameProgram.h - programs that differ in their sizes alone -*- C++ -*-===//
#ifndef MOE_DIALECT_PLAN_IR_SAMEPROGRAM_H
#define MOE_DIALECT_PLAN_IR_SAMEPROGRAM_H

#include <optional>
#include <string>

#include "mlir/IR/BuiltinOps.h"

namespace mlir::plan {

/// Describes a difference other than sizes between the programs of two plans with so many micro-batches, or returns
/// none.
///
/// Programs are compared as graphs. Two launches are alike if their kernels, groups, peers and types are, and if
/// launches that are alike made their inputs. The loops of `large` count as if they ran as often as those of `small`.
/// Numbers among a launch's params may be smaller in `small`, but 0 only if they are 0 in `large`. The order of
/// launches, their streams, waits and places in memory may differ, since plan-verify proves of each plan that they do
/// not change what a launch reads. Launches that fill the gaps of buckets do not count.
std::optional<std::string> findDifference(ModuleOp large, int64_t largeMicroBatches, ModuleOp small,
                                          int64_t smallMicroBatches);

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_IR_SAMEPROGRAM_H
