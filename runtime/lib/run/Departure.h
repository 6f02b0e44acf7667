//===- Departure.h - where a plan departs from its reference ---------------===//
//
// In exact arithmetic a right value of a plan is an element of the field that the reference computes too, or a part of
// one: a term of a sum that a later call completes. So the first call that makes other elements, from which never comes
// one that the reference has, is where the plan goes wrong.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_DEPARTURE_H
#define MOERT_RUN_DEPARTURE_H

#include "run/Runner.h"

#include <optional>

namespace moert::run {

struct Departure {
  std::string op; ///< "op 4 matmul 'layer0'"
  int64_t rank = 0;
  int64_t ranks = 1;  ///< how many ranks depart in the op
  std::string before; ///< the exchange that its inputs come from, in the same words; empty where there is none
  std::string next;   ///< the first call that takes what it made; empty where there is none
  std::string after;  ///< the first exchange that takes it; empty where there is none
  /// How what it makes, or takes, is related to what the reference has: "what it makes is the reference's, summed over
  /// group 'mp'"; empty where that is not found.
  std::string cause;

  /// In one sentence.
  std::string text() const;
};

/// Runs the reference and the plan again, with all that they compute observed. `routing` is as for a first run of
/// `inputs`. Nothing is found in what departs in no call, such as a result of which a rank reads another part.
Status findDeparture(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                     std::optional<Departure> &departure);

} // namespace moert::run

#endif // MOERT_RUN_DEPARTURE_H
