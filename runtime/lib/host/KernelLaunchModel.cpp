//===- KernelLaunchModel.cpp - from a call of a whole model to its kernel -===//

#include "host/HostBackend.h"
#include "host/KernelsModel.h"

namespace moert::host {

/// The part that three attributes from `first` on say: parts, stride, rank.
static Part partAt(const Call &call, size_t first) {
  return {call.ints[first], call.ints[first + 1], call.ints[first + 2]};
}

static Status launchRotary(const Call &call) {
  const auto &i = call.ints;
  const auto &r = call.reals;
  RotaryOptions options;
  options.period = i[0];
  options.headDim = i[1];
  options.begin = i[2];
  options.rotaryDim = i[3];
  options.interleaved = i[4] != 0;
  options.direction = i[5];
  options.base = r[0];
  options.factor = r[1];
  options.low = r[2];
  options.high = r[3];
  options.scale = r[4];
  return rotary(call.views[0], call.views[1], options);
}

static Status launchAttention(const Call &call) {
  const auto &v = call.views;
  const auto &i = call.ints;
  AttentionOptions options;
  options.qLength = i[0];
  options.kLength = i[1];
  options.heads = i[2];
  options.kHeads = i[3];
  options.part = {i[4], i[5], i[11]};
  options.causal = i[6] != 0;
  options.window = i[7];
  options.seed = i[8];
  options.rows = {i[9], i[10], i[11]};
  options.scale = call.reals[0];
  options.dropout = call.reals[1];
  AttentionInputs inputs{v[0], v[1], v[2], v[3], v[4], v[5]};
  if (call.kind == Kind::Attention)
    return attention(inputs, v[6], v[7], options);
  if (call.kind == Kind::AttentionGrad)
    return attentionGrad(inputs, v[6], v[7], v[8], v[9], v[10], v[11], options);
  return attentionBiasGrad(inputs, v[6], v[7], v[8], v[9], options);
}

static Status launchOptimizer(const Call &call) {
  const auto &v = call.views;
  const auto &r = call.reals;
  switch (call.kind) {
  case Kind::SumSquares:
    return sumSquares(v[0], v[1]);
  case Kind::ClipFactor:
    return clipFactor(v[0], v[1], r[0]);
  case Kind::SquareRoot:
    return squareRoot(v[0], v[1]);
  case Kind::Sgd:
    return sgd(v[0], v[1], v[2], v[3], v[4], v[5], v[6], r[0], r[1]);
  case Kind::Adam:
    return adam(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], {r[0], r[1], r[2], r[3]});
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a kernel");
  }
}

static Status launchLoss(const Call &call) {
  const auto &v = call.views;
  switch (call.kind) {
  case Kind::RowLogsumexp:
    return rowLogsumexp(v[0], v[1]);
  case Kind::RowLogsumexpGrad:
    return rowLogsumexpGrad(v[0], v[1], v[2], v[3]);
  case Kind::Pick:
    return pick(v[0], v[1], v[2], partAt(call, 0));
  case Kind::PickGrad:
    return pickGrad(v[0], v[1], v[2], v[3], partAt(call, 0));
  case Kind::LabelSum:
    return labelSum(v[0], v[1], v[2], v[3]);
  case Kind::LabelSumGrad:
    return labelSumGrad(v[0], v[1], v[2]);
  case Kind::Divide:
    return divide(v[0], v[1], v[2]);
  default:
    return launchOptimizer(call);
  }
}

Status launchModelKernel(const Call &call) {
  const auto &v = call.views;
  const auto &i = call.ints;
  const auto &r = call.reals;
  switch (call.kind) {
  case Kind::Positions:
    return positions(v[0], i[0]);
  case Kind::IndexAffine:
    return indexAffine(v[0], v[1], i[0], i[1]);
  case Kind::Fill:
    return fill(v[0], r[0]);
  case Kind::Cast:
    return cast(v[0], v[1]);
  case Kind::Embedding:
    return embedding(v[0], v[1], v[2], partAt(call, 0));
  case Kind::EmbeddingGrad:
    return embeddingGrad(v[0], v[1], v[2], v[3], partAt(call, 0));
  case Kind::Norm:
    return norm(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::NormGrad:
    return normGrad(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::NormWgrad:
    return normWgrad(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::InverseRoot:
    return inverseRoot(v[0], v[1], r[0], r[1]);
  case Kind::InverseRootGrad:
    return inverseRootGrad(v[0], v[1], v[2], r[0]);
  case Kind::Rotary:
    return launchRotary(call);
  case Kind::AppendToHeads:
    return appendToHeads(v[0], v[1], v[2]);
  case Kind::AppendToHeadsGrad:
    return appendToHeadsGrad(v[0], v[1], v[2]);
  case Kind::Attention:
  case Kind::AttentionGrad:
  case Kind::AttentionBiasGrad:
    return launchAttention(call);
  case Kind::AttentionSinksGrad:
    return attentionSinksGrad(v[0], v[1], v[2], v[3], v[4]);
  case Kind::RelativeBias:
    return relativeBias(v[0], v[1], i[0] != 0, i[1]);
  case Kind::RelativeBiasGrad:
    return relativeBiasGrad(v[0], v[1], v[2], i[0] != 0, i[1]);
  case Kind::Dropout:
    return dropout(v[0], v[1], v[2], i[0], {i[1], i[2], i[5]}, {i[3], i[4], i[5]}, r[0]);
  default:
    return launchLoss(call);
  }
}

} // namespace moert::host
