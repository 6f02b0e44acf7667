//===- Routings.cpp - the routing ops of programs --------------------------===//

#include "core/Routings.h"
#include "core/Error.h"

#include <algorithm>

namespace moert {
namespace {

/// A device that runs nothing and notes the calls that route.
class RoutingDevice final : public Device {
public:
  RoutingDevice(const Program &program, std::vector<moert_routing> &routings) : program(program), routings(routings) {}

  Status checkAvailable(int64_t, const std::string &) override { return {}; }
  Status allocate(int64_t, int32_t, int64_t, const std::string &, void *&) override { return unused(); }
  Status write(void *, const void *, int64_t) override { return unused(); }
  Status read(void *, const void *, int64_t) override { return unused(); }
  const std::vector<int64_t> &ranks() const override { return noRanks; }
  Status launch(int64_t, int64_t, const Call &call) override;
  Status record(int64_t, int64_t, int64_t) override { return {}; }
  Status wait(int64_t, int64_t, int64_t) override { return {}; }
  Status runStep(const std::function<Status(int64_t)> &, double) override { return unused(); }
  const std::vector<OpTime> &timeline(int64_t, int64_t) const override { return noTimes; }

private:
  static Status unused() { return Status::error(MOERT_ERROR_INTERNAL, "a program is only listed"); }

  const Program &program;
  std::vector<moert_routing> &routings;
  std::vector<int64_t> noRanks;
  std::vector<OpTime> noTimes;
};

class NoCommunicator final : public Communicator {
public:
  Status issue(int64_t, int64_t, Call) override { return {}; }
};

} // namespace

Status RoutingDevice::launch(int64_t, int64_t, const Call &call) {
  if (call.kind != Kind::Route)
    return {};
  const View &logits = call.views[0], &experts = call.views[3];
  if (logits.rank != 2 || experts.rank != 2)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected logits and experts of rank 2");
  auto isSame = [&](const moert_routing &other) { return other.op == call.op; };
  if (std::any_of(routings.begin(), routings.end(), isSame))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "expected each routing op once in a step");
  routings.push_back({call.op, logits.dims[0], logits.dims[1], experts.dims[1], program.firstRank, program.numRanks});
  return {};
}

static Status listProgram(const Program &program, const std::vector<Group> &groups, RankProgram entry,
                          std::vector<moert_routing> &routings) {
  RoutingDevice device(program, routings);
  NoCommunicator communicator;
  // Where all operands seem to lie: addresses are worked out from it, and nothing is read there.
  static char nowhere;
  moert_rank rank;
  rank.rank = program.firstRank;
  rank.device = &device;
  rank.communicator = &communicator;
  rank.program = &program;
  rank.groups = &groups;
  rank.arenas[0] = rank.arenas[1] = &nowhere;
  rank.values.assign(static_cast<size_t>(program.valueCount()), &nowhere);
  int32_t code = entry(&rank);
  return code == MOERT_OK ? Status{} : Status::error(code, lastError());
}

Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings) {
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    std::vector<moert_routing> found;
    if (Status status = listProgram(programs.programs[i], groups, programs.entries[i], found); !status.ok())
      return status;
    routings.insert(routings.end(), found.begin(), found.end());
  }
  return {};
}

} // namespace moert
