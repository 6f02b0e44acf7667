//===- PieceCopies.h - many copies by one kernel --------------------------===//
#ifndef MOERT_CUDA_PIECECOPIES_H
#define MOERT_CUDA_PIECECOPIES_H

#include "core/Exchange.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// `count` runs of `bytes` each, at constant distances.
struct PieceCopy {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  int64_t count = 1;
  int64_t fromStep = 0, toStep = 0;
};

/// Copies on one device that do not overlap. The launch itself carries their table, not reusable memory of the host, so
/// that they can be part of a graph.
class PieceCopies {
public:
  /// Adds copies of pieces, which have the same sizes on both sides. Pieces that are contiguous or at equal distances
  /// on both sides become one copy.
  void add(const char *from, const Pieces &fromPieces, char *to, const Pieces &toPieces);
  void add(const PieceCopy &copy);
  const std::vector<PieceCopy> &all() const { return copies; }

  /// Enqueues the copies on the target's stream, if there are any.
  Status launch(const Target &target) const;

private:
  std::vector<PieceCopy> copies;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_PIECECOPIES_H
