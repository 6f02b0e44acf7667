//===- ParmFigures.h - what parm_sweep found, in tables and drawings ------===//
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
/// As --schedule takes it.
const char *getName(Schedule schedule);

/// What a step's critical path consists of.
enum class Term { Products, Compute, AllToAll, AllGather, AllReduce, ReduceScatter, Waiting };
inline constexpr size_t kNumTerms = 7;

/// Simulated seconds.
struct Run {
  double seconds = 0;                    ///< without gradient sums over data-parallel ranks
  double withSums = 0;                   ///< with them
  std::array<double, kNumTerms> terms{}; ///< add up to `seconds`
};

/// A schedule, and its simulated step with gradient sums.
struct Choice {
  std::string schedule;
  double seconds = 0;
};

struct Testbed {
  char name;      ///< the paper's
  size_t profile; ///< number of its cluster profile
  int64_t ranks;
};

/// A layer on a testbed: M embedding, H hidden, f factor, B batch, L sequence.
struct Case {
  const Testbed *testbed;
  int64_t mp, esp, batch, sequence, embedding, hidden;
  double factor;

  int64_t bytes = 0; ///< of one rank, by the baseline's plan
  bool fits = false;
  std::array<Run, kNumSchedules> runs{}; ///< only where it fits
  Choice own{}, chosen{};                ///< of --search: parm-auto, and what auto takes

  int64_t getTokens() const { return batch * sequence; }
  int64_t getExperts() const { return testbed->ranks / esp; }
  /// The settings of the paper's Table IV.
  bool isInTable4() const { return mp > 1 && esp > 1; }
  const Run &get(Schedule schedule) const { return runs[static_cast<size_t>(schedule)]; }
  double getSpeedup(Schedule schedule) const { return get(Schedule::Baseline).seconds / get(schedule).seconds; }
};
std::string describe(const Case &what);

void printCounts(const std::vector<Case> &cases, llvm::raw_ostream &os);
void printSpeedups(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// 32 GPUs with N_MP = N_ESP = 4.
void printCluster(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// Which of S1 and S2 with SAA is faster.
void printWins(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// What Algorithm 1 gains and loses, and SAA gains.
void printChoice(const std::vector<Case> &cases, llvm::raw_ostream &os);
void printTerms(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// The claims that have to hold; false where one does not.
bool printChecks(const std::vector<Case> &cases, llvm::raw_ostream &os);
void writeCsv(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// What --search found.
void writeChoices(const std::vector<Case> &cases, llvm::raw_ostream &os);
/// The paper's Fig. 7.
void drawHistogram(const std::vector<Case> &cases, llvm::raw_ostream &os);
void drawWins(const std::vector<Case> &cases, llvm::raw_ostream &os);

} // namespace parm_sweep

#endif // MOE_BENCHMARKS_PARMFIGURES_H
