//===- Plan.h - an open plan, and the variant to run ----------------------===//
#ifndef MOERT_RUN_PLAN_H
#define MOERT_RUN_PLAN_H

#include "core/Metadata.h"
#include "moert/world.h"

#include <memory>

namespace moert::run {

/// A plan, the variant to run, and the metadata of this variant.
struct Plan {
  std::shared_ptr<moert_plan> handle; ///< handle of all variants
  int64_t variant = 0;
  Metadata metadata;
  moert_wide wide = MOERT_WIDE_NONE; ///< type in which the plan is run

  /// Runs the plan in this type from now on: the metadata gives it to all floating-point values.
  void widen(moert_wide type);
  /// Opens the variant for `batch` sequences of `sequence` tokens. A size of 0 is that of the first variant.
  static Status open(const std::string &path, int64_t batch, int64_t sequence, Plan &plan);
  /// The programs of the ranks, or the reference.
  std::span<const Program> programs(bool reference) const {
    return reference ? std::span(&*metadata.reference, 1) : std::span(metadata.programs);
  }
};

/// Checks the SHA-256 of a plan before its code is executed. It must be `expected`, unless this is empty, and the one
/// in the file `path`.sha256 in the format of sha256sum, if there is one.
Status checkDigest(const std::string &path, const std::string &expected);

/// Checks that the plan has times that were modelled for the cluster `name`.
Status checkEmulated(const std::string &name, const Metadata &metadata);

/// Status of a call of the C API.
Status checked(int32_t code);

} // namespace moert::run

#endif // MOERT_RUN_PLAN_H
