//===- Perturb.cpp - values moved by some units in the last place ---------===//

#include "verify/Perturb.h"
#include "core/Attributes.h"

#include <cstring>

namespace moert::verify {
namespace {

/// A good hash of 64 bits (splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// Elements whose highest bit is the sign and whose other bits rise with the magnitude, to `infinity`.
template <class Bits> void perturbBits(View value, Bits infinity, const Perturbation &perturbation) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  const uint64_t span = 2 * static_cast<uint64_t>(perturbation.ulps) + 1;
  auto *place = value.as<char>();
  for (int64_t i = 0, e = value.elements(); i < e; ++i, place += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, place, sizeof bits);
    const auto magnitude = static_cast<int64_t>(bits & ~kSign), end = static_cast<int64_t>(infinity);
    const int64_t moved =
        magnitude + static_cast<int64_t>(mix(perturbation.seed ^ mix(bits)) % span) - perturbation.ulps;
    if (magnitude == 0 || magnitude >= end || moved <= 0 || moved >= end)
      continue;
    bits = static_cast<Bits>((bits & kSign) | static_cast<Bits>(moved));
    std::memcpy(place, &bits, sizeof bits);
  }
}

/// Whether a call computes its floating outputs: not where it only fetches or moves values. Those that do are named;
/// kernels whose outputs are indices alone need not be.
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
  if (!value)
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
