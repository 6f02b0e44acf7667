//===- Ranks.cpp - a small world of ranks to measure ----------------------===//

#include "calibrate/Ranks.h"
#include "calibrate/Measure.h"
#include "core/Error.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace moert::calibrate {

/// Byte of all values: 0.747 as f32 and 4.8e-4 as f64. Sums of such values over many ranks stay ordinary numbers.
constexpr char kPattern = 0x3f;

Status Ranks::create(const RanksOptions &options, std::unique_ptr<Ranks> &result) {
  result.reset(new Ranks);
  result->groups = options.groups;
  if (options.groups.empty())
    result->groups = {{"all", options.ranks, 1}};
  for (const Group &group : result->groups)
    result->abiGroups.push_back({group.name.c_str(), group.size, group.stride});
  Program &program = result->program;
  program.numRanks = options.ranks;
  program.streams = {"compute", "comm", "copy"};
  program.events = 2;
  program.arenaBytes[MOERT_SPACE_DEVICE] = options.arenaBytes;
  program.ops.resize(1 + result->groups.size());
  for (size_t g = 0; g < result->groups.size(); ++g) {
    program.ops[1 + g].stream = kMeet;
    program.ops[1 + g].group = static_cast<int64_t>(g);
  }
  BackendOptions device;
  device.workers = options.workers;
  device.identity = options.identity;
  MOERT_RETURN_IF_ERROR(
      createBackend(options.backend, {&program, 1}, result->groups, options.ranks, device, result->backend));
  result->ranks.resize(static_cast<size_t>(options.ranks));
  return result->allocate(options.arenaBytes);
}

Status Ranks::allocate(int64_t arenaBytes) {
  const auto local = static_cast<int64_t>(device().ranks().size());
  MOERT_RETURN_IF_ERROR(device().checkAvailable(arenaBytes * local, "calibrating " + std::to_string(local) + " ranks"));
  const std::vector<char> pattern(size_t(1) << 20, kPattern);
  for (int64_t r : device().ranks()) {
    moert_rank &rank = ranks[static_cast<size_t>(r)];
    rank.rank = r;
    rank.device = backend.device.get();
    rank.communicator = backend.communicator.get();
    rank.program = &program;
    rank.groups = &groups;
    void *arena = nullptr;
    MOERT_RETURN_IF_ERROR(device().allocate(r, MOERT_SPACE_DEVICE, arenaBytes, "an arena", arena));
    rank.arenas[MOERT_SPACE_DEVICE] = static_cast<char *>(arena);
    for (int64_t at = 0; at < arenaBytes; at += static_cast<int64_t>(pattern.size())) {
      int64_t bytes = std::min(arenaBytes - at, static_cast<int64_t>(pattern.size()));
      MOERT_RETURN_IF_ERROR(device().write(static_cast<char *>(arena) + at, pattern.data(), bytes));
    }
  }
  return {};
}

Status Ranks::agree(double &value) {
  if (!backend.processes)
    return {};
  auto *first = reinterpret_cast<char *>(&value);
  std::vector<char> bytes(first, first + sizeof value);
  Status status = backend.processes->broadcast(bytes);
  if (status.ok())
    std::copy_n(bytes.data(), std::min(bytes.size(), sizeof value), first);
  return status;
}

moert_buffer Ranks::buffer(int32_t dtype, int64_t offset, std::initializer_list<int64_t> dims) {
  moert_buffer buffer{};
  buffer.space = MOERT_SPACE_DEVICE;
  buffer.dtype = dtype;
  buffer.offset = offset;
  buffer.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), buffer.dims);
  return buffer;
}

int32_t Ranks::launchLittle(moert_rank_t rank, int64_t count) {
  moert_buffer value = buffer(MOERT_F32, 0, {1});
  int32_t code = MOERT_OK;
  for (int64_t i = 0; i < count && !code; ++i)
    code = moert_scale(rank, kCompute, &value, &value, 1, kCompute);
  return code;
}

Status Ranks::run(const std::function<int32_t(moert_rank_t)> &issue, StepTime &time) {
  std::atomic<int64_t> issued = 0;
  auto timed = [&](int64_t rank) -> Status {
    double begin = threadSeconds();
    int32_t code = issue(&ranks[static_cast<size_t>(rank)]);
    issued += static_cast<int64_t>((threadSeconds() - begin) * 1e9);
    return code == MOERT_OK ? Status{} : Status::error(code, lastError());
  };
  auto wall = std::chrono::steady_clock::now();
  double begin = processSeconds();
  Status status = backend.device->runStep(timed, 0);
  time.issue = static_cast<double>(issued) * 1e-9;
  time.work = processSeconds() - begin - time.issue;
  time.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  return status;
}

Status Ranks::measure(const std::function<int32_t(moert_rank_t)> &issue, int passes, StepTime &time) {
  std::vector<double> issued, worked, walls;
  for (int pass = 0; pass <= passes; ++pass) {
    MOERT_RETURN_IF_ERROR(run(issue, time));
    if (pass == 0)
      continue;
    issued.push_back(time.issue);
    worked.push_back(time.work);
    walls.push_back(time.wall);
  }
  time = {typical(std::move(issued)), typical(std::move(worked)), typical(std::move(walls))};
  return {};
}

} // namespace moert::calibrate
