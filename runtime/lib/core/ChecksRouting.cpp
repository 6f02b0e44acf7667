//===- ChecksRouting.cpp - operands of routing and of shadows -------------===//

#include "core/Checker.h"
#include "core/Checks.h"
#include "core/Shapes.h"

#include <algorithm>
#include <limits>

namespace moert {
namespace {

// --- Gates -------------------------------------------------------------------

/// Checks operands that routing and its gradient share.
void checkScores(Checker &check, View scores, View experts, int64_t score, int64_t groups) {
  check.that(score == MOERT_SOFTMAX || score == MOERT_SIGMOID_SCORE,
             "expected 'score' to be a moert_score_kind but got ", score);
  check.that(experts.dims[1] <= scores.dims[1], "expected ", scores.dims[1], " choices at most but got ",
             experts.dims[1]);
  check.that(groups >= 1 && scores.dims[0] % std::max<int64_t>(groups, 1) == 0, "expected 'groups' to divide the ",
             scores.dims[0], " tokens but got ", groups);
}

void checkChunkCount(Checker &check, int64_t chunks) {
  check.that(chunks >= 1, "expected 'chunks' of 1 or more but got ", chunks);
}

/// Checks that `chunkRows` rows hold the choices of each of `chunks` chunks; 0 with one chunk: all rows.
void checkDroplessChunks(Checker &check, int64_t tokens, int64_t choices, int64_t chunks, int64_t chunkRows) {
  // This limit also keeps chunks * tokens small.
  check.that(chunks <= std::numeric_limits<int32_t>::max() && tokens <= std::numeric_limits<int32_t>::max(),
             "expected at most 2^31 - 1 tokens and chunks but got ", tokens, " and ", chunks);
  if (!check.ok())
    return;
  const int64_t most = firstToken(1, chunks, tokens) * choices;
  check.that(chunkRows >= most || (chunks == 1 && chunkRows == 0), "expected 'chunk_rows' of ", most,
             " or more, the most choices of one of ", chunks, " chunks, but got ", chunkRows);
}

/// Checks that all rows have a slot, which is an i32.
void checkRowCount(Checker &check, double rows) {
  check.that(rows <= std::numeric_limits<int32_t>::max(),
             "expected at most 2^31 - 1 rows of dispatched tokens but got ", rows);
}

void checkRouteChunks(Checker &check, int64_t tokens, int64_t choices, const RouteOptions &options) {
  const int64_t chunks = options.chunks, rows = options.chunkRows;
  checkChunkCount(check, chunks);
  if (!check.ok())
    return;
  if (options.capacity > 0) {
    // The products might not fit 64 bits.
    const auto needed = static_cast<__int128>(options.groups) * options.capacity;
    check.that(rows != 0 || needed % chunks == 0, "expected 'chunks' to divide ", options.groups,
               " groups times a capacity of ", options.capacity, " without 'chunk_rows' but got ", chunks);
    check.that(rows == 0 || (rows > 0 && static_cast<__int128>(rows) * chunks >= needed), "expected ", chunks,
               " times 'chunk_rows' to hold ", options.groups, " groups times a capacity of ", options.capacity,
               " but got ", rows);
    return;
  }
  checkDroplessChunks(check, tokens, choices, chunks, rows);
}

void checkHomes(Checker &check, int64_t experts, int64_t choices, const RouteOptions &options) {
  const int64_t homes = options.homes;
  check.that(homes >= 1 && experts % std::max<int64_t>(homes, 1) == 0, "expected 'homes' to divide the ", experts,
             " experts but got ", homes);
  check.that(options.homeStride >= 1, "expected a 'home_stride' of 1 or more but got ", options.homeStride);
  check.that(options.homeSpan >= 1, "expected a 'home_span' of 1 or more but got ", options.homeSpan);
  if (!check.ok() || options.leave < 0)
    return;
  check.that(options.expertGroups == 1, "expected 'expert_groups' of 1 with a 'leave' of 0 or more but got ",
             options.expertGroups);
  check.that(choices <= experts / homes, "expected the ", experts / homes, " experts at home to hold the ", choices,
             " choices of a token");
}

void checkExpertGroups(Checker &check, int64_t experts, int64_t choices, const RouteOptions &options) {
  const int64_t parts = options.expertGroups, top = options.topGroups;
  check.that(parts >= 1 && experts % std::max<int64_t>(parts, 1) == 0, "expected 'expert_groups' to divide the ",
             experts, " experts but got ", parts);
  check.that(top >= 1 && top <= parts, "expected 'top_groups' from 1 to ", parts, " but got ", top);
  if (!check.ok())
    return;
  check.that(top * (experts / parts) >= choices, "expected the ", top, " best groups of ", experts / parts,
             " experts to hold the ", choices, " choices of a token");
  check.that(options.groupScore == MOERT_GROUP_MAX || options.groupScore == MOERT_GROUP_TOP2,
             "expected 'group_score' to be a moert_group_score_kind but got ", options.groupScore);
}

void checkRouteOptions(Checker &check, int64_t experts, int64_t tokens, int64_t choices, const RouteOptions &options) {
  checkExpertGroups(check, experts, choices, options);
  check.that(options.capacity >= 0, "expected a 'capacity' of 0 or more but got ", options.capacity);
  checkHomes(check, experts, choices, options);
  checkRouteChunks(check, tokens, choices, options);
  if (check.ok())
    checkRowCount(check,
                  options.capacity > 0
                      ? 1.0 * experts *
                            std::max(1.0 * options.groups * options.capacity, 1.0 * options.chunks * options.chunkRows)
                      : std::max(1.0 * tokens * choices, 1.0 * options.chunks * options.chunkRows));
}

void checkMember(Checker &check, int64_t index, int64_t size) {
  check.that(size >= 1 && index >= 0 && index < size, "expected 'index' below 'size' but got ", index, " of ", size);
}

void checkLocal(Checker &check, const LocalOptions &options, int64_t experts) {
  const int64_t size = options.size, copies = options.copies;
  checkMember(check, options.index, size);
  check.that(copies >= 1 && size % copies == 0 && experts % (size / copies) == 0, "expected 'copies' with which ", size,
             " members hold ", experts, " experts but got ", copies);
  check.that(options.capacity >= 0 && options.room >= 0, "expected 'capacity' and 'room' of 0 or more but got ",
             options.capacity, " and ", options.room);
}

void checkCosts(Checker &check, View counts, const moert_shadow_costs &costs) {
  const int64_t sources = counts.dims[0], experts = counts.dims[1], workers = costs.workers, nodes = costs.node_workers;
  check.that(workers >= 1 && sources % std::max<int64_t>(workers, 1) == 0 &&
                 experts % std::max<int64_t>(workers, 1) == 0,
             "expected 'workers' to divide ", sources, " sources and ", experts, " experts but got ", workers);
  check.that(nodes >= 1 && workers % std::max<int64_t>(nodes, 1) == 0, "expected 'node_workers' to divide ", workers,
             " workers but got ", nodes);
  check.that(costs.most >= 0, "expected 'most' of 0 or more but got ", costs.most);
  check.that(costs.room >= 0, "expected 'room' of 0 or more but got ", costs.room);
  check.that(costs.phases >= 1, "expected 'phases' of 1 or more but got ", costs.phases);
}

} // namespace

// --- Routing -----------------------------------------------------------------

void checkRestOfRoute(Checker &check, View logits, View, View, View experts, View, View, View counts, View,
                      const RouteOptions &options, View forced) {
  checkScores(check, logits, experts, options.score, options.groups);
  checkRouteOptions(check, logits.dims[1], logits.dims[0], experts.dims[1], options);
  check.shape("counts", counts, {options.chunks, logits.dims[1]});
  if (forced)
    check.like("the forced experts", forced, experts);
}

void checkRestOfRouteGrad(Checker &check, View scores, View experts, View, View, View, int64_t score, bool,
                          int64_t groups, double) {
  checkScores(check, scores, experts, score, groups);
}

void checkRestOfSliceCounts(Checker &check, View, View, int64_t rows, int64_t index, int64_t size) {
  checkMember(check, index, size);
  check.that(size >= 1 && rows >= 0 && rows % size == 0, "expected 'rows' to be a multiple of ", size, " but got ",
             rows);
}

void checkRestOfLocalSlots(Checker &check, View, View counts, View, View localCounts, const LocalOptions &options) {
  checkLocal(check, options, counts.dims[1]);
  if (check.ok())
    check.shape("local_counts", localCounts, {1, options.ownExperts(counts.dims[1])});
}

void checkRestOfWindow(Checker &check, View slots, View gathered, View, View, View, View passCounts,
                       const WindowOptions &options) {
  const int64_t chunks = passCounts.dims[0], experts = gathered.dims[1], size = options.size;
  checkMember(check, options.index, size);
  checkChunkCount(check, chunks);
  check.shape("gathered", gathered, {size * chunks, experts});
  check.that(options.workers >= 1 && experts % std::max<int64_t>(options.workers, 1) == 0,
             "expected 'workers' to divide ", experts, " experts but got ", options.workers);
  check.that(options.rows >= 1, "expected 'rows' of 1 or more but got ", options.rows);
  check.that(options.phases >= 1 && size % std::max<int64_t>(options.phases, 1) == 0, "expected 'phases' to divide ",
             size, " members but got ", options.phases);
  if (check.ok())
    checkDroplessChunks(check, slots.dims[0], slots.dims[1], chunks, options.chunkRows);
}

void checkRestOfMergeChoices(Checker &check, View experts, View, View used, View, View counts, View,
                             const MergeOptions &options) {
  const int64_t size = options.size, copies = options.copies, holders = counts.dims[1];
  checkMember(check, options.index, size);
  check.that(copies >= 1 && size % std::max<int64_t>(copies, 1) == 0, "expected 'copies' to divide ", size,
             " members but got ", copies);
  if (!check.ok())
    return;
  check.that(holders >= 1 && options.experts >= 1 && options.experts % (size / copies * holders) == 0,
             "expected 'experts' to be a multiple of ", size / copies, " times ", holders, " holders but got ",
             options.experts);
  checkRowCount(check, 1.0 * experts.dims[0] * experts.dims[1]);
}

// --- Shadows -----------------------------------------------------------------

void checkRestOfChooseShadows(Checker &check, View counts, View, int64_t policy, moert_shadow_costs costs) {
  check.that(policy >= MOERT_SHADOWS_ALGORITHM1 && policy <= MOERT_SHADOWS_SIMULATE,
             "expected 'policy' to be a moert_shadow_policy but got ", policy);
  checkCosts(check, counts, costs);
}

void checkRestOfDivideChoices(Checker &check, View experts, View shadows, View, View counts, View, View, int64_t chunks,
                              int64_t chunkRows) {
  const int64_t tokens = experts.dims[0], choices = experts.dims[1];
  checkChunkCount(check, chunks);
  if (check.ok())
    checkDroplessChunks(check, tokens, choices, chunks, chunkRows);
  if (check.ok())
    checkRowCount(check, std::max(1.0 * tokens * choices, 1.0 * chunks * chunkRows));
  check.shape("counts", counts, {chunks, shadows.dims[1]});
}

} // namespace moert
