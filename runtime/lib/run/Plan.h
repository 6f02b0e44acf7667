//===- Plan.h - handles of the C API that close themselves ----------------===//
#ifndef MOERT_RUN_PLAN_H
#define MOERT_RUN_PLAN_H

#include "core/Metadata.h"
#include "moert/world.h"

#include <memory>

namespace moert::run {

struct WorldCloser {
  void operator()(moert_world_t world) const { moert_world_destroy(world); }
};
using WorldHandle = std::unique_ptr<moert_world, WorldCloser>;

/// A plan, the variant of it to run, and what this says about itself.
struct Plan {
  std::shared_ptr<moert_plan> handle; ///< of all variants
  int64_t variant = 0;
  Metadata metadata;
  moert_wide wide = MOERT_WIDE_NONE; ///< the type in which it is run

  /// From here on the plan is run in this type: what it says of its floating-point values is that they are of it.
  void widen(moert_wide type);
  /// For `batch` sequences of `sequence` tokens; where either is 0, those of the plan's first variant.
  static Status open(const std::string &path, int64_t batch, int64_t sequence, Plan &plan);
  /// What the ranks run, or the reference.
  std::span<const Program> programs(bool reference) const {
    return reference ? std::span(&*metadata.reference, 1) : std::span(metadata.programs);
  }
};

/// Whether the plan, which is code that will be executed, has the SHA-256 `expected`, if that is not empty, and the one
/// that the file `path`.sha256 says, if there is one, in the format of sha256sum.
Status checkDigest(const std::string &path, const std::string &expected);

/// Whether the plan has what --emulate-links=NAME needs: times that were modelled for that cluster.
Status checkEmulated(const std::string &name, const Metadata &metadata);

/// The Status of a call of the C API.
Status checked(int32_t code);

} // namespace moert::run

#endif // MOERT_RUN_PLAN_H
