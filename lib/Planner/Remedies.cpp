//===- Remedies.cpp - what would make a plan fit --------------------------===//
#include "moe/Planner/Remedies.h"

#include "BestPlan.h"
#include "ModelStep.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Support/Text.h"

#include <chrono>
#include <limits>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// One way to need less memory.
struct Remedy {
  std::string flags; ///< "--max-load=2 --recompute"
  int64_t bytes = 0; ///< device memory, on the rank that needs the most
};

class RemedySearch {
public:
  RemedySearch(const PlanRequest &asked, int64_t bytes, const ModelReader &read, int64_t limit)
      : asked(asked), bytes(bytes), read(read), limit(limit) {}

  std::vector<Remedy> run(ArrayRef<MemoryFlag> flags);

private:
  using Clock = std::chrono::steady_clock;

  bool isOver() const { return Clock::now() >= end || asked.options.isStoppedEarly(); }
  bool fits(int64_t bytes) const { return bytes <= limit; }
  /// Device bytes; none if it cannot be compiled, or no time is left.
  std::optional<int64_t> measure(const PlanRequest &request) const;
  /// Adds a remedy that needs less than `most`. Whether it does.
  bool addIfSmaller(const std::string &flags, std::optional<int64_t> needed, int64_t most);
  void addOneByOne(ArrayRef<MemoryFlag> flags);
  /// The flags that save something, the most first, with the bytes that each alone needs.
  SmallVector<std::pair<const MemoryFlag *, int64_t>> sortBySaving(ArrayRef<MemoryFlag> flags) const;
  void addDevices(const std::string &flags, const PlanRequest &request);

  const PlanRequest &asked;
  int64_t bytes; ///< memory with the flags that are taken so far
  const ModelReader &read;
  int64_t limit;
  /// No plan is begun after this.
  Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  std::vector<Remedy> remedies;
};
} // namespace

std::optional<int64_t> RemedySearch::measure(const PlanRequest &request) const {
  if (isOver())
    return std::nullopt;
  PlanOptions options = request.options;
  options.stage = Stage::Plan;
  options.memoryLimit = 0;
  options.showProgress = nullptr;
  // More micro-batches than are under way at once take no more memory.
  int64_t underWay =
      options.parallel.getPp() * (options.interleave > 1 || splitsBackward(options.pipelineOrder) ? 2 : 1);
  options.microBatches = std::min(options.microBatches, underWay * options.sideBySide);
  ModelForm form = request.model;
  form.dataParallel = options.parallel.getDp();
  auto readChanged = [&](MLIRContext &context) { return read(context, form); };
  std::string reason;
  // Time does not matter: a limit of one byte prevents the simulation.
  std::optional<WholeModel> whole = measureFilledModel(readChanged, options, /*limit=*/1, reason);
  return whole ? std::optional(whole->step.bytes) : std::nullopt;
}

bool RemedySearch::addIfSmaller(const std::string &flags, std::optional<int64_t> needed, int64_t most) {
  // A hundredth is too little for a remedy.
  if (!needed || *needed >= most - most / 100)
    return false;
  remedies.push_back({flags, *needed});
  return true;
}

void RemedySearch::addOneByOne(ArrayRef<MemoryFlag> flags) {
  std::vector<std::optional<int64_t>> needed(flags.size());
  forAll(asked.options.parallel.getContext(), flags.size(), [&](size_t index) {
    PlanRequest request = asked;
    flags[index].apply(request);
    needed[index] = measure(request);
  });
  for (auto [flag, one] : llvm::zip_equal(flags, needed))
    addIfSmaller(flag.text, one, bytes);
}

SmallVector<std::pair<const MemoryFlag *, int64_t>> RemedySearch::sortBySaving(ArrayRef<MemoryFlag> flags) const {
  SmallVector<std::pair<const MemoryFlag *, int64_t>> sorted;
  for (const Remedy &remedy : remedies) {
    const auto *flag = llvm::find_if(flags, [&](const MemoryFlag &one) { return one.text == remedy.flags; });
    sorted.push_back({flag, remedy.bytes});
  }
  llvm::stable_sort(sorted, llvm::less_second());
  return sorted;
}

/// Adds devices: more data-parallel ranks divide experts and, with --zero, optimizer states; more stages divide blocks.
void RemedySearch::addDevices(const std::string &flags, const PlanRequest &request) {
  constexpr int64_t mostTimes = 16;
  ParallelAttr all = request.options.parallel;
  for (int64_t times = 2; times <= mostTimes; times *= 2) {
    int64_t world = all.getWorld() * times;
    if (world > request.options.cluster->getMaxDevices())
      return;
    for (bool isDeeper : {false, true}) {
      int64_t pp = all.getPp() * (isDeeper ? times : 1), wider = isDeeper ? 1 : times;
      PlanRequest larger = request;
      larger.options.parallel = ParallelAttr::get(all.getContext(), world, pp, all.getDp() * wider, all.getMp(),
                                                  all.getEp() * wider, all.getEsp(), all.getCp());
      std::string text = flags + (flags.empty() ? "" : " ") + "--parallel=" + describe(larger.options.parallel) + " (" +
                         std::to_string(world) + " devices)";
      std::optional<int64_t> needed = measure(larger);
      if (addIfSmaller(text, needed, bytes) && fits(*needed))
        return;
    }
  }
}

std::vector<Remedy> RemedySearch::run(ArrayRef<MemoryFlag> flags) {
  if (bytes == 0)
    bytes = measure(asked).value_or(std::numeric_limits<int64_t>::max());
  addOneByOne(flags);
  if (llvm::any_of(remedies, [&](const Remedy &remedy) { return fits(remedy.bytes); }))
    return std::move(remedies);
  PlanRequest all = asked;
  std::string text;
  for (auto [flag, alone] : sortBySaving(flags)) {
    PlanRequest more = all;
    flag->apply(more);
    if (text.empty()) {
      // The first flag has been tried alone.
      text = flag->text;
      bytes = alone;
    } else {
      std::optional<int64_t> needed = measure(more);
      if (!addIfSmaller(text + " " + flag->text, needed, bytes))
        continue;
      if (fits(*needed))
        return std::move(remedies);
      text += " " + flag->text;
      bytes = *needed;
    }
    all = more;
  }
  addDevices(text, all);
  return std::move(remedies);
}

std::string mlir::moe::describeRemedies(const PlanRequest &asked, int64_t bytes, std::vector<MemoryFlag> flags,
                                        const ModelReader &read, int64_t limit) {
  // Flags that are not given and have an effect.
  const PlanOptions &options = asked.options;
  if (options.train && options.recompute == Recompute::None)
    flags.push_back({"--recompute", [](PlanRequest &request) { request.options.recompute = Recompute::Block; }});
  if (options.optimizer && options.zero == 0 && options.parallel.getDp() > 1)
    flags.push_back({"--zero", [](PlanRequest &request) { request.options.zero = 1; }});
  if (options.parallel.getMp() > 1 && !options.sequenceParallel)
    flags.push_back({"--sequence-parallel", [](PlanRequest &request) { request.options.sequenceParallel = true; }});
  std::vector<Remedy> remedies = RemedySearch(asked, bytes, read, limit).run(flags);
  std::string text;
  if (remedies.empty())
    return text;
  llvm::raw_string_ostream os(text);
  size_t width = 0;
  for (const Remedy &remedy : remedies)
    width = std::max(width, remedy.flags.size());
  os << "flags that make the plan smaller; a rank has " << formatByteSize(limit) << ":";
  for (const Remedy &remedy : remedies)
    os << "\n  " << llvm::left_justify(remedy.flags, width + 2) << formatByteSize(remedy.bytes)
       << (remedy.bytes <= limit ? ", fits" : "");
  return text;
}
