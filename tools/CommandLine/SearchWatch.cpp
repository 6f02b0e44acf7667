//===- SearchWatch.cpp - progress and interrupts of a search --------------===//
#include "SearchWatch.h"

#include "CompileCommandLine.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"

#include <condition_variable>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace mlir::moe;
using namespace std::chrono_literals;

/// Exit status of a program that an interrupt ended, as shells have it.
static constexpr int interruptedStatus = 130;

SearchWatch::SearchWatch(std::function<void(const Candidate &)> writeBest) : writeBest(std::move(writeBest)) {}

void SearchWatch::attach(ParallelRequest &request, PlanOptions &options) {
  request.showProgress = [this](const SearchProgress &progress) { show(progress); };
  watchInterrupts(options);
  isStopped = options.isStopped;
}

/// On a terminal one line that changes; elsewhere a line for each phase, and every ten seconds.
void SearchWatch::show(const SearchProgress &progress) {
  std::lock_guard lock(mutex);
  if (progress.best)
    best = *progress.best;
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed(), isNew = progress.phase != lastPhase;
  auto now = std::chrono::steady_clock::now();
  if (!isTerminal && !isNew && now - lastShown < 10s)
    return;
  lastPhase = progress.phase.str();
  lastShown = now;
  std::string line;
  llvm::raw_string_ostream os(line);
  os << progress.phase << ": " << progress.done << " of " << progress.all;
  if (best)
    os << "; best so far " << llvm::format("%.1f ms", best->getStepSeconds() * 1e3)
       << (best->whole.seconds > 0 ? ": " : " (estimated): ") << describe(*best);
  llvm::errs() << (isTerminal ? "\r\x1b[K" : "") << line << (isTerminal ? "" : "\n");
}

void SearchWatch::exitNow() {
  std::lock_guard lock(mutex);
  llvm::errs() << "\ninterrupted";
  if (!best) {
    llvm::errs() << " before anything was compared\n";
  } else {
    llvm::errs() << llvm::format("; the best so far takes %.1f ms: ", best->getStepSeconds() * 1e3)
                 << describeOptions(*best) << "\n";
    if (writeBest)
      writeBest(*best);
  }
  llvm::outs().flush();
  // Skips destructors, because threads of the search are still running.
  _exit(interruptedStatus);
}

LogicalResult SearchWatch::run(function_ref<LogicalResult()> search) {
  std::mutex doneMutex;
  std::condition_variable done;
  std::optional<LogicalResult> result;
  std::thread thread([&] {
    LogicalResult own = search();
    std::lock_guard lock(doneMutex);
    result = own;
    done.notify_one();
  });
  {
    std::unique_lock lock(doneMutex);
    while (!result && !isStopped())
      done.wait_for(lock, 50ms);
    if (!result && !done.wait_for(lock, 1s, [&] { return result.has_value(); }))
      exitNow();
  }
  thread.join();
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\x1b[K";
  return *result;
}
