//===- GranularityApi.cpp - the C API of Granularity ----------------------===//

#include "core/Error.h"
#include "core/Granularity.h"

#include <memory>

using namespace moert;

struct moert_granularity {
  std::optional<Granularity> policy;
};

/// Runs `body` on the handle's policy where `given` (out-parameters) holds.
template <class Body> static int32_t onPolicy(moert_granularity_t policy, bool given, Body body) {
  return guarded([&]() -> Status {
    if (!policy || !given)
      return invalid("expected a policy and out-parameters that are not null");
    return body(*policy->policy);
  });
}

extern "C" {

int32_t moert_granularity_create(const int64_t *chunks, int64_t count, moert_granularity_t *policy) {
  return guarded([&]() -> Status {
    if (!policy || (!chunks && count > 0))
      return invalid("expected chunk counts and an out-parameter that are not null");
    auto made = std::make_unique<moert_granularity>();
    MOERT_RETURN_IF_ERROR(Granularity::create(
        count > 0 ? std::vector<int64_t>(chunks, chunks + count) : std::vector<int64_t>(), made->policy));
    *policy = made.release();
    return {};
  });
}

void moert_granularity_destroy(moert_granularity_t policy) { delete policy; }

int32_t moert_granularity_choose(moert_granularity_t policy, int64_t batch, const double *predicted, int64_t *chunks,
                                 int32_t *trial) {
  return onPolicy(policy, chunks, [&](Granularity &inner) -> Status {
    std::vector<double> seconds;
    if (predicted)
      seconds.assign(predicted, predicted + inner.chunkCounts().size());
    bool isTrial = false;
    Status status = inner.choose(batch, seconds, *chunks, isTrial);
    if (status.ok() && trial)
      *trial = isTrial;
    return status;
  });
}

int32_t moert_granularity_report(moert_granularity_t policy, int64_t batch, int64_t chunks, double seconds) {
  return onPolicy(policy, true, [&](Granularity &inner) { return inner.report(batch, chunks, seconds); });
}

int32_t moert_granularity_status(moert_granularity_t policy, int64_t *trials, moert_granularity_range *ranges,
                                 int64_t capacity, int64_t *count) {
  return onPolicy(policy, trials && count && (ranges || capacity <= 0), [&](Granularity &inner) -> Status {
    *trials = inner.trials();
    *count = 0;
    for (const Granularity::Range &range : inner.ranges()) {
      if (*count < capacity)
        ranges[*count] = {range.chunks, range.lower, range.upper};
      ++*count;
    }
    return {};
  });
}

} // extern "C"
