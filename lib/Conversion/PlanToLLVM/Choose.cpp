//===- Choose.cpp - the choice among variants -----------------------------===//
//
// Parm's Algorithm 1 takes the schedule with the smaller alpha + beta * tokens for the present batch. Here it is code
// of the plan with constant alpha and beta. Every rank gets the same answer without communication.
//
//===----------------------------------------------------------------------===//
#include "Choose.h"

#include <cmath>

#include "CallTable.h"
#include "Metadata.h"
#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::plan;

namespace {
/// Shape that a variant is for.
struct Shape {
  int64_t batch, sequence;
  bool operator==(const Shape &other) const { return batch == other.batch && sequence == other.sequence; }
};

/// Predicted seconds of communication for `tokens` tokens of a data-parallel rank.
struct Seconds {
  double alpha, beta;
  double get(double tokens) const { return alpha + beta * tokens; }
};
} // namespace

SmallVector<ModuleOp> mlir::plan::getVariants(ModuleOp plan) { return llvm::to_vector(plan.getOps<ModuleOp>()); }

/// 0 by 0 if the variant has no shape.
static Shape getShape(ModuleOp variant) {
  auto get = [&](StringRef name) {
    auto size = variant->getAttrOfType<IntegerAttr>(name);
    return size ? size.getInt() : 0;
  };
  return {get(kBatchAttrName), get(kSequenceAttrName)};
}

static StringRef getHalf(ModuleOp variant) {
  auto half = variant->getAttrOfType<StringAttr>(kHalfAttrName);
  return half ? half.getValue() : "";
}

static std::optional<Seconds> getSeconds(ModuleOp variant) {
  auto seconds = variant->getAttrOfType<ArrayAttr>(kSecondsAttrName);
  if (!seconds)
    return std::nullopt;
  return Seconds{cast<FloatAttr>(seconds[0]).getValueAsDouble(), cast<FloatAttr>(seconds[1]).getValueAsDouble()};
}

static double getTokens(Shape shape) { return static_cast<double>(shape.batch) * static_cast<double>(shape.sequence); }

/// Checks the attributes of one variant.
static LogicalResult checkVariant(ModuleOp variant) {
  bool saysNoShape = !variant->hasAttr(kBatchAttrName) && !variant->hasAttr(kSequenceAttrName);
  for (StringRef name : {kBatchAttrName, kSequenceAttrName}) {
    if (saysNoShape && !getHalf(variant).empty())
      continue;
    auto size = variant->getAttrOfType<IntegerAttr>(name);
    if (!size || !size.getType().isInteger(64) || size.getInt() < 1)
      return variant.emitOpError("expected '") << name << "' of a variant to be an i64 of at least 1";
  }
  Attribute seconds = variant->getAttr(kSecondsAttrName);
  if (!seconds)
    return success();
  auto isF64 = [](Attribute attr) { return isa<FloatAttr>(attr) && cast<FloatAttr>(attr).getType().isF64(); };
  auto pair = dyn_cast<ArrayAttr>(seconds);
  // A NaN would make every comparison false.
  if (!pair || pair.size() != 2 || !llvm::all_of(pair, isF64) ||
      !std::isfinite(getSeconds(variant)->get(getTokens(getShape(variant)))))
    return variant.emitOpError("expected '")
           << kSecondsAttrName << "' to be [alpha, beta] of f64 with a finite alpha + beta * tokens but got "
           << seconds;
  return success();
}

/// Checks two variants, of which `other` comes later.
static LogicalResult checkPair(ModuleOp variant, ModuleOp other) {
  auto emit = [&](const Twine &message) {
    InFlightDiagnostic error = other.emitOpError(message);
    error.attachNote(variant.getLoc()) << "the other variant is here";
    return error;
  };
  Attribute parallel = variant->getAttr(moe::kParallelAttrName), otherParallel = other->getAttr(moe::kParallelAttrName);
  if (parallel != otherParallel)
    return emit("expected all variants for ") << parallel << " but got " << otherParallel;
  Shape shape = getShape(other);
  if (!(getShape(variant) == shape) || getHalf(variant) != getHalf(other))
    return success();
  auto describe = [&] {
    return "batch " + std::to_string(shape.batch) + " and sequence " + std::to_string(shape.sequence);
  };
  if (variant->getAttr(kScheduleAttrName) == other->getAttr(kScheduleAttrName))
    return emit("expected variants for " + describe() + " to be of different schedules");
  for (ModuleOp one : {variant, other})
    if (!getSeconds(one))
      return one.emitOpError("expected '")
             << kSecondsAttrName << "' on each variant, since several are for " << describe();
  return success();
}

/// Checks that either no variant is a half, or each forward is followed by its backward.
static LogicalResult checkHalves(ArrayRef<ModuleOp> variants) {
  if (llvm::all_of(variants, [](ModuleOp variant) { return !variant->hasAttr(kHalfAttrName); }))
    return success();
  for (size_t index = 0; index < variants.size(); ++index) {
    ModuleOp variant = variants[index];
    StringRef expected = index % 2 == 0 ? kForwardHalf : kBackwardHalf;
    bool isPaired = index % 2 == 0 || getShape(variants[index - 1]) == getShape(variant);
    if (getHalf(variant) != expected || !isPaired || (index % 2 == 0 && index + 1 == variants.size()))
      return variant.emitOpError("expected variants in pairs of one shape, '")
             << kHalfAttrName << "' = \"forward\" and then \"backward\"";
  }
  return success();
}

LogicalResult mlir::plan::checkVariants(ModuleOp plan) {
  SmallVector<ModuleOp> variants = getVariants(plan);
  if (variants.empty())
    return success();
  for (Operation &op : *plan.getBody())
    if (!isa<ModuleOp>(op))
      return op.emitOpError("expected only modules beside a variant, which are other variants");
  for (auto [index, variant] : llvm::enumerate(variants)) {
    if (failed(checkVariant(variant)))
      return failure();
    if (!getVariants(variant).empty())
      return variant.emitOpError("expected a variant to be a plan of one shape");
    for (ModuleOp before : ArrayRef(variants).take_front(index))
      if (failed(checkPair(before, variant)))
        return failure();
  }
  return checkHalves(variants);
}

void mlir::plan::emitChoose(ModuleOp plan) {
  DataBuilder builder(plan);
  builder.setInsertionPointToEnd(plan.getBody());
  Type i64 = builder.i64, f64 = builder.getF64Type();
  auto function =
      builder.create<LLVM::LLVMFuncOp>((kSymbolPrefix + "choose").str(), LLVM::LLVMFunctionType::get(i64, {i64, i64}));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToEnd(entry);
  Value batch = entry->getArgument(0), sequence = entry->getArgument(1);
  auto createReal = [&](double value) -> Value {
    return builder.create<LLVM::ConstantOp>(f64, builder.getF64FloatAttr(value));
  };
  auto isEqual = [&](Value value, int64_t constant) -> Value {
    return builder.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::eq, value, builder.createInt(constant));
  };
  // If this wraps around, no variant has the shape.
  Value product = builder.create<LLVM::MulOp>(batch, sequence);
  Value tokens = builder.create<LLVM::SIToFPOp>(f64, product);
  Value best = builder.createInt(-1), least = createReal(HUGE_VAL);
  for (auto [index, variant] : llvm::enumerate(getVariants(plan))) {
    if (getHalf(variant) == kBackwardHalf)
      continue;
    Shape shape = getShape(variant);
    Value isBetter = builder.create<LLVM::AndOp>(isEqual(batch, shape.batch), isEqual(sequence, shape.sequence));
    if (std::optional<Seconds> seconds = getSeconds(variant)) {
      Value rest = builder.create<LLVM::FMulOp>(createReal(seconds->beta), tokens);
      Value sum = builder.create<LLVM::FAddOp>(createReal(seconds->alpha), rest);
      Value isLess = builder.create<LLVM::FCmpOp>(LLVM::FCmpPredicate::olt, sum, least);
      isBetter = builder.create<LLVM::AndOp>(isBetter, isLess);
      least = builder.create<LLVM::SelectOp>(isBetter, sum, least);
    }
    best = builder.create<LLVM::SelectOp>(isBetter, builder.createInt(static_cast<int64_t>(index)), best);
  }
  builder.create<LLVM::ReturnOp>(best);
}
