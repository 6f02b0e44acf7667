//===- ExplanationPage.cpp - why a plan was taken, as a page --------------===//
#include "ExplanationParts.h"
#include "Page.h"

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
  json.attribute(key, llvm::json::fixUTF8(StringRef(text).trim()));
}

static void writePlan(llvm::json::OStream &json, const PlanExplanation &plan, MLIRContext *context) {
  json.object([&] {
    if (plan.batch) {
      json.attribute("batch", *plan.batch);
      json.attribute("sequence", *plan.sequence);
    }
    if (plan.groups) {
      json.attribute("groups", toJson(getFields(context, *plan.groups)));
      writeText(json, "groups_margin",
                [&](llvm::raw_ostream &os) { printMargin(plan.groups->margin, /*isOpen=*/false, os); });
      writeText(json, "room", [&](llvm::raw_ostream &os) { os << describeRoom(plan); });
    }
    if (const std::optional<ScheduleExplanation> &schedules = plan.schedules) {
      json.attribute("schedules", toJson(getFields(context, *schedules)));
      writeText(json, "schedules_margin",
                [&](llvm::raw_ostream &os) { printMargin(schedules->margin, schedules->isOpen.value_or(false), os); });
      writeText(json, "overlap",
                [&](llvm::raw_ostream &os) { printOverlap(sortBySeconds(schedules->candidates), os); });
      writeText(json, "changes", [&](llvm::raw_ostream &os) { printChanges(*schedules, os); });
    }
  });
}

void mlir::moe::writeExplanationPage(StringRef command, StringRef model, const ClusterProfile &cluster,
                                     ArrayRef<PlanExplanation> plans, const FrameworkAdvice *advice,
                                     MLIRContext *context, llvm::raw_ostream &os) {
  writePage(
      explanationPage,
      [&](llvm::json::OStream &json) {
        json.object([&] {
          json.attribute("model", llvm::json::fixUTF8(model));
          json.attribute("cluster", llvm::json::fixUTF8(cluster.name));
          json.attribute("memory_bytes", cluster.getPlanBytes());
          json.attribute("command", llvm::json::fixUTF8(command));
          json.attributeArray("plans", [&] {
            for (const PlanExplanation &plan : plans)
              writePlan(json, plan, context);
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
