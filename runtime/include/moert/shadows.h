//===- shadows.h - which experts to shadow ----------------------*- C -*-===//
//
// FasterMoE (PPoPP '22, section 4.1): experts that many tokens choose are copied to all workers for one step. Each
// worker then computes its own tokens of these experts. Every rank chooses anew in every step by a pure function of the
// same counts, so that ranks agree without a message. The runtime and the simulator share this function.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_SHADOWS_H
#define MOERT_SHADOWS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Policies that choose experts. All visit experts by falling load (among equals, the lower index first) and choose at
/// most `most`.
enum moert_shadow_policy {
  /// Algorithm 1 of the paper: takes experts while each makes Eq. 8 smaller than before (than Eq. 7 at first).
  MOERT_SHADOWS_ALGORITHM1 = 0,
  /// Takes the prefix of that order with the least Eq. 8 (Eq. 7 for no experts). It also finds shadows that save time
  /// only together.
  MOERT_SHADOWS_PREFIX = 1,
  /// Takes the least time of the layer's step (moert_shadows_seconds) among the prefixes, then improves it by single
  /// exchanges, additions and removals.
  MOERT_SHADOWS_SIMULATE = 2
};

/// Costs of a layer, in seconds, of one row unless said otherwise.
typedef struct moert_shadow_costs {
  uint32_t size; ///< sizeof(moert_shadow_costs)
  uint32_t policy;
  int64_t workers;      ///< N: each has E / N consecutive experts and sources / N consecutive rows of counts
  int64_t node_workers; ///< consecutive workers of one node; divides N
  int64_t most;         ///< largest number of shadows
  int64_t room;         ///< rows that a worker can receive; 0: no limit
  int64_t phases;       ///< phases into which the exchange is split to overlap with the computation; 1: not split
  double row_compute;   ///< forward, at its expert; backward takes twice as long
  double row_send;      ///< one way through the network with one bandwidth for all, as in the paper: H s / W of Eq. 7
  double row_local;     ///< one way over a worker's own link
  double row_node;      ///< one way over a node's connection to others, if one row uses all of it
  double expert;        ///< the broadcast of one expert's weights, or the reduction of their gradients
  double start;         ///< start of an exchange, whatever its rows
  int64_t least;        ///< least number of shadows, of experts that have rows, even if they save no time
} moert_shadow_costs;

/// Sets shadows[e], e < experts, to 1 for the chosen experts and to 0 for others. `counts` is [sources, experts]: rows
/// that source s sends to expert e.
///
/// Eq. 7, without shadows: max_w { 3 row_compute B_w + 4 row_send B_w }. B_w are the rows of all sources for the
/// experts of worker w. Eq. 8, with r shadows: max_w { 3 row_compute B'_w } + 2 r expert. In B'_w the rows of shadows
/// stay with their sources' workers.
///
/// If a worker would receive more than `room` rows for experts that are not shadows, the heaviest of these become
/// shadows too, up to `most` in all: memory comes before time.
///
/// Returns 0, or -1 if sizes are not positive or do not divide each other, a count is negative, or memory is short.
int32_t moert_shadows_choose(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             int32_t *shadows);

/// Returns the seconds of a step of the layer with these shadows, forward and backward. p is the longest computation of
/// a worker (row_compute of its rows), x the time of one exchange, and n the number of phases. Nothing hides the first
/// and the last phase:
///   max(2x, p + 2x/n) + max(2x, 2p + 2x/n) + 2 r expert,
/// Without phases it is 4x + 3p + 2 r expert. x is `start` plus the longest of two times: row_local for each row that a
/// worker sends to others or receives from them, and row_node for each row that a node sends or receives.
double moert_shadows_seconds(const moert_shadow_costs *costs, const int32_t *counts, int64_t sources, int64_t experts,
                             const int32_t *shadows);

#ifdef __cplusplus
}
#endif

#endif // MOERT_SHADOWS_H
