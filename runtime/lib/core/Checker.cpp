//===- Checker.cpp - operands against the types and shapes of the table ---===//

#include "core/Checker.h"
#include "core/Checks.h"

#include <algorithm>

namespace moert {

/// Dimensions of a call that the operands so far determine.
struct Checker::Dimensions {
  std::array<std::optional<int64_t>, kMostDimensionNames> named;
  std::optional<View> others; ///< view whose first dimensions are those of `..`
  int64_t otherCount = 0;
};

namespace {

/// Index of the operand that has the call's floating type, or -1.
int baseOf(const KernelInfo &info, const View *views) {
  for (OperandType type : {OperandType::Real, OperandType::Acc})
    for (int i = 0; i < info.operandCount; ++i)
      if (info.operands[i].type == type && (views[i] || !info.operands[i].isOptional))
        return i;
  return -1;
}

/// Type that operand `i` must have.
int32_t expectedType(const KernelInfo &info, const View *views, int base, int i) {
  const KernelInfo::Operand &operand = info.operands[i];
  const int32_t own = views[i].dtype, call = base < 0 ? own : views[base].dtype;
  for (int j = 0; j < i; ++j)
    if ((operand.aliases >> j & 1) && views[j])
      return views[j].dtype;
  if (operand.typeOf >= 0)
    return views[operand.typeOf].dtype;
  switch (operand.type) {
  case OperandType::Real:
    return call;
  case OperandType::Acc:
  case OperandType::Wide:
    return info.operands[base].type == OperandType::Real && isNarrow(call) && own != call ? MOERT_F32 : call;
  case OperandType::Gradient:
    return call == MOERT_F32 && isNarrow(own) ? own : call;
  case OperandType::I32:
    return MOERT_I32;
  case OperandType::Float:
  case OperandType::Any:
    break;
  }
  return own;
}

const KernelInfo::Shape &chosenShape(const KernelInfo::Operand &operand, const View *views, const bool *flags, int i) {
  bool isSecond = false;
  if (operand.whenThere >= 0)
    isSecond = bool(views[operand.whenThere]);
  else if (operand.whenSet >= 0)
    isSecond = flags[operand.whenSet];
  else if (operand.shapeCount > 1)
    isSecond = views[i].rank == operand.shapes[1].rank;
  return operand.shapes[isSecond];
}

} // namespace

void Checker::shaped(const KernelInfo::Operand &operand, View view, int32_t dtype, const KernelInfo::Shape &shape,
                     Dimensions &known) {
  if (shape.hasMore && !known.others && view.rank >= shape.rank) {
    known.others = view;
    known.otherCount = view.rank - shape.rank;
  }
  // A dimension that is not known yet has a name instead. It is printed only if the rank is wrong.
  std::array<int64_t, 8> dims{};
  std::array<const char *, 8> names{};
  int64_t count = 0;
  if (shape.hasMore && !known.others)
    names[count++] = "..";
  else if (shape.hasMore)
    count = std::copy_n(known.others->dims.begin(), known.otherCount, dims.begin()) - dims.begin();
  const int64_t rank = count + shape.rank;
  for (int i = 0; i < shape.rank; ++i, ++count) {
    const int name = shape.dims[i];
    if (name >= 0 && !known.named[name] && view.rank == rank)
      known.named[name] = view.dims[count];
    if (name >= 0 && !known.named[name])
      names[count] = infoOf(kernel).dimensions[name];
    else
      dims[count] = name < 0 ? 1 : *known.named[name];
  }
  const bool isRight =
      view.dtype == dtype && view.rank == rank && std::equal(dims.begin(), dims.begin() + rank, view.dims.begin());
  if (isRight)
    return;
  std::string text;
  for (int64_t i = 0; i < rank; ++i)
    text += joined(i ? "," : "", names[i] ? names[i] : std::to_string(dims[i]));
  that(false, "expected '", operand.name, "' to be ", dtypeName(dtype), "[", text, "] but got ", view);
}

Checker &Checker::operands(const View *views, const bool *flags) {
  const KernelInfo &info = infoOf(kernel);
  const int base = baseOf(info, views);
  if (base >= 0)
    floating(info.operands[base].name, views[base]);
  Dimensions known;
  auto checkOne = [&](int i) {
    const KernelInfo::Operand &operand = info.operands[i];
    const View &view = views[i];
    valid(operand.name, view);
    if (operand.type == OperandType::Float)
      floating(operand.name, view);
    if (!ok())
      return;
    const int32_t dtype = expectedType(info, views, base, i);
    if (operand.shapeCount > 0)
      return shaped(operand, view, dtype, chosenShape(operand, views, flags, i), known);
    View model = view;
    model.dtype = dtype;
    like(operand.name, view, model);
  };
  // Required operands come first: they determine the dimensions of optional ones.
  for (int i = 0; ok() && i < info.operandCount; ++i)
    if (!info.operands[i].isOptional)
      checkOne(i);
  for (int i = 0; ok() && i < info.operandCount; ++i)
    if (info.operands[i].isOptional && views[i])
      checkOne(i);
  return *this;
}

template <class... Arguments> static void checkNoMore(const Arguments &...) {}
static void checkPositive(Checker &check, const char *name, double value) {
  check.that(value > 0, "expected '", name, "' above 0 but got ", value);
}

#define MOERT_CHECK(kind, parameters, operandsAndFlags, rest)                                                          \
  Status check##kind parameters {                                                                                      \
    Checker check(Kind::kind);                                                                                         \
    check.operands operandsAndFlags;                                                                                   \
    if (check.ok())                                                                                                    \
      rest;                                                                                                            \
    return check.take();                                                                                               \
  }
#include "moert/kernels.inc"

} // namespace moert
