//===- PagePipeline.h - a step as a picture of its pipeline -----*- C++ -*-===//
//
// The work of each device over time, by units: a micro-batch at a stage, forward, backward or weight gradients. A piece
// is the device's computation of a unit until it waits, or goes on with another unit of the same direction.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_REPORT_PAGEPIPELINE_H
#define MOE_LIB_REPORT_PAGEPIPELINE_H

#include "PageTimeline.h"

namespace mlir::moe {

/// Kinds of work, in the order of timeline.html. Whole is a micro-batch of a program without stages.
enum class PieceWork : uint8_t { Forward, Backward, Weights, Whole, Other };

struct PagePiece {
  int32_t microBatch = -1, stage = -1; ///< -1: none, as for the optimizer
  PieceWork work = PieceWork::Other;
  /// True if launches of a backward compute weight gradients that the program has as work of their own.
  bool hasWeights = false;
  /// True if the device computes something of the other direction in between, as in a window.
  bool isWindow = false;
  double begin = 0, end = 0, compute = 0; ///< compute: seconds with a launch of its own under way

  bool isBackward() const { return work == PieceWork::Backward || work == PieceWork::Weights; }
};

/// The device of one rank of a program, for all of its ranks.
struct PageDevice {
  std::string name; ///< name of the rank
  std::vector<PagePiece> pieces;
  /// Begins and ends of the times in which an exchange with ranks of the same stage is under way and nothing is
  /// computed.
  std::vector<std::pair<double, double>> exposed;
};

struct PagePipeline {
  std::vector<PageDevice> devices; ///< the first ones; none for a step without stages and micro-batches
  size_t numDevices = 0;
  int64_t numMicroBatches = 0;
  double to = 0; ///< seconds; later begins are left out
};

PagePipeline makePagePipeline(const SimResult &result, const PageTimeline &timeline);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_PAGEPIPELINE_H
