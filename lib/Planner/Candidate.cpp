//===- Candidate.cpp - a way to run a model, and its costs ----------------===//
#include "moe/Planner/Candidate.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr StringLiteral kVerdicts[] = {"illegal", "same",      "bounded",   "dominated", "too large", "skipped",
                                              "slower",  "estimated", "simulated", "compiled",  "chosen"};

StringRef mlir::moe::getName(Verdict verdict) { return kVerdicts[static_cast<unsigned>(verdict)]; }

std::optional<Verdict> mlir::moe::parseVerdict(StringRef name) {
  const auto *found = llvm::find(kVerdicts, name);
  if (found == std::end(kVerdicts))
    return std::nullopt;
  return static_cast<Verdict>(found - std::begin(kVerdicts));
}

std::string mlir::moe::describe(const Candidate &candidate) {
  std::string batch = candidate.batch > 1 ? ",batch=" + std::to_string(candidate.batch) : "";
  return describe(candidate.parallel) + batch;
}
