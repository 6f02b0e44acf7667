//===- AbiModel.cpp - the calls of whole models and of optimizers ---------===//

#include "core/Issue.h"

using namespace moert;

/// Biases, addends and the like may be null.
constexpr bool kOptional = true;

/// What a kernel that works on the rank's part of something is told last; a null rank is refused by issueCall.
static int64_t indexOf(moert_rank_t rank) { return rank ? rank->rank : 0; }

extern "C" {

// --- Whole models ------------------------------------------------------------

int32_t moert_positions(moert_rank_t rank, int64_t op, const moert_buffer *out, int64_t period, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Positions, {{"out", out}}, {{period}});
}

int32_t moert_index_affine(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                           int64_t factor, int64_t offset, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::IndexAffine, {{"in", in}, {"out", out}}, {{factor, offset}});
}

int32_t moert_fill(moert_rank_t rank, int64_t op, const moert_buffer *out, double value, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Fill, {{"out", out}}, {.reals = {value}});
}

int32_t moert_cast(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                   moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Cast, {{"in", in}, {"out", out}});
}

int32_t moert_embedding(moert_rank_t rank, int64_t op, const moert_buffer *ids, const moert_buffer *table,
                        const moert_buffer *out, int64_t parts, int64_t stride, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Embedding, {{"ids", ids}, {"table", table}, {"out", out}},
                   {{parts, stride, indexOf(rank)}});
}

int32_t moert_embedding_grad(moert_rank_t rank, int64_t op, const moert_buffer *ids, const moert_buffer *grads,
                             const moert_buffer *addend, const moert_buffer *out, int64_t parts, int64_t stride,
                             moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::EmbeddingGrad,
                   {{"ids", ids}, {"grads", grads}, {"addend", addend, kOptional}, {"out", out}},
                   {{parts, stride, indexOf(rank)}});
}

int32_t moert_norm(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *gamma,
                   const moert_buffer *beta, const moert_buffer *out, int64_t kind, double eps, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Norm, {{"x", x}, {"gamma", gamma}, {"beta", beta, kOptional}, {"out", out}},
                   {{kind}, {eps}});
}

int32_t moert_norm_grad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *gamma,
                        const moert_buffer *grads, const moert_buffer *out, int64_t kind, double eps,
                        moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::NormGrad, {{"x", x}, {"gamma", gamma}, {"grads", grads}, {"out", out}},
                   {{kind}, {eps}});
}

int32_t moert_norm_wgrad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *grads,
                         const moert_buffer *addend, const moert_buffer *out, int64_t kind, double eps,
                         moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::NormWgrad,
                   {{"x", x}, {"grads", grads}, {"addend", addend, kOptional}, {"out", out}}, {{kind}, {eps}});
}

int32_t moert_inverse_root(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, double scale,
                           double eps, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::InverseRoot, {{"in", in}, {"out", out}}, {.reals = {scale, eps}});
}

int32_t moert_inverse_root_grad(moert_rank_t rank, int64_t op, const moert_buffer *root, const moert_buffer *grads,
                                const moert_buffer *out, double scale, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::InverseRootGrad, {{"root", root}, {"grads", grads}, {"out", out}},
                   {.reals = {scale}});
}

int32_t moert_rotary(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *out, int64_t period,
                     int64_t head_dim, int64_t begin, int64_t rotary_dim, int64_t interleaved, int64_t direction,
                     double base, double factor, double low, double high, double scale, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Rotary, {{"x", x}, {"out", out}},
                   {{period, head_dim, begin, rotary_dim, interleaved, direction}, {base, factor, low, high, scale}});
}

int32_t moert_append_to_heads(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *shared,
                              const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AppendToHeads, {{"x", x}, {"shared", shared}, {"out", out}});
}

int32_t moert_append_to_heads_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *grad_x,
                                   const moert_buffer *grad_shared, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AppendToHeadsGrad,
                   {{"grads", grads}, {"grad_x", grad_x}, {"grad_shared", grad_shared}});
}

int32_t moert_attention(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                        const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                        const moert_buffer *step, const moert_buffer *out, const moert_buffer *lse, int64_t q_length,
                        int64_t k_length, int64_t heads, int64_t k_heads, int64_t parts, int64_t stride, int64_t causal,
                        int64_t window, int64_t seed, int64_t row_parts, int64_t row_stride, double scale,
                        double dropout, moert_stream_t stream) {
  return issueCall(
      rank, op, stream, Kind::Attention,
      {{"q", q},
       {"k", k},
       {"v", v},
       {"bias", bias, kOptional},
       {"sinks", sinks, kOptional},
       {"step", step, kOptional},
       {"out", out},
       {"lse", lse}},
      {{q_length, k_length, heads, k_heads, parts, stride, causal, window, seed, row_parts, row_stride, indexOf(rank)},
       {scale, dropout}});
}

int32_t moert_attention_grad(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                             const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                             const moert_buffer *step, const moert_buffer *attended, const moert_buffer *lse,
                             const moert_buffer *grads, const moert_buffer *grad_q, const moert_buffer *grad_k,
                             const moert_buffer *grad_v, int64_t q_length, int64_t k_length, int64_t heads,
                             int64_t k_heads, int64_t parts, int64_t stride, int64_t causal, int64_t window,
                             int64_t seed, int64_t row_parts, int64_t row_stride, double scale, double dropout,
                             moert_stream_t stream) {
  return issueCall(
      rank, op, stream, Kind::AttentionGrad,
      {{"q", q},
       {"k", k},
       {"v", v},
       {"bias", bias, kOptional},
       {"sinks", sinks, kOptional},
       {"step", step, kOptional},
       {"attended", attended},
       {"lse", lse},
       {"grads", grads},
       {"grad_q", grad_q},
       {"grad_k", grad_k},
       {"grad_v", grad_v}},
      {{q_length, k_length, heads, k_heads, parts, stride, causal, window, seed, row_parts, row_stride, indexOf(rank)},
       {scale, dropout}});
}

int32_t moert_attention_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                                  const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                                  const moert_buffer *step, const moert_buffer *attended, const moert_buffer *lse,
                                  const moert_buffer *grads, const moert_buffer *out, int64_t q_length,
                                  int64_t k_length, int64_t heads, int64_t k_heads, int64_t parts, int64_t stride,
                                  int64_t causal, int64_t window, int64_t seed, int64_t row_parts, int64_t row_stride,
                                  double scale, double dropout, moert_stream_t stream) {
  return issueCall(
      rank, op, stream, Kind::AttentionBiasGrad,
      {{"q", q},
       {"k", k},
       {"v", v},
       {"bias", bias, kOptional},
       {"sinks", sinks, kOptional},
       {"step", step, kOptional},
       {"attended", attended},
       {"lse", lse},
       {"grads", grads},
       {"out", out}},
      {{q_length, k_length, heads, k_heads, parts, stride, causal, window, seed, row_parts, row_stride, indexOf(rank)},
       {scale, dropout}});
}

int32_t moert_attention_sinks_grad(moert_rank_t rank, int64_t op, const moert_buffer *sinks, const moert_buffer *lse,
                                   const moert_buffer *attended, const moert_buffer *grads, const moert_buffer *out,
                                   moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AttentionSinksGrad,
                   {{"sinks", sinks}, {"lse", lse}, {"attended", attended}, {"grads", grads}, {"out", out}});
}

int32_t moert_relative_bias(moert_rank_t rank, int64_t op, const moert_buffer *table, const moert_buffer *out,
                            int64_t bidirectional, int64_t max_distance, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RelativeBias, {{"table", table}, {"out", out}},
                   {{bidirectional, max_distance}});
}

int32_t moert_relative_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *addend,
                                 const moert_buffer *out, int64_t bidirectional, int64_t max_distance,
                                 moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RelativeBiasGrad,
                   {{"grads", grads}, {"addend", addend, kOptional}, {"out", out}}, {{bidirectional, max_distance}});
}

int32_t moert_dropout(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *step,
                      const moert_buffer *out, int64_t seed, int64_t row_parts, int64_t row_stride,
                      int64_t column_parts, int64_t column_stride, double p, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Dropout, {{"x", x}, {"step", step}, {"out", out}},
                   {{seed, row_parts, row_stride, column_parts, column_stride, indexOf(rank)}, {p}});
}

int32_t moert_row_logsumexp(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *out,
                            moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RowLogsumexp, {{"x", x}, {"out", out}});
}

int32_t moert_row_logsumexp_grad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *lse,
                                 const moert_buffer *grads, const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RowLogsumexpGrad, {{"x", x}, {"lse", lse}, {"grads", grads}, {"out", out}});
}

int32_t moert_pick(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *labels,
                   const moert_buffer *out, int64_t parts, int64_t stride, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Pick, {{"x", x}, {"labels", labels}, {"out", out}},
                   {{parts, stride, indexOf(rank)}});
}

int32_t moert_pick_grad(moert_rank_t rank, int64_t op, const moert_buffer *labels, const moert_buffer *grads,
                        const moert_buffer *addend, const moert_buffer *out, int64_t parts, int64_t stride,
                        moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::PickGrad,
                   {{"labels", labels}, {"grads", grads}, {"addend", addend, kOptional}, {"out", out}},
                   {{parts, stride, indexOf(rank)}});
}

int32_t moert_label_sum(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *labels,
                        const moert_buffer *sum, const moert_buffer *count, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::LabelSum,
                   {{"rows", rows}, {"labels", labels}, {"sum", sum}, {"count", count}});
}

int32_t moert_label_sum_grad(moert_rank_t rank, int64_t op, const moert_buffer *labels, const moert_buffer *grad,
                             const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::LabelSumGrad, {{"labels", labels}, {"grad", grad}, {"out", out}});
}

int32_t moert_divide(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b,
                     const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Divide, {{"a", a}, {"b", b}, {"out", out}});
}

// --- Optimizers --------------------------------------------------------------

int32_t moert_sum_squares(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                          moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::SumSquares, {{"in", in}, {"out", out}});
}

int32_t moert_clip_factor(moert_rank_t rank, int64_t op, const moert_buffer *sum_squares, const moert_buffer *out,
                          double most, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::ClipFactor, {{"sum_squares", sum_squares}, {"out", out}}, {.reals = {most}});
}

int32_t moert_square_root(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                          moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::SquareRoot, {{"in", in}, {"out", out}});
}

int32_t moert_sgd(moert_rank_t rank, int64_t op, const moert_buffer *param, const moert_buffer *grad,
                  const moert_buffer *velocity, const moert_buffer *rate, const moert_buffer *factor,
                  const moert_buffer *param_out, const moert_buffer *velocity_out, double momentum, double decay,
                  moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Sgd,
                   {{"param", param},
                    {"grad", grad},
                    {"velocity", velocity},
                    {"rate", rate},
                    {"factor", factor, kOptional},
                    {"param_out", param_out},
                    {"velocity_out", velocity_out}},
                   {.reals = {momentum, decay}});
}

int32_t moert_adam(moert_rank_t rank, int64_t op, const moert_buffer *param, const moert_buffer *grad,
                   const moert_buffer *first, const moert_buffer *second, const moert_buffer *rate,
                   const moert_buffer *step, const moert_buffer *factor, const moert_buffer *param_out,
                   const moert_buffer *first_out, const moert_buffer *second_out, double beta1, double beta2,
                   double eps, double decay, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Adam,
                   {{"param", param},
                    {"grad", grad},
                    {"first", first},
                    {"second", second},
                    {"rate", rate},
                    {"step", step},
                    {"factor", factor, kOptional},
                    {"param_out", param_out},
                    {"first_out", first_out},
                    {"second_out", second_out}},
                   {.reals = {beta1, beta2, eps, decay}});
}

} // extern "C"
