//===- Adaptive.h - steps whose chunk count is learnt as they run ---------===//
#ifndef MOERT_RUN_ADAPTIVE_H
#define MOERT_RUN_ADAPTIVE_H

#include "run/Verify.h"

namespace moert::run {

struct AdaptiveStep {
  int64_t batch, sequence; ///< the shape, as in Metadata
  int64_t chunks;
  double seconds;
  bool trial;
};

/// A variant that ran, and what its first step's values were found to be.
struct CheckedVariant {
  int64_t batch, sequence, chunks;
  Verification verification;

  /// "2 x 512 in 4 chunks".
  std::string name() const;
};

struct AdaptiveResult {
  int64_t ranks = 1;
  std::vector<AdaptiveStep> steps;
  std::vector<CheckedVariant> checked;
  std::vector<moert_granularity_range> ranges;
  int64_t trials = 0;
  ArenaUse arenas[2];     ///< of the variant that needs most
  int64_t otherBytes = 0; ///< likewise
};

/// Runs `options.iters` steps of shapes drawn at random from the plan's, each by the variant whose chunk count
/// moert_granularity chooses. A variant's first step, which touches its memory first, is run once more before: it is
/// checked, and not timed. `log` may be null.
Status runAdaptive(const Options &options, std::ostream *log, AdaptiveResult &result);

} // namespace moert::run

#endif // MOERT_RUN_ADAPTIVE_H
