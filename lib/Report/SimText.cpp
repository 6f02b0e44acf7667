//===- SimText.cpp - what a step says on a terminal -----------------------===//
#include "moe/Report/SimOutput.h"

#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace mlir::moe;
using llvm::format;
using llvm::raw_ostream;

static constexpr double millisecond = 1e-3, percentPoint = 1e-2;

static constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P", "E"};

/// Writes three or four digits with a prefix: "312 TFLOP/s", "1.53 GB".
static std::string scale(double value, const char *unit) {
  size_t prefix = 0;
  // Values from 999.5 on take the next prefix, since rounding would give 1000.
  for (; std::abs(value) >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix)
    value /= 1e3;
  int digits = value >= 99.95 || prefix == 0 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text;
  llvm::raw_string_ostream(text) << format("%.*f ", digits, value) << prefixes[prefix] << unit;
  return text;
}

static double getShare(double part, double whole) { return whole > 0 ? part / whole / percentPoint : 0; }
static auto formatPercent(double part, double whole) { return format("%.1f%%", getShare(part, whole)); }

/// Pads or cuts a name to the width of its column.
static std::string fit(const std::string &text, size_t width) {
  if (text.size() > width)
    return text.substr(0, width - 2) + "..";
  return text + std::string(width - text.size(), ' ');
}

static void printPlan(const SimHeader &header, int64_t ranks, raw_ostream &os) {
  os << "plan        " << header.plan << ", " << header.schedule << ", " << header.mode << ", " << ranks
     << (ranks == 1 ? " rank" : " ranks");
}

static void printCluster(const SimHeader &header, raw_ostream &os) {
  os << "\ncluster     " << header.cluster;
  if (!header.framework.empty())
    os << ", framework " << header.framework;
  if (!header.precision.empty())
    os << ", precision " << header.precision;
  os << ", " << header.form << ", routing " << header.routing << "\n";
  if (!header.load.empty())
    os << "dropless    " << header.load << "\n";
  os << "\n";
}

static void printHeader(const SimHeader &header, const SimResult &result, const SimReport &report, raw_ostream &os) {
  printPlan(header, report.numRanks, os);
  if (static_cast<int64_t>(result.ranks.size()) != report.numRanks)
    os << " (" << result.ranks.size() << " simulated, the others do the same)";
  if (!result.isWhole()) {
    const SimProgram::Loop &loop = result.programs.front().loop;
    os << "\nloop        " << loop.all << " iterations (" << loop.count << " simulated, the others repeat these)";
  }
  printCluster(header, os);
}

static void printSpeed(const SimReport &report, raw_ostream &os) {
  const StepSpeed &speed = report.speed;
  os << "speed       ";
  if (speed.flopsPerSecond == 0 && speed.tokensPerSecond == 0) {
    os << "not known: the plan does not say what its model needs\n";
    return;
  }
  os << scale(speed.flopsPerSecond, "FLOP/s") << " a device";
  if (speed.mfu > 0)
    os << format(", MFU %.1f%%", speed.mfu / percentPoint);
  os << format(speed.tokensPerSecond < 10 ? ", %.3g" : ", %.0f", speed.tokensPerSecond) << " tokens/s a device\n";
}

/// Prints how far measured steps of this kind were off.
static void printHowSure(const std::optional<StepClass> &steps, double seconds, raw_ostream &os) {
  auto scaled = [&](double factor) { return format("%.4g", factor * seconds / millisecond); };
  os << "how sure    ";
  if (steps)
    os << scaled(steps->low) << " to " << scaled(steps->high) << " ms: " << describeTimes(*steps) << "\n            ("
       << describeCount(*steps) << "; expect two thirds of steps in this range)\n";
  else
    os << "unknown: " << kNoMeasuredSteps << "\n";
}

static void printErrors(const SimResult &result, const SimReport &report, raw_ostream &os) {
  const CriticalUse &critical = report.critical;
  printHowSure(report.measured, result.seconds, os);
  auto error = [](const ErrorBudget &errors, double seconds) { return formatPercent(errors.getSeconds(), seconds); };
  os << "kernels     ";
  if (critical.fitted == 0)
    os << "the profile does not say how far their times may be off";
  else
    os << "off by " << error(critical.computeErrors, critical.compute) << " of computation and "
       << error(critical.communicationErrors, critical.communication) << " of communication, known for "
       << formatPercent(critical.fitted, result.seconds);
  os << ";\n            " << formatPercent(critical.extrapolated, result.seconds)
     << " of the critical path is extrapolated\n";
}

static void printMemory(const SimHeader &header, double peak, llvm::StringRef bound, raw_ostream &os) {
  os << "memory      " << scale(peak, "B") << bound;
  if (header.memoryBytes > 0)
    os << ", " << formatPercent(peak, header.memoryBytes) << " of a device's " << scale(header.memoryBytes, "B");
}

static void printStep(const SimHeader &header, const SimResult &result, const SimReport &report, raw_ostream &os) {
  const CriticalUse &critical = report.critical;
  auto share = [&](double seconds) { return formatPercent(seconds, result.seconds); };
  os << "step        " << format("%.3f ms\n", result.seconds / millisecond);
  printSpeed(report, os);
  const StepParts &parts = report.mean;
  os << "time        computation " << share(parts.compute) << ", exposed communication "
     << share(parts.exposedCommunication) << ", bubble " << share(parts.bubble) << ", other " << share(parts.other)
     << "\n";
  os << "bound by    computation " << share(critical.compute) << ", communication " << share(critical.communication)
     << ", copies " << share(critical.copy) << ", waiting " << share(critical.waiting) << " of the critical path\n";
  printErrors(result, report, os);
  os << "exposed     communication "
     << format("%.3f ms of %.3f ms a rank\n", report.mean.exposedCommunication / millisecond,
               report.mean.communication / millisecond);
  if (result.sent.getSum() > 0)
    os << "sent        " << scale(result.sent.insideNodes, "B") << " a rank inside nodes, "
       << scale(result.sent.betweenNodes, "B") << " between nodes\n";
  if (result.ranks.empty())
    return;
  printMemory(header, report.ranks[report.largestMemoryRank].peakBytes, " at most", os);
  os << " (" << getRankName(result.ranks[report.largestMemoryRank]) << ")\n";
}

/// Prints one line, with a mean, for all layers whose experts are on the same number of ranks and nodes.
static void printReach(const SimResult &result, raw_ostream &os) {
  std::map<std::tuple<int64_t, int64_t, bool>, std::vector<const TokenReach *>> kinds;
  for (const TokenReach &reach : result.reach)
    kinds[{reach.numRanks, reach.numNodes, reach.isCounted}].push_back(&reach);
  for (const auto &[kind, layers] : kinds) {
    auto [numRanks, numNodes, isCounted] = kind;
    auto mean = [&layers = layers](double TokenReach::*figure) {
      double sum = 0;
      for (const TokenReach *layer : layers)
        sum += layer->*figure;
      return format("%.2f", sum / static_cast<double>(layers.size()));
    };
    os << "tokens      each meets " << mean(&TokenReach::ranks) << " of " << numRanks << " ranks";
    if (numNodes > 1)
      os << " on " << mean(&TokenReach::nodes) << " of " << numNodes << " nodes, " << mean(&TokenReach::otherNodes)
         << " of them not its own";
    os << (isCounted ? ", as the trace says" : ", as expected");
    if (layers.size() > 1)
      os << ", mean of " << layers.size() << " layers";
    os << "\n";
  }
}

static void printRoofline(const SimReport &report, raw_ostream &os) {
  const RooflinePoint &point = report.roofline;
  os << "roofline    " << scale(point.mean, "FLOP/s") << " a device";
  if (point.ratio > 0)
    os << format(", R_CC %.3g: ideal ", point.ratio) << scale(point.ideal, "FLOP/s") << ", semi-ideal "
       << scale(point.semiIdeal, "FLOP/s") << "\n";
  else
    os << ", no communication: ideal " << scale(point.ideal, "FLOP/s") << "\n";
}

/// Prints the plan and other simulated plans, all in the unit of the peak.
static void printPoints(const SimHeader &header, const SimResult &result, const SimReport &report, raw_ostream &os) {
  if (report.others.empty())
    return;
  size_t prefix = 0;
  double unit = 1;
  for (; result.roofline.peakFlops / unit >= 1e3 && prefix + 1 < std::size(prefixes); ++prefix)
    unit *= 1e3;
  os << "\nschedule                      step ms    R_CC  mean, ideal, semi " << prefixes[prefix] << "FLOP/s   share\n";
  auto print = [&](const std::string &schedule, const RooflinePoint &point) {
    os << fit(schedule, 26) << format("%11.3f", point.seconds / millisecond);
    if (point.ratio > 0)
      os << format("%8.3g", point.ratio);
    else
      os << "       -";
    os << format("%9.3f%9.3f%9.3f%7.1f%%\n", point.mean / unit, point.ideal / unit, point.semiIdeal / unit,
                 point.getShareOfIdeal() / percentPoint);
  };
  print(header.schedule, report.roofline);
  for (const RooflinePoint &point : report.others)
    print(point.schedule, point);
  os << "Mean, ideal and semi-ideal are those of a device; share is mean / ideal.\n";
}

/// Prints the ranks that compute most and least, if they differ.
static void printDifferences(const SimResult &result, const SimReport &report, raw_ostream &os) {
  auto byCompute = [](const RankUse &a, const RankUse &b) { return a.compute < b.compute; };
  auto [fastest, slowest] = std::minmax_element(report.ranks.begin(), report.ranks.end(), byCompute);
  // Sums of the same times in another order are no difference.
  constexpr double rounding = 1e-9;
  if (fastest == report.ranks.end() || slowest->compute - fastest->compute <= rounding * slowest->compute)
    return;
  auto print = [&](const char *which, auto use) {
    os << which << getRankName(result.ranks[static_cast<size_t>(use - report.ranks.begin())])
       << format(": computes %.3f ms, exposed communication %.3f ms\n", use->compute / millisecond,
                 use->exposedCommunication / millisecond);
  };
  print("slowest     ", slowest);
  print("fastest     ", fastest);
}

static void printStreams(const SimResult &result, const SimReport &report, raw_ostream &os) {
  os << "\nstream                           busy ms     busy     idle\n";
  for (const StreamUse &stream : report.mean.streams)
    os << fit(stream.stream, 28)
       << format("%12.3f  %6.1f%%  %6.1f%%\n", stream.busy / millisecond, getShare(stream.busy, result.seconds),
                 getShare(stream.idle, result.seconds));
}

static void printKernels(const SimResult &result, const SimReport &report, raw_ostream &os) {
  constexpr double tera = 1e12, giga = 1e9;
  os << "\nkernel                      launches          ms  critical   TFLOP/s      GB/s\n";
  for (const KernelUse &kernel : report.kernels) {
    os << fit(kernel.kernel, 28)
       << format("%8.4g%12.3f  %7.1f%%", kernel.launches, kernel.seconds / millisecond,
                 getShare(kernel.criticalSeconds, result.seconds));
    if (kernel.seconds > 0 && kernel.resource == Resource::Matrix)
      os << format("%10.4g", kernel.flops / kernel.seconds / tera);
    else if (kernel.seconds > 0 && kernel.bytes > 0)
      os << format("%20.4g", kernel.bytes / kernel.seconds / giga);
    os << "\n";
  }
  os << "Launches and ms are means over the ranks; critical is the share of the critical path.\n";
}

void mlir::moe::printText(const SimHeader &header, const SimResult &result, const SimReport &report, raw_ostream &os) {
  printHeader(header, result, report, os);
  printStep(header, result, report, os);
  printReach(result, os);
  printRoofline(report, os);
  printDifferences(result, report, os);
  printPoints(header, result, report, os);
  printStreams(result, report, os);
  printKernels(result, report, os);
}

void mlir::moe::printText(const SimHeader &header, const SampledStep &step, raw_ostream &os) {
  printPlan(header, step.ranks, os);
  os << ", from samples of its blocks";
  printCluster(header, os);
  os << "step        " << format("%.3f ms\n", step.seconds / millisecond);
  printHowSure(step.measured, step.seconds, os);
  printMemory(header, step.bytes, ", without room between buffers", os);
  os << "\n";
}

void mlir::moe::printComparison(const Comparison &comparison, raw_ostream &os) {
  auto print = [&](const KernelComparison &kernel) {
    os << fit(kernel.kernel, 28)
       << format("%8.4g%14.3f%14.3f", kernel.launches, kernel.measuredSeconds / millisecond,
                 kernel.predictedSeconds / millisecond);
    if (kernel.measuredSeconds > 0)
      os << format("%+9.1f%%", kernel.getError() / percentPoint);
    os << "\n";
  };
  os << "\nkernel                      launches   measured ms  predicted ms     error\n";
  for (const KernelComparison &kernel : comparison.kernels)
    print(kernel);
  print(comparison.step);
  os << "Means over the ranks; the step is from the first begin to the last end of any rank.\n";
}
