//===- ParmFigures.cpp - results of parm_sweep ----------------------------===//
#include "ParmFigures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace parm_sweep;
using llvm::format;
using llvm::formatv;

using Selection = std::vector<const Case *>;

static constexpr std::array<Schedule, kNumSchedules> schedules = {Schedule::Baseline, Schedule::S1, Schedule::S2,
                                                                  Schedule::S2Saa, Schedule::Auto};
static constexpr std::array<const char *, kNumSchedules> scheduleNames = {"baseline", "s1", "s2", "s2+saa",
                                                                          "parm-auto"};
static constexpr std::array<const char *, kNumTerms> termNames = {
    "products", "compute", "all_to_all", "all_gather", "all_reduce", "reduce_scatter", "waiting"};
static constexpr int64_t tokenCounts[] = {1024, 2048, 4096, 8192, 16384};
/// Testbeds and numbers of devices, which are the rows of tables.
static constexpr std::pair<char, int64_t> beds[] = {{'A', 8}, {'B', 8}, {'B', 16}, {'B', 32}};
/// Relative rounding error of two sums of the same seconds.
static constexpr double rounding = 1e-9;

llvm::ArrayRef<Schedule> parm_sweep::getSchedules() { return schedules; }
const char *parm_sweep::getName(Schedule schedule) { return scheduleNames[static_cast<size_t>(schedule)]; }

std::string parm_sweep::describe(const Case &what) {
  return formatv("{0} P={1} N_MP={2} N_ESP={3} B={4} L={5} M={6} H={7} f={8:F1}", what.testbed->name,
                 what.testbed->ranks, what.mp, what.esp, what.batch, what.sequence, what.embedding, what.hidden,
                 what.factor);
}

/// Selects the cases that fit and for which `wanted` holds.
template <typename Wanted> static Selection select(const std::vector<Case> &cases, Wanted wanted) {
  Selection selection;
  for (const Case &it : cases)
    if (it.fits && wanted(it))
      selection.push_back(&it);
  return selection;
}

template <typename Get> static double getMean(const Selection &cases, Get get) {
  double sum = 0;
  for (const Case *it : cases)
    sum += get(*it);
  return cases.empty() ? 0 : sum / static_cast<double>(cases.size());
}

template <typename Get> static double getLargest(const Selection &cases, Get get) {
  double largest = 0;
  for (const Case *it : cases)
    largest = std::max<double>(largest, get(*it));
  return largest;
}

template <typename Wanted> static double getShare(const Selection &cases, Wanted wanted) {
  return getMean(cases, [&](const Case &it) { return wanted(it) ? 1.0 : 0.0; });
}

static double getMeanSpeedup(const Selection &cases, Schedule schedule) {
  return getMean(cases, [&](const Case &it) { return it.getSpeedup(schedule); });
}

static bool isOn(const Case &what, std::pair<char, int64_t> bed) {
  return what.testbed->name == bed.first && what.testbed->ranks == bed.second;
}

// Seconds of the better one of S1 and S2 with SAA, between which Algorithm 1 chooses.

static double getBetter(const Case &what) {
  return std::min(what.get(Schedule::S1).seconds, what.get(Schedule::S2Saa).seconds);
}
static double getWorse(const Case &what) {
  return std::max(what.get(Schedule::S1).seconds, what.get(Schedule::S2Saa).seconds);
}
/// Relative loss of the chosen schedule against the better one.
static double getRegret(const Case &what) { return what.get(Schedule::Auto).seconds / getBetter(what) - 1; }
static bool isTie(const Case &what) { return getWorse(what) <= getBetter(what) * (1 + rounding); }
static bool doesS1Win(const Case &what) { return what.get(Schedule::S1).seconds < what.get(Schedule::S2Saa).seconds; }
/// Relative lead of S1 over S2 with SAA.
static double getLead(const Case &what) {
  return what.get(Schedule::S2Saa).seconds / what.get(Schedule::S1).seconds - 1;
}

// Tables

void parm_sweep::printCounts(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "Layers whose baseline fits in a GPU's memory (of how many); the paper's text says 1296 in all.\n"
     << "Table IV has four settings, N_MP and N_ESP of 2 and 4: 4 x 4 x 81 layers are 1296 for one f.\n\n"
     << "testbed   P  whole grid       Table IV's   with f = 1.2   with f = 2.4\n";
  auto print = [&](auto isWanted) {
    auto count = [&](auto isInColumn) {
      size_t all = llvm::count_if(cases, [&](const Case &it) { return isWanted(it) && isInColumn(it); });
      size_t fit = llvm::count_if(cases, [&](const Case &it) { return it.fits && isWanted(it) && isInColumn(it); });
      os << formatv("  {0,13}", formatv("{0} ({1})", fit, all).str());
    };
    count([](const Case &) { return true; });
    count([](const Case &it) { return it.isInTable4(); });
    count([](const Case &it) { return it.isInTable4() && it.factor < 2; });
    count([](const Case &it) { return it.isInTable4() && it.factor > 2; });
    os << "\n";
  };
  for (std::pair<char, int64_t> bed : beds) {
    os << format("%c       %3d", bed.first, static_cast<int>(bed.second));
    print([&](const Case &it) { return isOn(it, bed); });
  }
  os << "B       all";
  print([](const Case &it) { return it.testbed->name == 'B'; });
  os << "both    all";
  print([](const Case &) { return true; });
}

static void printSpeedupRow(const Selection &selection, llvm::raw_ostream &os) {
  os << format("%7zu", selection.size());
  for (Schedule schedule : llvm::drop_begin(schedules))
    os << format("%8.2f", getMeanSpeedup(selection, schedule));
  double least = INFINITY;
  for (const Case *it : selection)
    least = std::min(least, it->getSpeedup(Schedule::Auto));
  os << format("%9.2f%7.2f", least, getLargest(selection, [](const Case &it) { return it.getSpeedup(Schedule::Auto); }))
     << format("%10.2f\n", getMean(selection, [](const Case &it) {
                 return it.get(Schedule::Baseline).withSums / it.get(Schedule::Auto).withSums;
               }));
}

/// Prints the mean speed-ups of the settings of Table IV, from the smallest to the largest, as the paper does.
static void printRanges(const std::vector<Case> &cases, char testbed, Schedule schedule, const char *paper,
                        llvm::raw_ostream &os) {
  double least = INFINITY, largest = 0;
  for (std::pair<char, int64_t> bed : beds)
    for (int64_t mp : {2, 4})
      for (int64_t esp : {2, 4}) {
        Selection selection = select(cases, [&](const Case &it) {
          return bed.first == testbed && isOn(it, bed) && it.mp == mp && it.esp == esp;
        });
        if (selection.empty())
          continue;
        double mean = getMeanSpeedup(selection, schedule);
        least = std::min(least, mean);
        largest = std::max(largest, mean);
      }
  if (largest > 0)
    os << format("%c %-7s %5.2f .. %4.2f   paper %s\n", testbed, getName(schedule), least, largest, paper);
}

/// Calls `visit` with the first case and all cases of each testbed, P, N_MP and N_ESP that has cases.
template <typename Visit> static void forEachSetting(const std::vector<Case> &cases, Visit visit) {
  for (std::pair<char, int64_t> bed : beds)
    for (int64_t mp : {1, 2, 4})
      for (int64_t esp : {1, 2, 4}) {
        Selection selection =
            select(cases, [&](const Case &it) { return isOn(it, bed) && it.mp == mp && it.esp == esp; });
        if (!selection.empty())
          visit(*selection.front(), selection);
      }
}

void parm_sweep::printSpeedups(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "\nSpeed-up over the baseline: means, and auto's least and largest. Sums of gradients over data-parallel ranks "
        "take\nno time, as in the paper; the last column is auto's mean with them.\n\n"
     << "testbed   P  N_MP  N_ESP  cases      s1      s2  s2+saa    auto    least largest with sums\n";
  forEachSetting(cases, [&](const Case &first, const Selection &selection) {
    os << format("%c       %3d  %4d  %5d", first.testbed->name, static_cast<int>(first.testbed->ranks),
                 static_cast<int>(first.mp), static_cast<int>(first.esp));
    printSpeedupRow(selection, os);
  });
  if (Selection all = select(cases, [](const Case &) { return true; }); !all.empty()) {
    os << "all                    ";
    printSpeedupRow(all, os);
    os << "The paper's least and largest of all are 1.13 and 5.77.\n";
  }
  os << "\nMeans of the settings with N_MP and N_ESP of 2 and 4 (Table IV), least .. largest:\n";
  printRanges(cases, 'A', Schedule::S1, "2.1 .. 4.19", os);
  printRanges(cases, 'A', Schedule::S2Saa, "1.99 .. 4.12", os);
  printRanges(cases, 'A', Schedule::Auto, "2.1 .. 4.2", os);
  printRanges(cases, 'B', Schedule::S1, "2.46 .. 5.77", os);
  printRanges(cases, 'B', Schedule::S2Saa, "2.2 .. 5.38", os);
  printRanges(cases, 'B', Schedule::Auto, "2.46 .. 5.77", os);
}

static Selection selectCluster(const std::vector<Case> &cases) {
  return select(cases, [](const Case &it) { return isOn(it, {'B', 32}) && it.mp == 4 && it.esp == 4; });
}

static double getShareAbove4(const Selection &cluster) {
  return getShare(cluster, [](const Case &it) { return it.getSpeedup(Schedule::Auto) > 4; });
}

void parm_sweep::printCluster(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  Selection cluster = selectCluster(cases);
  if (!cluster.empty())
    os << format("\n32 GPUs of B, N_MP = N_ESP = 4: %zu cases, auto's mean %.2f (paper 4.91), above 4 in %.0f%% (paper "
                 "89%%)\n",
                 cluster.size(), getMeanSpeedup(cluster, Schedule::Auto), 100 * getShareAbove4(cluster));
}

/// Selects the cases in which S1 and S2 differ. Without MP they are the same.
static Selection selectWins(const std::vector<Case> &cases, std::pair<char, int64_t> bed, double factor,
                            int64_t tokens) {
  return select(cases, [&](const Case &it) {
    return isOn(it, bed) && it.mp > 1 && it.factor == factor && it.getTokens() == tokens;
  });
}

void parm_sweep::printWins(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  Selection all = select(cases, [](const Case &) { return true; });
  os << format("\nS1 against S2 with SAA: %.0f and %.0f of %zu cases, the rest are ties\n",
               getShare(all, [](const Case &it) { return !isTie(it) && doesS1Win(it); }) *
                   static_cast<double>(all.size()),
               getShare(all, [](const Case &it) { return !isTie(it) && !doesS1Win(it); }) *
                   static_cast<double>(all.size()),
               all.size())
     << "Where N_MP > 1, by B L: how much longer S2 takes in the mean, and the share of cases that S1 wins.\n\n"
     << "testbed   P  k f";
  for (int64_t tokens : tokenCounts)
    os << formatv("  {0,14}", tokens);
  os << "\n";
  for (std::pair<char, int64_t> bed : beds)
    for (double factor : {1.2, 2.4}) {
      std::string row;
      bool isEmpty = true;
      for (int64_t tokens : tokenCounts) {
        Selection cell = selectWins(cases, bed, factor, tokens);
        isEmpty &= cell.empty();
        std::string text;
        llvm::raw_string_ostream(text) << format("%+.1f%% %3.0f%%", 100 * getMean(cell, getLead),
                                                 100 * getShare(cell, doesS1Win));
        row += formatv("  {0,14}", cell.empty() ? "-" : text);
      }
      if (!isEmpty)
        os << format("%c       %3d  %.1f", bed.first, static_cast<int>(bed.second), kTopK * factor) << row << "\n";
    }
}

void parm_sweep::printChoice(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "\nAlgorithm 1 (auto) where N_MP > 1: how often it takes the slower one, what it loses against the better, "
        "what it "
        "gains\nover the worse; and what S2 gains by SAA.\n\n"
     << "testbed  cases   wrong  mean loss  worst   gain (paper)       SAA (paper)\n";
  for (auto [testbed, gain, saa] : {std::tuple('A', "8%", "1.09%"), std::tuple('B', "10.5%", "1.12%")}) {
    Selection selection = select(cases, [&](const Case &it) { return it.testbed->name == testbed && it.mp > 1; });
    if (selection.empty())
      continue;
    double gained =
        getMean(selection, [](const Case &it) { return getWorse(it) / it.get(Schedule::Auto).seconds - 1; });
    double saaGain = getMean(
        selection, [](const Case &it) { return it.get(Schedule::S2).seconds / it.get(Schedule::S2Saa).seconds - 1; });
    os << format("%c        %5zu  %5.1f%%  %8.2f%% %5.1f%%  %4.1f%%", testbed, selection.size(),
                 100 * getShare(selection, [](const Case &it) { return getRegret(it) > rounding; }),
                 100 * getMean(selection, getRegret), 100 * getLargest(selection, getRegret), 100 * gained)
       << formatv(" ({0})", gain).str() << format("  %+14.2f%%", 100 * saaGain) << " (" << saa << ")\n";
  }
}

void parm_sweep::printTerms(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "\nWhat steps consist of: mean milliseconds on the critical path\n\n"
     << "testbed   P N_MP N_ESP schedule     step products  compute      a2a   gather   reduce  scatter  waiting\n";
  forEachSetting(cases, [&](const Case &first, const Selection &selection) {
    for (Schedule schedule : {Schedule::Baseline, Schedule::S1, Schedule::S2, Schedule::S2Saa}) {
      auto print = [&](const char *form, auto get) {
        os << format(form, 1e3 * getMean(selection, [&](const Case &it) { return get(it.get(schedule)); }));
      };
      os << format("%c       %3d %4d %5d %-9s", first.testbed->name, static_cast<int>(first.testbed->ranks),
                   static_cast<int>(first.mp), static_cast<int>(first.esp), getName(schedule));
      print("%8.2f", [](const Run &run) { return run.seconds; });
      for (size_t term = 0; term < kNumTerms; ++term)
        print("%9.2f", [&](const Run &run) { return run.terms[term]; });
      os << "\n";
    }
  });
}

// Checks

/// Prints the cases for which a claim does not hold. Returns whether it holds for all.
static bool checkAll(const std::vector<Case> &cases, const char *claim, std::function<double(const Case &)> getExcess,
                     llvm::raw_ostream &os) {
  constexpr size_t shown = 12;
  Selection bad = select(cases, [&](const Case &it) { return getExcess(it) > rounding; });
  llvm::stable_sort(bad, [&](const Case *a, const Case *b) { return getExcess(*a) > getExcess(*b); });
  os << (bad.empty() ? "ok    " : "FAIL  ") << claim;
  if (!bad.empty())
    os << formatv(": {0} cases", bad.size());
  os << "\n";
  for (const Case *it : llvm::ArrayRef(bad).take_front(shown))
    os << format("      %+.3f%%  ", 100 * getExcess(*it)) << describe(*it) << "\n";
  if (bad.size() > shown)
    os << "      ..\n";
  return bad.empty();
}

bool parm_sweep::printChecks(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "\n";
  bool ok = true;
  for (Schedule schedule : {Schedule::S1, Schedule::S2, Schedule::S2Saa})
    ok &= checkAll(
        cases, formatv("{0} is never slower than the baseline", getName(schedule)).str().c_str(),
        [&](const Case &it) { return 1 / it.getSpeedup(schedule) - 1; }, os);
  ok &= checkAll(
      cases, "auto is never slower than the worse of s1 and s2+saa",
      [](const Case &it) { return it.get(Schedule::Auto).seconds / getWorse(it) - 1; }, os);
  constexpr double mostRegret = 0.01;
  double regret = getMean(select(cases, [](const Case &) { return true; }), getRegret);
  os << (regret <= mostRegret ? "ok    " : "FAIL  ")
     << format("auto loses at most %.0f%% against the better in the mean: %.3f%%\n", 100 * mostRegret, 100 * regret);
  return ok && regret <= mostRegret;
}

void parm_sweep::writeCsv(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "testbed,P,N_MP,N_ESP,B,L,M,H,f,experts,bytes,fits";
  for (const char *schedule : scheduleNames) {
    os << "," << schedule << "," << schedule << " with sums";
    for (const char *term : termNames)
      os << "," << schedule << " " << term;
  }
  os << "\n";
  for (const Case &it : cases) {
    os << formatv("{0},{1},{2},{3},{4},{5},{6},{7},{8:F1},{9},{10},{11}", it.testbed->name, it.testbed->ranks, it.mp,
                  it.esp, it.batch, it.sequence, it.embedding, it.hidden, it.factor, it.getExperts(), it.bytes,
                  it.fits ? 1 : 0);
    for (const Run &run : it.runs) {
      os << format(",%.9g,%.9g", run.seconds, run.withSums);
      for (double seconds : run.terms)
        os << format(",%.6g", seconds);
    }
    os << "\n";
  }
}

void parm_sweep::writeChoices(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  os << "layer,own,own_s,auto,auto_s\n";
  for (const Case &it : cases)
    os << describe(it) << "," << it.own.schedule << format(",%.17g,", it.own.seconds) << it.chosen.schedule
       << format(",%.17g\n", it.chosen.seconds);
}

// Drawings

/// Colours for readers with a dark system. A style's rules have priority over the attributes of shapes. Texts in cells
/// keep their colours, so those are neither black nor #555.
static constexpr llvm::StringLiteral darkStyle =
    "<style>@media (prefers-color-scheme: dark) { text:not([fill]), [fill='black'] { fill: #e6edf3 } "
    "[fill='white'] { fill: #0d1117 } [stroke='white'] { stroke: #0d1117 } [stroke='#ddd'] { stroke: #2b323b } "
    "[fill='#555'] { fill: #aab4bf } [fill='#2471a3'] { fill: #5dade2 } "
    "[fill='#c0392b'] { fill: #f1776b } [stroke='#c0392b'] { stroke: #f1776b } }</style>";

static void beginSvg(int width, int height, const std::string &title, const std::string &subtitle,
                     llvm::raw_ostream &os) {
  os << formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n{5}\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"28\" text-anchor=\"middle\" font-size=\"15\">{3}</text>\n"
      "<text x=\"{2}\" y=\"48\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
      width, height, width / 2, title, subtitle, darkStyle);
}

static void writeText(double x, double y, const char *anchor, const std::string &text, llvm::raw_ostream &os,
                      const char *color = "black") {
  os << formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" text-anchor=\"{2}\" fill=\"{3}\">{4}</text>\n", x, y, anchor, color,
                text);
}

void parm_sweep::drawHistogram(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  constexpr int width = 640, height = 400, left = 60, right = 20, top = 65, bottom = 55;
  constexpr double binWidth = 0.1;
  Selection cluster = selectCluster(cases);
  // Bins from 1 on, up to the last one that is not empty.
  std::vector<int> bins(50);
  for (const Case *it : cluster) {
    auto bin = static_cast<size_t>(std::max(0.0, (it->getSpeedup(Schedule::Auto) - 1) / binWidth));
    bins.resize(std::max(bins.size(), bin + 1));
    ++bins[bin];
  }
  int most = std::max(5, *llvm::max_element(bins));
  int step = most > 50 ? 20 : most > 25 ? 10 : 5;
  most = (most + step - 1) / step * step;
  double binPixels = static_cast<double>(width - left - right) / static_cast<double>(bins.size());
  auto getX = [&](double speedup) { return left + (speedup - 1) / binWidth * binPixels; };
  auto getY = [&](int count) { return height - bottom - static_cast<double>(count) / most * (height - top - bottom); };

  double mean = getMeanSpeedup(cluster, Schedule::Auto);
  beginSvg(width, height, "Parm over the baseline: 32 GPUs of testbed B, N_MP = N_ESP = 4",
           formatv("{0} layers, mean {1:F2} (paper 4.91), above 4 in {2:F0}% (paper 89%)", cluster.size(), mean,
                   100 * getShareAbove4(cluster)),
           os);
  for (int count = 0; count <= most; count += step) {
    os << formatv("<path d=\"M{0} {1:F1}H{2}\" stroke=\"#ddd\"/>\n", left, getY(count), width - right);
    writeText(left - 8, getY(count) + 4, "end", std::to_string(count), os);
  }
  for (auto [bin, count] : llvm::enumerate(bins))
    if (count > 0)
      os << formatv("<rect x=\"{0:F1}\" y=\"{1:F1}\" width=\"{2:F1}\" height=\"{3:F1}\" fill=\"#2471a3\"/>\n",
                    left + static_cast<double>(bin) * binPixels + 1, getY(count), binPixels - 2,
                    height - bottom - getY(count));
  for (int tick = 1; tick <= static_cast<int>(1 + binWidth * static_cast<double>(bins.size())); ++tick)
    writeText(getX(tick), height - bottom + 20, "middle", std::to_string(tick), os);
  for (auto [value, color, name] : {std::tuple(mean, "#c0392b", "mean"), std::tuple(4.91, "#888", "paper's mean")}) {
    os << formatv("<path d=\"M{0:F1} {1}V{2}\" stroke=\"{3}\" stroke-width=\"2\" stroke-dasharray=\"5 4\"/>\n",
                  getX(value), top, height - bottom, color);
    bool isLeft = value == std::min(mean, 4.91);
    writeText(getX(value) + (isLeft ? -6 : 6), top + 10, isLeft ? "end" : "start", name, os, color);
  }
  writeText((left + width - right) / 2.0, height - 14, "middle", "speed-up", os);
  os << formatv("<text transform=\"translate(18 {0}) rotate(-90)\" text-anchor=\"middle\">layers</text>\n</svg>\n",
                (top + height - bottom) / 2);
}

/// White at 0, blue if S1 leads, red if S2 does, and full colour at `most`.
static std::string getColor(double lead, double most) {
  double part = std::min(1.0, std::abs(lead) / most);
  auto mix = [&](int full) { return static_cast<int>(std::lround(255 + part * (full - 255))); };
  return lead > 0 ? formatv("rgb({0},{1},{2})", mix(84), mix(153), mix(199))
                  : formatv("rgb({0},{1},{2})", mix(217), mix(95), mix(80));
}

void parm_sweep::drawWins(const std::vector<Case> &cases, llvm::raw_ostream &os) {
  constexpr int left = 165, top = 100, cellWidth = 110, cellHeight = 40, bottom = 55;
  constexpr int width = left + 5 * cellWidth + 20, height = top + 8 * cellHeight + bottom;
  Selection all = select(cases, [](const Case &it) { return it.mp > 1; });
  constexpr double most = 0.2;
  beginSvg(width, height, "S1 against S2 with SAA: how much longer S2 takes",
           formatv("{0} layers with N_MP of 2 and 4: S1 is faster in {1:F0}%; below each mean, S1's share of wins",
                   all.size(), 100 * getShare(all, doesS1Win)),
           os);
  for (auto [column, tokens] : llvm::enumerate(tokenCounts))
    writeText(left + (static_cast<double>(column) + 0.5) * cellWidth, top - 8, "middle", std::to_string(tokens), os);
  int y = top;
  for (std::pair<char, int64_t> bed : beds)
    for (double factor : {1.2, 2.4}) {
      writeText(left - 10, y + cellHeight / 2 + 4, "end",
                formatv("{0}, {1} GPUs, k f = {2:F1}", bed.first, bed.second, kTopK * factor), os);
      for (auto [column, tokens] : llvm::enumerate(tokenCounts)) {
        Selection cell = selectWins(cases, bed, factor, tokens);
        double x = left + static_cast<double>(column) * cellWidth, middle = x + cellWidth / 2.0;
        double lead = getMean(cell, getLead);
        os << formatv("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"{4}\" stroke=\"white\"/>\n", x, y,
                      cellWidth, cellHeight, cell.empty() ? "#eee" : getColor(lead, most));
        if (cell.empty()) {
          writeText(middle, y + 24, "middle", "none fits", os, "#888");
          continue;
        }
        std::string text;
        llvm::raw_string_ostream(text) << format("%+.1f%%", 100 * lead);
        writeText(middle, y + 18, "middle", text, os, "#111");
        writeText(middle, y + 33, "middle", formatv("{0:F0}% of {1}", 100 * getShare(cell, doesS1Win), cell.size()), os,
                  "#444");
      }
      y += cellHeight;
    }
  writeText(left + 2.5 * cellWidth, top - 30, "middle", "tokens of a data-parallel rank, B L", os);
  constexpr int legend = left + 75;
  for (int i = 0; i < 40; ++i)
    os << formatv("<rect x=\"{0}\" y=\"{1}\" width=\"10\" height=\"12\" fill=\"{2}\"/>\n", legend + 10 * i, y + 20,
                  getColor((i - 19.5) / 20 * most, most));
  writeText(legend - 8, y + 31, "end", "S2 faster, -20%", os);
  writeText(legend + 408, y + 31, "start", "S1, +20%", os);
  os << "</svg>\n";
}
