//===- PagePipeline.h - a step as a picture of its pipeline -----*- C++ -*-===//
//
// What each device does over time, by units: a micro-batch at a stage, forward, backward or gradients of weights. A
// piece is what a device computes of a unit until it waits, or goes on with another unit of the same direction.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_REPORT_PAGEPIPELINE_H
#define MOE_LIB_REPORT_PAGEPIPELINE_H

#include "PageTimeline.h"

namespace mlir::moe {

/// In the order of timeline.html. Whole: a micro-batch of a program without stages.
enum class PieceWork : uint8_t { Forward, Backward, Weights, Whole, Other };

struct PagePiece {
  int32_t microBatch = -1, stage = -1; ///< -1: it belongs to none, as the optimizer
  PieceWork work = PieceWork::Other;
  /// Of a backward: whether gradients of weights are among its launches that the program has as a work of their own.
  bool hasWeights = false;
  /// Whether the device computes something of the other direction in between, as in a window.
  bool isWindow = false;
  double begin = 0, end = 0, compute = 0; ///< compute: seconds with a launch of its own under way

  bool isBackward() const { return work == PieceWork::Backward || work == PieceWork::Weights; }
};

/// A rank of each program stands for the others.
struct PageDevice {
  std::string name; ///< of the rank
  std::vector<PagePiece> pieces;
  /// When an exchange with ranks of the same stage is under way and nothing is computed: begins and ends.
  std::vector<std::pair<double, double>> exposed;
};

struct PagePipeline {
  std::vector<PageDevice> devices; ///< the first ones; none where a step has neither stages nor micro-batches
  size_t numDevices = 0;
  int64_t numMicroBatches = 0;
  double to = 0; ///< seconds: what begins later is left out
};

PagePipeline makePagePipeline(const SimResult &result, const PageTimeline &timeline);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_PAGEPIPELINE_H
