//===- ParmFigures.h - results of parm_sweep, in tables and drawings ------===//
#ifndef MOE_BENCHMARKS_PARMFIGURES_H
#define MOE_BENCHMARKS_PARMFIGURES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace parm_sweep {

inline constexpr int64_t kTopK = 2;

enum class Schedule { Baseline, S1, S2, S2Saa, Auto };
inline constexpr size_t kNumSchedules = 5;
llvm::ArrayRef<Schedule> getSchedules();
/// Name of a schedule in --schedule.
const char *getName(Schedule schedule);

/// Parts of a step's critical path.
enum class Term { Products, Compute, AllToAll, AllGather, AllReduce, ReduceScatter, Waiting };
inline constexpr size_t kNumTerms = 7;

/// Simulated seconds.
struct Run {
  double seconds = 0;                    ///< without sums of gradients over data-parallel ranks
  double withSums = 0;                   ///< with these sums
  std::array<double, kNumTerms> terms{}; ///< parts of `seconds`
};

/// A schedule, and its simulated step with gradient sums.
struct Choice {
  std::string schedule;
  double seconds = 0;
};

struct Testbed {
  char name;      ///< the paper's name
  size_t profile; ///< number of its cluster profile
  int64_t ranks;
};

/// A layer on a testbed: M embedding, H hidden, f factor, B batch, L sequence.
struct Case {
  const Testbed *testbed;
  int64_t mp, esp, batch, sequence, embedding, hidden;
  double factor;

  int64_t bytes = 0; ///< bytes of one rank in the baseline's plan
  bool fits = false;
  std::array<Run, kNumSchedules> runs{}; ///< empty if the case does not fit
  Choice own{}, chosen{};                ///< results of --search: parm-auto, and the choice of auto

  int64_t getTokens() const { return batch * sequence; }
  int64_t getExperts() const { return testbed->ranks / esp; }
  /// Whether the case is one of the paper's Table IV.
  bool isInTable4() const { return mp > 1 && esp > 1; }
  const Run &get(Schedule schedule) const { return runs[static_cast<size_t>(schedule)]; }
  double getSpeedup(Schedule schedule) const { return get(Schedule::Baseline).seconds / get(schedule).seconds; }
};
std::string describe(const Case &what);

void printCounts(const std::vector<Case> &cases, llvm::raw_ostream &os);
void printSpeedups(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Results for 32 GPUs with N_MP = N_ESP = 4.
void printCluster(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Numbers of cases in which S1, or S2 with SAA, is faster.
void printWins(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Gains and losses of Algorithm 1, and gains of SAA.
void printChoice(const std::vector<Case> &cases, llvm::raw_ostream &os);
void printTerms(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Claims that have to hold. Returns false if one does not.
bool printChecks(const std::vector<Case> &cases, llvm::raw_ostream &os);
void writeCsv(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Writes the results of --search.
void writeChoices(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Draws the paper's Fig. 7.
void drawHistogram(const std::vector<Case> &cases, llvm::raw_ostream &os);
void drawWins(const std::vector<Case> &cases, llvm::raw_ostream &os);

} // namespace parm_sweep

#endif // MOE_BENCHMARKS_PARMFIGURES_H
