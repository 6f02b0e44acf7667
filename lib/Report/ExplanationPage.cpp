//===- ExplanationPage.cpp - why a plan was taken, as a page --------------===//
#include "ExplanationParts.h"
#include "Json.h"

using namespace mlir;
using namespace mlir::moe;

/// The text of explanation.html, which CMake converts.
static constexpr StringRef explanationPage =
#include "explanation.inc"
    ;

static void writeText(llvm::json::OStream &json, StringRef key, function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  writeText(json, key, StringRef(text).trim());
}

static void writePlan(llvm::json::OStream &json, const PlanExplanation &plan, MLIRContext *context) {
  if (plan.batch) {
    json.attribute("batch", *plan.batch);
    json.attribute("sequence", *plan.sequence);
  }
  if (plan.groups) {
    json.attribute("groups", toJson(getFields(context, *plan.groups)));
    writeText(json, "groups_margin",
              [&](llvm::raw_ostream &os) { printMargin(plan.groups->margin, /*isOpen=*/false, os); });
    writeText(json, "room", describeRoom(plan));
  }
  if (const std::optional<ScheduleExplanation> &schedules = plan.schedules) {
    json.attribute("schedules", toJson(getFields(context, *schedules)));
    writeText(json, "schedules_margin",
              [&](llvm::raw_ostream &os) { printMargin(schedules->margin, schedules->isOpen.value_or(false), os); });
    writeText(json, "overlap", [&](llvm::raw_ostream &os) { printOverlap(sortBySeconds(schedules->candidates), os); });
    writeText(json, "changes", [&](llvm::raw_ostream &os) { printChanges(*schedules, os); });
  }
}

void mlir::moe::writeExplanationPage(StringRef command, StringRef model, const ClusterProfile &cluster,
                                     ArrayRef<PlanExplanation> plans, const FrameworkAdvice *advice,
                                     MLIRContext *context, llvm::raw_ostream &os) {
  auto write = [&](llvm::json::OStream &json) {
    writeText(json, "model", model);
    writeText(json, "cluster", cluster.name);
    json.attribute("memory_bytes", cluster.getPlanBytes());
    writeText(json, "command", command);
    writeObjects(json, "plans", plans,
                 [&](llvm::json::OStream &json, const PlanExplanation &plan) { writePlan(json, plan, context); });
    if (advice) {
      json.attributeBegin("frameworks");
      json.rawValue([&](llvm::raw_ostream &os) { writeAdvice(*advice, os); });
      json.attributeEnd();
    }
  };
  writePage(explanationPage, write, os);
}
