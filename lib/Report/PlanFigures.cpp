//===- PlanFigures.cpp - a plan in figures --------------------------------===//
#include "moe/Report/PlanReport.h"

#include "Json.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Planner/Explanation.h"

using namespace mlir;
using namespace mlir::plan;
namespace json = llvm::json;

namespace {
/// Sums over launches.
struct Totals {
  int64_t launches = 0;
  double flops = 0;
  int64_t bytes = 0, bytesSent = 0;

  void add(LaunchOp launch) {
    int64_t times = plan::getTimes(launch);
    launches += times;
    moe::OpCost cost = launch.getOpCost();
    flops += cost.flops * static_cast<double>(times);
    bytes += cost.getBytesMoved() * times;
    bytesSent += launch.getBytesSent() * times;
  }
};
/// Totals in the order of first appearance.
using TotalsByName = llvm::MapVector<StringRef, Totals>;
} // namespace

static void writeTotals(json::OStream &json, StringRef key, const TotalsByName &totals) {
  json.attributeObject(key, [&] {
    for (const auto &[name, total] : totals)
      json.attributeObject(name, [&, &total = total] {
        json.attribute("launches", total.launches);
        json.attribute("flops", total.flops);
        json.attribute("bytes", total.bytes);
        json.attribute("bytes_sent", total.bytesSent);
      });
  });
}

static void writeArena(json::OStream &json, const ArenaReport &arena) {
  json.attributeObject(stringifySpace(arena.space), [&] {
    json.attribute("bytes", arena.arenaBytes);
    json.attribute("live_bytes", arena.liveBytes);
    moe::writeObjects(json, "live", arena.live, [](json::OStream &json, const LiveBuffer &buffer) {
      LaunchOp writer = buffer.writer;
      json.attribute("bytes", buffer.bytes);
      json.attribute("writer", writer.getKernel());
      json.attribute("label", buffer.getLabel());
    });
  });
}

static void writeProgram(json::OStream &json, func::FuncOp program) {
  TotalsByName kernels, streams, groups;
  program.walk([&](LaunchOp launch) {
    kernels[launch.getKernel()].add(launch);
    streams[launch.getStreamOrDefault()].add(launch);
    if (launch.getCollective())
      groups[launch.getGroup()->getName()].add(launch);
  });
  json.attributeObject(program.getName(), [&] {
    writeTotals(json, "kernels", kernels);
    writeTotals(json, "streams", streams);
    writeTotals(json, "groups", groups);
    json.attributeObject("memory", [&] {
      for (const ArenaReport &arena : reportMemory(program))
        writeArena(json, arena);
    });
  });
}

/// Writes the fields of moe::kScheduleChoicesAttrName for a layer, under their names.
static void writeChoice(json::OStream &json, DictionaryAttr choice) {
  auto number = [](Attribute value) { return cast<FloatAttr>(value).getValueAsDouble(); };
  for (NamedAttribute entry : choice) {
    StringRef name = entry.getName();
    if (auto text = dyn_cast<StringAttr>(entry.getValue()))
      json.attribute(name, text.getValue());
    else if (auto integer = dyn_cast<IntegerAttr>(entry.getValue()))
      json.attribute(name, integer.getInt());
    else if (auto term = dyn_cast<ArrayAttr>(entry.getValue()))
      json.attributeObject(name, [&] {
        for (auto [key, value] : llvm::zip(ArrayRef<StringRef>{"alpha_s", "beta_s_per_byte", "bytes", "seconds"}, term))
          json.attribute(key, number(value));
      });
    else
      json.attribute(name, number(entry.getValue()));
  }
}

static void writeCompared(json::OStream &json, const moe::Candidate &one) {
  json.attribute("schedule", one.schedule);
  json.attribute("predicted_s", one.whole.seconds);
  json.attribute("bytes", one.whole.bytes);
  if (one.equation10)
    json.attribute("equation10_s", *one.equation10);
  json.attribute("chosen", one.verdict == moe::Verdict::Chosen);
}

void mlir::moe::writePlanReport(ModuleOp module, StringRef prediction, raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    for (auto function : module.getOps<func::FuncOp>())
      if (isRankProgram(function))
        writeProgram(json, function);
    if (std::optional<std::vector<moe::Candidate>> compared = moe::getCompared(module))
      moe::writeObjects(json, "compared", *compared, writeCompared);
    for (auto function : module.getOps<func::FuncOp>())
      if (auto choices = function->getAttrOfType<ArrayAttr>(moe::kScheduleChoicesAttrName))
        moe::writeObjects(json, "schedule_choices", choices.getAsRange<DictionaryAttr>(), writeChoice);
    if (!prediction.empty()) {
      json.attributeBegin("prediction");
      json.rawValue(prediction);
      json.attributeEnd();
    }
  });
  os << "\n";
}
