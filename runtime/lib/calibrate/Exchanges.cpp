//===- Exchanges.cpp - every collective, through the executor -------------===//
//
// A step issues a collective many times, with the events that a plan has around it, on memory that others used since.
// One worker runs all members' shares; a share is what its CPU time comes to for one member and one collective.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/Ranks.h"

#include <algorithm>

namespace moert::calibrate {
namespace {

/// The memory of a collective on one rank, in an arena that holds several of them.
struct Place {
  int64_t in, out;
};

/// A collective of `bytes` payload among the ranks.
struct Exchange {
  int32_t dtype;
  int64_t bytes;
  int64_t members;

  int64_t elements() const { return bytes / static_cast<int64_t>(dtypeSize(dtype)); }
};

using IssueExchange = int32_t (*)(moert_rank_t, const moert_group &, const Exchange &, Place);

struct ExchangeCase {
  const char *name;
  bool sums;
  IssueExchange issue;
};

// Values are cut along their second dimension of three, as the tokens of experts are.
constexpr int64_t kOuter = 4;

moert_buffer whole(const Exchange &exchange, int64_t offset) {
  int64_t inner = exchange.elements() / kOuter / exchange.members;
  return Ranks::buffer(exchange.dtype, offset, {kOuter, exchange.members, inner});
}
moert_buffer part(const Exchange &exchange, int64_t offset) {
  int64_t inner = exchange.elements() / kOuter / exchange.members;
  return Ranks::buffer(exchange.dtype, offset, {kOuter, 1, inner});
}

const ExchangeCase kCases[] = {
    {"all_gather", false,
     [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       moert_buffer in = part(exchange, place.in), out = whole(exchange, place.out);
       return moert_all_gather(rank, Ranks::kMeet, &in, &out, 1, &group, Ranks::kMeet);
     }},
    {"reduce_scatter", true,
     [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       moert_buffer in = whole(exchange, place.in), out = part(exchange, place.out);
       return moert_reduce_scatter(rank, Ranks::kMeet, &in, &out, 1, &group, Ranks::kMeet);
     }},
    {"all_reduce", true,
     [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       moert_buffer in = whole(exchange, place.in), out = whole(exchange, place.out);
       return moert_all_reduce(rank, Ranks::kMeet, &in, nullptr, &out, &group, Ranks::kMeet);
     }},
    {"all_to_all", false,
     [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       int64_t inner = exchange.elements() / kOuter / exchange.members;
       moert_buffer in = Ranks::buffer(exchange.dtype, place.in, {exchange.members, kOuter, inner});
       moert_buffer out = Ranks::buffer(exchange.dtype, place.out, {1, exchange.members * kOuter, inner});
       return moert_all_to_all(rank, Ranks::kMeet, &in, &out, 0, 1, 1, 0, 1, &group, Ranks::kMeet);
     }},
    {"broadcast", false,
     [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       moert_buffer in = whole(exchange, place.in), out = whole(exchange, place.out);
       return moert_broadcast(rank, Ranks::kMeet, &in, &out, 0, &group, Ranks::kMeet);
     }},
    {"reduce", true, [](moert_rank_t rank, const moert_group &group, const Exchange &exchange, Place place) {
       moert_buffer in = whole(exchange, place.in), out = whole(exchange, place.out);
       return moert_reduce(rank, Ranks::kMeet, &in, &out, 0, &group, Ranks::kMeet);
     }}};

/// The collective, between the events that order it after and before the compute stream.
int32_t issueBetweenEvents(moert_rank_t rank, const moert_group &group, const ExchangeCase &one,
                           const Exchange &exchange, Place place) {
  int32_t code = moert_record(rank, 0, Ranks::kCompute);
  if (!code)
    code = moert_wait(rank, 0, Ranks::kMeet);
  if (!code)
    code = one.issue(rank, group, exchange, place);
  if (!code)
    code = moert_record(rank, 1, Ranks::kMeet);
  return code ? code : moert_wait(rank, 1, Ranks::kCompute);
}

/// How many collectives a step issues.
int64_t countPlaces(const Exchange &exchange) {
  return std::clamp<int64_t>(kRecentBytes / (2 * exchange.bytes * exchange.members), 2, 64);
}

/// Seconds of one member's share.
Status timeShare(Ranks &ranks, const ExchangeCase &one, const Exchange &exchange, int64_t places, int passes,
                 double &seconds) {
  auto issue = [&](moert_rank_t rank) -> int32_t {
    for (int64_t i = 0; i < places; ++i)
      if (int32_t code = issueBetweenEvents(rank, ranks.group(), one, exchange,
                                            {2 * i * exchange.bytes, (2 * i + 1) * exchange.bytes}))
        return code;
    return MOERT_OK;
  };
  Ranks::StepTime time;
  if (Status status = ranks.measure(issue, passes, time); !status.ok())
    return status;
  seconds = time.work / static_cast<double>(places * exchange.members);
  return {};
}

struct Plan {
  std::vector<int64_t> members, sizes;
  int passes = 5;
};

/// All sizes of one collective in one group size; fit.minMembers and the type are given.
Status measureExchange(Ranks &ranks, const ExchangeCase &one, const Plan &plan, int64_t arena, ExchangeFit &fit,
                       Progress &progress) {
  int32_t dtype = fit.dtype.empty() ? MOERT_F32 : dtypeFromName(fit.dtype);
  for (int64_t bytes : plan.sizes) {
    progress.step();
    Exchange exchange{dtype, bytes, ranks.size()};
    if (4 * bytes > arena || exchange.elements() < kOuter * exchange.members)
      continue;
    Sample &sample = fit.samples.emplace_back();
    sample.bytes = static_cast<double>(bytes);
    if (Status status = timeShare(ranks, one, exchange, countPlaces(exchange), plan.passes, sample.seconds);
        !status.ok())
      return status;
  }
  fit.fit = fitLine(fit.samples);
  return {};
}

} // namespace

Status calibrateExchanges(const Settings &settings, std::vector<ExchangeFit> &fits) {
  Plan plan{{2, 4, 8, 16, 32, 64}, {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}};
  if (settings.quick)
    plan = {{2, 8, 32}, {1 << 12, 1 << 16, 1 << 20, 1 << 22}, 2};
  Progress progress(settings.progress, "collectives", plan.members.size() * plan.sizes.size() * 9);
  int64_t below = 1;
  for (int64_t members : plan.members) {
    int64_t arena = std::max(coldBytes() / members, kRecentBytes);
    std::unique_ptr<Ranks> ranks;
    if (Status status = Ranks::create(members, 1, arena, ranks); !status.ok())
      return status;
    for (const ExchangeCase &one : kCases)
      for (const char *dtype : {"f32", "f64"}) {
        if (!one.sums && dtype == std::string("f64"))
          continue;
        ExchangeFit &fit = fits.emplace_back();
        fit.collective = one.name;
        fit.dtype = one.sums ? dtype : "";
        fit.minMembers = below + 1;
        fit.maxMembers = members;
        if (Status status = measureExchange(*ranks, one, plan, arena, fit, progress); !status.ok())
          return status;
      }
    below = members;
  }
  return {};
}

} // namespace moert::calibrate
