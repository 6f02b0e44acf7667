//===- Departure.h - where a plan departs from its reference ---------------===//
//
// In exact arithmetic, a right value of a plan is an element of the field that the reference computes too, or a term of
// a sum that a later call completes. The plan goes wrong in the first call that makes other elements, if no element of
// the reference is computed from them.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_DEPARTURE_H
#define MOERT_RUN_DEPARTURE_H

#include "core/Field.h"
#include "run/Runner.h"

#include <optional>

namespace moert::run {

struct Departure {
  std::string op; ///< "op 4 matmul 'layer0'"
  int64_t rank = 0;
  int64_t ranks = 1;  ///< number of ranks that depart in the op
  std::string before; ///< exchange that its inputs come from, in the same words; empty if there is none
  std::string next;   ///< first call that takes its output; empty if there is none
  std::string after;  ///< first exchange that takes its output; empty if there is none
  /// Relation of the output or the inputs to the reference: "what it makes is the reference's, summed over group 'mp'";
  /// empty if no relation is found.
  std::string cause;

  /// The departure in one sentence.
  std::string text() const;
};

/// Runs the reference and the plan again, and observes all that they compute. `routing` is as for a first run of
/// `inputs`. Leaves `departure` empty if no call departs, for example if a rank reads another part of a result.
Status findDeparture(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                     std::optional<Departure> &departure);

/// Cause of the difference between a result and the reference's, as far as the field elements show it: a factor, or a
/// missing sum over a group. For example "it lacks a sum over group 'mp'"; empty if they show none.
std::string diagnose(const Plan &plan, const RunResult &result, const RunResult &reference, const std::string &name);

/// Text of a fraction of small numbers, "3/4"; empty for other elements.
std::string fractionText(Field factor);
/// Text of groups, "group 'mp' (or 'ep')".
std::string groupText(const std::vector<std::string> &names);

} // namespace moert::run

#endif // MOERT_RUN_DEPARTURE_H
