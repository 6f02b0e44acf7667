//===- ExplanationPage.cpp - why a schedule was taken, as a page ----------===//
#include "ExplanationParts.h"

#include "moe/Report/Explanations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

static constexpr double milli = 1e3, giga = 1e-9;

/// Colours that people who see few can tell apart (Okabe and Ito).
static constexpr StringLiteral kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#000000", "#999999"};

static constexpr StringLiteral kStyle = R"(<style>
body { font: 14px system-ui, sans-serif; margin: 24px; max-width: 1100px; color: #222; }
pre { font: 12px ui-monospace, monospace; overflow-x: auto; background: #f6f6f6; padding: 12px; }
svg text { font: 12px system-ui, sans-serif; fill: #222; }
</style>
)";

static std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    default:
      result += c;
    }
  return result;
}

namespace {
/// One axis from 0 to a little more than the most.
struct Axis {
  double most, begin, length; ///< in the units of the values, and of the picture
  bool isDown = false;

  double at(double value) const { return begin + (isDown ? -1 : 1) * value / most * length; }
  /// 1, 2 or 5 times a power of ten, so that there are at most ten of them.
  double getStep() const {
    double step = std::pow(10, std::floor(std::log10(most)) - 1);
    for (double factor : {1.0, 2.0, 5.0, 10.0, 20.0})
      if (most / (step * factor) <= 10)
        return step * factor;
    return most;
  }
};
} // namespace

static void drawAxes(const Axis &x, const Axis &y, llvm::raw_ostream &os) {
  double right = x.at(x.most), top = y.at(y.most);
  for (double value = 0; value <= x.most; value += x.getStep())
    os << llvm::format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>", x.at(value), y.begin,
                       x.at(value), top)
       << llvm::format("<text x='%.1f' y='%.1f' text-anchor='middle'>%g</text>\n", x.at(value), y.begin + 16, value);
  for (double value = 0; value <= y.most; value += y.getStep())
    os << llvm::format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>", x.begin, y.at(value), right,
                       y.at(value))
       << llvm::format("<text x='%.1f' y='%.1f' text-anchor='end'>%g</text>\n", x.begin - 6, y.at(value) + 4, value);
  os << llvm::format("<text x='%.1f' y='%.1f' text-anchor='middle'>memory of a rank, GB</text>\n",
                     (x.begin + right) / 2, y.begin + 34)
     << llvm::format("<text x='%.1f' y='%.1f'>ms a step</text>\n", x.begin, top - 8);
}

/// A dot for each candidate with a time, its class by colour; what was taken has a ring.
static void drawCandidates(ArrayRef<const Candidate *> sorted, llvm::raw_ostream &os) {
  Axis x{0, 60, 620}, y{0, 360, 320, /*isDown=*/true};
  llvm::SetVector<StringRef> classes;
  for (const Candidate *one : sorted) {
    x.most = std::max(x.most, 1.05 * static_cast<double>(one->estimate.bytes) * giga);
    y.most = std::max(y.most, 1.05 * one->estimate.seconds * milli);
    classes.insert(one->scheduleClass);
  }
  os << "<svg width='960' height='410' role='img'>\n";
  drawAxes(x, y, os);
  auto getColor = [&](StringRef name) {
    return kColors[(llvm::find(classes, name) - classes.begin()) % std::size(kColors)].str();
  };
  for (const Candidate *one : sorted) {
    double atX = x.at(static_cast<double>(one->estimate.bytes) * giga), atY = y.at(one->estimate.seconds * milli);
    if (one->verdict == Verdict::Chosen)
      os << llvm::format("<circle cx='%.1f' cy='%.1f' r='9' fill='none' stroke='#222' stroke-width='2'/>", atX, atY);
    os << llvm::format("<circle cx='%.1f' cy='%.1f' r='5' fill='%s'>", atX, atY, getColor(one->scheduleClass).c_str())
       << "<title>" << escape(one->schedule)
       << llvm::format(": %.3f ms, %.3f GB</title></circle>\n", one->estimate.seconds * milli,
                       static_cast<double>(one->estimate.bytes) * giga);
  }
  for (auto [index, name] : llvm::enumerate(classes))
    os << llvm::format("<circle cx='710' cy='%zu' r='5' fill='%s'/><text x='722' y='%zu'>", 48 + 18 * index,
                       getColor(name).c_str(), 52 + 18 * index)
       << escape(name) << "</text>\n";
  os << "</svg>\n";
}

void mlir::moe::writeExplanationPage(ArrayRef<ModuleOp> plans, llvm::raw_ostream &os) {
  os << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Why this schedule</title>\n"
     << kStyle << "</head><body>\n<h1>Why this schedule</h1>\n";
  for (ModuleOp plan : plans) {
    std::optional<ScheduleExplanation> explanation = getScheduleExplanation(plan);
    SmallVector<const Candidate *> sorted;
    if (explanation)
      sorted = sortBySeconds(explanation->candidates);
    if (!sorted.empty()) {
      os << "<p>Each dot is a schedule that was simulated; the one with a ring was taken.</p>\n";
      drawCandidates(sorted, os);
    }
    std::string text;
    llvm::raw_string_ostream lines(text);
    printExplanation(plan, lines);
    os << "<pre>" << escape(text) << "</pre>\n";
  }
  os << "</body></html>\n";
}
