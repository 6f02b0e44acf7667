//===- Remedies.cpp - what would make a plan fit --------------------------===//
#include "moe/Planner/Remedies.h"

#include "ModelStep.h"
#include "Threads.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Support/ByteSize.h"

#include <chrono>

using namespace mlir;
using namespace mlir::moe;

std::vector<MemoryFlag> mlir::moe::getMemoryFlags(const CompileOptions &options) {
  std::vector<MemoryFlag> flags;
  if (options.train && !options.recompute)
    flags.push_back({"--recompute", [](PlanRequest &request) { request.options.recompute = true; }});
  if (options.optimizer && !options.optimizer->zero && options.parallel.getDp() > 1)
    flags.push_back({"--zero", [](PlanRequest &request) { request.options.optimizer->zero = true; }});
  if (options.parallel.getMp() > 1 && !options.sequenceParallel)
    flags.push_back({"--sequence-parallel", [](PlanRequest &request) { request.options.sequenceParallel = true; }});
  return flags;
}

namespace {
class RemedySearch {
public:
  RemedySearch(const PlanRequest &asked, int64_t bytes, const ChangedModelReader &read, int64_t limit, double seconds)
      : asked(asked), bytes(bytes), read(read), limit(limit),
        end(Clock::now() + std::chrono::duration<double>(seconds)) {}

  std::vector<Remedy> run(ArrayRef<MemoryFlag> flags);

private:
  using Clock = std::chrono::steady_clock;

  bool isOver() const { return Clock::now() >= end || asked.options.isStoppedEarly(); }
  bool fits(int64_t bytes) const { return bytes <= limit; }
  /// Device bytes; none where it cannot be compiled, or there is no time left.
  std::optional<int64_t> measure(const PlanRequest &request) const;
  void addIfSmaller(std::string flags, std::optional<int64_t> needed);
  /// Whether it fits.
  bool add(std::string flags, const PlanRequest &request);
  void addOneByOne(ArrayRef<MemoryFlag> flags);
  /// The flags that save something, the most first.
  SmallVector<const MemoryFlag *> sortBySaving(ArrayRef<MemoryFlag> flags) const;
  void addDevices(const std::string &flags, const PlanRequest &request);

  const PlanRequest &asked;
  int64_t bytes;
  const ChangedModelReader &read;
  int64_t limit;
  std::chrono::time_point<Clock, std::chrono::duration<double>> end;
  std::vector<Remedy> remedies;
};
} // namespace

std::optional<int64_t> RemedySearch::measure(const PlanRequest &request) const {
  if (isOver())
    return std::nullopt;
  CompileOptions options = request.options;
  options.stage = Stage::Plan;
  options.memoryLimit = 0;
  options.showProgress = nullptr;
  auto readChanged = [&](MLIRContext &context) { return read(context, options.parallel.getDp(), request.model); };
  std::string reason;
  // Time does not matter: what needs more than a byte is not simulated.
  std::optional<WholeModel> whole = measureFilledModel(readChanged, options, /*limit=*/1, reason);
  return whole ? std::optional(whole->step.bytes) : std::nullopt;
}

void RemedySearch::addIfSmaller(std::string flags, std::optional<int64_t> needed) {
  // Less than a hundredth is no remedy.
  if (needed && *needed < bytes - bytes / 100)
    remedies.push_back({std::move(flags), *needed});
}

bool RemedySearch::add(std::string flags, const PlanRequest &request) {
  std::optional<int64_t> needed = measure(request);
  addIfSmaller(std::move(flags), needed);
  return needed && fits(*needed);
}

void RemedySearch::addOneByOne(ArrayRef<MemoryFlag> flags) {
  std::vector<std::optional<int64_t>> needed(flags.size());
  forAll(asked.options.parallel.getContext(), flags.size(), [&](size_t index) {
    PlanRequest request = asked;
    flags[index].apply(request);
    needed[index] = measure(request);
  });
  for (auto [flag, one] : llvm::zip_equal(flags, needed))
    addIfSmaller(flag.text, one);
}

SmallVector<const MemoryFlag *> RemedySearch::sortBySaving(ArrayRef<MemoryFlag> flags) const {
  SmallVector<Remedy> sorted(remedies.begin(), remedies.end());
  llvm::stable_sort(sorted, [](const Remedy &a, const Remedy &b) { return a.bytes < b.bytes; });
  SmallVector<const MemoryFlag *> result;
  for (const Remedy &remedy : sorted)
    result.push_back(llvm::find_if(flags, [&](const MemoryFlag &flag) { return flag.text == remedy.flags; }));
  return result;
}

/// More stages divide blocks; more data-parallel ranks divide experts and, with --zero, the optimizer's states.
void RemedySearch::addDevices(const std::string &flags, const PlanRequest &request) {
  constexpr int64_t mostTimes = 16;
  ParallelAttr all = request.options.parallel;
  for (int64_t times = 2; times <= mostTimes; times *= 2) {
    if (all.getWorld() * times > request.options.cluster->getMaxDevices())
      return;
    for (bool isDeeper : {false, true}) {
      int64_t pp = all.getPp() * (isDeeper ? times : 1), wider = isDeeper ? 1 : times;
      PlanRequest larger = request;
      larger.options.parallel = ParallelAttr::get(all.getContext(), all.getWorld() * times, pp, all.getDp() * wider,
                                                  all.getMp(), all.getEp() * wider, all.getEsp());
      larger.options.microBatches = std::max(larger.options.microBatches, isDeeper ? pp : 1);
      std::string text = "--parallel=" + describe(larger.options.parallel);
      // A step has as many sequences on more stages, and more of them on more data-parallel ranks.
      if (larger.options.microBatches != request.options.microBatches)
        text += " --micro-batches=" + std::to_string(larger.options.microBatches);
      if (add(flags + (flags.empty() ? "" : " ") + text, larger))
        return;
    }
  }
}

std::vector<Remedy> RemedySearch::run(ArrayRef<MemoryFlag> flags) {
  auto isEnough = [&](const Remedy &remedy) { return fits(remedy.bytes); };
  addOneByOne(flags);
  if (llvm::any_of(remedies, isEnough))
    return std::move(remedies);
  PlanRequest all = asked;
  std::string text;
  for (const MemoryFlag *flag : sortBySaving(flags)) {
    bool isFirst = text.empty();
    flag->apply(all);
    text += (isFirst ? "" : " ") + flag->text;
    // The first one alone has been tried.
    if (!isFirst && add(text, all))
      return std::move(remedies);
  }
  addDevices(text, all);
  return std::move(remedies);
}

std::vector<Remedy> mlir::moe::findRemedies(const PlanRequest &asked, int64_t bytes, ArrayRef<MemoryFlag> flags,
                                            const ChangedModelReader &read, int64_t limit, double seconds) {
  return RemedySearch(asked, bytes, read, limit, seconds).run(flags);
}

std::string mlir::moe::describeRemedies(ArrayRef<Remedy> remedies, int64_t limit) {
  std::string text;
  if (remedies.empty())
    return text;
  llvm::raw_string_ostream os(text);
  size_t width = 0;
  for (const Remedy &remedy : remedies)
    width = std::max(width, remedy.flags.size());
  os << "flags that make it smaller, where a rank has " << formatByteSize(limit) << ":";
  for (const Remedy &remedy : remedies)
    os << "\n  " << llvm::left_justify(remedy.flags, width + 2) << formatByteSize(remedy.bytes)
       << (remedy.bytes <= limit ? ", fits" : "");
  return text;
}
