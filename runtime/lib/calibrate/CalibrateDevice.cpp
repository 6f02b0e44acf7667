//===- CalibrateDevice.cpp - all measurements of a device -----------------===//
//
// Ranks of backend cuda have devices of their own, one process each. All processes measure, because they meet in
// collectives, and process 0 gets the profile. Ranks of cuda-loopback share one device, as ranks of the host share
// processors. Their profile has one processor, and collectives are shares.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/ProductCalls.h"
#include "core/Attributes.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>

namespace moert::calibrate {
namespace {

/// Measures launches of almost no work: the host's time to issue one, and the device's time to run one.
Status measureDeviceLaunches(DeviceBench &bench, Pool &pool, Profile &profile) {
  constexpr int64_t kLaunches = 500;
  constexpr int kPasses = 9;
  auto issue = [&](moert_rank_t rank) { return Ranks::launchLittle(rank, kLaunches); };
  Ranks::StepTime time;
  bench.ranks().device().timeOps(false);
  Status status = bench.ranks().measure(issue, kPasses, time);
  bench.ranks().device().timeOps(true);
  MOERT_RETURN_IF_ERROR(status);
  profile.launchSeconds = time.wall / kLaunches;
  auto scale = [&] {
    pool.beginCall();
    return callOf(Kind::Scale, {pool.input({1}), pool.output({1})});
  };
  std::vector<double> seconds;
  MOERT_RETURN_IF_ERROR(measureKernels(bench, {scale}, kPasses, seconds));
  profile.kernelSeconds = seconds[0];
  return {};
}

/// Measures how much longer the first of two equal products takes if the step itself writes its counts. The host must
/// wait for the counts before it enqueues the product. Products of f32 wait in this way on all devices.
Status measureCountsWait(DeviceBench &bench, Pool &pool, Profile &profile) {
  constexpr int64_t kExperts = 8, kSize = 64;
  constexpr int kPasses = 9;
  pool.beginCall();
  const View counts = pool.outputOf(MOERT_I32, {1, kExperts});
  Call slice = callOf(Kind::SliceCounts, {pool.integers({1, kExperts}, [](int64_t) { return 1; }), counts});
  attributes::SliceCounts{.rows = kExperts}.set(slice);
  slice.members = 2;
  const Call product = makeRagged(pool, {false, false, kExperts, 1, kSize, kSize}, counts);
  std::vector<double> seconds, waits;
  for (int pass = 0; pass <= kPasses; ++pass) {
    MOERT_RETURN_IF_ERROR(bench.timeStep({}, {slice, product, product}, seconds));
    // From the second step on, counts move to the host as soon as they are written.
    if (pass > 0)
      waits.push_back(seconds.at(2) - seconds.at(3));
  }
  profile.countsSeconds = std::max(typical(std::move(waits)), 0.0);
  return {};
}

/// Measures the rate of products after some seconds of them, as a fraction of the rate at the beginning.
Status measureSustained(DeviceBench &bench, Pool &pool, const Settings &settings, Profile &profile) {
  constexpr int kCalls = 256;
  // Two operands and a result fit into the memory of one call.
  const int64_t size = settings.device.productSize / 2;
  std::vector<Call> calls;
  for (int i = 0; i < kCalls; ++i)
    calls.push_back(makeDense(pool, {size, size, size}));
  double first = 0, last = 0;
  const auto begin = std::chrono::steady_clock::now();
  // The first step also prepares the library.
  for (int step = 0; step < 3 || std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
                                     settings.device.sustainedSeconds;
       ++step) {
    std::vector<double> seconds;
    MOERT_RETURN_IF_ERROR(bench.timeStep({}, calls, seconds));
    seconds.erase(seconds.begin());
    last = typical(std::move(seconds));
    first = step == 1 ? last : first;
  }
  profile.sustained = std::min(1.0, first / last);
  return {};
}

/// Measures copies between the device's memory and the host's, in both directions.
Status measureHostLink(DeviceBench &bench, const Settings &settings, Profile &profile) {
  const int64_t most = settings.device.copyBytes;
  void *onDevice = nullptr, *onHost = nullptr;
  MOERT_RETURN_IF_ERROR(bench.allocateIn(MOERT_SPACE_DEVICE, most, onDevice));
  MOERT_RETURN_IF_ERROR(bench.allocateIn(MOERT_SPACE_HOST_PINNED, most, onHost));
  std::vector<MakeCall> calls;
  std::vector<Sample> samples;
  for (int64_t bytes = 1 << 12; bytes <= most; bytes *= settings.quick ? 32 : 4)
    for (bool toHost : {true, false}) {
      calls.push_back([=] { return copyOf(toHost ? onDevice : onHost, toHost ? onHost : onDevice, bytes); });
      samples.push_back({static_cast<double>(bytes), 0});
    }
  std::vector<double> seconds;
  MOERT_RETURN_IF_ERROR(measureKernels(bench, calls, settings.quick ? 3 : 7, seconds, settings.progress, "host link"));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i].seconds = seconds[i];
  profile.hostLink = fitLine(samples);
  if (profile.hostLink->perByte <= 0)
    return Status::error(
        MOERT_ERROR_INTERNAL,
        "the times of copies to and from the host do not grow with their size: too much else runs on this machine");
  return {};
}

/// Measures products, kernels and copies of the device itself.
Status measureDevice(DeviceBench &bench, const Settings &settings, Profile &profile) {
  Pool pool;
  for (int32_t dtype : {MOERT_F32, MOERT_BF16, MOERT_F16}) {
    MOERT_RETURN_IF_ERROR(pool.create(bench, dtype));
    if (dtype == MOERT_F32) {
      MOERT_RETURN_IF_ERROR(measureDeviceLaunches(bench, pool, profile));
      MOERT_RETURN_IF_ERROR(measureCountsWait(bench, pool, profile));
      MOERT_RETURN_IF_ERROR(measureMemory(pool, settings, profile.memoryBytesPerSecond));
    }
    MOERT_RETURN_IF_ERROR(calibrateProducts(pool, settings, profile.rates.emplace_back()));
    MOERT_RETURN_IF_ERROR(calibrateAttention(pool, settings, profile.rates.back(), profile.attention));
    MOERT_RETURN_IF_ERROR(calibrateKernels(pool, settings, profile.kernels));
    if (dtype == MOERT_BF16)
      MOERT_RETURN_IF_ERROR(measureSustained(bench, pool, settings, profile));
  }
  return measureHostLink(bench, settings, profile);
}

/// Name of a profile: lower-case letters, digits and dashes.
std::string profileName(const std::string &device) {
  std::string name;
  for (char c : device)
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  return name;
}

Status describe(Device &device, const ProcessPlace &place, const Settings &settings, Profile &profile) {
  int64_t bytes = 0;
  profile.deviceName = "GPU";
  MOERT_RETURN_IF_ERROR(device.describe(profile.deviceName, bytes));
  const bool isShared = settings.backend == "cuda-loopback";
  profile.name = profileName(profile.deviceName) + (isShared ? "-loopback" : "");
  profile.memoryBytes = static_cast<double>(bytes);
  profile.source = measuredOn(settings, profile.deviceName);
  if (isShared) {
    profile.description = "Ranks of cuda-loopback that share one " + profile.deviceName;
    profile.processors = 1;
    profile.speeds = {{1}, {1}, {1}};
    return {};
  }
  profile.nodes = place.size / place.localSize;
  profile.devicesPerNode = place.localSize;
  profile.processors = 0;
  profile.description =
      std::to_string(profile.nodes) + " x " + std::to_string(profile.devicesPerNode) + " " + profile.deviceName +
      (place.size > 1 ? ", links by what collectives take" : ", alone: neither links nor collectives were measured");
  return {};
}

} // namespace

std::string identityOf(const ProcessPlace &place, const Settings &settings, const std::vector<Group> &groups) {
  // A profile has nodes of equal size, and the ranks of a node are consecutive.
  const bool isInOrder = place.rank % place.localSize == place.localRank;
  std::string text = "moe-calibrate" + std::string(settings.quick ? " --quick" : "") + "\n" +
                     "processes on a machine: " + std::to_string(place.localSize) + "\n" + "ranks of a machine " +
                     (isInOrder ? "follow each other" : "do not follow each other") + "\ngroups:";
  for (const Group &group : groups)
    text += " " + group.name;
  return text;
}

Status calibrateDevice(const Settings &settings, Profile &profile) {
  ProcessPlace place;
  const bool isShared = settings.backend == "cuda-loopback";
  if (!isShared)
    MOERT_RETURN_IF_ERROR(readProcessPlace(ownEnvironment, place));
  RanksOptions options{settings.backend, place.size, 1, settings.device.arenaBytes,
                       allGroups(place.size, place.localSize)};
  options.identity = identityOf(place, settings, options.groups);
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create(options, ranks));
  // All processes agree on their place.
  if (place.size % place.localSize != 0)
    return invalid("expected the same number of processes on each machine, but " + std::to_string(place.localSize) +
                   " of " + std::to_string(place.size) + " run on this one");
  MOERT_RETURN_IF_ERROR(describe(ranks->device(), place, settings, profile));
  std::unique_ptr<DeviceBench> bench;
  MOERT_RETURN_IF_ERROR(DeviceBench::create(*ranks, options.arenaBytes, settings.device.coldBytes, bench));
  MOERT_RETURN_IF_ERROR(measureDevice(*bench, settings, profile));
  if (isShared) {
    MOERT_RETURN_IF_ERROR(calibrateShares(settings, profile.exchanges));
  } else {
    MOERT_RETURN_IF_ERROR(calibrateGroups(*bench, options.groups, place.localSize, settings, profile.exchanges));
    std::optional<size_t> all;
    for (size_t g = 0; g < options.groups.size(); ++g)
      if (options.groups[g].size == place.size)
        all = g;
    MOERT_RETURN_IF_ERROR(calibrateInterference(*bench, settings, all, profile.interference));
  }
  // Reads the memory last: the driver, the libraries and the communicators allocate until everything has run.
  int64_t bytes = 0;
  Status status = ranks->device().otherBytes(bytes);
  profile.reservedBytes = static_cast<double>(bytes);
  return status;
}

} // namespace moert::calibrate
