//===- SimPage.cpp - a step as a page -------------------------------------===//
//
// The page is timeline.html with data in it: the object of writeJson, and the lanes of the timeline as flat arrays of
// whole numbers, which are a tenth of what objects would be.
//
//===----------------------------------------------------------------------===//
#include "SimJson.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::StringRef;
namespace json = llvm::json;

/// timeline.html, by CMake.
static constexpr StringRef page =
#include "timeline.inc"
    ;
static constexpr StringRef placeholder = "{{data}}";

/// Times are whole numbers of this part of the step.
static constexpr double ticksPerStep = 1e8;
/// Of more launches than these, only some ranks keep theirs; all keep how busy they are over time.
static constexpr size_t maxLaunches = 200'000;
/// Of how busy ranks are: characters in all, and intervals of the step for each rank.
static constexpr size_t maxBusyCharacters = 2 << 20, minIntervals = 64, maxIntervals = 1024;

namespace {
/// A rank's lanes: predicted and, where given, measured.
struct Row {
  int64_t rank = 0;
  uint32_t simulated = 0; ///< into SimResult::ranks
  std::string name;
  std::vector<const SimTime *> predicted = {};   ///< in order of begins
  std::vector<const MeasuredOp *> measured = {}; ///< in order of begins
  bool isDetailed = true;
};

struct Timeline {
  std::vector<Row> rows;
  double tick = 1;          ///< seconds
  double measuredBegin = 0; ///< of the first measured launch, in seconds
  /// Rows to show by themselves where there are many.
  std::vector<size_t> special;
  size_t numIntervals = 0; ///< 0 where all rows are detailed

  int64_t getTicks(double seconds) const { return std::llround(seconds / tick); }
};
} // namespace

/// One row for each simulated rank, or for each measured one.
static std::vector<Row> makeRows(const SimResult &result, ArrayRef<MeasuredOp> measured) {
  std::vector<Row> rows;
  std::vector<bool> isMeasured;
  for (const MeasuredOp &op : measured) {
    if (op.rank >= static_cast<int64_t>(isMeasured.size()))
      isMeasured.resize(static_cast<size_t>(op.rank) + 1);
    isMeasured[static_cast<size_t>(op.rank)] = true;
  }
  for (auto [number, rank] : llvm::enumerate(result.ranks)) {
    size_t before = rows.size();
    for (int64_t r = rank.rank; r < rank.rank + rank.count; ++r)
      if (r < static_cast<int64_t>(isMeasured.size()) && isMeasured[static_cast<size_t>(r)])
        rows.push_back({r, static_cast<uint32_t>(number), getRankName({r, 1, rank.program})});
    if (rows.size() == before)
      rows.push_back({rank.rank, static_cast<uint32_t>(number), getRankName(rank)});
  }
  return rows;
}

/// Gives each row its launches.
static void fillRows(std::vector<Row> &rows, const SimResult &result, ArrayRef<MeasuredOp> measured) {
  std::vector<std::vector<const SimTime *>> times(result.ranks.size());
  for (const SimTime &time : result.times)
    times[time.rank].push_back(&time);
  for (std::vector<const SimTime *> &of : times)
    llvm::stable_sort(of, [](const SimTime *a, const SimTime *b) { return a->begin < b->begin; });
  std::vector<Row *> rowOf;
  for (Row &row : rows) {
    row.predicted = times[row.simulated];
    rowOf.resize(std::max(rowOf.size(), static_cast<size_t>(row.rank) + 1));
    rowOf[static_cast<size_t>(row.rank)] = &row;
  }
  auto hasLaunch = [&](const Row &row, int64_t op) {
    const SimProgram &program = result.programs[result.ranks[row.simulated].program];
    return op >= 0 && op < static_cast<int64_t>(program.launches.size());
  };
  for (const MeasuredOp &op : measured)
    if (op.rank < static_cast<int64_t>(rowOf.size()))
      if (Row *row = rowOf[static_cast<size_t>(op.rank)]; row && hasLaunch(*row, op.op))
        row->measured.push_back(&op);
  for (Row &row : rows)
    llvm::stable_sort(row.measured, [](const MeasuredOp *a, const MeasuredOp *b) { return a->begin < b->begin; });
}

/// The simulated rank with most of the critical path.
static uint32_t getCriticalRank(const SimResult &result, const SimReport &report) {
  std::vector<double> seconds(result.ranks.size());
  for (const CriticalPiece &piece : report.criticalPath)
    if (piece.time >= 0)
      seconds[result.times[static_cast<size_t>(piece.time)].rank] += piece.end - piece.begin;
  return static_cast<uint32_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

/// The rows with the most computation, the median, the least, and with most of the critical path where that is another.
static std::vector<size_t> findSpecialRows(const SimResult &result, const SimReport &report, ArrayRef<Row> rows) {
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
        llvm::find_if(rows, [&](const Row &row) { return row.simulated == critical; }) - rows.begin()));
  return special;
}

static Timeline makeTimeline(const SimResult &result, const SimReport &report, ArrayRef<MeasuredOp> measured) {
  Timeline timeline;
  timeline.rows = makeRows(result, measured);
  fillRows(timeline.rows, result, measured);
  timeline.tick = result.seconds > 0 ? result.seconds / ticksPerStep : 1;
  if (!measured.empty())
    timeline.measuredBegin =
        llvm::min_element(measured, [](const MeasuredOp &a, const MeasuredOp &b) { return a.begin < b.begin; })->begin;
  timeline.special = findSpecialRows(result, report, timeline.rows);
  size_t launches = 0;
  for (const Row &row : timeline.rows)
    launches += row.predicted.size() + row.measured.size();
  if (launches <= maxLaunches || timeline.special.empty())
    return timeline;
  timeline.numIntervals =
      std::clamp(maxBusyCharacters / (timeline.rows.size() * (kNumResources - 1)), minIntervals, maxIntervals);
  for (auto [number, row] : llvm::enumerate(timeline.rows))
    row.isDetailed = llvm::is_contained(timeline.special, number);
  return timeline;
}

static void writePrograms(json::OStream &json, const SimResult &result) {
  for (const SimProgram &program : result.programs)
    json.object([&] {
      json.attributeArray("streams", [&] {
        for (const std::string &stream : program.streams)
          json.value(json::fixUTF8(stream));
      });
      json.attributeArray("launches", [&] {
        for (auto [number, launch] : llvm::enumerate(program.launches))
          json.value(json::Array{json::fixUTF8(getLaunchName(program, static_cast<uint32_t>(number))),
                                 json::fixUTF8(launch.label), static_cast<int64_t>(launch.stream),
                                 static_cast<int64_t>(launch.cost.resource)});
      });
    });
}

namespace {
/// Writes times as the gap since the last end on the stream and the duration, both small numbers.
class GapWriter {
public:
  GapWriter(const Timeline &timeline, json::OStream &json) : timeline(timeline), json(json) {}

  void write(int64_t launch, size_t stream, double begin, double end) {
    if (stream >= ends.size())
      ends.resize(stream + 1);
    int64_t beginTicks = timeline.getTicks(begin), endTicks = timeline.getTicks(end);
    json.value(launch);
    json.value(beginTicks - ends[stream]);
    json.value(endTicks - beginTicks);
    ends[stream] = endTicks;
  }

private:
  const Timeline &timeline;
  json::OStream &json;
  std::vector<int64_t> ends;
};
} // namespace

/// Attributes of a row with launches. What a launch moved is said once where all ranks of its program moved the same.
static void writeLaunches(json::OStream &json, const SimResult &result, const Timeline &timeline, const Row &row) {
  const SimProgram &program = result.programs[result.ranks[row.simulated].program];
  json.attributeArray("predicted", [&] {
    GapWriter writer(timeline, json);
    for (const SimTime *time : row.predicted)
      writer.write(time->launch, program.launches[time->launch].stream, time->begin, time->end);
  });
  json.attributeArray("measured", [&] {
    GapWriter writer(timeline, json);
    for (const MeasuredOp *op : row.measured)
      writer.write(op->op, program.launches[static_cast<size_t>(op->op)].stream, op->begin - timeline.measuredBegin,
                   op->end - timeline.measuredBegin);
  });
}

namespace {
/// Rows, FLOPs and bytes of a launch on a rank.
struct Figures {
  int64_t rows = -1;
  double flops = 0, bytes = 0;
  bool operator==(const Figures &) const = default;
};
/// By program and launch: the figures of the first rank.
using FirstFigures = std::vector<std::vector<std::optional<Figures>>>;
} // namespace

static Figures getFigures(const SimTime &time) { return {time.rows, time.flops, time.bytes}; }

static FirstFigures getFirstFigures(const SimResult &result) {
  FirstFigures figures;
  for (const SimProgram &program : result.programs)
    figures.emplace_back(program.launches.size());
  for (const SimTime &time : result.times)
    if (std::optional<Figures> &first = figures[result.ranks[time.rank].program][time.launch]; !first)
      first = getFigures(time);
  return figures;
}

static void writeFigures(json::OStream &json, int64_t number, const Figures &figures) {
  json.value(number);
  json.value(figures.rows);
  json.value(std::round(figures.flops));
  json.value(std::round(figures.bytes));
}

/// For each kind of work and interval of the step: the fraction of it in which such work is under way, as one of the 64
/// digits of base64, the highest for 1.
static std::string makeBusy(const SimResult &result, const Timeline &timeline, const Row &row) {
  constexpr StringRef digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const SimProgram &program = result.programs[result.ranks[row.simulated].program];
  size_t intervals = timeline.numIntervals;
  std::vector<double> busy((kNumResources - 1) * intervals);
  double scale = result.seconds > 0 ? static_cast<double>(intervals) / result.seconds : 0;
  for (const SimTime *time : row.predicted) {
    auto resource = static_cast<size_t>(program.launches[time->launch].cost.resource);
    if (resource == 0)
      continue;
    double begin = time->begin * scale, end = time->end * scale;
    for (auto i = static_cast<size_t>(begin); i < intervals && static_cast<double>(i) < end; ++i)
      busy[(resource - 1) * intervals + i] +=
          std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
  }
  std::string text;
  for (double fraction : busy)
    text += digits[static_cast<size_t>(std::lround(std::min(fraction, 1.0) * static_cast<double>(digits.size() - 1)))];
  return text;
}

static void writeRow(json::OStream &json, const SimResult &result, const Timeline &timeline,
                     const FirstFigures &figures, const Row &row) {
  const SimRank &rank = result.ranks[row.simulated];
  json.object([&] {
    json.attribute("name", row.name);
    json.attribute("rank", row.rank);
    // Of the rank that stands for it on the critical path.
    json.attribute("simulated", rank.rank);
    json.attribute("program", static_cast<int64_t>(rank.program));
    if (timeline.numIntervals > 0)
      json.attribute("busy", makeBusy(result, timeline, row));
    if (!row.isDetailed)
      return;
    writeLaunches(json, result, timeline, row);
    json.attributeArray("figures", [&] {
      for (auto [number, time] : llvm::enumerate(row.predicted))
        if (getFigures(*time) != figures[rank.program][time->launch])
          writeFigures(json, static_cast<int64_t>(number), getFigures(*time));
    });
  });
}

static void writeTimeline(json::OStream &json, const SimHeader &header, const SimResult &result,
                          const Timeline &timeline) {
  FirstFigures figures = getFirstFigures(result);
  json.attribute("tick_s", timeline.tick);
  json.attribute("devices_per_node", header.devicesPerNode);
  json.attribute("intervals", static_cast<int64_t>(timeline.numIntervals));
  json.attributeArray("special", [&] {
    for (size_t row : timeline.special)
      json.value(static_cast<int64_t>(row));
  });
  json.attributeArray("programs", [&] { writePrograms(json, result); });
  json.attributeArray("figures", [&] {
    for (ArrayRef<std::optional<Figures>> of : figures)
      json.array([&] {
        for (auto [number, first] : llvm::enumerate(of))
          if (first)
            writeFigures(json, static_cast<int64_t>(number), *first);
      });
  });
  json.attributeArray("rows", [&] {
    for (const Row &row : timeline.rows)
      writeRow(json, result, timeline, figures, row);
  });
}

void mlir::moe::writeHtml(const SimHeader &header, const SimResult &result, const SimReport &report,
                          ArrayRef<MeasuredOp> measured, const Comparison *comparison, llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  json::OStream json(stream);
  json.object([&] {
    json.attributeBegin("report");
    writeReportObject(json, header, result, report, comparison);
    json.attributeEnd();
    json.attributeObject("timeline",
                         [&] { writeTimeline(json, header, result, makeTimeline(result, report, measured)); });
  });
  auto [head, tail] = page.split(placeholder);
  os << head;
  // In JSON, `<` only stands in strings. As an escape it can neither end the script nor open a comment.
  for (StringRef rest = data; !rest.empty();) {
    auto [before, after] = rest.split('<');
    os << before;
    if (before.size() < rest.size())
      os << "\\u003c";
    rest = after;
  }
  os << tail;
}
