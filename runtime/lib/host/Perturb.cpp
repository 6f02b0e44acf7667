//===- Perturb.cpp - values moved by some units in the last place ---------===//

#include "host/Perturb.h"

#include <cstring>

namespace moert::host {
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

/// Views of a call, one after the other.
struct Outputs {
  int first = 0, count = 1;
};

/// What a call computes; nothing of one that only fetches or moves.
Outputs outputsOf(const Call &call) {
  const auto &v = call.views;
  switch (call.kind) {
  case Kind::Scale:
  case Kind::LocalReduce:
  case Kind::InverseRoot:
  case Kind::Rotary:
  case Kind::RowLogsumexp:
  case Kind::SumSquares:
  case Kind::ClipFactor:
  case Kind::SquareRoot:
    return {1};
  case Kind::Cast:
    return {1, dtypeSize(v[1].dtype) < dtypeSize(v[0].dtype) ? 1 : 0};
  case Kind::AppendToHeadsGrad:
    return {1, 2};
  case Kind::Matmul:
  case Kind::Add:
  case Kind::RowScale:
  case Kind::RowDot:
  case Kind::Activation:
  case Kind::InverseRootGrad:
  case Kind::Dropout:
  case Kind::Divide:
  case Kind::RelativeBiasGrad:
  case Kind::LabelSum:
    return {2};
  case Kind::RouterMeans:
    return {1, 3};
  case Kind::Route: // scores, weights and aux; the others are integers
    return {2, 6};
  case Kind::Dispatch: // without weights it moves rows
    return {3, v[2] ? 1 : 0};
  case Kind::GroupedMatmul:
  case Kind::BiasAdd:
  case Kind::BiasGrad:
  case Kind::ActivationGrad:
  case Kind::Combine:
  case Kind::SlotDot:
  case Kind::EmbeddingGrad:
  case Kind::Norm:
  case Kind::NormGrad:
  case Kind::NormWgrad:
  case Kind::RowLogsumexpGrad:
  case Kind::PickGrad:
  case Kind::RouterMeansGrad:
    return {3};
  case Kind::GroupedMatmulWgrad:
  case Kind::RouteGrad:
  case Kind::AttentionSinksGrad:
    return {4};
  case Kind::Sgd:
    return {5, 2};
  case Kind::Attention:
    return {6, 2};
  case Kind::Adam:
    return {7, 3};
  case Kind::AttentionGrad:
    return {9, 3};
  case Kind::AttentionBiasGrad:
    return {9};
  default:
    return {0, 0};
  }
}

} // namespace

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

void perturbOutputs(const Call &call, const Perturbation &perturbation) {
  const Outputs outputs = outputsOf(call);
  for (int i = outputs.first; i < outputs.first + outputs.count; ++i)
    perturb(call.views[static_cast<size_t>(i)], perturbation);
}

} // namespace moert::host
