//===- ExplanationText.cpp - why a schedule was taken, in words -----------===//
#include "ExplanationParts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Conversion/Variants.h"
#include "moe/Dialect/Moe/IR/LoadBound.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

static constexpr double milli = 1e3, giga = 1e-9, tera = 1e-12, mega = 1e-6, percent = 1e2;

std::string mlir::moe::formatFigure(double value) {
  if (value == 0)
    return "-";
  int decimals = value >= 1e3 ? 0 : value >= 1e2 ? 1 : value >= 1e1 ? 2 : 3;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", decimals, value);
  return text;
}

std::string mlir::moe::formatShare(double part, double whole) {
  std::string text = "-";
  if (whole > 0)
    text = llvm::formatv("{0:F1}", percent * part / whole);
  return text;
}

static void printMarks(const Candidate &one, const std::optional<Margin> &margin, llvm::raw_ostream &os) {
  const char *taken = one.verdict == Verdict::Chosen ? "*" : "", *near = isClose(margin, one.schedule) ? "~" : " ";
  os << llvm::format("%3s%s %-28s", taken, near, one.schedule.c_str());
}

/// Prints the steps that the search compares: of the layers alone, or of a model that is one layer.
static void printCandidates(ArrayRef<const Candidate *> rows, const std::optional<Margin> &margin,
                            llvm::raw_ostream &os) {
  os << "     schedule                           ms exposed%       GB MB inside MB between  busiest\n";
  for (const Candidate *one : rows) {
    const StepFigures &step = one->estimate;
    printMarks(*one, margin, os);
    os << llvm::format("%9.3f%9s%9.3f%10.1f%11.1f  ", step.seconds * milli,
                       formatShare(step.parts.exposedCommunication, step.seconds).c_str(),
                       static_cast<double>(step.bytes) * giga, (step.bytesSent - step.bytesBetweenNodes) * mega,
                       step.bytesBetweenNodes * mega)
       << step.limit << "\n";
  }
  for (const Candidate *one : rows)
    if (one->order)
      os << "     " << one->schedule << ": --order=" << getName(*one->order) << "\n";
}

/// Prints the candidates with known steps, which the rows of other tables may lack.
static void printSteps(const ScheduleExplanation &explanation, llvm::raw_ostream &os) {
  SmallVector<const Candidate *> rows;
  for (const Candidate &one : explanation.candidates)
    if (one.speed.tokensPerSecond > 0)
      rows.push_back(&one);
  if (rows.empty())
    return;
  llvm::stable_sort(rows,
                    [](const Candidate *a, const Candidate *b) { return a->getStepSeconds() < b->getStepSeconds(); });
  os << "\nsteps of all of the model (tokens and FLOPs of one device):\n"
     << "     schedule                      step ms  tokens/s  TFLOP/s  MFU%  bubble%  exposed%       GB\n";
  for (const Candidate *one : ArrayRef(rows).take_front(kShownRows)) {
    const StepFigures &step = one->whole.seconds > 0 ? one->whole : one->estimate;
    printMarks(*one, explanation.margin, os);
    os << llvm::format("%9s%10.0f%9s%6s%9s%10s%9.3f\n", formatFigure(step.seconds * milli).c_str(),
                       one->speed.tokensPerSecond, formatFigure(one->speed.flopsPerSecond * tera).c_str(),
                       formatShare(one->speed.mfu, one->speed.mfu > 0 ? 1 : 0).c_str(),
                       formatShare(step.parts.bubble, step.seconds).c_str(),
                       formatShare(step.parts.exposedCommunication, step.seconds).c_str(),
                       static_cast<double>(step.bytes) * giga);
  }
}

bool mlir::moe::isClose(const std::optional<Margin> &margin, const std::string &name) {
  return margin && llvm::is_contained(margin->close, name);
}

void mlir::moe::printMargin(const std::optional<Margin> &margin, bool isOpen, llvm::raw_ostream &os) {
  if (!margin)
    return;
  double uncertainty = margin->uncertainty;
  if (const std::vector<std::string> &close = margin->close; !close.empty()) {
    os << "\nthe choice is within the figures' uncertainty " << llvm::format("(%.1f%%) of ", 100 * uncertainty)
       << close.front();
    if (close.size() > 1)
      os << " and " << close.size() - 1 << " more";
    os << ": measure " << (close.size() > 1 ? "them" : "both") << "\n";
    return;
  }
  os << "\nthe next, " << margin->next << ", takes " << llvm::format("%.1f%% longer", 100 * margin->margin);
  if (uncertainty == 0)
    os << "; the profile does not say how far its times may be off\n";
  else if (!margin->isMeasured)
    os << llvm::format(", more than the uncertainty of single kernels (%.1f%%); ", 100 * uncertainty)
       << "no measured pairs of steps say how sure this is\n";
  else
    os << llvm::format(", more than the figures' uncertainty (%.1f%%): ", 100 * uncertainty)
       << (isOpen ? "the choice is clear but for what was not simulated (--exhaustive)\n" : "the choice is clear\n");
}

/// Reason against a candidate; empty if it was only slower.
static std::string getRejection(const Candidate &one) {
  if (one.verdict == Verdict::Illegal)
    return one.reason;
  if (one.verdict == Verdict::Same)
    return "the plan of '" + one.reason + "'";
  if (one.verdict != Verdict::TooLarge)
    return "";
  int64_t bytes = std::max(one.estimate.bytes, one.whole.bytes);
  return llvm::formatv("{0:F3} GB a rank, {1}", static_cast<double>(bytes) * giga, one.reason);
}

/// Prints each reason with its schedules.
static void printRejected(ArrayRef<Candidate> candidates, llvm::raw_ostream &os) {
  llvm::MapVector<std::string, SmallVector<StringRef>, std::map<std::string, unsigned>> schedules;
  for (const Candidate &one : candidates)
    if (std::string reason = getRejection(one); !reason.empty())
      schedules[reason].push_back(one.schedule);
  if (!schedules.empty())
    os << "\nnot taken:\n";
  for (const auto &[reason, names] : schedules) {
    os << "     ";
    llvm::interleaveComma(names, os);
    os << ":\n       " << reason << "\n";
  }
}

/// Rates `gain`, the speedup by overlap. Differences below one per cent occur in any measurement, and the profile may
/// be off by more.
static StringRef judgeOverlap(double gain, double uncertainty) {
  constexpr double least = 0.01;
  if (std::abs(gain) < std::max(least, uncertainty))
    return "no measurable difference";
  return gain > 0 ? "pays" : "does not pay";
}

void mlir::moe::printOverlap(ArrayRef<const Candidate *> sorted, llvm::raw_ostream &os) {
  auto find = [&](bool overlaps) {
    const auto *found = llvm::find_if(sorted, [&](const Candidate *one) { return one->overlaps == overlaps; });
    return found == sorted.end() ? nullptr : *found;
  };
  const Candidate *with = find(true), *without = find(false);
  os << "\noverlap: ";
  if (!with || !without) {
    os << "nothing to compare\n";
    return;
  }
  double gain = without->estimate.seconds / with->estimate.seconds - 1;
  double uncertainty = std::max(with->estimate.uncertainty, without->estimate.uncertainty);
  os << judgeOverlap(gain, uncertainty) << llvm::format(": %.3f ms with it (", with->estimate.seconds * milli)
     << with->schedule << llvm::format("), %.3f ms without (", without->estimate.seconds * milli) << without->schedule
     << llvm::format("), %+.1f%%; ", percent * gain);
  if (uncertainty > 0)
    os << llvm::format("the figures' uncertainty is %.1f%%\n", percent * uncertainty);
  else
    os << "the profile does not say how far its times may be off\n";
}

/// Prints the gain of a choice that exchanges by node, against the fastest that does not.
static void printByNode(ArrayRef<const Candidate *> sorted, llvm::raw_ostream &os) {
  auto isByNode = [](const Candidate *one) { return one->byNode; };
  const auto *chosen = llvm::find_if(sorted, [](const Candidate *one) { return one->verdict == Verdict::Chosen; });
  const auto *other = llvm::find_if_not(sorted, isByNode);
  if (chosen == sorted.end() || other == sorted.end() || !isByNode(*chosen))
    return;
  const StepFigures &its = (*chosen)->estimate, &without = (*other)->estimate;
  auto print = [&](double bytes, double before, StringRef where) {
    os << llvm::format("%.1f MB ", bytes * mega) << where << llvm::format(" in place of %.1f MB", before * mega);
    if (before > 0)
      os << llvm::format(" (%+.1f%%)", percent * (bytes / before - 1));
  };
  os << "\nexchanges by node: a rank sends ";
  print(its.bytesBetweenNodes, without.bytesBetweenNodes, "between nodes");
  os << ", and ";
  print(its.bytesSent - its.bytesBetweenNodes, without.bytesSent - without.bytesBetweenNodes, "inside nodes");
  os << llvm::format("; %.3f ms in place of %.3f ms with ", its.seconds * milli, without.seconds * milli)
     << (*other)->schedule << "\n";
}

void mlir::moe::printChanges(const ScheduleExplanation &explanation, llvm::raw_ostream &os) {
  os << "other choices: ";
  if (!explanation.changes)
    os << "not looked for";
  else if (explanation.changes->empty())
    os << "none with a network or devices up to 8 times as fast or slow, or 8 times as many or few tokens";
  else
    llvm::interleave(
        *explanation.changes, os, [&](const Change &change) { os << change.schedule << " with " << change.change; },
        "; ");
  os << "\n";
}

static void printSchedules(const ScheduleExplanation &explanation, llvm::raw_ostream &os) {
  SmallVector<const Candidate *> sorted = sortBySeconds(explanation.candidates);
  os << "schedules chosen from: " << explanation.candidates.size() << ", of which " << explanation.applied
     << " applied, " << explanation.simulated << " simulated, " << explanation.bounded << " too slow by their bound\n";
  if (!explanation.isComplete)
    os << "the search was interrupted: this is the best so far\n";
  os << "\nthe fastest (* taken, ~ within the figures' uncertainty):\n";
  printCandidates(ArrayRef(sorted).take_front(kShownRows), explanation.margin, os);
  os << "\nthe best of each kind:\n";
  llvm::StringSet<> seen;
  SmallVector<const Candidate *> best;
  llvm::copy_if(sorted, std::back_inserter(best),
                [&](const Candidate *one) { return seen.insert(one->scheduleClass).second; });
  printCandidates(best, explanation.margin, os);
  printSteps(explanation, os);
  printMargin(explanation.margin, explanation.isOpen.value_or(false), os);
  printRejected(explanation.candidates, os);
  printByNode(sorted, os);
  printOverlap(sorted, os);
  printChanges(explanation, os);
}

PlanExplanation mlir::moe::getExplanation(ModuleOp plan) {
  PlanExplanation explanation{getGroupsExplanation(plan), getScheduleExplanation(plan), describeDefaultMaxLoad(plan)};
  if (auto batch = plan->getAttrOfType<IntegerAttr>(plan::kBatchAttrName)) {
    explanation.batch = batch.getInt();
    explanation.sequence = plan->getAttrOfType<IntegerAttr>(plan::kSequenceAttrName).getInt();
  }
  return explanation;
}

void mlir::moe::printExplanation(const PlanExplanation &explanation, llvm::raw_ostream &os) {
  if (std::string room = describeRoom(explanation); !room.empty())
    os << "dropless rows: " << room << "\n\n";
  if (explanation.groups)
    printGroups(*explanation.groups, os);
  if (!explanation.schedules)
    return;
  if (explanation.batch)
    os << "== batch " << *explanation.batch << ", sequence " << *explanation.sequence << " ==\n\n";
  printSchedules(*explanation.schedules, os);
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

llvm::json::Value mlir::moe::toJson(Attribute fields) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(fields)) {
    llvm::json::Object object;
    for (NamedAttribute field : dictionary)
      object[field.getName().getValue()] = toJson(field.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(fields))
    return llvm::json::Array(llvm::map_range(array, toJson));
  if (auto flag = dyn_cast<BoolAttr>(fields))
    return flag.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(fields))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(fields))
    return number.getValueAsDouble();
  return cast<StringAttr>(fields).getValue();
}

void mlir::moe::writeExplanation(const PlanExplanation &explanation, MLIRContext *context, llvm::raw_ostream &os) {
  if (!explanation.groups && !explanation.schedules)
    return;
  llvm::json::Object object;
  if (explanation.schedules)
    object = std::move(*toJson(getFields(context, *explanation.schedules)).getAsObject());
  if (explanation.groups)
    object["groups"] = toJson(getFields(context, *explanation.groups));
  if (std::string room = describeRoom(explanation); !room.empty())
    object["dropless_rows"] = room;
  os << llvm::formatv("{0:2}", llvm::json::Value(std::move(object))) << "\n";
}
