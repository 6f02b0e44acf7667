//===- SearchWatch.h - progress and interrupts of a search ------*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_SEARCHWATCH_H
#define MOE_TOOLS_COMMANDLINE_SEARCHWATCH_H

#include "moe/Planner/AutoParallel.h"

#include <chrono>
#include <mutex>

namespace mlir::moe {

/// Shows on standard error how far a search is, and ends it soon after an interrupt (Ctrl-C). One for each program.
class SearchWatch {
public:
  /// `writeBest` writes what a search has found when it is interrupted; null: one line says it.
  explicit SearchWatch(std::function<void(const Candidate &)> writeBest = nullptr);

  /// Lets the search report here, and asks here whether it is to stop. Both must not outlive the watch.
  void attach(ParallelRequest &request, PlanOptions &options);
  /// Runs a search, and returns its result. After an interrupt the search has a second to end by itself. Then the best
  /// so far is written, and the program exits with status 130.
  LogicalResult run(function_ref<LogicalResult()> search);

private:
  void show(const SearchProgress &progress);
  [[noreturn]] void exitNow();

  std::function<void(const Candidate &)> writeBest;
  std::function<bool()> isStopped;
  std::mutex mutex;
  std::string lastPhase;
  std::optional<Candidate> best;
  std::chrono::steady_clock::time_point lastShown;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_SEARCHWATCH_H
