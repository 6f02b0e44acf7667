//===- Candidate.cpp - a way to run a model, and its costs ----------------===//
#include "moe/Planner/Candidate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

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

std::string mlir::moe::describe(ParallelAttr parallel) {
  std::string text;
  llvm::raw_string_ostream(text) << "pp=" << parallel.getPp() << ",dp=" << parallel.getDp()
                                 << ",mp=" << parallel.getMp() << ",ep=" << parallel.getEp()
                                 << ",esp=" << parallel.getEsp();
  if (parallel.getCp() > 1)
    text += ",cp=" + std::to_string(parallel.getCp());
  return text;
}

std::string mlir::moe::describe(const Candidate &candidate) {
  std::string batch = candidate.batch > 1 ? ",batch=" + std::to_string(candidate.batch) : "";
  return describe(candidate.parallel) + batch;
}

std::string mlir::moe::describeChoices(const Candidate &one) {
  std::string text = one.schedule;
  llvm::raw_string_ostream os(text);
  if (one.interleave > 1)
    os << ", VPP " << one.interleave;
  if (one.pipelineOrder != PipelineOrder::OneForwardOneBackward)
    os << ", " << getName(one.pipelineOrder);
  if (one.sideBySide > 1)
    os << ", " << one.sideBySide << " side by side";
  if (one.recompute != Recompute::None)
    os << ", recompute " << getName(one.recompute);
  if (one.zero > 0)
    os << ", ZeRO-" << one.zero;
  if (one.sequenceParallel)
    os << ", sequence parallel";
  if (one.ringAttention)
    os << ", ring attention";
  return text;
}

std::string mlir::moe::describeOptions(const Candidate &one) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "--parallel=" << describe(one.parallel) << " --batch=" << one.batch << " --micro-batches=" << one.microBatches;
  if (one.interleave > 1)
    os << " --interleave=" << one.interleave;
  if (one.pipelineOrder != PipelineOrder::OneForwardOneBackward)
    os << " --pipeline=" << getName(one.pipelineOrder);
  if (one.sideBySide > 1)
    os << " --side-by-side=" << one.sideBySide;
  if (!one.stageBoundaries.empty()) {
    os << " --stage-boundaries=";
    llvm::interleave(one.stageBoundaries, os, ",");
  }
  if (one.recompute != Recompute::None)
    os << " --recompute=" << getName(one.recompute);
  if (one.zero > 0)
    os << " --zero=" << one.zero;
  if (one.sequenceParallel)
    os << " --sequence-parallel";
  if (one.ringAttention)
    os << " --ring-attention";
  if (!one.schedule.empty() && one.schedule != "baseline")
    os << " --schedule=" << one.schedule;
  if (one.maxLoad)
    os << llvm::format(" --max-load=%g", *one.maxLoad);
  return text;
}
