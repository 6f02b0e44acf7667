//===- SimJson.cpp - what a step says to tools ----------------------------===//
#include "Json.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;
using llvm::StringRef;
namespace json = llvm::json;

static void writeHeader(json::OStream &json, const SimHeader &header) {
  writeText(json, "plan", header.plan);
  writeText(json, "cluster", header.cluster);
  if (!header.framework.empty())
    writeText(json, "framework", header.framework);
  if (!header.precision.empty())
    writeText(json, "precision", header.precision);
  writeText(json, "schedule", header.schedule);
  writeText(json, "mode", header.mode);
  writeText(json, "form", header.form);
  writeText(json, "routing", header.routing);
  if (!header.load.empty())
    writeText(json, "dropless_rows", header.load);
}

static void writeMeasured(json::OStream &json, const std::optional<StepClass> &measured) {
  if (measured)
    json.attributeObject("measured_steps", [&] {
      json.attribute("low", measured->low);
      json.attribute("high", measured->high);
      json.attribute("steps", measured->steps);
      json.attribute("sources", measured->sources);
      json.attribute("own", measured->isOwn);
    });
}

/// Null if the value is not known.
static json::Value getKnown(double value) { return value > 0 ? json::Value(value) : json::Value(nullptr); }

/// Writes the times and the memory of a rank into the JSON object that is open.
static void writeUse(json::OStream &json, const RankUse &use) {
  writeObjects(json, "streams", use.streams, [](json::OStream &json, const StreamUse &stream) {
    writeText(json, "name", stream.stream);
    json.attribute("busy_s", stream.busy);
    json.attribute("idle_s", stream.idle);
  });
  json.attribute("compute_s", use.compute);
  json.attribute("communication_s", use.communication);
  json.attribute("copy_s", use.copy);
  json.attribute("exposed_communication_s", use.exposedCommunication);
  json.attribute("bubble_s", use.bubble);
  json.attribute("other_s", use.other);
  json.attribute("peak_bytes", use.peakBytes);
}

static void writeKernel(json::OStream &json, const KernelUse &use) {
  writeText(json, "kernel", use.kernel);
  json.attribute("resource", getName(use.resource));
  json.attribute("launches", use.launches);
  json.attribute("busy_s", use.seconds);
  json.attribute("flops", use.flops);
  json.attribute("bytes", use.bytes);
  json.attribute("critical_s", use.criticalSeconds);
}

namespace {
/// Mean of a launch over the ranks that run its program.
struct OpMean {
  double begin = 0, end = 0, ranks = 0;
};
} // namespace

static void writeOps(json::OStream &json, const SimResult &result) {
  std::vector<std::vector<OpMean>> means;
  for (const SimProgram &program : result.programs)
    means.emplace_back(program.launches.size());
  for (const SimTime &time : result.times) {
    const SimRank &rank = result.ranks[time.rank];
    OpMean &mean = means[rank.program][time.launch];
    double count = static_cast<double>(rank.count);
    mean.begin += count * time.begin;
    mean.end += count * time.end;
    mean.ranks += count;
  }
  for (auto [program, ops] : llvm::zip_equal(result.programs, means))
    for (auto [number, mean] : llvm::enumerate(ops)) {
      if (mean.ranks == 0)
        continue;
      const SimLaunch &launch = program.launches[number];
      json.object([&, number = number, &mean = mean, &program = program] {
        writeText(json, "program", program.name);
        json.attribute("op", static_cast<int64_t>(number));
        writeText(json, "kernel", getLaunchName(program, static_cast<uint32_t>(number)));
        writeText(json, "label", launch.label);
        writeText(json, "stream", program.streams[launch.stream]);
        json.attribute("begin_s", mean.begin / mean.ranks);
        json.attribute("end_s", mean.end / mean.ranks);
      });
    }
}

static void writePiece(json::OStream &json, const SimResult &result, const CriticalPiece &piece) {
  json.attribute("begin_s", piece.begin);
  json.attribute("end_s", piece.end);
  if (piece.time < 0)
    return;
  const SimTime &time = result.times[piece.time];
  const SimRank &rank = result.ranks[time.rank];
  const SimProgram &program = result.programs[rank.program];
  json.attribute("rank", rank.rank);
  json.attribute("op", static_cast<int64_t>(time.launch));
  writeText(json, "kernel", getLaunchName(program, time.launch));
  writeText(json, "label", program.launches[time.launch].label);
}

void mlir::moe::writeMemorySums(json::OStream &json, const SimHeader &header, const SimResult &result,
                                const SimReport &report) {
  json.attribute("rank", result.ranks[report.largestMemoryRank].rank);
  json.attribute("peak_bytes", report.ranks[report.largestMemoryRank].peakBytes);
  json.attribute("device_bytes", getKnown(header.memoryBytes));
}

/// Writes the attributes of a plan's point into an open object.
static void writePoint(json::OStream &json, const RooflinePoint &point) {
  json.attribute("r_cc", getKnown(point.ratio));
  json.attribute("mean_flops_per_s", point.mean);
  json.attribute("ideal_flops_per_s", point.ideal);
  json.attribute("semi_ideal_flops_per_s", point.semiIdeal);
}

static void writeRoofline(json::OStream &json, const SimHeader &header, const SimResult &result,
                          const SimReport &report) {
  json.attribute("peak_flops_per_s", result.roofline.peakFlops);
  writePoint(json, report.roofline);
  auto write = [&](StringRef schedule, const RooflinePoint &point) {
    json.object([&] {
      writeText(json, "schedule", schedule);
      json.attribute("step_s", point.seconds);
      writePoint(json, point);
      json.attribute("share_of_ideal", point.getShareOfIdeal());
    });
  };
  json.attributeArray("points", [&] {
    write(header.schedule, report.roofline);
    for (const RooflinePoint &point : report.others)
      write(point.schedule, point);
  });
}

static void writeReach(json::OStream &json, const TokenReach &reach) {
  writeText(json, "layer", reach.layer);
  json.attribute("num_ranks", reach.numRanks);
  json.attribute("num_nodes", reach.numNodes);
  json.attribute("ranks", reach.ranks);
  json.attribute("nodes", reach.nodes);
  json.attribute("other_nodes", reach.otherNodes);
  json.attribute("counted", reach.isCounted);
}

static void writeComparison(json::OStream &json, const KernelComparison &kernel) {
  writeText(json, "kernel", kernel.kernel);
  json.attribute("launches", kernel.launches);
  json.attribute("measured_s", kernel.measuredSeconds);
  json.attribute("predicted_s", kernel.predictedSeconds);
  json.attribute("error", kernel.getError());
}

/// Writes the attributes that sum the step up.
static void writeSums(json::OStream &json, const SimReport &report) {
  json.attributeObject("speed", [&] {
    json.attribute("model_flops", getKnown(report.work.modelFlops));
    json.attribute("tokens", getKnown(report.work.tokens));
    json.attribute("flops_per_s", getKnown(report.speed.flopsPerSecond));
    json.attribute("tokens_per_s", getKnown(report.speed.tokensPerSecond));
    json.attribute("mfu", getKnown(report.speed.mfu));
  });
  json.attributeObject("critical", [&] {
    json.attribute("compute_s", report.critical.compute);
    json.attribute("communication_s", report.critical.communication);
    json.attribute("copy_s", report.critical.copy);
    json.attribute("waiting_s", report.critical.waiting);
    json.attribute("fitted_s", report.critical.fitted);
    json.attribute("fit_error", report.critical.fitError);
    json.attribute("extrapolated_s", report.critical.extrapolated);
    json.attribute("compute_error_s", report.critical.computeErrors.getSeconds());
    json.attribute("communication_error_s", report.critical.communicationErrors.getSeconds());
  });
  writeMeasured(json, report.measured);
  json.attributeObject("mean", [&] { writeUse(json, report.mean); });
  writeObjects(json, "kernels", report.kernels, writeKernel);
}

void mlir::moe::writeReportSums(json::OStream &json, const SimHeader &header, const SimResult &result,
                                const SimReport &report, const Comparison *comparison) {
  writeHeader(json, header);
  json.attribute("num_ranks", report.numRanks);
  json.attribute("step_s", result.seconds);
  writeSums(json, report);
  json.attributeObject("roofline", [&] { writeRoofline(json, header, result, report); });
  json.attributeObject("sent", [&] {
    json.attribute("inside_nodes", result.sent.insideNodes);
    json.attribute("between_nodes", result.sent.betweenNodes);
  });
  if (!result.reach.empty())
    writeObjects(json, "reach", result.reach, writeReach);
  if (!comparison)
    return;
  json.attributeObject("comparison", [&] {
    json.attributeObject("step", [&] { writeComparison(json, comparison->step); });
    writeObjects(json, "kernels", comparison->kernels, writeComparison);
  });
}

void mlir::moe::writeJson(const SimHeader &header, const SimResult &result, const SimReport &report,
                          const Comparison *comparison, llvm::raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    writeReportSums(json, header, result, report, comparison);
    auto ranks = llvm::zip_equal(result.ranks, report.ranks);
    writeObjects(json, "ranks", ranks, [](json::OStream &json, const auto &rankAndUse) {
      const auto &[rank, use] = rankAndUse;
      json.attribute("rank", rank.rank);
      json.attribute("count", rank.count);
      writeUse(json, use);
    });
    json.attributeArray("ops", [&] { writeOps(json, result); });
    writeObjects(json, "critical_path", report.criticalPath,
                 [&](json::OStream &json, const CriticalPiece &piece) { writePiece(json, result, piece); });
    if (!result.ranks.empty())
      json.attributeObject("memory", [&] {
        writeMemorySums(json, header, result, report);
        json.attributeArray("points", [&] {
          for (const MemoryPoint &point : getMemoryOverTime(result, report.largestMemoryRank))
            json.value(json::Array{point.seconds, point.bytes});
        });
      });
  });
  os << "\n";
}

void mlir::moe::writeJson(const SimHeader &header, const SampledStep &step, llvm::raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    writeHeader(json, header);
    json.attribute("from_samples", true);
    json.attribute("num_ranks", step.ranks);
    json.attribute("step_s", step.seconds);
    json.attribute("peak_bytes", step.bytes);
    writeMeasured(json, step.measured);
  });
  os << "\n";
}
