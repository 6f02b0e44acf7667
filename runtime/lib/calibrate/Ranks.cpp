//===- Ranks.cpp - a small world of ranks to measure ----------------------===//

#include "calibrate/Ranks.h"
#include "calibrate/Measure.h"
#include "core/Error.h"
#include "host/HostBackend.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace moert::calibrate {

/// 0.747 as f32 and 4.8e-4 as f64: ordinary numbers, whose sums over many ranks stay so.
constexpr int kPattern = 0x3f;

Status Ranks::create(int64_t size, int64_t workers, int64_t arenaBytes, std::unique_ptr<Ranks> &result) {
  result.reset(new Ranks);
  Program &program = result->program;
  program.streams = {"compute", "comm"};
  program.events = 2;
  program.arenaBytes[MOERT_SPACE_DEVICE] = arenaBytes;
  program.ops.resize(2);
  program.ops[kMeet].stream = kMeet;
  program.ops[kMeet].group = 0;
  result->groups = {{"all", size, 1}};
  result->abiGroup = {"all", size, 1};
  BackendOptions options;
  options.workers = workers;
  result->backend = host::createHostBackend({&program, 1}, result->groups, size, options);
  result->ranks.resize(static_cast<size_t>(size));
  return result->allocate(arenaBytes);
}

Status Ranks::allocate(int64_t arenaBytes) {
  Device &device = *backend.device;
  if (Status status = device.checkAvailable(arenaBytes * size(), "calibrating " + std::to_string(size()) + " ranks");
      !status.ok())
    return status;
  for (size_t r = 0; r < ranks.size(); ++r) {
    moert_rank &rank = ranks[r];
    rank.rank = static_cast<int64_t>(r);
    rank.device = backend.device.get();
    rank.communicator = backend.communicator.get();
    rank.program = &program;
    rank.groups = &groups;
    void *arena = nullptr;
    if (Status status = device.allocate(rank.rank, MOERT_SPACE_DEVICE, arenaBytes, "an arena", arena); !status.ok())
      return status;
    rank.arenas[MOERT_SPACE_DEVICE] = static_cast<char *>(arena);
    std::memset(arena, kPattern, static_cast<size_t>(arenaBytes));
  }
  return {};
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

Status Ranks::run(const std::function<int32_t(moert_rank_t)> &issue, StepTime &time) {
  std::atomic<int64_t> issued = 0;
  auto timed = [&](int64_t rank) -> Status {
    double begin = threadSeconds();
    int32_t code = issue(&ranks[static_cast<size_t>(rank)]);
    issued += static_cast<int64_t>((threadSeconds() - begin) * 1e9);
    return code == MOERT_OK ? Status{} : Status::error(code, lastError());
  };
  double begin = processSeconds();
  Status status = backend.device->runStep(timed, 0);
  time.issue = static_cast<double>(issued) * 1e-9;
  time.work = processSeconds() - begin - time.issue;
  return status;
}

Status Ranks::measure(const std::function<int32_t(moert_rank_t)> &issue, int passes, StepTime &time) {
  std::vector<double> issued, worked;
  for (int pass = 0; pass <= passes; ++pass) {
    if (Status status = run(issue, time); !status.ok())
      return status;
    if (pass == 0)
      continue;
    issued.push_back(time.issue);
    worked.push_back(time.work);
  }
  time = {typical(std::move(issued)), typical(std::move(worked))};
  return {};
}

} // namespace moert::calibrate
