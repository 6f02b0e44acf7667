//===- Abi.cpp - the calls of compiled plans ------------------------------===//

#include "core/Error.h"
#include "core/Issue.h"

using namespace moert;

/// counts, weights and the like may be null.
constexpr bool kOptional = true;

/// The place of a rank in a group that no call meets in.
struct Place {
  int64_t member = 0, size = 1;
};

static int32_t findPlace(moert_rank_t rank, const moert_group *group, Place &place) {
  int32_t index = -1;
  if (!rank)
    return report(Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected a rank but got null"));
  if (int32_t code = guarded([&] { return findGroup(*rank, group, index); }))
    return code;
  place = {(*rank->groups)[static_cast<size_t>(index)].memberOf(rank->rank), group->size};
  return MOERT_OK;
}

/// A kernel that works on this member's part of a group: its attributes are `first`, the member's index and the group's
/// size.
static int32_t issuePart(moert_rank_t rank, int64_t op, moert_stream_t stream, Kind kind,
                         std::initializer_list<Operand> operands, int64_t first, const moert_group *group) {
  Place place;
  if (int32_t code = findPlace(rank, group, place))
    return code;
  return issueCall(rank, op, stream, kind, operands, {{first, place.member, place.size}});
}

/// Which block of the group a member sends to in a phase, and of how many; all of one where the phase makes no sense,
/// which the communicator then says.
static std::pair<int32_t, int32_t> partSent(moert_rank_t rank, const moert_group *group, int64_t phase,
                                            int64_t phases) {
  if (!rank || !group || group->stride < 1 || phases < 1 || phases > group->size || group->size % phases != 0 ||
      phase < 0 || phase >= phases)
    return {0, 1};
  int64_t block = rank->rank / group->stride % group->size / (group->size / phases);
  return {static_cast<int32_t>((block + phases - phase) % phases), static_cast<int32_t>(phases)};
}

extern "C" {

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream) {
  return issueRecord(rank, event, stream);
}

int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream) { return issueWait(rank, event, stream); }

int32_t moert_matmul(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b, const moert_buffer *c,
                     int64_t transpose_a, int64_t transpose_b, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Matmul, {{"a", a}, {"b", b}, {"c", c}}, {{transpose_a, transpose_b}});
}

int32_t moert_add(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b, const moert_buffer *out,
                  moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Add, {{"a", a}, {"b", b}, {"out", out}});
}

int32_t moert_scale(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, double factor,
                    moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Scale, {{"in", in}, {"out", out}}, {.reals = {factor}});
}

int32_t moert_copy(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                   moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Copy, {{"in", in}, {"out", out}});
}

int32_t moert_row_scale(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *factors,
                        const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RowScale, {{"rows", rows}, {"factors", factors}, {"out", out}});
}

int32_t moert_row_dot(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b,
                      const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RowDot, {{"a", a}, {"b", b}, {"out", out}});
}

int32_t moert_slice(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                    const moert_group *group, moert_stream_t stream) {
  return issuePart(rank, op, stream, Kind::Slice, {{"in", in}, {"out", out}}, dim, group);
}

int32_t moert_dump(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                   int64_t blocks, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Dump, {{"in", in}, {"out", out}}, {{dim, blocks}});
}

int32_t moert_local_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                           int64_t blocks, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::LocalReduce, {{"in", in}, {"out", out}}, {{dim, blocks}});
}

int32_t moert_grouped_matmul(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *weights,
                             const moert_buffer *counts, const moert_buffer *out, int64_t transpose_weights,
                             moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::GroupedMatmul,
                   {{"rows", rows}, {"weights", weights}, {"counts", counts, kOptional}, {"out", out}},
                   {.ints = {transpose_weights}, .countsView = 2});
}

int32_t moert_grouped_matmul_wgrad(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *grads,
                                   const moert_buffer *counts, const moert_buffer *addend, const moert_buffer *out,
                                   moert_stream_t stream) {
  return issueCall(
      rank, op, stream, Kind::GroupedMatmulWgrad,
      {{"rows", rows}, {"grads", grads}, {"counts", counts, kOptional}, {"addend", addend, kOptional}, {"out", out}},
      {.countsView = 2});
}

int32_t moert_bias_add(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *bias,
                       const moert_buffer *counts, const moert_buffer *out, double scale, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::BiasAdd,
                   {{"rows", rows}, {"bias", bias}, {"counts", counts, kOptional}, {"out", out}},
                   {.reals = {scale}, .countsView = 2});
}

int32_t moert_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *counts,
                        const moert_buffer *addend, const moert_buffer *out, double scale, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::BiasGrad,
                   {{"grads", grads}, {"counts", counts, kOptional}, {"addend", addend, kOptional}, {"out", out}},
                   {.reals = {scale}, .countsView = 1});
}

int32_t moert_activation(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *counts,
                         const moert_buffer *out, int64_t kind, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Activation, {{"in", in}, {"counts", counts, kOptional}, {"out", out}},
                   {.ints = {kind}, .countsView = 1});
}

int32_t moert_activation_grad(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *grad,
                              const moert_buffer *counts, const moert_buffer *out, int64_t kind,
                              moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::ActivationGrad,
                   {{"in", in}, {"grad", grad}, {"counts", counts, kOptional}, {"out", out}},
                   {.ints = {kind}, .countsView = 2});
}

int32_t moert_route(moert_rank_t rank, int64_t op, const moert_buffer *logits, const moert_buffer *selection_bias,
                    const moert_buffer *scores, const moert_buffer *experts, const moert_buffer *slots,
                    const moert_buffer *weights, const moert_buffer *counts, const moert_buffer *aux, int64_t score,
                    int64_t renormalize, int64_t expert_groups, int64_t top_groups, int64_t group_score,
                    int64_t capacity, int64_t groups, int64_t chunks, int64_t chunk_rows, int64_t leave, int64_t homes,
                    int64_t home_stride, int64_t home_span, double routing_scale, moert_stream_t stream) {
  // Last, where the home of a routing group counts from; a null rank is refused below.
  int64_t index = rank ? rank->rank : 0;
  return issueCall(rank, op, stream, Kind::Route,
                   {{"logits", logits},
                    {"selection_bias", selection_bias, kOptional},
                    {"scores", scores},
                    {"experts", experts},
                    {"slots", slots},
                    {"weights", weights},
                    {"counts", counts},
                    {"aux", aux}},
                   {{score, renormalize, expert_groups, top_groups, group_score, capacity, groups, chunks, chunk_rows,
                     leave, homes, home_stride, home_span, index},
                    {routing_scale}});
}

int32_t moert_route_grad(moert_rank_t rank, int64_t op, const moert_buffer *scores, const moert_buffer *experts,
                         const moert_buffer *grad_weights, const moert_buffer *grad_aux,
                         const moert_buffer *grad_logits, int64_t score, int64_t renormalize, int64_t groups,
                         double routing_scale, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::RouteGrad,
                   {{"scores", scores},
                    {"experts", experts},
                    {"grad_weights", grad_weights, kOptional},
                    {"grad_aux", grad_aux, kOptional},
                    {"grad_logits", grad_logits}},
                   {{score, renormalize, groups}, {routing_scale}});
}

int32_t moert_dispatch(moert_rank_t rank, int64_t op, const moert_buffer *tokens, const moert_buffer *slots,
                       const moert_buffer *weights, const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Dispatch,
                   {{"tokens", tokens}, {"slots", slots}, {"weights", weights, kOptional}, {"out", out}});
}

int32_t moert_combine(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *slots,
                      const moert_buffer *weights, const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Combine,
                   {{"rows", rows}, {"slots", slots}, {"weights", weights, kOptional}, {"out", out}});
}

int32_t moert_slot_dot(moert_rank_t rank, int64_t op, const moert_buffer *tokens, const moert_buffer *rows,
                       const moert_buffer *slots, const moert_buffer *out, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::SlotDot,
                   {{"tokens", tokens}, {"rows", rows}, {"slots", slots}, {"out", out}});
}

int32_t moert_slice_counts(moert_rank_t rank, int64_t op, const moert_buffer *counts, const moert_buffer *out,
                           int64_t rows, const moert_group *group, moert_stream_t stream) {
  return issuePart(rank, op, stream, Kind::SliceCounts, {{"counts", counts}, {"out", out}}, rows, group);
}

int32_t moert_local_slots(moert_rank_t rank, int64_t op, const moert_buffer *slots, const moert_buffer *counts,
                          const moert_buffer *local_slots, const moert_buffer *local_counts, int64_t capacity,
                          int64_t room, int64_t copies, const moert_group *group, moert_stream_t stream) {
  Place place;
  if (int32_t code = findPlace(rank, group, place))
    return code;
  return issueCall(rank, op, stream, Kind::LocalSlots,
                   {{"slots", slots}, {"counts", counts}, {"local_slots", local_slots}, {"local_counts", local_counts}},
                   {{capacity, room, copies, place.member, place.size}});
}

int32_t moert_choose_shadows(moert_rank_t rank, int64_t op, const moert_buffer *counts, const moert_buffer *shadows,
                             int64_t policy, int64_t workers, int64_t node_workers, int64_t most, int64_t room,
                             int64_t phases, double row_compute_s, double row_send_s, double row_local_s,
                             double row_node_s, double expert_s, double start_s, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::ChooseShadows, {{"counts", counts}, {"shadows", shadows}},
                   {{policy, workers, node_workers, most, room, phases},
                    {row_compute_s, row_send_s, row_local_s, row_node_s, expert_s, start_s}});
}

int32_t moert_divide_choices(moert_rank_t rank, int64_t op, const moert_buffer *experts, const moert_buffer *shadows,
                             const moert_buffer *slots, const moert_buffer *counts, const moert_buffer *shadow_slots,
                             const moert_buffer *shadow_counts, int64_t chunks, int64_t chunk_rows,
                             moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::DivideChoices,
                   {{"experts", experts},
                    {"shadows", shadows},
                    {"slots", slots},
                    {"counts", counts},
                    {"shadow_slots", shadow_slots},
                    {"shadow_counts", shadow_counts}},
                   {{chunks, chunk_rows}});
}

int32_t moert_all_gather(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                         const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AllGather, {{"in", in}, {"out", out}}, {.ints = {dim}, .group = group});
}

int32_t moert_reduce_scatter(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                             int64_t dim, const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::ReduceScatter, {{"in", in}, {"out", out}}, {.ints = {dim}, .group = group});
}

int32_t moert_all_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *counts,
                         const moert_buffer *out, const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AllReduce, {{"in", in}, {"counts", counts, kOptional}, {"out", out}},
                   {.group = group, .countsView = 1});
}

int32_t moert_all_to_all(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                         int64_t split_dim, int64_t concat_dim, int64_t copies, int64_t phase, int64_t phases,
                         const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AllToAll, {{"in", in}, {"out", out}},
                   {.ints = {split_dim, concat_dim, copies, phase, phases}, .group = group});
}

int32_t moert_all_to_all_v(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *block_counts,
                           const moert_buffer *expert_counts, const moert_buffer *addend, const moert_buffer *out,
                           int64_t direction, int64_t copies, int64_t stored, int64_t phase, int64_t phases,
                           const moert_group *group, moert_stream_t stream) {
  // A rank sends the rows of the side that it reads: of the block side, those for the block of this phase.
  bool toExperts = direction == MOERT_TO_EXPERTS;
  auto [part, parts] = toExperts ? partSent(rank, group, phase, phases) : std::pair<int32_t, int32_t>{0, 1};
  return issueCall(rank, op, stream, Kind::AllToAllV,
                   {{"rows", rows},
                    {"block_counts", block_counts},
                    {"expert_counts", expert_counts},
                    {"addend", addend, kOptional},
                    {"out", out}},
                   {.ints = {direction, copies, stored, phase, phases},
                    .group = group,
                    .countsView = static_cast<int8_t>(toExperts ? 1 : 2),
                    .countsPart = part,
                    .countsParts = parts});
}

int32_t moert_broadcast_experts(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *shadows,
                                const moert_buffer *out, const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::BroadcastExperts, {{"in", in}, {"shadows", shadows}, {"out", out}},
                   {.group = group, .countsView = 1});
}

int32_t moert_reduce_experts(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *shadows,
                             const moert_buffer *addend, const moert_buffer *out, const moert_group *group,
                             moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::ReduceExperts,
                   {{"in", in}, {"shadows", shadows}, {"addend", addend, kOptional}, {"out", out}},
                   {.group = group, .countsView = 1});
}

int32_t moert_broadcast(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t root,
                        const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Broadcast, {{"in", in}, {"out", out}}, {.ints = {root}, .group = group});
}

int32_t moert_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t root,
                     const moert_group *group, moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Reduce, {{"in", in}, {"out", out}}, {.ints = {root}, .group = group});
}

int32_t moert_send(moert_rank_t rank, int64_t op, const moert_buffer *in, int64_t peer, const moert_group *group,
                   moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Send, {{"in", in}}, {.ints = {peer}, .group = group});
}

int32_t moert_receive(moert_rank_t rank, int64_t op, const moert_buffer *out, int64_t peer, const moert_group *group,
                      moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::Receive, {{"out", out}}, {.ints = {peer}, .group = group});
}

int32_t moert_assume_replicated(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_group *group,
                                moert_stream_t stream) {
  return issueCall(rank, op, stream, Kind::AssumeReplicated, {{"in", in}}, {.group = group});
}

} // extern "C"
