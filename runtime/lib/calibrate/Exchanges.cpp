//===- Exchanges.cpp - every collective, through the executor -------------===//
//
// A step issues a collective many times, with the events that a plan has around it, each on memory of its own, which
// the next step uses again. So operands were written recently, as a plan's activations are, and a device's caches may
// hold small ones. On the host one worker runs the shares of all members. A share is its CPU time over members and
// collectives. On a device the clock tells how long a collective ran, and ranks on one device have equal shares. These
// have no product in front of them that puts the host ahead, so the time of small collectives includes their launches.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/DeviceBench.h"

#include <algorithm>
#include <map>
#include <set>

namespace moert::calibrate {
namespace {

/// Collective of `bytes` payload in a group.
struct MeasuredExchange {
  Kind kind;
  int32_t dtype;
  int64_t bytes;
  int64_t members;
  int64_t op;

  int64_t elements() const { return bytes / static_cast<int64_t>(dtypeSize(dtype)); }
};

constexpr Kind kKinds[] = {Kind::AllGather, Kind::ReduceScatter, Kind::AllReduce,
                           Kind::AllToAll,  Kind::Broadcast,     Kind::Reduce};

bool isSum(Kind kind) { return kind == Kind::ReduceScatter || kind == Kind::AllReduce || kind == Kind::Reduce; }

// Values are divided along their second dimension of three, as the tokens of experts are.
constexpr int64_t kOuter = 4;

/// Issues the collective on memory from `place` on.
int32_t issueExchange(moert_rank_t rank, const moert_group &group, const MeasuredExchange &exchange, int64_t place) {
  const int64_t op = exchange.op, members = exchange.members, inner = exchange.elements() / kOuter / members;
  auto value = [&](int64_t offset, bool isPart) {
    return Ranks::buffer(exchange.dtype, offset, {kOuter, isPart ? 1 : members, inner});
  };
  moert_buffer in = value(place, exchange.kind == Kind::AllGather);
  moert_buffer out = value(place + exchange.bytes, exchange.kind == Kind::ReduceScatter);
  switch (exchange.kind) {
  case Kind::AllGather:
    return moert_all_gather(rank, op, &in, &out, 1, &group, Ranks::kMeet);
  case Kind::ReduceScatter:
    return moert_reduce_scatter(rank, op, &in, &out, 1, &group, Ranks::kMeet);
  case Kind::AllReduce:
    return moert_all_reduce(rank, op, &in, nullptr, &out, &group, Ranks::kMeet);
  case Kind::Broadcast:
    return moert_broadcast(rank, op, &in, &out, 0, &group, Ranks::kMeet);
  case Kind::Reduce:
    return moert_reduce(rank, op, &in, &out, 0, &group, Ranks::kMeet);
  default:
    in = Ranks::buffer(exchange.dtype, place, {members, kOuter, inner});
    out = Ranks::buffer(exchange.dtype, place + exchange.bytes, {1, members * kOuter, inner});
    return moert_all_to_all(rank, op, &in, &out, 0, 1, 1, 0, 1, &group, Ranks::kMeet);
  }
}

/// Issues the collective between the events that order it against the compute stream.
int32_t issueBetweenEvents(moert_rank_t rank, const moert_group &group, const MeasuredExchange &exchange,
                           int64_t place) {
  int32_t code = moert_record(rank, 0, Ranks::kCompute);
  if (!code)
    code = moert_wait(rank, 0, Ranks::kMeet);
  if (!code)
    code = issueExchange(rank, group, exchange, place);
  if (!code)
    code = moert_record(rank, 1, Ranks::kMeet);
  return code ? code : moert_wait(rank, 1, Ranks::kCompute);
}

/// Number of collectives that a step issues in arenas of `arena` bytes: from 2 to 64, so that all members together use
/// kRecentBytes.
int64_t countPlaces(const MeasuredExchange &exchange, int64_t arena) {
  return std::min(std::clamp<int64_t>(kRecentBytes / (2 * exchange.bytes * exchange.members), 2, 64),
                  arena / (2 * exchange.bytes));
}

/// Place and settings of the measurements.
struct Scene {
  Ranks &ranks;
  int64_t arena;      ///< bytes of the arena of each rank
  DeviceBench *bench; ///< bench of ranks with devices of their own; null if they share a device or processors
  bool onHost;
  std::vector<int64_t> sizes;
  std::vector<const char *> sumTypes;
  int passes;
};

using Issue = std::function<int32_t(moert_rank_t)>;

/// Measures the typical seconds of the collectives of a step by the device's clock. The first of each step is left out,
/// because members wait in it for the last one.
Status timeOnDevice(const Scene &scene, const Issue &issue, double &seconds) {
  std::vector<double> all;
  for (int pass = 0; pass <= scene.passes; ++pass) {
    Ranks::StepTime time;
    MOERT_RETURN_IF_ERROR(scene.ranks.run(issue, time));
    const std::vector<OpTime> &ops = scene.ranks.device().timeline(scene.ranks.local(), Ranks::kMeet);
    for (size_t i = 1; i < ops.size() && pass > 0; ++i)
      all.push_back(static_cast<double>(ops[i].end - ops[i].begin) * 1e-9);
  }
  seconds = typical(std::move(all));
  return {};
}

/// Measures one collective, or one member's share of it.
Status timeExchange(const Scene &scene, const MeasuredExchange &exchange, double &seconds) {
  const int64_t places = countPlaces(exchange, scene.arena);
  Issue issue = [&](moert_rank_t rank) -> int32_t {
    if (scene.bench)
      if (int32_t code = scene.bench->issueBallast(rank))
        return code;
    const moert_group &group = scene.ranks.group(static_cast<size_t>(exchange.op - Ranks::kMeet));
    for (int64_t i = 0; i < places; ++i)
      if (int32_t code = issueBetweenEvents(rank, group, exchange, 2 * i * exchange.bytes))
        return code;
    return MOERT_OK;
  };
  if (!scene.onHost) {
    Status status = timeOnDevice(scene, issue, seconds);
    seconds = scene.bench ? scene.bench->withoutClock(seconds) : seconds / static_cast<double>(exchange.members);
    return status;
  }
  Ranks::StepTime time;
  MOERT_RETURN_IF_ERROR(scene.ranks.measure(issue, scene.passes, time));
  seconds = time.work / static_cast<double>(places * exchange.members);
  return {};
}

/// Measures all sizes of one collective in one group. The caller has set the members and the type of `fit`.
Status measureExchange(const Scene &scene, Kind kind, size_t group, ExchangeFit &fit, Progress &progress) {
  int32_t dtype = fit.dtype.empty() ? MOERT_F32 : dtypeFromName(fit.dtype);
  for (int64_t bytes : scene.sizes) {
    progress.step();
    MeasuredExchange exchange{kind, dtype, bytes, scene.ranks.group(group).size,
                              Ranks::kMeet + static_cast<int64_t>(group)};
    if (4 * bytes > scene.arena || exchange.elements() < kOuter * exchange.members)
      continue;
    Sample &sample = fit.samples.emplace_back();
    sample.bytes = static_cast<double>(bytes);
    MOERT_RETURN_IF_ERROR(timeExchange(scene, exchange, sample.seconds));
  }
  fit.fit = fitLine(fit.samples);
  return {};
}

/// Measures all collectives in one group. `shape` has its members.
Status measureGroup(const Scene &scene, size_t group, const ExchangeFit &shape, std::vector<ExchangeFit> &fits,
                    Progress &progress) {
  for (Kind kind : kKinds)
    for (const char *dtype : isSum(kind) ? scene.sumTypes : std::vector<const char *>{""}) {
      ExchangeFit &fit = fits.emplace_back(shape);
      fit.collective = kindName(kind);
      fit.dtype = dtype;
      MOERT_RETURN_IF_ERROR(measureExchange(scene, kind, group, fit, progress));
      // With very many members, no size may fit.
      if (fit.samples.empty())
        fits.pop_back();
    }
  return {};
}

/// Number of collectives that measureGroup measures; sums count once for each type.
size_t countFits(const std::vector<const char *> &sumTypes) {
  const auto sums = static_cast<size_t>(std::ranges::count_if(kKinds, isSum));
  return std::size(kKinds) - sums + sums * sumTypes.size();
}

std::vector<int64_t> deviceSizes(const Settings &settings) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 1 << 12; bytes <= settings.device.arenaBytes / 4; bytes *= settings.quick ? 32 : 4)
    sizes.push_back(bytes);
  return sizes;
}

const std::vector<const char *> kDeviceSums = {"f32", "bf16", "f16"};

} // namespace

Status calibrateShares(const Settings &settings, std::vector<ExchangeFit> &fits) {
  const bool onHost = !settings.isDevice();
  std::vector<int64_t> sizes = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
  std::vector<int64_t> groups = {2, 4, 8, 16, 32, 64};
  if (settings.quick) {
    sizes = {1 << 12, 1 << 16, 1 << 20, 1 << 22};
    groups = {2, 8, 32};
  }
  if (!onHost)
    sizes = deviceSizes(settings);
  const std::vector<const char *> sumTypes = onHost ? std::vector<const char *>{"f32", "f64"} : kDeviceSums;
  Progress progress(settings.progress, "collectives", groups.size() * sizes.size() * countFits(sumTypes));
  int64_t below = 1;
  for (int64_t members : groups) {
    RanksOptions options{settings.backend, members};
    options.arenaBytes = onHost ? std::max(coldBytes() / members, kRecentBytes) : settings.device.arenaBytes / members;
    std::unique_ptr<Ranks> ranks;
    MOERT_RETURN_IF_ERROR(Ranks::create(options, ranks));
    Scene scene{*ranks, options.arenaBytes, nullptr, onHost, sizes, sumTypes, settings.quick ? 2 : 5};
    ExchangeFit shape;
    shape.minMembers = shape.minPerNode = below + 1;
    shape.maxMembers = shape.maxPerNode = members;
    MOERT_RETURN_IF_ERROR(measureGroup(scene, 0, shape, fits, progress));
    below = members;
  }
  return {};
}

std::vector<Group> allGroups(int64_t ranks, int64_t perNode) {
  std::vector<Group> groups;
  std::set<std::pair<int64_t, int64_t>> known;
  for (int64_t size = 2; size <= ranks; ++size)
    for (int64_t stride = 1; size * stride <= ranks; ++stride) {
      if (ranks % (size * stride) != 0)
        continue;
      Group group{std::to_string(size) + "x" + std::to_string(stride), size, stride};
      const int64_t onNode = membersOnNode(group, ranks, perNode);
      if (onNode > 0 && known.insert({size, onNode}).second)
        groups.push_back(group);
    }
  return groups;
}

int64_t membersOnNode(const Group &group, int64_t ranks, int64_t perNode) {
  int64_t onNode = 0;
  for (int64_t instance = 0; instance < ranks / group.size; ++instance) {
    std::map<int64_t, int64_t> counts;
    for (int64_t member = 0; member < group.size; ++member)
      ++counts[group.rankOf(instance, member) / perNode];
    for (const auto &[node, count] : counts) {
      if (onNode > 0 && count != onNode)
        return 0;
      onNode = count;
    }
  }
  return onNode;
}

Status calibrateGroups(DeviceBench &bench, const std::vector<Group> &groups, int64_t perNode, const Settings &settings,
                       std::vector<ExchangeFit> &fits) {
  Scene scene{bench.ranks(), settings.device.arenaBytes, &bench, false, deviceSizes(settings),
              kDeviceSums,   settings.quick ? 3 : 7};
  Progress progress(settings.progress, "collectives", groups.size() * scene.sizes.size() * countFits(scene.sumTypes));
  for (size_t g = 0; g < groups.size(); ++g) {
    ExchangeFit shape;
    shape.minMembers = shape.maxMembers = groups[g].size;
    shape.isCurve = true;
    shape.minPerNode = shape.maxPerNode = membersOnNode(groups[g], bench.ranks().size(), perNode);
    MOERT_RETURN_IF_ERROR(measureGroup(scene, g, shape, fits, progress));
  }
  return {};
}

} // namespace moert::calibrate
