//===- Schedule.cpp - the schedules by name -------------------------------===//
#include "Schedule.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace {
/// A schedule is a rewrite of the baseline forward; entries stand in the order in which they are applied.
struct Schedule {
  StringLiteral name;
  void (*addPasses)(PassManager &passes);
};
} // namespace

static ArrayRef<Schedule> getSchedules() {
  // What moe-partition gives.
  static const Schedule schedules[] = {{"baseline", [](PassManager &) {}}};
  return schedules;
}

LogicalResult mlir::moe::buildSchedule(PassManager &passes, StringRef schedule) {
  SmallVector<StringRef> names;
  schedule.split(names, '+');
  for (StringRef name : names)
    if (llvm::none_of(getSchedules(), [&](const Schedule &known) { return known.name == name; }))
      return mlir::emitError(UnknownLoc::get(passes.getContext()))
             << "expected --schedule to be made of "
             << llvm::join(llvm::map_range(getSchedules(), [](const Schedule &known) { return known.name.str(); }),
                           ", ")
             << ", joined by '+', but got '" << schedule << "'";
  for (const Schedule &known : getSchedules())
    if (llvm::is_contained(names, StringRef(known.name)))
      known.addPasses(passes);
  return success();
}
