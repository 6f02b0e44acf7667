//===- HostClock.cpp - issue of launches by hosts -------------------------===//
#include "HostClock.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

/// The host passes the sizes of products and exchanges to libraries.
static bool hasHostSizes(const SimLaunch &launch) {
  return launch.cost.countsInput >= 0 &&
         (launch.cost.resource == Resource::Matrix || launch.cost.resource == Resource::Network);
}

HostProgram::HostProgram(const SimProgram &program, const HostIssue &host) {
  auto getBase = [&](int32_t buffer) {
    return program.buffers[buffer].base < 0 ? buffer : program.buffers[buffer].base;
  };
  std::vector<int32_t> writers(program.buffers.size(), -1);
  double seconds = 0;
  for (auto [index, launch] : llvm::enumerate(program.launches)) {
    issued.push_back(seconds += host.getLaunchSeconds(launch.kernel, launch.cost.resource));
    auto wait = [&, reader = static_cast<uint32_t>(index)](int32_t writer) {
      if (writer >= 0 && waitFor.try_emplace(writer, waits.size()).second)
        waits.push_back({reader, static_cast<uint32_t>(writer)});
    };
    if (host.countsSeconds && hasHostSizes(launch))
      wait(writers[getBase(launch.inputs[launch.cost.countsInput])]);
    for (int32_t input : launch.inputs)
      if (int32_t writer = input < 0 ? -1 : writers[getBase(input)];
          writer >= 0 && host.awaited.contains(program.launches[writer].kernel))
        wait(writer);
    for (int32_t output : launch.outputs)
      if (output >= 0)
        writers[getBase(output)] = static_cast<int32_t>(index);
  }
}

double mlir::moe::getIssueSeconds(llvm::ArrayRef<SimLaunch> launches, const HostIssue &host) {
  double seconds = 0;
  for (const SimLaunch &launch : launches)
    seconds += host.getLaunchSeconds(launch.kernel, launch.cost.resource);
  return seconds;
}

HostClock::HostClock(const HostProgram &program, double countsSeconds)
    : program(&program), countsSeconds(countsSeconds), states(program.waits.size()) {}

std::optional<double> HostClock::getIssued(uint32_t launch) const {
  if (isWaiting() && launch >= program->waits[next].launch)
    return std::nullopt;
  auto passed = llvm::ArrayRef(program->waits).take_front(next);
  size_t before = llvm::partition_point(passed, [&](const HostProgram::Wait &wait) { return wait.launch <= launch; }) -
                  passed.begin();
  return program->issued[launch] + getDelay(before);
}

bool HostClock::end(uint32_t launch, double now, int32_t time) {
  auto wait = program->waitFor.find(launch);
  if (wait == program->waitFor.end())
    return false;
  states[wait->second] = {now, time};
  size_t first = next;
  for (; isWaiting() && states[next].time >= 0; ++next) {
    State &state = states[next];
    uint32_t before = program->waits[next].launch;
    double reached = getDelay(next) + (before > 0 ? program->issued[before - 1] : 0);
    double late = std::max(0.0, state.counted + countsSeconds - reached);
    state.delay = getDelay(next) + late;
    if (late > 0)
      cause = state.time;
  }
  return next > first;
}
