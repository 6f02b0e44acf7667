//===- moert.h - the C ABI between compiled plans and the runtime ---------===//
//
// A plan .so holds programs of ranks, one for all or one for each stage of a pipeline: straight-line functions that
// issue the calls below, one per `plan` op, onto streams. Every call only enqueues. Conventions: rank first, the op's
// index in the plan's metadata second, then inputs, outputs, attributes (int64_t or double), the group where there is
// one, and the stream last. Every call returns a `moert_status`; the text behind the last error of the calling thread
// is `moert_last_error()`. Absent optional inputs are null. Shapes are written [rows, columns], row-major and dense.
// `counts` is [sources, experts] i32.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_MOERT_H
#define MOERT_MOERT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Raised whenever a call below or the metadata changes meaning; a plan compiled for another version is refused.
#define MOERT_ABI_VERSION 5

typedef enum moert_status {
  MOERT_OK = 0,
  MOERT_ERROR_INVALID_ARGUMENT = 1,
  MOERT_ERROR_OUT_OF_MEMORY = 2,
  /// Nothing can run and the step is not finished, or a time-out passed.
  MOERT_ERROR_HANG = 3,
  /// More rows arrived than a dropless buffer was reserved for.
  MOERT_ERROR_OVERFLOW = 4,
  /// A value assumed equal on all members of a group is not (checked under verification only).
  MOERT_ERROR_NOT_REPLICATED = 5,
  MOERT_ERROR_UNSUPPORTED = 6,
  MOERT_ERROR_INTERNAL = 7
} moert_status;

typedef enum moert_dtype { MOERT_F32 = 0, MOERT_F64 = 1, MOERT_BF16 = 2, MOERT_I32 = 3, MOERT_F16 = 4 } moert_dtype;

typedef enum moert_space {
  MOERT_SPACE_DEVICE = 0,
  MOERT_SPACE_HOST_PINNED = 1,
  /// `offset` is the index of an argument of the program (inputs first, then results), not a byte offset.
  MOERT_SPACE_ARGUMENT = 2
} moert_space;

typedef enum moert_activation_kind {
  MOERT_RELU = 0,
  /// x * Phi(x), the exact (erf) form.
  MOERT_GELU = 1,
  MOERT_SILU = 2,
  /// Input columns are interleaved (gate, up) pairs: out[j] = silu(in[2j]) * in[2j+1].
  MOERT_SWIGLU = 3,
  /// gpt-oss: g = min(in[2j], 7), u = clamp(in[2j+1], -7, 7), out[j] = g * sigmoid(1.702 g) * (u + 1).
  MOERT_SWIGLU_CLAMPED = 4,
  MOERT_SIGMOID = 5,
  /// x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is GPT-2's form with tanh.
  MOERT_GELU_TANH = 6
} moert_activation_kind;

typedef enum moert_score_kind { MOERT_SOFTMAX = 0, MOERT_SIGMOID_SCORE = 1 } moert_score_kind;

/// How a group of experts is scored in group-limited routing: its best expert (DeepSeek-V2), or the sum of its best two
/// (DeepSeek-V3).
typedef enum moert_group_score_kind { MOERT_GROUP_MAX = 0, MOERT_GROUP_TOP2 = 1 } moert_group_score_kind;

typedef enum moert_direction { MOERT_TO_EXPERTS = 0, MOERT_FROM_EXPERTS = 1 } moert_direction;

/// Where a value lies: constant data of the plan.
///
/// With parts > 1 the value is one of `parts` equal consecutive parts of what lies at that place: on rank r part number
/// (r / stride + shift) mod parts, which is never negative. `dims` are those of one part; an argument has as many
/// elements as all parts. With parts 0 or 1 shift and stride say nothing.
///
/// A view of an argument, the same on all ranks, begins `begin` bytes from the argument's start and is one of equal
/// consecutive pieces of it: begin, and the argument's bytes, are multiples of the bytes of all parts. With parts 0 and
/// begin 0 there is no view: the buffer must be the whole argument. A buffer in an arena has begin 0: its offset says
/// where it lies.
typedef struct moert_buffer {
  int32_t space;  ///< moert_space
  int32_t dtype;  ///< moert_dtype
  int64_t offset; ///< bytes from the start of the arena, or the argument's index
  int64_t rank;
  int64_t dims[4];
  int64_t parts;
  int64_t shift;
  int64_t stride; ///< at least 1 where parts > 1
  int64_t begin;  ///< bytes from the start of the argument; 0 in arenas
} moert_buffer;

/// Rank r is member (r / stride) mod size.
typedef struct moert_group {
  const char *name;
  int64_t size;
  int64_t stride;
} moert_group;

typedef struct moert_rank *moert_rank_t;
/// Index into the plan's stream table.
typedef int64_t moert_stream_t;

/// Text of the last error of this thread; never null.
const char *moert_last_error(void);

// --- Order between streams ---------------------------------------------------

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream);
int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream);

// --- Types of operands -------------------------------------------------------
// The floating operands of a call are of one type, but for moert_cast's. Where that is bf16 or f16, an operand called
// an *accumulator* below is f32, or of that type too. Plans make it f32, and with it all of moert_route,
// moert_route_grad, moert_label_sum, moert_label_sum_grad and moert_divide.

// --- Dense compute -----------------------------------------------------------

/// c[m,n] = op(a) op(b), op transposing where its flag is 1.
int32_t moert_matmul(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b, const moert_buffer *c,
                     int64_t transpose_a, int64_t transpose_b, moert_stream_t stream);
/// out = a + b, any shape; out may be a or b.
int32_t moert_add(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b, const moert_buffer *out,
                  moert_stream_t stream);
/// out = factor * in; out may be in.
int32_t moert_scale(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, double factor,
                    moert_stream_t stream);
/// out = in, also between the arenas: an offload to the host's memory, or what fetches it back.
int32_t moert_copy(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                   moert_stream_t stream);
/// out[s,:] = factors[s] * rows[s,:]; factors is [S,1], an accumulator; out may be rows.
int32_t moert_row_scale(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *factors,
                        const moert_buffer *out, moert_stream_t stream);
/// out[s,0] = sum_m a[s,m] b[s,m]; out is an accumulator.
int32_t moert_row_dot(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b,
                      const moert_buffer *out, moert_stream_t stream);
/// The member's part of `in` along `dim`: in is [.., size * n, ..], out is [.., n, ..].
int32_t moert_slice(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                    const moert_group *group, moert_stream_t stream);
/// Repeats each of `blocks` equal blocks along `dim`: in is [.., blocks * n, ..], out is [.., blocks * c * n, ..], and
/// out[.., (b*c + q)*n + i, ..] = in[.., b*n + i, ..] for all copies q < c. `blocks` is at least 1. Any dtype that
/// moert_slice moves.
int32_t moert_dump(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                   int64_t blocks, moert_stream_t stream);
/// The adjoint of moert_dump: in is [.., blocks * c * n, ..], out is [.., blocks * n, ..], and
/// out[.., b*n + i, ..] = sum_q in[.., (b*c + q)*n + i, ..], in the order of q.
int32_t moert_local_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                           int64_t blocks, moert_stream_t stream);

// --- Experts -----------------------------------------------------------------
// With `counts` null, rows are [E, C, K] (capacity form). Otherwise rows are [R, K], sorted by expert and packed from
// row 0: expert e has sum_s counts[s,e] rows; rows beyond the last used one are neither read nor written.

/// out = rows * weights[e]; weights are [E, K, N], or [E, N, K] with transpose_weights = 1.
int32_t moert_grouped_matmul(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *weights,
                             const moert_buffer *counts, const moert_buffer *out, int64_t transpose_weights,
                             moert_stream_t stream);
/// out[e] = addend[e] + rows_e^T grads_e, [E, K, N]; addend null: zero. Experts without rows get the addend. out may be
/// addend.
int32_t moert_grouped_matmul_wgrad(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *grads,
                                   const moert_buffer *counts, const moert_buffer *addend, const moert_buffer *out,
                                   moert_stream_t stream);
/// out = rows + scale * bias[e]. bias is [E, N]; with rows [S, N] and counts null it is [N]. out may be rows.
int32_t moert_bias_add(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *bias,
                       const moert_buffer *counts, const moert_buffer *out, double scale, moert_stream_t stream);
/// out = addend + scale * (sum of the rows of each expert), shaped as the bias of moert_bias_add; addend null: zero.
/// out may be addend.
int32_t moert_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *counts,
                        const moert_buffer *addend, const moert_buffer *out, double scale, moert_stream_t stream);
/// Elementwise over the used rows of any shape; for the swiglu kinds out has half as many columns. `kind` is a
/// moert_activation_kind. out may be in where the shapes agree.
int32_t moert_activation(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *counts,
                         const moert_buffer *out, int64_t kind, moert_stream_t stream);
/// out = (d activation / d in) * grad, shaped as `in`; out may be in.
int32_t moert_activation_grad(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *grad,
                              const moert_buffer *counts, const moert_buffer *out, int64_t kind, moert_stream_t stream);

// --- Routing -----------------------------------------------------------------

/// Routes the S tokens of `logits` [S, E], `groups` blocks of S/groups consecutive tokens apart from each other.
///
/// scores  [S, E]: softmax over E, or the sigmoid, of the logits.
/// experts [S, k] i32: the k experts of largest selection value, best first, ties to the lower index. The selection
/// value
///   is scores + selection_bias (null: zero). With expert_groups > 1 the E experts form that many consecutive groups,
///   each scored by group_score over its selection values, and only experts of the top_groups best groups may be
///   chosen.
/// weights [S, k]: the scores at `experts`; with renormalize = 1 divided by their sum (+1e-20); times routing_scale.
/// slots   [S, k] i32: the row of the dispatched tokens for each choice, -1 where it is dropped.
///   capacity > 0: rows are [E, groups * capacity]; the choices of a group fill an expert's rows of that group in the
///   order (choice j, token s), all first choices before all second ones; a choice beyond `capacity` is dropped.
///   capacity = 0 (dropless): rows are S*k, sorted by expert, then by (token s, choice j).
///   With chunks = n > 1 the rows are those of n chunks one after the other, so that each chunk is one piece of memory.
///   capacity > 0: n divides R = groups * capacity, rows are [n, E, R / n], and row r of expert e, numbered as above,
///   is row r mod (R / n) of expert e in chunk r / (R / n); chunk_rows is 0.
///   capacity = 0: chunk c holds the choices of the tokens s with floor(s * n / S) = c, in rows from c * chunk_rows on,
///   sorted likewise; chunk_rows is at least k * ceil(S / n), the most choices of a chunk. With one chunk it may be 0,
///   which is S*k.
/// counts  [chunks, E] i32: rows really used by each expert in each chunk.
/// aux     []: the load-balancing loss (GShard, Switch), the mean over groups g of
///   E * sum_e f[g,e] P[g,e], f = choices of e in g (dropped ones included) / (k S_g), P = mean over the group's tokens
///   of scores[s,e] (softmax) or scores[s,e] / sum_e' scores[s,e'] (sigmoid).
/// leave >= 0: FasterMoE's topology-aware gate. The experts are in `homes` equal blocks of consecutive ones; routing
///   group g is at home with block (rank / home_stride + g / home_span) mod homes. One choice j after the other, of the
///   tokens of a group whose choice is not at home the `leave` with the highest selection values keep it (ties to the
///   lower token); each other one chooses again, the best expert at home that it has not chosen yet. So of every j at
///   most `leave` choices of a group leave home. Wants expert_groups = 1 and k <= E / homes. leave < 0: the plain gate.
/// `score` is a moert_score_kind, `group_score` a moert_group_score_kind.
int32_t moert_route(moert_rank_t rank, int64_t op, const moert_buffer *logits, const moert_buffer *selection_bias,
                    const moert_buffer *scores, const moert_buffer *experts, const moert_buffer *slots,
                    const moert_buffer *weights, const moert_buffer *counts, const moert_buffer *aux, int64_t score,
                    int64_t renormalize, int64_t expert_groups, int64_t top_groups, int64_t group_score,
                    int64_t capacity, int64_t groups, int64_t chunks, int64_t chunk_rows, int64_t leave, int64_t homes,
                    int64_t home_stride, int64_t home_span, double routing_scale, moert_stream_t stream);
/// Gradient of the logits from those of the weights [S,k] and of aux [], either of which may be null (zero).
/// The choice of experts and the loads f are constants, as in every framework.
int32_t moert_route_grad(moert_rank_t rank, int64_t op, const moert_buffer *scores, const moert_buffer *experts,
                         const moert_buffer *grad_weights, const moert_buffer *grad_aux,
                         const moert_buffer *grad_logits, int64_t score, int64_t renormalize, int64_t groups,
                         double routing_scale, moert_stream_t stream);
/// out[slots[s,j],:] = (weights ? weights[s,j] : 1) * tokens[s,:]; rows without a token become zero. out is [E,T,M] or
/// [R,M], weights an accumulator.
int32_t moert_dispatch(moert_rank_t rank, int64_t op, const moert_buffer *tokens, const moert_buffer *slots,
                       const moert_buffer *weights, const moert_buffer *out, moert_stream_t stream);
/// out[s,:] = sum_j (weights ? weights[s,j] : 1) * rows[slots[s,j],:], dropped choices adding nothing. weights is an
/// accumulator.
int32_t moert_combine(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *slots,
                      const moert_buffer *weights, const moert_buffer *out, moert_stream_t stream);
/// out[s,j] = <tokens[s,:], rows[slots[s,j],:]>, 0 for dropped choices; out is an accumulator.
int32_t moert_slot_dot(moert_rank_t rank, int64_t op, const moert_buffer *tokens, const moert_buffer *rows,
                       const moert_buffer *slots, const moert_buffer *out, moert_stream_t stream);
/// The counts of the member's part of packed rows: of `rows` rows, counts[0,e] of each expert from row 0 on and the
/// rest unused, cut into size equal parts, out[0,e] lie in the part of this member and belong to expert e. counts and
/// out are [1, E] i32; the group's size divides `rows`. Counts of more than `rows` in all: MOERT_ERROR_OVERFLOW. Not a
/// collective: it tells apart what moert_slice of the rows gave.
int32_t moert_slice_counts(moert_rank_t rank, int64_t op, const moert_buffer *counts, const moert_buffer *out,
                           int64_t rows, const moert_group *group, moert_stream_t stream);
/// The choices of this member's own experts (PPMoE). slots [S, k] and counts [1, E] are moert_route's, the same on all
/// members; member j has the n = E * copies / size experts from (j / copies) * n on.
/// local_slots  [S, k]: the row among those of these experts alone, each of `capacity` rows, or packed where that is 0;
///   -1 where the choice is of another expert or dropped.
/// local_counts [1, n]: their counts.
/// Without a capacity, more rows in all than `room`: MOERT_ERROR_OVERFLOW. Not a collective.
int32_t moert_local_slots(moert_rank_t rank, int64_t op, const moert_buffer *slots, const moert_buffer *counts,
                          const moert_buffer *local_slots, const moert_buffer *local_counts, int64_t capacity,
                          int64_t room, int64_t copies, const moert_group *group, moert_stream_t stream);

// --- Shadows -------------------------------------------------------------------
// FasterMoE's dynamic shadowing. `shadows` is [1, E] i32, 1 where an expert is a shadow for this step, else 0. A tensor
// of shadows has R places, of which place r is the r-th such expert; more shadows than places are an error.

/// Which experts become shadows, from how many rows each member sends to each expert: counts [sources, E] i32 of
/// `workers` workers with sources / workers consecutive rows and E / workers consecutive experts each. A pure function
/// of its arguments: moert_shadows_choose (moert/shadows.h) of them, which says what they mean.
int32_t moert_choose_shadows(moert_rank_t rank, int64_t op, const moert_buffer *counts, const moert_buffer *shadows,
                             int64_t policy, int64_t workers, int64_t node_workers, int64_t most, int64_t room,
                             int64_t phases, double row_compute_s, double row_send_s, double row_local_s,
                             double row_node_s, double expert_s, double start_s, moert_stream_t stream);
/// Divides dropless choices between the experts and their shadows. `experts` [S, k] are moert_route's.
/// slots  [S, k], counts [chunks, E]: what moert_route gives with `chunks` and `chunk_rows`, as if choices of shadows
///   were not there: these have slot -1 and are not counted.
/// shadow_slots [S, k]: rows of S*k, sorted by shadow, then by (token s, choice j); -1 where the choice is no shadow.
/// shadow_counts [1, R]: rows of the shadow in each place.
int32_t moert_divide_choices(moert_rank_t rank, int64_t op, const moert_buffer *experts, const moert_buffer *shadows,
                             const moert_buffer *slots, const moert_buffer *counts, const moert_buffer *shadow_slots,
                             const moert_buffer *shadow_counts, int64_t chunks, int64_t chunk_rows,
                             moert_stream_t stream);

// --- Collectives -------------------------------------------------------------
// Every member of the group issues the same sequence, but for moert_send and moert_receive. Any dtype where nothing is
// summed.

/// out[.., i*n + a, ..] = in_i[.., a, ..], member i's part along `dim`.
int32_t moert_all_gather(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t dim,
                         const moert_group *group, moert_stream_t stream);
/// Member i gets part i along `dim` of the sum of all members' inputs.
int32_t moert_reduce_scatter(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                             int64_t dim, const moert_group *group, moert_stream_t stream);
/// With counts, in and out are [R, ..] and only the first sum(counts) rows take part; all members' sums are equal.
/// out may be in. The order of the sum is the same on all members.
int32_t moert_all_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *counts,
                         const moert_buffer *out, const moert_group *group, moert_stream_t stream);
/// Part j of my input along split_dim becomes, on member j, part (my index) along concat_dim of its output.
///
/// `copies` = c, which divides the group's size: part j of the input is part j / c of what is stored. `in` holds size /
/// c parts, and the c members j of one j / c are sent the same bytes from there; nothing is copied before.
///
/// `phases` = n, which divides the group's size: the members form n blocks of size / n consecutive ones. In phase p < n
/// block b sends to block (b - p) mod n and receives from block (b + p) mod n, nothing else moves. `in` is the whole
/// input in every phase, of which this phase's parts are read; `out` is what this phase brings: size / n parts along
/// concat_dim, in the order of the members that sent them.
///
/// copies 1, phase 0 of phases 1 is the plain exchange.
int32_t moert_all_to_all(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                         int64_t split_dim, int64_t concat_dim, int64_t copies, int64_t phase, int64_t phases,
                         const moert_group *group, moert_stream_t stream);
/// The ragged exchange of the dropless form. Each expert is held by `copies` = c neighbouring members, c dividing the
/// group's size: member j holds the experts of part j / c of size / c parts of all E.
///
/// With B = dims[0] of block_counts, which is [B, E], the *block* side is one or more copies of [B * n, M]: block b
/// starts at row b * n of its copy and holds its rows sorted by expert, block_counts[b,e] each. The *expert* side is
/// [R, M], packed: for each of my E * c / size experts e, for each member i, for each of its blocks b,
/// expert_counts[i*B+b,e] rows; expert_counts is [size * B, E * c / size], the moert_all_to_all of block_counts with
/// `copies` c (split_dim 1, concat_dim 0, one phase).
///
/// direction MOERT_TO_EXPERTS: rows is the block side, [stored * B * n, M], out the expert side. `stored` is 1, and the
/// one copy goes to all holders of an expert, or c: copy q, from row q * B * n on, goes to the members j with
/// j mod c = q. MOERT_FROM_EXPERTS: rows is the expert side, out the block side, [c * B * n, M]; what comes from member
/// j goes into copy j mod c, unused rows become zero, and `stored` says nothing. More expert-side rows than R:
/// MOERT_ERROR_OVERFLOW. copies 1, stored 1 is the plain exchange.
///
/// `phases` = n, which divides size / c: as in moert_all_to_all, in phase p < n block b of the members sends to block
/// (b - p) mod n and receives from block (b + p) mod n, to the experts; on the way back rows go where they came from.
/// expert_counts is [size / n * B, E * c / size], of the members that phase p receives from alone, in their order, and
/// the expert side has their rows alone. The block side is the whole one in every phase: to the experts its rows for
/// block (b - p) are read, on the way back these are written and all others are the addend's, which is shaped as out,
/// or zero without one; out may be the addend. To the experts there is no addend.
int32_t moert_all_to_all_v(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *block_counts,
                           const moert_buffer *expert_counts, const moert_buffer *addend, const moert_buffer *out,
                           int64_t direction, int64_t copies, int64_t stored, int64_t phase, int64_t phases,
                           const moert_group *group, moert_stream_t stream);
/// Shadows' values: in is [E / size, ..] of this member's consecutive experts, out [R, ..]: out[r,..] is what the
/// member that has the expert in place r has of it. Places without one are not written. All members' shadows are equal.
/// Any dtype.
int32_t moert_broadcast_experts(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *shadows,
                                const moert_buffer *out, const moert_group *group, moert_stream_t stream);
/// The adjoint of moert_broadcast_experts: in is [R, ..], out [E / size, ..]: out[i,..] = addend[i,..] (null: zero)
/// plus, where my expert i is in place r, the sum of all members' in[r,..], in the order of the members. out may be
/// addend.
int32_t moert_reduce_experts(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *shadows,
                             const moert_buffer *addend, const moert_buffer *out, const moert_group *group,
                             moert_stream_t stream);
/// out = in of member `root`.
int32_t moert_broadcast(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t root,
                        const moert_group *group, moert_stream_t stream);
/// out = the sum of all members' inputs on member `root`, zeros elsewhere.
int32_t moert_reduce(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, int64_t root,
                     const moert_group *group, moert_stream_t stream);
/// The two that pass a value on between the stages of a pipeline: `in` goes to member `peer` of the group, `out`
/// becomes what member `peer` sends. Only the two meet: on an instance of the group the k-th send from a to b meets the
/// k-th receive of b from a, whatever else the members issue. Both have one shape and one dtype; any dtype. Nothing is
/// buffered: a send is done when its receive is, so that two streams that first send to each other hang.
int32_t moert_send(moert_rank_t rank, int64_t op, const moert_buffer *in, int64_t peer, const moert_group *group,
                   moert_stream_t stream);
int32_t moert_receive(moert_rank_t rank, int64_t op, const moert_buffer *out, int64_t peer, const moert_group *group,
                      moert_stream_t stream);
/// Nothing, unless the world verifies: then fails with MOERT_ERROR_NOT_REPLICATED where members' values differ by more
/// than rounding.
int32_t moert_assume_replicated(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_group *group,
                                moert_stream_t stream);

// --- Whole models ------------------------------------------------------------
// Tokens are rows: S = batch * sequence of them, sequence by sequence. `out` may be the input of its shape where that
// is said. A call that works on one of `parts` equal parts of something works on part (rank / stride) mod parts.

/// out[s] = s mod period, i32 [S]: the position of each token in its sequence.
int32_t moert_positions(moert_rank_t rank, int64_t op, const moert_buffer *out, int64_t period, moert_stream_t stream);
/// out = factor * in + offset, i32 of any shape; out may be in.
int32_t moert_index_affine(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                           int64_t factor, int64_t offset, moert_stream_t stream);
/// out = value everywhere.
int32_t moert_fill(moert_rank_t rank, int64_t op, const moert_buffer *out, double value, moert_stream_t stream);
/// out = in in out's type, f32, f64, bf16 or f16 (ties to even).
int32_t moert_cast(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                   moert_stream_t stream);
/// out[s,:] = table[ids[s] - part * V, :], zeros where another part has it; ids [S] i32, table [V, M], out [S, M]. An
/// id below 0 or of parts * V or more: MOERT_ERROR_INVALID_ARGUMENT with the id and its place.
int32_t moert_embedding(moert_rank_t rank, int64_t op, const moert_buffer *ids, const moert_buffer *table,
                        const moert_buffer *out, int64_t parts, int64_t stride, moert_stream_t stream);
/// out[v,:] = addend[v,:] + sum of grads[s,:] over the s with ids[s] = part * V + v, in the order of s; addend null:
/// zero; out may be addend.
int32_t moert_embedding_grad(moert_rank_t rank, int64_t op, const moert_buffer *ids, const moert_buffer *grads,
                             const moert_buffer *addend, const moert_buffer *out, int64_t parts, int64_t stride,
                             moert_stream_t stream);

typedef enum moert_norm_kind {
  /// (x - mean) / sqrt(variance + eps), the variance the mean of squared deviations.
  MOERT_LAYER_NORM = 0,
  /// x / sqrt(mean of squares + eps).
  MOERT_RMS_NORM = 1,
  /// x itself.
  MOERT_NO_NORM = 2
} moert_norm_kind;

/// out = n(x) * gamma + beta, n of each block of D consecutive columns of each row by itself: x and out [S, b D], gamma
/// and beta [D]; beta null: zero. out may be x.
int32_t moert_norm(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *gamma,
                   const moert_buffer *beta, const moert_buffer *out, int64_t kind, double eps, moert_stream_t stream);
/// Gradient of x; out may be grads.
int32_t moert_norm_grad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *gamma,
                        const moert_buffer *grads, const moert_buffer *out, int64_t kind, double eps,
                        moert_stream_t stream);
/// Gradient of gamma: out = addend + sum over rows and blocks of n(x) * grads; addend null: zero; out may be addend.
int32_t moert_norm_wgrad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *grads,
                         const moert_buffer *addend, const moert_buffer *out, int64_t kind, double eps,
                         moert_stream_t stream);
/// out = (scale * in + eps) ^ -1/2, any shape; out may be in.
int32_t moert_inverse_root(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out, double scale,
                           double eps, moert_stream_t stream);
/// out = -scale / 2 * root^3 * grads, root what moert_inverse_root gave; out may be either.
int32_t moert_inverse_root_grad(moert_rank_t rank, int64_t op, const moert_buffer *root, const moert_buffer *grads,
                                const moert_buffer *out, double scale, moert_stream_t stream);

/// Rotary positions (Su et al., RoFormer, 2021; YaRN, Peng et al., 2023). x is [S, heads * head_dim]; of each head the
/// R = `rotary_dim` columns from `begin` on are rotated, others copied. Pair i of R / 2 is columns (i, i + R / 2), with
/// `interleaved` (2 i, 2 i + 1), and becomes scale * (a cos t - b sin t, b cos t + a sin t), t = direction * (s mod
/// period) * f_i. f_i = m_i base^(-2 i / R) with m_i = 1 - r_i + r_i / factor, r_i = (i - low) / (high - low) held
/// within [0, 1]; factor 1: m_i = 1. Angles and frequencies in double precision. direction -1 is the adjoint of 1. out
/// may be x.
int32_t moert_rotary(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *out, int64_t period,
                     int64_t head_dim, int64_t begin, int64_t rotary_dim, int64_t interleaved, int64_t direction,
                     double base, double factor, double low, double high, double scale, moert_stream_t stream);

/// out[s,h,:] = [x[s,h,:], shared[s,:]] for each of H heads: x is [S, H D], shared [S, R], out [S, H (D + R)].
int32_t moert_append_to_heads(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *shared,
                              const moert_buffer *out, moert_stream_t stream);
/// Its gradients: grad_x[s,h,:] is the first D columns of grads[s,h,:], grad_shared[s,:] the sum of its last R over h.
int32_t moert_append_to_heads_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *grad_x,
                                   const moert_buffer *grad_shared, moert_stream_t stream);

/// Attention. q is [B L, H Dk], k [B Lk, n Dk], v [B Lk, n Dv], for B sequences of L = q_length queries and Lk =
/// k_length keys. The rank has H = heads query heads, part `part` of the model's parts * H, which share Hk = k_heads
/// key heads. k and v hold all of those (n = Hk): query head h takes key head (part * H + h) * Hk / (parts * H); or
/// only those of this part (n * parts = Hk): it takes h * n / H. score[i,j] = scale <q_i, k_j> + bias[h,i,j], j < Lk;
/// with `causal` only j <= i + Lk - L, and with window > 0 only j > i + Lk - L - window; P = exp(score - lse), lse the
/// logarithm of the sum of exp(score) and, where there are `sinks` [H], of exp(sinks[h]). out_i = sum_j keep_ij / (1 -
/// dropout) P_ij v_j, [B L, H Dv]; lse is [B L, H], an accumulator here and in the gradients. bias [H, L, Lk] and sinks
/// may be null. With dropout > 0 keep_ij is that of moert_dropout for row ((first sequence + b) H' + part * H
/// + h) L + i and column j, H' = parts * H and first sequence = B * ((rank / row_stride) mod row_parts); step may be
/// null without it. A query without keys gives zeros, and lse minus infinity where it has no sink either.
int32_t moert_attention(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                        const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                        const moert_buffer *step, const moert_buffer *out, const moert_buffer *lse, int64_t q_length,
                        int64_t k_length, int64_t heads, int64_t k_heads, int64_t parts, int64_t stride, int64_t causal,
                        int64_t window, int64_t seed, int64_t row_parts, int64_t row_stride, double scale,
                        double dropout, moert_stream_t stream);
/// Gradients of q, k and v from that of out; key heads that the rank's queries do not take get zeros.
int32_t moert_attention_grad(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                             const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                             const moert_buffer *step, const moert_buffer *attended, const moert_buffer *lse,
                             const moert_buffer *grads, const moert_buffer *grad_q, const moert_buffer *grad_k,
                             const moert_buffer *grad_v, int64_t q_length, int64_t k_length, int64_t heads,
                             int64_t k_heads, int64_t parts, int64_t stride, int64_t causal, int64_t window,
                             int64_t seed, int64_t row_parts, int64_t row_stride, double scale, double dropout,
                             moert_stream_t stream);
/// Gradient of the bias, [H, L, Lk], summed over the sequences.
int32_t moert_attention_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *q, const moert_buffer *k,
                                  const moert_buffer *v, const moert_buffer *bias, const moert_buffer *sinks,
                                  const moert_buffer *step, const moert_buffer *attended, const moert_buffer *lse,
                                  const moert_buffer *grads, const moert_buffer *out, int64_t q_length,
                                  int64_t k_length, int64_t heads, int64_t k_heads, int64_t parts, int64_t stride,
                                  int64_t causal, int64_t window, int64_t seed, int64_t row_parts, int64_t row_stride,
                                  double scale, double dropout, moert_stream_t stream);
/// Gradient of the sinks: out[h] = - sum_s exp(sinks[h] - lse[s,h]) <grads_sh, attended_sh>.
int32_t moert_attention_sinks_grad(moert_rank_t rank, int64_t op, const moert_buffer *sinks, const moert_buffer *lse,
                                   const moert_buffer *attended, const moert_buffer *grads, const moert_buffer *out,
                                   moert_stream_t stream);

/// T5's relative positions (Raffel et al., 2020): out[h,i,j] = table[bucket(j - i), h], table [buckets, H], out [H, L,
/// Lk]. With n = buckets, or buckets / 2 where `bidirectional`, d = |j - i| (max(0, i - j) where not): bucket d for d <
/// n / 2, else min(n - 1, n / 2 + floor(ln(d / (n / 2)) / ln(max_distance / (n / 2)) * (n - n / 2))); where
/// bidirectional n more for j > i.
int32_t moert_relative_bias(moert_rank_t rank, int64_t op, const moert_buffer *table, const moert_buffer *out,
                            int64_t bidirectional, int64_t max_distance, moert_stream_t stream);
/// Gradient of the table; addend null: zero; out may be addend.
int32_t moert_relative_bias_grad(moert_rank_t rank, int64_t op, const moert_buffer *grads, const moert_buffer *addend,
                                 const moert_buffer *out, int64_t bidirectional, int64_t max_distance,
                                 moert_stream_t stream);

/// out[s,c] = keep / (1 - p) * x[s,c]. keep is 0 or 1 by a counter-based generator, Philox4x32-10 (Salmon et al., SC
/// 2011): a function of seed, step [] i32, and the element's row and column in the whole value, of which x [S, N] is
/// part (rank / row_stride) mod row_parts of the rows and part (rank / column_stride) mod column_parts of the columns;
/// 0 with probability p: where word column mod 4 of the block with the key seed and the counter (column / 4, row's low
/// and high half, step) is below p 2^32. The adjoint is the call itself. out may be x.
int32_t moert_dropout(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *step,
                      const moert_buffer *out, int64_t seed, int64_t row_parts, int64_t row_stride,
                      int64_t column_parts, int64_t column_stride, double p, moert_stream_t stream);

/// out[s,0] = ln sum_j exp(x[s,j]); out is an accumulator.
int32_t moert_row_logsumexp(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *out,
                            moert_stream_t stream);
/// out[s,j] = grads[s,0] exp(x[s,j] - lse[s,0]); lse and grads are accumulators; out may be x.
int32_t moert_row_logsumexp_grad(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *lse,
                                 const moert_buffer *grads, const moert_buffer *out, moert_stream_t stream);
/// out[s,0] = x[s, labels[s] - part * V], 0 where another part has it or labels[s] < 0; x [S, V], labels [S] i32, out
/// an accumulator. A label of parts * V or more: MOERT_ERROR_INVALID_ARGUMENT with the label and its place.
int32_t moert_pick(moert_rank_t rank, int64_t op, const moert_buffer *x, const moert_buffer *labels,
                   const moert_buffer *out, int64_t parts, int64_t stride, moert_stream_t stream);
/// out = addend, with grads[s,0] added at [s, labels[s] - part * V]; addend null: zero; out may be addend. grads is an
/// accumulator.
int32_t moert_pick_grad(moert_rank_t rank, int64_t op, const moert_buffer *labels, const moert_buffer *grads,
                        const moert_buffer *addend, const moert_buffer *out, int64_t parts, int64_t stride,
                        moert_stream_t stream);
/// The sum of rows [S,1] over the s with labels[s] >= 0, and how many those are, both [].
int32_t moert_label_sum(moert_rank_t rank, int64_t op, const moert_buffer *rows, const moert_buffer *labels,
                        const moert_buffer *sum, const moert_buffer *count, moert_stream_t stream);
/// out[s,0] = grad [] where labels[s] >= 0, else 0.
int32_t moert_label_sum_grad(moert_rank_t rank, int64_t op, const moert_buffer *labels, const moert_buffer *grad,
                             const moert_buffer *out, moert_stream_t stream);
/// out = a / b, both [] (0 where b is 0); out may be either.
int32_t moert_divide(moert_rank_t rank, int64_t op, const moert_buffer *a, const moert_buffer *b,
                     const moert_buffer *out, moert_stream_t stream);

// --- Optimizers --------------------------------------------------------------
// In place: outputs may be the inputs of their names. `factor` [] multiplies the gradients and may be null: 1; a factor
// of 0 makes zeros of gradients that are not finite too. `rate` [] is the learning rate.

/// out [] = sum of squares, summed in double precision.
int32_t moert_sum_squares(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                          moert_stream_t stream);
/// out = min(1, most / (sqrt(sum_squares) + 1e-6)), both []; not finite sum_squares: 0.
int32_t moert_clip_factor(moert_rank_t rank, int64_t op, const moert_buffer *sum_squares, const moert_buffer *out,
                          double most, moert_stream_t stream);
/// out = sqrt(in), both [].
int32_t moert_square_root(moert_rank_t rank, int64_t op, const moert_buffer *in, const moert_buffer *out,
                          moert_stream_t stream);
/// g = factor grad + decay param; velocity' = momentum velocity + g; param' = param - rate velocity'.
int32_t moert_sgd(moert_rank_t rank, int64_t op, const moert_buffer *param, const moert_buffer *grad,
                  const moert_buffer *velocity, const moert_buffer *rate, const moert_buffer *factor,
                  const moert_buffer *param_out, const moert_buffer *velocity_out, double momentum, double decay,
                  moert_stream_t stream);
/// Adam (Kingma and Ba, 2015) with decoupled weight decay (Loshchilov and Hutter, 2019), as in PyTorch, for step t =
/// step
/// + 1, step [] i32: param' = (1 - rate decay) param; first' = beta1 first + (1 - beta1) g; second' = beta2 second + (1
/// - beta2) g^2, g = factor grad; param' -= rate / (1 - beta1^t) first' / (sqrt(second' / (1 - beta2^t)) + eps).
int32_t moert_adam(moert_rank_t rank, int64_t op, const moert_buffer *param, const moert_buffer *grad,
                   const moert_buffer *first, const moert_buffer *second, const moert_buffer *rate,
                   const moert_buffer *step, const moert_buffer *factor, const moert_buffer *param_out,
                   const moert_buffer *first_out, const moert_buffer *second_out, double beta1, double beta2,
                   double eps, double decay, moert_stream_t stream);

// --- Chunks of a step ----------------------------------------------------------
// Into how many chunks to cut a step of so many tokens, learnt from the steps themselves (MPipeMoE, Algorithm 1). A
// pure function of what it was asked and told: processes that report the same numbers in the same order choose alike.
// So those that run one plan together must all report one time, the longest of their ranks'.

typedef struct moert_granularity *moert_granularity_t;

/// Batches of `lower` to `upper` tokens are best cut into `chunks`.
typedef struct moert_granularity_range {
  int64_t chunks;
  int64_t lower;
  int64_t upper;
} moert_granularity_range;

/// A policy for the `count` available chunk counts, which rise strictly from 1 or more.
int32_t moert_granularity_create(const int64_t *chunks, int64_t count, moert_granularity_t *policy);
void moert_granularity_destroy(moert_granularity_t policy);
/// The chunk count for a step of `batch` tokens, 1 or more. `predicted` may be null, or holds the predicted seconds of
/// each chunk count, of which the ratios matter. `trial` (may be null): 1 where the step is run to be measured, with a
/// count that is not believed best.
int32_t moert_granularity_choose(moert_granularity_t policy, int64_t batch, const double *predicted, int64_t *chunks,
                                 int32_t *trial);
/// How long a step of `batch` tokens in `chunks` chunks took. Every step should be reported: each is a measurement.
int32_t moert_granularity_report(moert_granularity_t policy, int64_t batch, int64_t chunks, double seconds);
/// The trials so far, and the ranges found, in the order of batches and of chunks, into ranges[0..capacity) (may be
/// null with capacity 0); `count` is how many there are, at most one for each chunk count.
int32_t moert_granularity_status(moert_granularity_t policy, int64_t *trials, moert_granularity_range *ranges,
                                 int64_t capacity, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif // MOERT_MOERT_H
