//===- PagePipeline.cpp - a step as a picture of its pipeline -------------===//
#include "PageTimeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::ArrayRef;

/// Most elements of the page. A piece takes about 35 bytes, an exposed exchange about 12.
static constexpr size_t maxDevices = 64, maxPieces = 6000, maxExposed = 12'000;
/// Ignores waits that are shorter than this part of the step.
static constexpr double gapsOfStep = 1000;

static bool isComputation(const SimLaunch &launch) {
  return launch.cost.resource == Resource::Matrix || launch.cost.resource == Resource::Memory;
}

/// True for an exchange with ranks of the same stage.
static bool isExchange(const SimProgram &program, const SimLaunch &launch) {
  return launch.cost.resource == Resource::Network && (launch.group < 0 || !program.groups[launch.group].isChannel());
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

namespace {
/// Joins launches, in order of their begins, to pieces, which end where their device waits longer than `longestGap`.
class PieceMaker {
public:
  PieceMaker(const SimProgram &program, double longestGap)
      : hasStages(llvm::any_of(program.launches, [](const SimLaunch &launch) { return launch.stage >= 0; })),
        longestGap(longestGap) {}

  /// Adds a time in which the device is busy.
  void addBusy(const PageSpan &span);
  void add(const SimLaunch &launch, const PageSpan &span);
  std::vector<PagePiece> take();

private:
  using Lane = std::vector<PagePiece>;
  PagePiece makePiece(const SimLaunch &launch, const PageSpan &span) const;
  bool canExtend(const PagePiece &piece) const { return piece.end >= resumed; }
  void joinWeights(Lane &lane) const;
  void markWindows();

  /// Lanes of the forward, of the backward with weight gradients, and of work that belongs to no unit. A device may
  /// turn from one to the other at each launch.
  Lane forward, backward, others;
  bool isLastOther = false, hasStages;
  double longestGap, busyUntil = 0, resumed = 0; ///< resumed: end of the last long gap
};
} // namespace

PagePiece PieceMaker::makePiece(const SimLaunch &launch, const PageSpan &span) const {
  PagePiece piece;
  piece.begin = span.begin;
  piece.end = span.end;
  piece.compute = span.end - span.begin;
  if (launch.microBatch < 0)
    return piece;
  piece.microBatch = launch.microBatch;
  piece.stage = launch.stage;
  if (!hasStages)
    piece.work = PieceWork::Whole;
  else if (launch.isBackward)
    piece.work = launch.isOfWeights ? PieceWork::Weights : PieceWork::Backward;
  else
    piece.work = PieceWork::Forward;
  return piece;
}

/// Compares units; a launch that any stage could have done has none.
static bool isSameUnit(const PagePiece &a, const PagePiece &b) {
  return a.microBatch == b.microBatch && (a.stage == b.stage || a.stage < 0 || b.stage < 0);
}

static void extend(PagePiece &piece, const PagePiece &next) {
  piece.end = std::max(piece.end, next.end);
  piece.compute += next.compute;
  piece.stage = std::max(piece.stage, next.stage);
}

void PieceMaker::addBusy(const PageSpan &span) {
  if (span.begin - busyUntil > longestGap)
    resumed = span.begin;
  busyUntil = std::max(busyUntil, span.end);
}

void PieceMaker::add(const SimLaunch &launch, const PageSpan &span) {
  PagePiece piece = makePiece(launch, span);
  bool isOther = piece.work == PieceWork::Other, wasOther = std::exchange(isLastOther, isOther);
  Lane &lane = isOther ? others : piece.isBackward() ? backward : forward;
  if (!lane.empty() && canExtend(lane.back()) && lane.back().work == piece.work && isSameUnit(lane.back(), piece) &&
      (!isOther || wasOther)) {
    extend(lane.back(), piece);
    return;
  }
  lane.push_back(piece);
  joinWeights(lane);
}

/// Merges weight gradients in the middle of their own backward into its piece.
void PieceMaker::joinWeights(Lane &lane) const {
  if (lane.size() < 3)
    return;
  PagePiece &first = lane[lane.size() - 3], &middle = lane[lane.size() - 2], &last = lane.back();
  if (!isSameUnit(first, middle) || !isSameUnit(middle, last) || first.work != PieceWork::Backward ||
      last.work != PieceWork::Backward || !canExtend(first))
    return;
  extend(first, middle);
  extend(first, last);
  first.hasWeights = true;
  lane.resize(lane.size() - 2);
}

/// Marks windows; a launch or two in the middle of the other direction make none.
void PieceMaker::markWindows() {
  constexpr double leastShare = 0.05;
  for (auto f = forward.begin(), b = backward.begin(); f != forward.end() && b != backward.end();) {
    double both = std::min(f->end, b->end) - std::max(f->begin, b->begin);
    if (both > leastShare * std::max(f->end - f->begin, b->end - b->begin))
      f->isWindow = b->isWindow = true;
    f->end < b->end ? ++f : ++b;
  }
}

std::vector<PagePiece> PieceMaker::take() {
  markWindows();
  Lane pieces = std::move(forward);
  pieces.insert(pieces.end(), backward.begin(), backward.end());
  pieces.insert(pieces.end(), others.begin(), others.end());
  llvm::stable_sort(pieces, [](const PagePiece &a, const PagePiece &b) { return a.begin < b.begin; });
  // Work that belongs to no unit is shown only while no unit is under way.
  double until = 0;
  llvm::erase_if(pieces, [&](const PagePiece &piece) {
    if (piece.work == PieceWork::Other)
      return piece.begin < until;
    until = std::max(until, piece.end);
    return false;
  });
  return pieces;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// Finds the parts of exchanges that no computation covers.
static std::vector<std::pair<double, double>> findExposed(const SimProgram &program, ArrayRef<PageSpan> spans) {
  std::vector<std::pair<double, double>> computed, exposed;
  for (const PageSpan &span : spans)
    if (isComputation(program.launches[span.launch]))
      computed.emplace_back(span.begin, span.end);
  auto next = computed.begin();
  double until = 0;
  auto add = [&](double begin, double end) {
    if (begin < end && !exposed.empty() && exposed.back().second == begin)
      exposed.back().second = end;
    else if (begin < end)
      exposed.emplace_back(begin, end);
  };
  for (const PageSpan &span : spans) {
    if (!isExchange(program, program.launches[span.launch]))
      continue;
    for (until = std::max(until, span.begin); next != computed.end() && next->first < span.end; ++next) {
      add(until, next->first);
      until = std::max(until, next->second);
    }
    add(until, span.end);
    until = std::max(until, span.end);
  }
  return exposed;
}

static PageDevice makeDevice(const SimProgram &program, const PageRow &row, double longestGap) {
  PieceMaker maker(program, longestGap);
  for (const PageSpan &span : row.predicted) {
    const SimLaunch &launch = program.launches[span.launch];
    if (isComputation(launch) || isExchange(program, launch))
      maker.addBusy(span);
    if (isComputation(launch) && span.end > span.begin)
      maker.add(launch, span);
  }
  return {row.name, maker.take(), findExposed(program, row.predicted)};
}

/// Begin of the first element above `most`; `end` if there is room for all.
static double findLimit(std::vector<double> begins, size_t most, double end) {
  if (begins.size() <= most)
    return end;
  std::nth_element(begins.begin(), begins.begin() + static_cast<ptrdiff_t>(most), begins.end());
  return begins[most];
}

/// Leaves out the elements after the most that the page holds.
static void limit(PagePipeline &pipeline, double end) {
  std::vector<double> pieces, exposed;
  for (const PageDevice &device : pipeline.devices) {
    for (const PagePiece &piece : device.pieces)
      pieces.push_back(piece.begin);
    llvm::append_range(exposed, llvm::make_first_range(device.exposed));
  }
  double to = std::min(findLimit(std::move(pieces), maxPieces, end), findLimit(std::move(exposed), maxExposed, end));
  for (PageDevice &device : pipeline.devices) {
    llvm::erase_if(device.pieces, [&](const PagePiece &piece) { return piece.begin >= to; });
    llvm::erase_if(device.exposed, [&](const auto &one) { return one.first >= to; });
  }
  pipeline.to = to;
}

PagePipeline mlir::moe::makePagePipeline(const SimResult &result, const PageTimeline &timeline) {
  PagePipeline pipeline;
  for (const SimProgram &program : result.programs)
    for (const SimLaunch &launch : program.launches)
      pipeline.numMicroBatches = std::max<int64_t>(pipeline.numMicroBatches, launch.microBatch + 1);
  pipeline.numDevices = result.programs.size();
  if (pipeline.numMicroBatches < 2 && pipeline.numDevices < 2)
    return pipeline;
  for (uint32_t program = 0; program < std::min(maxDevices, result.programs.size()); ++program) {
    auto row = llvm::find_if(timeline.rows,
                             [&](const PageRow &one) { return result.ranks[one.simulated].program == program; });
    if (row != timeline.rows.end())
      pipeline.devices.push_back(makeDevice(result.programs[program], *row, result.seconds / gapsOfStep));
  }
  limit(pipeline, result.seconds);
  return pipeline;
}
