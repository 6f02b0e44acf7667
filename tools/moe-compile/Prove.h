//===- Prove.h - moe-compile --prove ----------------------------*- C++ -*-===//
#ifndef MOE_TOOLS_MOE_COMPILE_PROVE_H
#define MOE_TOOLS_MOE_COMPILE_PROVE_H

#include "CompileCommandLine.h"

#include "llvm/Support/JSON.h"

namespace mlir::moe {

/// Result of --prove for a plan.
struct Proof {
  int64_t ranks = 0, programs = 0;
  int64_t deviceBytes = 0; ///< bytes of the rank that needs the most
  /// Sizes of the small model, `factor` times the smallest; 0 if the plan itself was run.
  int64_t sequence = 0, microBatches = 0, factor = 0;
  int64_t results = 0, draws = 0;
  /// Whether the results are compared with the reference in the plan itself, and not with a model that is compiled
  /// again.
  bool usesOwnReference = false;
  /// Whether the plan returns or uses gradients, which difference quotients could check.
  bool isTraining = false;
  /// Relative error of the small model's gradients, by difference quotients in f64; absent if that was not run.
  std::optional<double> gradientError;
  /// Reasons why the plan is not proved, a line each: it is wrong, or no small model has its programs.
  std::vector<std::string> failures;
  bool isWrong = false; ///< a small model with the same programs computes other results than the plan's model
  /// Place of the error, as moe-run --json gives it; absent if it was not found.
  std::optional<llvm::json::Object> departure;
  /// Shape that the proof is for, in a plan of several.
  std::optional<ImportShape> shape;
  StringRef schedule;
};

/// Proves that `plan`, which has passed plan-verify, computes its model: a model in the smallest sizes has the same
/// programs (moe/Dialect/Plan/IR/SameProgram.h), and moe-run runs them in exact arithmetic. A plan from an MLIR file is
/// run in its own sizes. Returns a proof for each shape of `plan`. Fails after an error if there is nothing to prove.
FailureOr<SmallVector<Proof>> proveResults(ModuleOp plan, const CompileCommandLine &command, const PlanOptions &options,
                                           Session &session);

/// Writes one JSON object with a list of objects, each with the attributes that `write` gives it.
template <class List, class Write> void writeVariants(const List &variants, Write write, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attributeArray("variants", [&] {
      for (const auto &one : variants)
        json.object([&] { write(one, json); });
    });
  });
  os << "\n";
}

/// Writes proofs as text, or as one JSON object.
void writeProofs(ArrayRef<Proof> proofs, bool asJson, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_TOOLS_MOE_COMPILE_PROVE_H
