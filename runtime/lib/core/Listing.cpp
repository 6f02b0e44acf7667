//===- Listing.cpp - what programs call, without running them -------------===//

#include "core/Listing.h"
#include "core/Attributes.h"
#include "core/Error.h"

#include <algorithm>
#include <set>

namespace moert {
namespace {

using Visit = std::function<Status(const Call &)>;

/// A device that runs nothing.
class ListingDevice final : public Device {
public:
  ListingDevice(const Visit &visit, const EventVisit &events) : visit(visit), events(events) {}

  Status checkAvailable(int64_t, const std::string &) override { return {}; }
  Status allocate(int64_t, int32_t, int64_t, const std::string &, void *&) override { return unused(); }
  Status write(void *, const void *, int64_t) override { return unused(); }
  Status read(void *, const void *, int64_t) override { return unused(); }
  const std::vector<int64_t> &ranks() const override { return noRanks; }
  Status launch(int64_t, int64_t, const Call &call) override { return visit(call); }
  Status record(int64_t, int64_t event, int64_t stream) override {
    events.record(event, stream);
    return {};
  }
  Status wait(int64_t, int64_t event, int64_t stream) override {
    events.wait(event, stream);
    return {};
  }
  Status runStep(const std::function<Status(int64_t)> &, double) override { return unused(); }
  const std::vector<OpTime> &timeline(int64_t, int64_t) const override { return noTimes; }

private:
  static Status unused() { return Status::error(MOERT_ERROR_INTERNAL, "a program is only listed"); }

  const Visit &visit;
  const EventVisit &events;
  std::vector<int64_t> noRanks;
  std::vector<OpTime> noTimes;
};

class ListingCommunicator final : public Communicator {
public:
  explicit ListingCommunicator(const Visit &visit) : visit(visit) {}
  Status issue(int64_t, int64_t, Call call) override { return visit(call); }

private:
  const Visit &visit;
};

/// Address at which operands seem to lie, by moert_space. Other addresses are computed from it, and nothing is read
/// there.
char *nowhere(int32_t space) { return reinterpret_cast<char *>(static_cast<uintptr_t>(space + 1) << 56); }

} // namespace

std::optional<ArenaPlace> arenaPlaceOf(const View &view) {
  const char *data = static_cast<const char *>(view.data);
  const auto space = static_cast<int32_t>(reinterpret_cast<uintptr_t>(data) >> 56) - 1;
  if (space != MOERT_SPACE_DEVICE && space != MOERT_SPACE_HOST_PINNED)
    return std::nullopt;
  return ArenaPlace{space, data - nowhere(space)};
}

Status listCalls(const Program &program, const std::vector<Group> &groups, ProgramEntry entry, int64_t number,
                 const Visit &visit, const EventVisit &events) {
  ListingDevice device(visit, events);
  ListingCommunicator communicator(visit);
  moert_rank rank;
  rank.rank = number;
  rank.device = &device;
  rank.communicator = &communicator;
  rank.program = &program;
  rank.groups = &groups;
  for (int32_t space : {MOERT_SPACE_DEVICE, MOERT_SPACE_HOST_PINNED})
    rank.arenas[space] = nowhere(space);
  rank.values.assign(program.valueCount(), nowhere(MOERT_SPACE_ARGUMENT));
  int32_t code = entry(&rank);
  return code == MOERT_OK ? Status{} : Status::error(code, lastError());
}

Status listChannels(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<ChannelRanks> &channels) {
  std::set<ChannelRanks> found;
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const Program &program = programs.programs[i];
    auto visit = [&](const Call &call) -> Status {
      if (call.kind != Kind::Send)
        return {};
      const Group &group = groups[call.group];
      for (int64_t rank = program.firstRank; rank < program.firstRank + program.numRanks; ++rank)
        found.insert({rank, group.rankOf(group.instanceOf(rank), peerOf(call))});
      return {};
    };
    MOERT_RETURN_IF_ERROR(listCalls(program, groups, programs.entries[i], program.firstRank, visit));
  }
  channels.assign(found.begin(), found.end());
  return {};
}

static Status addRouting(const Program &program, const Call &call, std::vector<moert_routing> &routings) {
  const bool onlyCounts = call.kind == Kind::RouterMeans;
  if (call.kind != Kind::Route && !onlyCounts)
    return {};
  const View &logits = call.views[onlyCounts ? +operands::RouterMeans::logits : +operands::Route::logits];
  const View &experts = call.views[operands::Route::experts];
  if (logits.rank != 2 || (!onlyCounts && experts.rank != 2))
    return invalid("expected logits and experts of rank 2");
  const int64_t choices = onlyCounts ? attributes::RouterMeans::of(call).topK : experts.dims[1];
  auto ops = std::ssize(program.ops);
  auto before = std::count_if(routings.begin(), routings.end(),
                              [&](const moert_routing &other) { return other.op % ops == call.op; });
  routings.push_back({routingNumber(call.op, before, program.ops.size()), logits.dims[0], logits.dims[1], choices,
                      program.firstRank, program.numRanks, onlyCounts});
  return {};
}

Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings) {
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const Program &program = programs.programs[i];
    std::vector<moert_routing> found;
    auto visit = [&](const Call &call) { return addRouting(program, call, found); };
    MOERT_RETURN_IF_ERROR(listCalls(program, groups, programs.entries[i], program.firstRank, visit));
    routings.insert(routings.end(), found.begin(), found.end());
  }
  return {};
}

} // namespace moert
