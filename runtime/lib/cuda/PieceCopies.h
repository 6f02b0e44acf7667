//===- PieceCopies.h - many copies by one kernel --------------------------===//
#ifndef MOERT_CUDA_PIECECOPIES_H
#define MOERT_CUDA_PIECECOPIES_H

#include "core/Exchange.h"
#include "cuda/Context.h"

namespace moert::cuda {

/// `count` runs of `bytes`, each so many bytes after the one before.
struct PieceCopy {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  int64_t count = 1;
  int64_t fromStep = 0, toStep = 0;
};

/// Copies on one device that do not overlap. What they are travels with the launch, not by memory of the host that is
/// used again, so that they can be part of a graph.
class PieceCopies {
public:
  /// Pieces of both sides are of the same sizes, one by one. Pieces that lie side by side, or at equal distances, on
  /// both sides become one copy.
  void add(const char *from, const Pieces &fromPieces, char *to, const Pieces &toPieces);
  void add(const PieceCopy &copy);
  const std::vector<PieceCopy> &all() const { return copies; }

  /// Enqueued on the target's stream; nothing where there is nothing to copy.
  Status launch(const Target &target) const;

private:
  std::vector<PieceCopy> copies;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_PIECECOPIES_H
