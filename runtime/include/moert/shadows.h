//===- shadows.h - which experts to shadow ----------------------*- C -*-===//
//
// FasterMoE (PPoPP '22, section 4.1): the experts that many tokens choose are copied to all workers for one step, which
// then compute their own tokens of them. The choice is made anew in every step, on every rank from the same counts: a
// pure function, so that ranks agree without a message. The runtime calls it for a compiled plan and the simulator for
// a simulated one.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_SHADOWS_H
#define MOERT_SHADOWS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How the experts are chosen. All visit them by falling load, ties to the lower expert, and choose at most `most`.
enum moert_shadow_policy {
  /// Algorithm 1 of the paper: each as long as it makes Eq. 8 smaller than it was, Eq. 7 at first; the first that does
  /// not ends it.
  MOERT_SHADOWS_ALGORITHM1 = 0,
  /// The prefix of that order for which Eq. 8 (Eq. 7 for none) is least: finds what pays only from two shadows on.
  MOERT_SHADOWS_PREFIX = 1,
  /// The least time of the layer's step (moert_shadows_seconds): of the prefixes, then of what single exchanges,
  /// additions and removals lead to from there.
  MOERT_SHADOWS_SIMULATE = 2
};

/// What a layer costs. Seconds; of one row unless said otherwise.
typedef struct moert_shadow_costs {
  uint32_t size; ///< sizeof(moert_shadow_costs)
  uint32_t policy;
  int64_t workers;      ///< N: each has E / N consecutive experts and sources / N consecutive rows of counts
  int64_t node_workers; ///< consecutive workers of one node; divides N
  int64_t most;         ///< shadows
  int64_t room;         ///< rows that a worker can receive; 0: as many as come
  int64_t phases;       ///< 1, or into how many the exchange is split to overlap with the computation
  double row_compute;   ///< forward, at its expert; backward takes twice as long
  double row_send;      ///< one way through the network as the paper has it: one bandwidth for all. Eq. 7's H s / W
  double row_local;     ///< one way over a worker's own link
  double row_node;      ///< one way over what connects a node to others, all of it for one row
  double expert;        ///< the broadcast of one expert's weights, or the reduction of their gradients
  double start;         ///< of one exchange, whatever its rows
  int64_t least;        ///< shadows, of experts that have rows, even where they do not pay
} moert_shadow_costs;

/// Sets shadows[e], e < experts, to 1 for those chosen and to 0 for others. `counts` is [sources, experts]: rows that
/// source s sends to expert e.
///
/// Eq. 7, without shadows: max_w { 3 row_compute B_w + 4 row_send B_w }, B_w the rows of all sources for the experts of
/// worker w. Eq. 8, with r of them: max_w { 3 row_compute B'_w } + 2 r expert, B'_w where the rows of shadows stay with
/// their sources' workers.
///
/// Where a worker would receive more than `room` rows for the experts that are not shadows, the heaviest of these
/// become shadows too, up to `most` in all: memory comes before time.
///
/// Returns 0, or -1 where sizes are not positive or do not divide each other, a count is negative, or memory is short.
int32_t moert_shadows_choose(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             int32_t *shadows);

/// Seconds of a step of the layer with these shadows, forward and backward. With p the longest computation of a worker
/// (row_compute of its rows), x one exchange and n phases, the first and the last of which nothing hides:
///   max(2x, p + 2x/n) + max(2x, 2p + 2x/n) + 2 r expert,
/// without phases 4x + 3p + 2 r expert. x is `start` plus the longest of: what a worker sends to others or receives
/// from them, row_local each; what a node sends to others or receives from them, row_node each.
double moert_shadows_seconds(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             const int32_t *shadows);

#ifdef __cplusplus
}
#endif

#endif // MOERT_SHADOWS_H
