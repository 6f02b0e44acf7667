//===- ChecksRouting.cpp - operands of routing and of shadows -------------===//

#include "core/Checker.h"
#include "core/Checks.h"
#include "core/Shapes.h"

#include <algorithm>
#include <limits>

namespace moert {
namespace {

// --- Gates -------------------------------------------------------------------

/// What routing and its gradient share.
void checkScores(Checker &check, const char *name, View scores, View experts, int64_t score, int64_t groups) {
  check.floating(name, scores).rank(name, scores, 2, 2).rank("experts", experts, 2, 2);
  check.shape("experts", experts, MOERT_I32, {scores.dims[0], experts.dims[1]});
  check.that(score == MOERT_SOFTMAX || score == MOERT_SIGMOID_SCORE,
             [&] { return joined("expected 'score' to be a moert_score_kind but got ", score); });
  check.that(experts.dims[1] <= scores.dims[1],
             [&] { return joined("expected ", scores.dims[1], " choices at most but got ", experts.dims[1]); });
  check.that(groups >= 1 && scores.dims[0] % std::max<int64_t>(groups, 1) == 0,
             [&] { return joined("expected 'groups' to divide the ", scores.dims[0], " tokens but got ", groups); });
}

void checkChunkCount(Checker &check, int64_t chunks) {
  check.that(chunks >= 1, [&] { return joined("expected 'chunks' of 1 or more but got ", chunks); });
}

/// `chunkRows` hold the choices of each of `chunks`, 1 or more; 0 with one chunk: all.
void checkDroplessChunks(Checker &check, int64_t tokens, int64_t choices, int64_t chunks, int64_t chunkRows) {
  // Also keeps what is computed of chunks * tokens small.
  check.that(chunks <= std::numeric_limits<int32_t>::max() && tokens <= std::numeric_limits<int32_t>::max(),
             [&] { return joined("expected at most 2^31 - 1 tokens and chunks but got ", tokens, " and ", chunks); });
  if (!check.ok())
    return;
  const int64_t most = firstToken(1, chunks, tokens) * choices;
  check.that(chunkRows >= most || (chunks == 1 && chunkRows == 0), [&] {
    return joined("expected 'chunk_rows' of ", most, " or more, the most choices of one of ", chunks,
                  " chunks, but got ", chunkRows);
  });
}

/// A slot is an i32.
void checkRowCount(Checker &check, double rows) {
  check.that(rows <= std::numeric_limits<int32_t>::max(),
             [&] { return joined("expected at most 2^31 - 1 rows of dispatched tokens but got ", rows); });
}

void checkRouteChunks(Checker &check, int64_t tokens, int64_t choices, const RouteOptions &options) {
  const int64_t chunks = options.chunks, rows = options.chunkRows;
  checkChunkCount(check, chunks);
  if (!check.ok())
    return;
  if (options.capacity > 0) {
    // As a product, groups * capacity might not fit.
    check.that(static_cast<__int128>(options.groups) * options.capacity % chunks == 0, [&] {
      return joined("expected 'chunks' to divide ", options.groups, " groups times a capacity of ", options.capacity,
                    " but got ", chunks);
    });
    check.that(rows == 0, [&] { return joined("expected 'chunk_rows' of 0 with a capacity but got ", rows); });
    return;
  }
  checkDroplessChunks(check, tokens, choices, chunks, rows);
}

void checkHomes(Checker &check, int64_t experts, int64_t choices, const RouteOptions &options) {
  const int64_t homes = options.homes;
  check.that(homes >= 1 && experts % std::max<int64_t>(homes, 1) == 0,
             [&] { return joined("expected 'homes' to divide the ", experts, " experts but got ", homes); });
  check.that(options.homeStride >= 1,
             [&] { return joined("expected a 'home_stride' of 1 or more but got ", options.homeStride); });
  check.that(options.homeSpan >= 1,
             [&] { return joined("expected a 'home_span' of 1 or more but got ", options.homeSpan); });
  if (!check.ok() || options.leave < 0)
    return;
  check.that(options.expertGroups == 1, [&] {
    return joined("expected 'expert_groups' of 1 with a 'leave' of 0 or more but got ", options.expertGroups);
  });
  check.that(choices <= experts / homes, [&] {
    return joined("expected the ", experts / homes, " experts at home to hold the ", choices, " choices of a token");
  });
}

void checkExpertGroups(Checker &check, int64_t experts, int64_t choices, const RouteOptions &options) {
  const int64_t parts = options.expertGroups, top = options.topGroups;
  check.that(parts >= 1 && experts % std::max<int64_t>(parts, 1) == 0,
             [&] { return joined("expected 'expert_groups' to divide the ", experts, " experts but got ", parts); });
  check.that(top >= 1 && top <= parts,
             [&] { return joined("expected 'top_groups' from 1 to ", parts, " but got ", top); });
  if (!check.ok())
    return;
  check.that(top * (experts / parts) >= choices, [&] {
    return joined("expected the ", top, " best groups of ", experts / parts, " experts to hold the ", choices,
                  " choices of a token");
  });
  check.that(options.groupScore == MOERT_GROUP_MAX || options.groupScore == MOERT_GROUP_TOP2, [&] {
    return joined("expected 'group_score' to be a moert_group_score_kind but got ", options.groupScore);
  });
}

void checkRouteOptions(Checker &check, int64_t experts, int64_t tokens, int64_t choices, const RouteOptions &options) {
  checkExpertGroups(check, experts, choices, options);
  check.that(options.capacity >= 0,
             [&] { return joined("expected a 'capacity' of 0 or more but got ", options.capacity); });
  checkHomes(check, experts, choices, options);
  checkRouteChunks(check, tokens, choices, options);
  if (check.ok())
    checkRowCount(check, options.capacity > 0
                             ? 1.0 * experts * options.groups * options.capacity
                             : std::max(1.0 * tokens * choices, 1.0 * options.chunks * options.chunkRows));
}

// --- Slots -------------------------------------------------------------------

void checkSlots(Checker &check, View slots, int64_t tokens) {
  check.rank("slots", slots, 2, 2).shape("slots", slots, MOERT_I32, {tokens, slots.dims[1]});
}

/// Rows [E,T,M] or [R,M].
void checkRows(Checker &check, const char *name, View rows, int32_t dtype, int64_t columns) {
  if (rows.rank == 3)
    check.shape(name, rows, dtype, {rows.dims[0], rows.dims[1], columns});
  else
    check.shape(name, rows, dtype, {rows.dims[0], columns});
}

void checkMember(Checker &check, int64_t index, int64_t size) {
  check.that(size >= 1 && index >= 0 && index < size,
             [&] { return joined("expected 'index' below 'size' but got ", index, " of ", size); });
}

void checkLocal(Checker &check, const LocalOptions &options, int64_t experts) {
  const int64_t size = options.size, copies = options.copies;
  checkMember(check, options.index, size);
  check.that(copies >= 1 && size % copies == 0 && experts % (size / copies) == 0, [&] {
    return joined("expected 'copies' with which ", size, " members hold ", experts, " experts but got ", copies);
  });
  check.that(options.capacity >= 0 && options.room >= 0, [&] {
    return joined("expected 'capacity' and 'room' of 0 or more but got ", options.capacity, " and ", options.room);
  });
}

void checkCosts(Checker &check, View counts, const moert_shadow_costs &costs) {
  const int64_t sources = counts.dims[0], experts = counts.dims[1], workers = costs.workers, nodes = costs.node_workers;
  check.that(
      workers >= 1 && sources % std::max<int64_t>(workers, 1) == 0 && experts % std::max<int64_t>(workers, 1) == 0,
      [&] {
        return joined("expected 'workers' to divide ", sources, " sources and ", experts, " experts but got ", workers);
      });
  check.that(nodes >= 1 && workers % std::max<int64_t>(nodes, 1) == 0,
             [&] { return joined("expected 'node_workers' to divide ", workers, " workers but got ", nodes); });
  check.that(costs.most >= 0, [&] { return joined("expected 'most' of 0 or more but got ", costs.most); });
  check.that(costs.room >= 0, [&] { return joined("expected 'room' of 0 or more but got ", costs.room); });
  check.that(costs.phases >= 1, [&] { return joined("expected 'phases' of 1 or more but got ", costs.phases); });
}

} // namespace

// --- Routing -----------------------------------------------------------------

Status checkRoute(View logits, View selectionBias, View scores, View experts, View slots, View weights, View counts,
                  View aux, const RouteOptions &options, View forced) {
  Checker check(Kind::Route);
  checkScores(check, "logits", logits, experts, options.score, options.groups);
  const int64_t tokens = logits.dims[0], expertCount = logits.dims[1], choices = experts.dims[1];
  checkRouteOptions(check, expertCount, tokens, choices, options);
  if (selectionBias)
    check.shape("selection_bias", selectionBias, logits.dtype, {expertCount});
  check.like("scores", scores, logits).like("slots", slots, experts);
  check.shape("weights", weights, logits.dtype, {tokens, choices});
  check.shape("counts", counts, MOERT_I32, {options.chunks, expertCount}).shape("aux", aux, logits.dtype, {});
  if (forced)
    check.like("the forced experts", forced, experts);
  return check.take();
}

Status checkRouteGrad(View scores, View experts, View gradWeights, View gradAux, View gradLogits, int64_t score, bool,
                      int64_t groups, double) {
  Checker check(Kind::RouteGrad);
  checkScores(check, "scores", scores, experts, score, groups);
  if (gradWeights)
    check.shape("grad_weights", gradWeights, scores.dtype, {scores.dims[0], experts.dims[1]});
  if (gradAux)
    check.shape("grad_aux", gradAux, scores.dtype, {});
  return check.like("grad_logits", gradLogits, scores).take();
}

Status checkDispatch(View tokens, View slots, View weights, View out) {
  Checker check(Kind::Dispatch);
  check.floating("tokens", tokens).rank("tokens", tokens, 2, 2).rank("out", out, 2, 3);
  checkRows(check, "out", out, tokens.dtype, tokens.dims[1]);
  checkSlots(check, slots, tokens.dims[0]);
  if (weights)
    check.accumulator("weights", weights, tokens, {tokens.dims[0], slots.dims[1]});
  return check.take();
}

Status checkCombine(View rows, View slots, View weights, View out) {
  Checker check(Kind::Combine);
  check.floating("rows", rows).rank("rows", rows, 2, 3);
  checkSlots(check, slots, slots.dims[0]);
  if (weights)
    check.accumulator("weights", weights, rows, {slots.dims[0], slots.dims[1]});
  return check.shape("out", out, rows.dtype, {slots.dims[0], columnsOf(rows)}).take();
}

Status checkSlotDot(View tokens, View rows, View slots, View out) {
  Checker check(Kind::SlotDot);
  check.floating("tokens", tokens).rank("tokens", tokens, 2, 2).floating("rows", rows).rank("rows", rows, 2, 3);
  checkRows(check, "rows", rows, tokens.dtype, tokens.dims[1]);
  checkSlots(check, slots, tokens.dims[0]);
  return check.accumulator("out", out, tokens, {tokens.dims[0], slots.dims[1]}).take();
}

Status checkSliceCounts(View counts, View out, int64_t rows, int64_t index, int64_t size) {
  Checker check(Kind::SliceCounts);
  check.shape("counts", counts, MOERT_I32, {1, columnsOf(counts)}).like("out", out, counts);
  checkMember(check, index, size);
  return check
      .that(size >= 1 && rows >= 0 && rows % size == 0,
            [&] { return joined("expected 'rows' to be a multiple of ", size, " but got ", rows); })
      .take();
}

Status checkLocalSlots(View slots, View counts, View localSlots, View localCounts, const LocalOptions &options) {
  Checker check(Kind::LocalSlots);
  checkSlots(check, slots, slots.dims[0]);
  check.shape("counts", counts, MOERT_I32, {1, columnsOf(counts)}).like("local_slots", localSlots, slots);
  checkLocal(check, options, columnsOf(counts));
  if (check.ok())
    check.shape("local_counts", localCounts, MOERT_I32, {1, options.ownExperts(columnsOf(counts))});
  return check.take();
}

// --- Shadows -----------------------------------------------------------------

Status checkChooseShadows(View counts, View shadows, int64_t policy, moert_shadow_costs costs) {
  Checker check(Kind::ChooseShadows);
  check.rank("counts", counts, 2, 2).shape("counts", counts, MOERT_I32, {counts.dims[0], counts.dims[1]});
  check.shape("shadows", shadows, MOERT_I32, {1, counts.dims[1]});
  check.that(policy >= MOERT_SHADOWS_ALGORITHM1 && policy <= MOERT_SHADOWS_SIMULATE,
             [&] { return joined("expected 'policy' to be a moert_shadow_policy but got ", policy); });
  checkCosts(check, counts, costs);
  return check.take();
}

Status checkDivideChoices(View experts, View shadows, View slots, View counts, View shadowSlots, View shadowCounts,
                          int64_t chunks, int64_t chunkRows) {
  Checker check(Kind::DivideChoices);
  const int64_t tokens = experts.dims[0], choices = experts.dims[1];
  check.rank("experts", experts, 2, 2).shape("experts", experts, MOERT_I32, {tokens, choices});
  check.rank("shadows", shadows, 2, 2).shape("shadows", shadows, MOERT_I32, {1, shadows.dims[1]});
  check.like("slots", slots, experts).like("shadow_slots", shadowSlots, experts);
  checkChunkCount(check, chunks);
  if (check.ok())
    checkDroplessChunks(check, tokens, choices, chunks, chunkRows);
  if (check.ok())
    checkRowCount(check, std::max(1.0 * tokens * choices, 1.0 * chunks * chunkRows));
  check.shape("counts", counts, MOERT_I32, {chunks, shadows.dims[1]});
  return check.shape("shadow_counts", shadowCounts, MOERT_I32, {1, columnsOf(shadowCounts)}).take();
}

} // namespace moert
