//===- ExplanationPage.cpp - why a plan was taken, as a page --------------===//
#include "ExplanationParts.h"
#include "Page.h"

#include "moe/Conversion/Variants.h"
#include "moe/Report/Explanations.h"

using namespace mlir;
using namespace mlir::moe;

/// explanation.html, by CMake.
static constexpr StringRef page =
#include "explanation.inc"
    ;

static void writeText(llvm::json::OStream &json, StringRef key, function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  json.attribute(key, llvm::json::fixUTF8(StringRef(text).trim()));
}

static void writePlan(llvm::json::OStream &json, ModuleOp plan) {
  json.object([&] {
    if (auto batch = plan->getAttrOfType<IntegerAttr>(plan::kBatchAttrName)) {
      json.attribute("batch", batch.getInt());
      json.attribute("sequence", plan->getAttrOfType<IntegerAttr>(plan::kSequenceAttrName).getInt());
    }
    if (std::optional<GroupsExplanation> groups = getGroupsExplanation(plan)) {
      json.attribute("groups", getJson(plan, plan::kExplainParallelAttrName));
      writeText(json, "groups_margin",
                [&](llvm::raw_ostream &os) { printMargin(groups->margin, /*isOpen=*/false, os); });
      writeText(json, "room", [&](llvm::raw_ostream &os) { os << describeRoom(plan); });
    }
    if (std::optional<ScheduleExplanation> schedules = getScheduleExplanation(plan)) {
      json.attribute("schedules", getJson(plan, plan::kExplainAttrName));
      writeText(json, "schedules_margin",
                [&](llvm::raw_ostream &os) { printMargin(schedules->margin, schedules->isOpen.value_or(false), os); });
      writeText(json, "overlap",
                [&](llvm::raw_ostream &os) { printOverlap(sortBySeconds(schedules->candidates), os); });
      writeText(json, "changes", [&](llvm::raw_ostream &os) { printChanges(*schedules, os); });
    }
  });
}

void mlir::moe::writeExplanationPage(StringRef command, const SimHeader &header, ArrayRef<ModuleOp> plans,
                                     const FrameworkAdvice *advice, llvm::raw_ostream &os) {
  writePage(
      page,
      [&](llvm::json::OStream &json) {
        json.object([&] {
          json.attribute("model", llvm::json::fixUTF8(header.plan));
          json.attribute("cluster", llvm::json::fixUTF8(header.cluster));
          json.attribute("memory_bytes", header.memoryBytes);
          json.attribute("command", llvm::json::fixUTF8(command));
          json.attributeArray("plans", [&] {
            for (ModuleOp plan : plans)
              writePlan(json, plan);
          });
          if (advice) {
            std::string text;
            llvm::raw_string_ostream stream(text);
            writeAdvice(*advice, stream);
            json.attributeBegin("frameworks");
            json.rawValue(text);
            json.attributeEnd();
          }
        });
      },
      os);
}
