//===- KernelLaunchModel.cpp - from a call of a whole model to its kernel -===//

#include "core/Kernels.h"

namespace moert {

/// The part that three attributes from `first` on say: parts, stride, rank.
static Part partAt(const Call &call, size_t first) {
  return {call.ints[first], call.ints[first + 1], call.ints[first + 2]};
}

static Status launchRotary(Kernels &kernels, const Call &call) {
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
  return kernels.rotary(call.views[0], call.views[1], options);
}

static Status launchAttention(Kernels &kernels, const Call &call) {
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
    return kernels.attention(inputs, v[6], v[7], options);
  if (call.kind == Kind::AttentionGrad)
    return kernels.attentionGrad(inputs, v[6], v[7], v[8], v[9], v[10], v[11], options);
  return kernels.attentionBiasGrad(inputs, v[6], v[7], v[8], v[9], options);
}

static Status launchOptimizer(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  const auto &r = call.reals;
  switch (call.kind) {
  case Kind::SumSquares:
    return kernels.sumSquares(v[0], v[1]);
  case Kind::ClipFactor:
    return kernels.clipFactor(v[0], v[1], r[0]);
  case Kind::SquareRoot:
    return kernels.squareRoot(v[0], v[1]);
  case Kind::Sgd:
    return kernels.sgd(v[0], v[1], v[2], v[3], v[4], v[5], v[6], r[0], r[1]);
  case Kind::Adam:
    return kernels.adam(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], {r[0], r[1], r[2], r[3]});
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a kernel");
  }
}

static Status launchLoss(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  switch (call.kind) {
  case Kind::RowLogsumexp:
    return kernels.rowLogsumexp(v[0], v[1]);
  case Kind::RowLogsumexpGrad:
    return kernels.rowLogsumexpGrad(v[0], v[1], v[2], v[3]);
  case Kind::Pick:
    return kernels.pick(v[0], v[1], v[2], partAt(call, 0));
  case Kind::PickGrad:
    return kernels.pickGrad(v[0], v[1], v[2], v[3], partAt(call, 0));
  case Kind::LabelSum:
    return kernels.labelSum(v[0], v[1], v[2], v[3]);
  case Kind::LabelSumGrad:
    return kernels.labelSumGrad(v[0], v[1], v[2]);
  case Kind::Divide:
    return kernels.divide(v[0], v[1], v[2]);
  default:
    return launchOptimizer(kernels, call);
  }
}

Status launchModelKernel(Kernels &kernels, const Call &call) {
  const auto &v = call.views;
  const auto &i = call.ints;
  const auto &r = call.reals;
  switch (call.kind) {
  case Kind::Positions:
    return kernels.positions(v[0], i[0]);
  case Kind::IndexAffine:
    return kernels.indexAffine(v[0], v[1], i[0], i[1]);
  case Kind::Fill:
    return kernels.fill(v[0], r[0]);
  case Kind::Cast:
    return kernels.cast(v[0], v[1]);
  case Kind::Embedding:
    return kernels.embedding(v[0], v[1], v[2], partAt(call, 0));
  case Kind::EmbeddingGrad:
    return kernels.embeddingGrad(v[0], v[1], v[2], v[3], partAt(call, 0));
  case Kind::Norm:
    return kernels.norm(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::NormGrad:
    return kernels.normGrad(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::NormWgrad:
    return kernels.normWgrad(v[0], v[1], v[2], v[3], i[0], r[0]);
  case Kind::InverseRoot:
    return kernels.inverseRoot(v[0], v[1], r[0], r[1]);
  case Kind::InverseRootGrad:
    return kernels.inverseRootGrad(v[0], v[1], v[2], r[0]);
  case Kind::Rotary:
    return launchRotary(kernels, call);
  case Kind::AppendToHeads:
    return kernels.appendToHeads(v[0], v[1], v[2]);
  case Kind::AppendToHeadsGrad:
    return kernels.appendToHeadsGrad(v[0], v[1], v[2]);
  case Kind::Attention:
  case Kind::AttentionGrad:
  case Kind::AttentionBiasGrad:
    return launchAttention(kernels, call);
  case Kind::AttentionSinksGrad:
    return kernels.attentionSinksGrad(v[0], v[1], v[2], v[3], v[4]);
  case Kind::RelativeBias:
    return kernels.relativeBias(v[0], v[1], i[0] != 0, i[1]);
  case Kind::RelativeBiasGrad:
    return kernels.relativeBiasGrad(v[0], v[1], v[2], i[0] != 0, i[1]);
  case Kind::Dropout:
    return kernels.dropout(v[0], v[1], v[2], i[0], {i[1], i[2], i[5]}, {i[3], i[4], i[5]}, r[0]);
  default:
    return launchLoss(kernels, call);
  }
}

} // namespace moert
