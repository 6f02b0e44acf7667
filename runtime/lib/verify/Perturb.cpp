//===- Perturb.cpp - values moved by some units in the last place ---------===//

#include "verify/Perturb.h"
#include "core/Attributes.h"
#include "core/Field.h"

#include <cstring>

namespace moert::verify {
namespace {

/// Moves elements whose highest bit is the sign and whose other bits rise with the magnitude, up to `infinity`.
template <class Bits> void perturbBits(View value, Bits infinity, const Perturbation &perturbation) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  const uint64_t span = 2 * static_cast<uint64_t>(perturbation.ulps) + 1;
  auto *place = value.as<char>();
  for (int64_t i = 0, e = value.elements(); i < e; ++i, place += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, place, sizeof bits);
    const auto magnitude = static_cast<int64_t>(bits & ~kSign), end = static_cast<int64_t>(infinity);
    const int64_t moved =
        magnitude + static_cast<int64_t>(hashOf(perturbation.seed ^ hashOf(bits)) % span) - perturbation.ulps;
    if (magnitude == 0 || magnitude >= end || moved <= 0 || moved >= end)
      continue;
    bits = static_cast<Bits>((bits & kSign) | static_cast<Bits>(moved));
    std::memcpy(place, &bits, sizeof bits);
  }
}

/// Whether a call computes its floating-point outputs, and does not only read or move values. Kernels whose outputs are
/// all indices need no case.
bool computes(const Call &call) {
  switch (call.kind) {
  case Kind::Cast:
    return dtypeSize(call.views[operands::Cast::out].dtype) < dtypeSize(call.views[operands::Cast::in].dtype);
  case Kind::Dispatch:
    return bool(call.views[operands::Dispatch::weights]);
  case Kind::AppendToHeads:
  case Kind::JoinSequences:
  case Kind::Clamp:
  case Kind::ClampGrad:
  case Kind::Copy:
  case Kind::Dump:
  case Kind::Embedding:
  case Kind::Fill:
  case Kind::LabelCount:
  case Kind::LabelSumGrad:
  case Kind::Pick:
  case Kind::RelativeBias:
  case Kind::Slice:
    return false;
  default:
    return !isCollective(call.kind);
  }
}

void perturb(View value, const Perturbation &perturbation) {
  if (!value || dtypeSize(value.dtype) < perturbation.leastSize)
    return;
  switch (value.dtype) {
  case MOERT_F64:
    return perturbBits<uint64_t>(value, uint64_t(0x7ff) << 52, perturbation);
  case MOERT_F32:
    return perturbBits<uint32_t>(value, 0x7f800000, perturbation);
  case MOERT_BF16:
    return perturbBits<uint16_t>(value, 0x7f80, perturbation);
  case MOERT_F16:
    return perturbBits<uint16_t>(value, 0x7c00, perturbation);
  default:
    return;
  }
}

} // namespace

void perturbOutputs(const Call &call, const Perturbation &perturbation) {
  if (perturbation.ulps == 0 || !computes(call))
    return;
  const KernelInfo &info = infoOf(call.kind);
  for (size_t i = 0; i < info.operandCount; ++i)
    if (info.operands[i].isOutput)
      perturb(call.views[i], perturbation);
}

} // namespace moert::verify
