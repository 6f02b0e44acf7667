//===- PageTimeline.cpp - what a page shows of a step's launches ----------===//
#include "PageTimeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

using namespace mlir::moe;
using llvm::ArrayRef;

/// Times are whole numbers of this part of the step.
static constexpr double ticksPerStep = 1e8;
/// Most launches of the page, and most intervals of all lanes together. Each takes up to 20 bytes and 1 byte.
static constexpr size_t maxLaunches = 40'000, maxIntervalsOfAll = 400'000;
static constexpr size_t minIntervals = 64, maxIntervals = 1024;

/// Makes one row for each simulated rank, or for each measured one.
static std::vector<PageRow> makeRows(const SimResult &result, ArrayRef<MeasuredOp> measured) {
  std::vector<PageRow> rows;
  std::set<int64_t> measuredRanks;
  for (const MeasuredOp &op : measured)
    measuredRanks.insert(op.rank);
  for (auto [number, rank] : llvm::enumerate(result.ranks)) {
    size_t before = rows.size();
    for (int64_t r = rank.rank; r < rank.rank + rank.count; ++r)
      if (measuredRanks.contains(r))
        rows.push_back({r, static_cast<uint32_t>(number), getRankName({r, 1, rank.program})});
    if (rows.size() == before)
      rows.push_back({rank.rank, static_cast<uint32_t>(number), getRankName(rank)});
  }
  return rows;
}

static void sortByBegin(std::vector<PageSpan> &spans) {
  llvm::stable_sort(spans, [](const PageSpan &a, const PageSpan &b) { return a.begin < b.begin; });
}

/// Gives each row its launches. Measured times count from the first launch.
static void fillRows(std::vector<PageRow> &rows, const SimResult &result, ArrayRef<MeasuredOp> measured) {
  std::vector<std::vector<PageSpan>> spans(result.ranks.size());
  for (const SimTime &time : result.times)
    spans[time.rank].push_back({time.launch, time.begin, time.end, &time});
  llvm::for_each(spans, sortByBegin);
  std::map<int64_t, PageRow *> rowOf; // by rank
  for (PageRow &row : rows) {
    row.predicted = spans[row.simulated];
    rowOf[row.rank] = &row;
  }
  double first = measured.empty() ? 0 : measured.front().begin;
  for (const MeasuredOp &op : measured)
    first = std::min(first, op.begin);
  for (const MeasuredOp &op : measured) {
    auto row = rowOf.find(op.rank);
    if (row == rowOf.end() || op.op < 0)
      continue;
    const SimProgram &program = result.programs[result.ranks[row->second->simulated].program];
    if (op.op < static_cast<int64_t>(program.launches.size()))
      row->second->measured.push_back({static_cast<uint32_t>(op.op), op.begin - first, op.end - first});
  }
  for (PageRow &row : rows)
    sortByBegin(row.measured);
}

/// The simulated rank with most of the critical path.
static uint32_t getCriticalRank(const SimResult &result, const SimReport &report) {
  std::vector<double> seconds(result.ranks.size());
  for (const CriticalPiece &piece : report.criticalPath)
    if (piece.time >= 0)
      seconds[result.times[piece.time].rank] += piece.end - piece.begin;
  return static_cast<uint32_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

static std::vector<size_t> findSpecialRows(const SimResult &result, const SimReport &report, ArrayRef<PageRow> rows) {
  if (rows.size() < 3)
    return {};
  std::vector<size_t> byCompute(rows.size());
  std::iota(byCompute.begin(), byCompute.end(), 0);
  llvm::stable_sort(byCompute, [&](size_t a, size_t b) {
    return report.ranks[rows[a].simulated].compute > report.ranks[rows[b].simulated].compute;
  });
  std::vector<size_t> special = {byCompute.front(), byCompute[byCompute.size() / 2], byCompute.back()};
  uint32_t critical = getCriticalRank(result, report);
  if (llvm::none_of(special, [&](size_t row) { return rows[row].simulated == critical; }))
    special.push_back(static_cast<size_t>(
        llvm::find_if(rows, [&](const PageRow &row) { return row.simulated == critical; }) - rows.begin()));
  return special;
}

static size_t countShown(const PageTimeline &timeline) {
  size_t count = 0;
  auto isShown = [&](const PageSpan &span) { return timeline.isShown(span.begin, span.end); };
  for (const PageRow &row : timeline.rows)
    if (row.hasLanes)
      count += static_cast<size_t>(llvm::count_if(row.predicted, isShown) + llvm::count_if(row.measured, isShown));
  return count;
}

/// Start times of the launches that repeat the rank's first launch, one in each micro-batch.
static std::vector<double> findRepetitions(const SimProgram &program, const PageRow &row) {
  std::vector<double> begins;
  if (row.predicted.empty())
    return begins;
  const SimLaunch &first = program.launches[row.predicted.front().launch];
  for (const PageSpan &span : row.predicted)
    if (const SimLaunch &launch = program.launches[span.launch];
        launch.kernel == first.kernel && launch.label == first.label && launch.group == first.group)
      begins.push_back(span.begin);
  return begins;
}

/// Shows one micro-batch from the middle of the step, or as much of it as there is room for.
static void showPeriod(PageTimeline &timeline, const SimResult &result) {
  constexpr size_t fewestMicroBatches = 4;
  const PageRow &row = timeline.rows.front();
  std::vector<double> begins = findRepetitions(result.programs[result.ranks[row.simulated].program], row);
  timeline.isPeriod = begins.size() >= fewestMicroBatches;
  if (timeline.isPeriod) {
    // A first stage begins many micro-batches at once; it alternates in the middle of the time.
    auto next = std::clamp(llvm::upper_bound(begins, result.seconds / 2), begins.begin() + 1, begins.end() - 1);
    timeline.from = *(next - 1);
    timeline.to = *next;
  }
  for (double middle = (timeline.from + timeline.to) / 2; countShown(timeline) > maxLaunches;) {
    timeline.isPeriod = false;
    timeline.from = (timeline.from + middle) / 2;
    timeline.to = (timeline.to + middle) / 2;
  }
}

PageTimeline mlir::moe::makePageTimeline(const SimResult &result, const SimReport &report,
                                         ArrayRef<MeasuredOp> measured) {
  PageTimeline timeline;
  timeline.rows = makeRows(result, measured);
  fillRows(timeline.rows, result, measured);
  timeline.tick = result.seconds > 0 ? result.seconds / ticksPerStep : 1;
  timeline.end = result.seconds;
  for (const PageRow &row : timeline.rows)
    for (const PageSpan &span : row.measured)
      timeline.end = std::max(timeline.end, span.end);
  timeline.to = timeline.end;
  timeline.special = findSpecialRows(result, report, timeline.rows);
  if (countShown(timeline) <= maxLaunches)
    return timeline;
  constexpr size_t manyRows = 16, lanesOfRow = 8;
  if (timeline.rows.size() > manyRows)
    for (auto [number, row] : llvm::enumerate(timeline.rows))
      row.hasLanes = llvm::is_contained(timeline.special, number);
  size_t lanes = timeline.rows.size() * (kNumResources - 1) + std::min(timeline.rows.size(), manyRows) * lanesOfRow;
  timeline.numIntervals = std::clamp(maxIntervalsOfAll / lanes, minIntervals, maxIntervals);
  if (countShown(timeline) > maxLaunches)
    showPeriod(timeline, result);
  return timeline;
}

std::vector<Resource> mlir::moe::getStreamKinds(const SimProgram &program, ArrayRef<PageRow> rows,
                                                const SimResult &result) {
  std::vector<std::array<double, kNumResources>> seconds(program.streams.size());
  for (const PageRow &row : rows)
    if (&result.programs[result.ranks[row.simulated].program] == &program)
      for (const PageSpan &span : row.predicted) {
        const SimLaunch &launch = program.launches[span.launch];
        seconds[launch.stream][static_cast<size_t>(launch.cost.resource)] += span.end - span.begin;
      }
  std::vector<Resource> kinds;
  for (const auto &of : seconds)
    kinds.push_back(static_cast<Resource>(std::max_element(of.begin(), of.end()) - of.begin()));
  return kinds;
}
