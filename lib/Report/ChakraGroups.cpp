//===- ChakraGroups.cpp - communicators of a trace ------------------------===//
#include "ChakraGroups.h"

#include "llvm/Support/JSON.h"

#include <set>

using namespace mlir::moe;
using llvm::StringRef;

ExchangeForm mlir::moe::getExchangeForm(const SimWorld &world, uint32_t program, uint32_t index) {
  const LinkedLaunch &linked = world.linked[program].launches[index];
  if (!linked.exchanges() || world.groups[linked.group].size == 1)
    return ExchangeForm::None;
  if (world.groups[linked.group].isChannel())
    return ExchangeForm::Channel;
  return world.programs[program].launches[index].cost.phases > 1 ? ExchangeForm::Phase : ExchangeForm::Collective;
}

static StringRef getStreamName(const SimWorld &world, int64_t rank, uint32_t launch) {
  const SimProgram &program = world.getProgram(rank);
  return program.streams[program.launches[launch].stream];
}

ChakraGroups::Key ChakraGroups::getKey(const SimWorld &world, int64_t rank, uint32_t launch) {
  MeetingId id = world.getMeeting(rank, launch);
  return {{id.group, id.instance}, getStreamName(world, rank, launch).str()};
}

int64_t ChakraGroups::getId(const SimWorld &world, int64_t rank, uint32_t launch) const {
  return ids.at(getKey(world, rank, launch));
}

void ChakraGroups::add(const SimWorld &world, int64_t rank, uint32_t launch) {
  if (!ids.try_emplace(getKey(world, rank, launch), getCount() + 1).second)
    return;
  MeetingId id = world.getMeeting(rank, launch);
  std::vector<int64_t> &ranks = members.emplace_back();
  for (int64_t member = 0; member < world.groups[id.group].size; ++member)
    ranks.push_back(world.getRank(id, member));
}

/// Finds a launch of each communicator of the ranks of a program.
static std::vector<uint32_t> findCommunicators(const SimWorld &world, uint32_t program) {
  std::set<std::pair<int32_t, uint32_t>> seen; // group and stream
  std::vector<uint32_t> found;
  for (auto [index, launch] : llvm::enumerate(world.linked[program].launches))
    if (getExchangeForm(world, program, index) == ExchangeForm::Collective &&
        seen.insert({launch.group, launch.stream}).second)
      found.push_back(index);
  return found;
}

/// Checks that two programs come to the same collectives of a group on streams of the same names.
static llvm::Error checkStreams(const SimWorld &world, uint32_t group, int64_t rank, int64_t other) {
  llvm::ArrayRef<uint32_t> meetings = world.getLinked(rank).meetings[group];
  llvm::ArrayRef<uint32_t> others = world.getLinked(other).meetings[group];
  for (auto [launch, otherLaunch] : llvm::zip(meetings, others)) {
    StringRef name = getStreamName(world, rank, launch), otherName = getStreamName(world, other, otherLaunch);
    if (name != otherName)
      return makeLaunchError(world.getProgram(other), otherLaunch,
                             "expected stream '" + name + "', on which rank " + llvm::Twine(rank) +
                                 " takes part, but got '" + otherName +
                                 "': the collectives of a Chakra trace have one order for all members");
  }
  return llvm::Error::success();
}

llvm::Expected<ChakraGroups> ChakraGroups::create(const SimWorld &world) {
  ChakraGroups groups;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> compared; // group, and programs of two members
  for (uint32_t program = 0; program < world.programs.size(); ++program) {
    const SimProgram &its = world.programs[program];
    for (uint32_t launch : findCommunicators(world, program))
      for (int64_t rank = its.firstRank; rank < its.firstRank + its.numRanks; ++rank) {
        groups.add(world, rank, launch);
        MeetingId id = world.getMeeting(rank, launch);
        int64_t first = world.getRank(id, 0);
        if (compared.insert({id.group, world.programOfRank[first], program}).second)
          if (llvm::Error error = checkStreams(world, id.group, first, rank))
            return error;
      }
  }
  return groups;
}

void ChakraGroups::write(llvm::raw_ostream &os) const {
  llvm::json::OStream json(os);
  json.object([&] {
    for (auto [index, ranks] : llvm::enumerate(members))
      json.attributeArray(std::to_string(index + 1), [&] {
        for (int64_t rank : ranks)
          json.value(rank);
      });
  });
  os << "\n";
}
