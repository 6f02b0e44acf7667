//===- SimPage.cpp - a step as a page -------------------------------------===//
//
// The page is timeline.html with data in it: a part of writeJson's object, and the lanes of the timeline as flat arrays
// of whole numbers, which take a tenth of the bytes of objects.
//
//===----------------------------------------------------------------------===//
#include "Json.h"
#include "PageTimeline.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace mlir::moe;
using llvm::ArrayRef;
using llvm::StringRef;
namespace json = llvm::json;

/// The text of timeline.html, which CMake converts.
static constexpr StringRef timelinePage =
#include "timeline.inc"
    ;

/// Number of rows above which the page shows them in blocks.
static constexpr size_t manyRows = 16;

static const SimProgram &getProgram(const SimResult &result, const PageRow &row) {
  return result.programs[result.ranks[row.simulated].program];
}

//===----------------------------------------------------------------------===//
// Use over time
//===----------------------------------------------------------------------===//

namespace {
/// The busy fraction of each of a timeline's intervals.
class Coverage {
public:
  explicit Coverage(const PageTimeline &timeline)
      : parts(timeline.numIntervals),
        scale(timeline.end > 0 ? static_cast<double>(timeline.numIntervals) / timeline.end : 0) {}

  void add(double begin, double end) {
    begin *= scale;
    end *= scale;
    for (auto i = static_cast<size_t>(begin); i < parts.size() && static_cast<double>(i) < end; ++i)
      parts[i] += std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
  }

  /// Writes each fraction as one of the 64 digits of base64, the highest for 1.
  std::string getDigits() const {
    constexpr StringRef digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (double part : parts)
      text += digits[static_cast<size_t>(std::lround(std::min(part, 1.0) * static_cast<double>(digits.size() - 1)))];
    return text;
  }

private:
  std::vector<double> parts;
  double scale;
};
} // namespace

/// Use of a row's device for each kind of work, one kind after the other.
static std::string makeBusy(const SimResult &result, const PageTimeline &timeline, const PageRow &row) {
  std::vector<Coverage> kinds(kNumResources, Coverage(timeline));
  for (const PageSpan &span : row.predicted)
    kinds[static_cast<size_t>(getProgram(result, row).launches[span.launch].cost.resource)].add(span.begin, span.end);
  std::string text;
  for (const Coverage &kind : llvm::drop_begin(kinds))
    text += kind.getDigits();
  return text;
}

/// Times until `end` in which a row's device does nothing, or waits for another pipeline stage.
static std::vector<std::pair<double, double>> findIdle(const SimProgram &program, ArrayRef<PageSpan> spans,
                                                       double end) {
  std::vector<std::pair<double, double>> idle;
  double last = 0;
  for (const PageSpan &span : spans) {
    const SimLaunch &launch = program.launches[span.launch];
    if (launch.group >= 0 && program.groups[launch.group].isChannel())
      continue;
    if (span.begin > last)
      idle.emplace_back(last, span.begin);
    last = std::max(last, span.end);
  }
  if (end > last)
    idle.emplace_back(last, end);
  return idle;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// Rows, FLOPs and bytes of a launch on a rank.
struct Figures {
  int64_t rows = -1;
  double flops = 0, bytes = 0;
  auto operator<=>(const Figures &) const = default;
};

/// A launch's number on the page, and its figures on the first rank that ran it.
struct ShownLaunch {
  int64_t number = 0;
  std::optional<Figures> figures;
};
using ShownLaunches = llvm::MapVector<uint32_t, ShownLaunch>;

class TimelineWriter {
public:
  TimelineWriter(json::OStream &json, const SimHeader &header, const SimResult &result, const SimReport &report,
                 const PageTimeline &timeline)
      : json(json), header(header), result(result), report(report), timeline(timeline) {}

  void write();

private:
  bool isWhole() const { return timeline.from <= 0 && timeline.to >= timeline.end; }
  bool isShown(const PageSpan &span) const { return timeline.isShown(span.begin, span.end); }
  bool isShown(const CriticalPiece &piece) const { return timeline.isShown(piece.begin, piece.end); }
  void findShown();
  void writeProgram(const SimProgram &program, const ShownLaunches &launches);
  void writeFigures(const ShownLaunches &launches);
  void writeFigures(const Figures &figures);
  void writeRow(const PageRow &row);
  void writeLanes(const PageRow &row, ArrayRef<PageSpan> spans, double end);
  void writeCritical();

  json::OStream &json;
  const SimHeader &header;
  const SimResult &result;
  const SimReport &report;
  const PageTimeline &timeline;
  std::vector<ShownLaunches> shown; ///< in the order of SimResult::programs
  /// Numbers of the names on the page, in order of first use.
  llvm::MapVector<std::string, int64_t, std::map<std::string, unsigned>> names;
};
} // namespace

static Figures getFigures(const SimTime &time) { return {time.rows, time.flops, time.bytes}; }

/// Writes a time as the gap since the end of the one before, which it replaces, and the duration: small numbers.
static void writeTime(json::OStream &json, int64_t begin, int64_t end, int64_t &last) {
  json.value(begin - last);
  json.value(end - begin);
  last = end;
}

void TimelineWriter::findShown() {
  shown.resize(result.programs.size());
  auto add = [&](uint32_t program, uint32_t launch) -> ShownLaunch & {
    ShownLaunches &launches = shown[program];
    return launches.try_emplace(launch, ShownLaunch{static_cast<int64_t>(launches.size()), {}}).first->second;
  };
  for (const PageRow &row : timeline.rows)
    if (row.hasLanes)
      for (const std::vector<PageSpan> *spans : {&row.predicted, &row.measured})
        for (const PageSpan &span : *spans)
          if (isShown(span))
            if (ShownLaunch &one = add(result.ranks[row.simulated].program, span.launch); !one.figures && span.time)
              one.figures = getFigures(*span.time);
  for (const CriticalPiece &piece : report.criticalPath)
    if (piece.time >= 0 && isShown(piece)) {
      const SimTime &time = result.times[piece.time];
      add(result.ranks[time.rank].program, time.launch);
    }
}

void TimelineWriter::writeProgram(const SimProgram &program, const ShownLaunches &launches) {
  std::vector<Resource> kinds = getStreamKinds(program, timeline.rows, result);
  json.attribute("streams", json::Array(llvm::map_range(program.streams, json::fixUTF8)));
  json.attribute("kinds", json::Array(llvm::map_range(kinds, [](Resource kind) { return static_cast<int>(kind); })));
  auto getNumber = [&](const std::string &name) {
    return names.try_emplace(name, static_cast<int64_t>(names.size())).first->second;
  };
  // Writes fives: the number in the program, kernel, label, stream, kind of work.
  json.attributeArray("launches", [&] {
    for (const auto &[number, one] : launches) {
      const SimLaunch &launch = program.launches[number];
      for (int64_t value : {int64_t{number}, getNumber(getLaunchName(program, number)), getNumber(launch.label),
                            int64_t{launch.stream}, static_cast<int64_t>(launch.cost.resource)})
        json.value(value);
    }
  });
  writeFigures(launches);
}

/// Writes launches as twos. Their figures are a place in a list of threes, since other micro-batches have the same.
void TimelineWriter::writeFigures(const ShownLaunches &launches) {
  std::map<Figures, int64_t> places;
  std::vector<Figures> distinct;
  json.attributeArray("figures", [&] {
    for (const auto &[number, one] : launches)
      if (one.figures) {
        auto [place, isNew] = places.try_emplace(*one.figures, static_cast<int64_t>(distinct.size()));
        if (isNew)
          distinct.push_back(*one.figures);
        json.value(one.number);
        json.value(place->second);
      }
  });
  json.attributeArray("distinct_figures", [&] {
    for (const Figures &figures : distinct)
      writeFigures(figures);
  });
}

void TimelineWriter::writeFigures(const Figures &figures) {
  json.value(figures.rows);
  json.value(std::round(figures.flops));
  json.value(std::round(figures.bytes));
}

/// Writes the attributes of a row's launches, as predicted or as measured. The figures of a launch are written once if
/// they are the same on all ranks of its program.
void TimelineWriter::writeLanes(const PageRow &row, ArrayRef<PageSpan> spans, double end) {
  const SimProgram &program = getProgram(result, row);
  ShownLaunches &launches = shown[result.ranks[row.simulated].program];
  json.attributeArray("launches", [&] {
    std::vector<int64_t> ends(program.streams.size());
    for (const PageSpan &span : spans)
      if (isShown(span)) {
        json.value(launches[span.launch].number);
        writeTime(json, timeline.getTicks(span.begin), timeline.getTicks(span.end),
                  ends[program.launches[span.launch].stream]);
      }
  });
  json.attributeArray("figures", [&] {
    int64_t number = 0;
    for (const PageSpan &span : spans) {
      if (!isShown(span))
        continue;
      if (span.time && getFigures(*span.time) != launches[span.launch].figures) {
        json.value(number);
        writeFigures(getFigures(*span.time));
      }
      ++number;
    }
  });
  std::vector<std::pair<double, double>> idle = findIdle(program, spans, end);
  json.attributeArray("idle", [&] {
    int64_t last = 0;
    for (auto [begin, idleEnd] : idle) {
      int64_t beginTicks = timeline.getTicks(begin), endTicks = timeline.getTicks(idleEnd);
      if (timeline.isShown(begin, idleEnd) && endTicks > beginTicks)
        writeTime(json, beginTicks, endTicks, last);
    }
  });
  if (isWhole())
    return;
  Coverage idleParts(timeline);
  for (auto [begin, idleEnd] : idle)
    idleParts.add(begin, idleEnd);
  json.attribute("idle_parts", idleParts.getDigits());
  std::map<std::pair<uint32_t, Resource>, Coverage> lanes;
  for (const PageSpan &span : spans) {
    const SimLaunch &launch = program.launches[span.launch];
    lanes.try_emplace({launch.stream, launch.cost.resource}, timeline).first->second.add(span.begin, span.end);
  }
  json.attributeArray("lanes", [&] {
    for (const auto &[lane, coverage] : lanes)
      json.value(json::Array{lane.first, static_cast<int64_t>(lane.second), coverage.getDigits()});
  });
}

void TimelineWriter::writeRow(const PageRow &row) {
  const SimRank &rank = result.ranks[row.simulated];
  json.attribute("name", row.name);
  json.attribute("rank", row.rank);
  // This rank stands for it on the critical path.
  json.attribute("simulated", rank.rank);
  json.attribute("program", rank.program);
  if (timeline.numIntervals > 0 && timeline.rows.size() > manyRows)
    json.attribute("busy", makeBusy(result, timeline, row));
  if (!row.hasLanes)
    return;
  json.attributeObject("predicted", [&] { writeLanes(row, row.predicted, result.seconds); });
  if (!row.measured.empty())
    json.attributeObject("measured", [&] { writeLanes(row, row.measured, timeline.end); });
}

/// Writes threes: the rank, its launch or -1, and the duration. Pieces follow one another without gaps.
void TimelineWriter::writeCritical() {
  json.attributeArray("critical", [&] {
    for (const CriticalPiece &piece : report.criticalPath) {
      if (!isShown(piece))
        continue;
      const SimTime *time = piece.time >= 0 ? &result.times[piece.time] : nullptr;
      json.value(time ? result.ranks[time->rank].rank : 0);
      json.value(time ? shown[result.ranks[time->rank].program][time->launch].number : -1);
      json.value(timeline.getTicks(piece.end) - timeline.getTicks(piece.begin));
    }
  });
  auto first = llvm::find_if(report.criticalPath, [&](const CriticalPiece &piece) { return isShown(piece); });
  json.attribute("critical_from", first == report.criticalPath.end() ? 0 : timeline.getTicks(first->begin));
  if (isWhole())
    return;
  std::vector<Coverage> kinds(kNumResources, Coverage(timeline));
  for (const CriticalPiece &piece : report.criticalPath) {
    Resource kind = Resource::None;
    if (piece.time >= 0)
      kind = result.getLaunch(result.times[piece.time]).cost.resource;
    kinds[static_cast<size_t>(kind)].add(piece.begin, piece.end);
  }
  json.attribute("critical_busy",
                 json::Array(llvm::map_range(kinds, [](const Coverage &kind) { return kind.getDigits(); })));
}

void TimelineWriter::write() {
  findShown();
  json.attribute("tick_s", timeline.tick);
  json.attribute("end_s", timeline.end);
  json.attribute("from_s", timeline.from);
  json.attribute("to_s", timeline.to);
  json.attribute("whole", isWhole());
  json.attribute("period", timeline.isPeriod);
  json.attribute("devices_per_node", header.devicesPerNode);
  json.attribute("is_grouped", timeline.rows.size() > manyRows);
  json.attribute("intervals", timeline.numIntervals);
  json.attribute("special", json::Array(timeline.special));
  writeObjects(json, "programs", llvm::zip_equal(result.programs, shown),
               [&](json::OStream &, const auto &one) { writeProgram(std::get<0>(one), std::get<1>(one)); });
  writeObjects(json, "rows", timeline.rows, [&](json::OStream &, const PageRow &row) { writeRow(row); });
  writeCritical();
  json.attribute("names", json::Array(llvm::map_range(llvm::make_first_range(names), json::fixUTF8)));
}

//===----------------------------------------------------------------------===//
// The pipeline
//===----------------------------------------------------------------------===//

/// Writes sevens: micro-batch, stage, work, the sum of 1 for a window and 2 for weight gradients, the gap since the
/// begin of the piece before, the duration, and its own part of that. An exposed exchange is a two: the gap since the
/// end of the one before, and the duration.
static void writeDevice(json::OStream &json, const PageTimeline &timeline, const PageDevice &device) {
  json.attribute("name", device.name);
  json.attributeArray("pieces", [&] {
    int64_t last = 0;
    for (const PagePiece &piece : device.pieces) {
      int64_t begin = timeline.getTicks(piece.begin);
      for (int64_t value : {int64_t{piece.microBatch}, int64_t{piece.stage}, static_cast<int64_t>(piece.work),
                            int64_t{piece.isWindow} + 2 * int64_t{piece.hasWeights}, begin - last,
                            timeline.getTicks(piece.end) - begin, timeline.getTicks(piece.compute)})
        json.value(value);
      last = begin;
    }
  });
  json.attributeArray("exposed", [&] {
    int64_t last = 0;
    for (auto [begin, end] : device.exposed)
      writeTime(json, timeline.getTicks(begin), timeline.getTicks(end), last);
  });
}

static void writePipeline(json::OStream &json, const PageTimeline &timeline, const PagePipeline &pipeline) {
  json.attribute("to_s", pipeline.to);
  json.attribute("num_devices", pipeline.numDevices);
  json.attribute("num_micro_batches", pipeline.numMicroBatches);
  writeObjects(json, "devices", pipeline.devices,
               [&](json::OStream &json, const PageDevice &device) { writeDevice(json, timeline, device); });
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Writes each stream's mean over ranks.
static void writeStreams(json::OStream &json, const SimResult &result, const SimReport &report,
                         const PageTimeline &timeline) {
  std::map<std::string, Resource> kinds;
  for (const SimProgram &program : result.programs)
    for (auto [stream, kind] : llvm::zip_equal(program.streams, getStreamKinds(program, timeline.rows, result)))
      if (Resource &known = kinds[stream]; known == Resource::None || (kind != Resource::None && kind < known))
        known = kind;
  writeObjects(json, "streams", report.mean.streams, [&](json::OStream &json, const StreamUse &stream) {
    double least = INFINITY, most = 0;
    for (const RankUse &rank : report.ranks) {
      auto found = llvm::find_if(rank.streams, [&](const StreamUse &use) { return use.stream == stream.stream; });
      double busy = found == rank.streams.end() ? 0 : found->busy;
      least = std::min(least, busy);
      most = std::max(most, busy);
    }
    writeText(json, "name", stream.stream);
    json.attribute("kind", static_cast<int64_t>(kinds[stream.stream]));
    json.attribute("busy_s", stream.busy);
    json.attribute("least_s", least);
    json.attribute("most_s", most);
  });
}

/// Writes all simulated ranks if they are few, or those that have lanes of their own.
static void writeRanks(json::OStream &json, const SimResult &result, const SimReport &report,
                       const PageTimeline &timeline) {
  auto ranks = llvm::to_vector(llvm::seq(result.ranks.size()));
  if (ranks.size() > manyRows)
    ranks = llvm::map_to_vector(timeline.special, [&](size_t row) -> size_t { return timeline.rows[row].simulated; });
  writeObjects(json, "ranks", ranks, [&](json::OStream &json, size_t number) {
    const RankUse &use = report.ranks[number];
    json.attribute("rank", result.ranks[number].rank);
    json.attribute("count", result.ranks[number].count);
    json.attribute("compute_s", use.compute);
    json.attribute("communication_s", use.communication);
    json.attribute("exposed_communication_s", use.exposedCommunication);
    json.attribute("bubble_s", use.bubble);
    json.attribute("copy_s", use.copy);
    json.attribute("peak_bytes", use.peakBytes);
  });
}

/// Writes the highest point of each interval if there are many points.
static void writeMemoryPoints(json::OStream &json, const SimResult &result, const SimReport &report) {
  constexpr size_t maxPoints = 2000, intervals = 1000;
  std::vector<MemoryPoint> points = getMemoryOverTime(result, report.largestMemoryRank), thinned;
  bool isThinned = points.size() > maxPoints;
  double interval = result.seconds / intervals;
  for (const MemoryPoint &point : points)
    if (isThinned && !thinned.empty() &&
        std::floor(thinned.back().seconds / interval) == std::floor(point.seconds / interval))
      thinned.back() =
          std::max(thinned.back(), point, [](const MemoryPoint &a, const MemoryPoint &b) { return a.bytes < b.bytes; });
    else
      thinned.push_back(point);
  json.attribute("thinned", isThinned);
  json.attributeArray("points", [&] {
    for (const MemoryPoint &point : thinned)
      json.value(json::Array{point.seconds, point.bytes});
  });
}

void mlir::moe::writeHtml(StringRef command, const SimHeader &header, const SimResult &result, const SimReport &report,
                          ArrayRef<MeasuredOp> measured, const Comparison *comparison, llvm::raw_ostream &os) {
  PageTimeline timeline = makePageTimeline(result, report, measured);
  PagePipeline pipeline = makePagePipeline(result, timeline);
  auto write = [&](json::OStream &json) {
    json.attributeObject("report", [&] {
      writeReportSums(json, header, result, report, comparison);
      writeText(json, "command", command);
      json.attribute("num_simulated", result.ranks.size());
      writeStreams(json, result, report, timeline);
      writeRanks(json, result, report, timeline);
      if (!result.ranks.empty())
        json.attributeObject("memory", [&] {
          writeMemorySums(json, header, result, report);
          writeMemoryPoints(json, result, report);
        });
    });
    json.attributeObject("timeline", [&] { TimelineWriter(json, header, result, report, timeline).write(); });
    if (!pipeline.devices.empty())
      json.attributeObject("pipeline", [&] { writePipeline(json, timeline, pipeline); });
  };
  writePage(timelinePage, write, os);
}
