//===- SimWorld.cpp - programs, checked and linked ------------------------===//
#include "moe/Simulator/SimWorld.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

std::string mlir::moe::describe(const SimProgram &program, uint32_t launch) {
  const SimLaunch &it = program.launches[launch];
  std::string text = "launch " + std::to_string(launch) + ", '" + it.kernel + "'";
  return it.label.empty() ? text : text + " (" + it.label + ")";
}

llvm::Error mlir::moe::makeLaunchError(const SimProgram &program, uint32_t launch, const llvm::Twine &what) {
  return llvm::createStringError(describe(program, launch) + ": " + what);
}

llvm::Error mlir::moe::addLaunch(llvm::Error error, const SimProgram &program, uint32_t launch) {
  return makeLaunchError(program, launch, llvm::toString(std::move(error)));
}

MeetingId SimWorld::getMeeting(int64_t rank, uint32_t launch) const {
  const LinkedLaunch &it = getLinked(rank).launches[launch];
  auto instance = static_cast<uint32_t>(groups[it.group].getInstance(rank));
  return {static_cast<uint32_t>(it.group), instance, it.meeting};
}

std::optional<uint32_t> SimWorld::getMeetingLaunch(int64_t rank, const MeetingId &id) const {
  llvm::ArrayRef<uint32_t> meetings = getLinked(rank).meetings[id.group];
  if (id.number >= meetings.size())
    return std::nullopt;
  return meetings[id.number];
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static llvm::Error checkGroup(const SimProgram &program, const SimGroup &group, int64_t ranks) {
  auto fail = [&](const llvm::Twine &expected) {
    return llvm::createStringError("program '" + program.name + "': group '" + group.name + "': expected " + expected);
  };
  auto isInside = [&](int64_t first) { return first >= 0 && group.span <= ranks && first <= ranks - group.span; };
  if (group.isChannel() &&
      !(group.size == 2 && std::abs(group.stride) >= group.span && std::abs(group.stride) < ranks &&
        isInside(group.first) && isInside(group.first + group.stride)))
    return fail("both members of a channel among " + llvm::Twine(ranks) + " ranks but got " + llvm::Twine(group.span) +
                " from " + llvm::Twine(group.first) + " and from " + llvm::Twine(group.first + group.stride));
  if (!group.isChannel() && !(group.size >= 1 && group.stride >= 1 && group.size <= ranks && group.stride <= ranks &&
                              ranks % (group.size * group.stride) == 0))
    return fail("size times stride to divide " + llvm::Twine(ranks) + " ranks but got " + llvm::Twine(group.size) +
                " times " + llvm::Twine(group.stride));
  return llvm::Error::success();
}

/// Whether a launch has a buffer of that number among its inputs or outputs.
static bool isThere(llvm::ArrayRef<int32_t> buffers, int64_t number) {
  return number >= 0 && number < static_cast<int64_t>(buffers.size()) && buffers[number] >= 0;
}

/// Returns an error if sizes violate an assumption of a rule; else an empty text.
static std::string getSizeError(const SimProgram &program, const SimLaunch &launch, const CountsRule &rule) {
  // Counts have type i32.
  constexpr int64_t mostChoices = std::numeric_limits<int32_t>::max();
  if (std::optional<counts::Route> routed = rule.getRouted(); routed && routed->tokens > mostChoices / routed->topK)
    return "expected at most " + std::to_string(mostChoices) + " choices but got " + std::to_string(routed->tokens) +
           " tokens with " + std::to_string(routed->topK) + " each";
  if (const auto *exchange = rule.getIf<counts::Exchange>())
    if (int64_t members = program.groups[launch.group].size; members % exchange->copies != 0)
      return "expected copies to divide the " + std::to_string(members) + " members but got " +
             std::to_string(exchange->copies);
  llvm::ArrayRef<int64_t> shape = program.buffers[launch.outputs[rule.output]].shape;
  if (const auto *route = rule.getIf<counts::RouteInGroups>())
    if (shape.empty() || shape.back() % route->groups != 0 || route->topGroups > route->groups ||
        route->topK > route->topGroups * (shape.back() / route->groups))
      return "expected equal groups of experts, of which " + std::to_string(route->topGroups) + " of " +
             std::to_string(route->groups) + " hold " + std::to_string(route->topK) + " choices";
  if (const auto *gate = rule.getIf<counts::RouteNearHome>())
    if (shape.empty() || shape.back() % gate->homes != 0 || gate->tokens % gate->groups != 0)
      return "expected homes to divide the experts, and groups the tokens, but got " + std::to_string(gate->homes) +
             " and " + std::to_string(gate->groups);
  return "";
}

/// Checks that the inputs, the outputs and the group that rules need exist.
static llvm::Error checkCounts(const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  for (const CountsRule &rule : launch.counts) {
    auto fail = [&](const llvm::Twine &what) {
      return makeLaunchError(program, index, "counts by rule '" + rule.getName() + "': " + what);
    };
    if (std::string error = rule.getError(); !error.empty())
      return fail(error);
    if (!isThere(launch.outputs, rule.output) ||
        llvm::any_of(rule.getInputs(), [&](int64_t input) { return !isThere(launch.inputs, input); }))
      return fail("expected an output and inputs that the launch has");
    Members members = rule.getMembers();
    if ((members == Members::Meet && launch.group < 0) || (members == Members::OwnPart && launch.partGroup < 0))
      return fail("expected a group");
    if (std::string error = getSizeError(program, launch, rule); !error.empty())
      return fail(error);
  }
  return llvm::Error::success();
}

static llvm::Error checkLaunch(const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  const OpCost &cost = launch.cost;
  auto fail = [&](const llvm::Twine &what) { return makeLaunchError(program, index, what); };
  auto isBuffer = [&](int32_t buffer) { return buffer >= -1 && buffer < static_cast<int64_t>(program.buffers.size()); };
  if (launch.stream >= program.streams.size())
    return fail("expected a stream below " + llvm::Twine(program.streams.size()));
  if (!llvm::all_of(launch.inputs, isBuffer) || !llvm::all_of(launch.outputs, isBuffer))
    return fail("expected buffers below " + llvm::Twine(program.buffers.size()));
  if (std::max(launch.group, launch.partGroup) >= static_cast<int64_t>(program.groups.size()))
    return fail("expected a group below " + llvm::Twine(program.groups.size()));
  if ((cost.resource == Resource::Network) != (cost.collective != Collective::None))
    return fail("expected a collective where the network is used, and only there");
  if (cost.resource == Resource::Network && launch.group < 0)
    return fail("expected a group whose members exchange data");
  if (launch.group >= 0 && cost.resource != Resource::Network && cost.resource != Resource::None)
    return fail("expected a collective to use the network or nothing");
  if (launch.group >= 0 && (cost.root < 0 || cost.root >= program.groups[launch.group].size))
    return fail("expected the root to be a member of the group");
  if (cost.raggedRows < 0 || (cost.raggedRows > 0 && !isThere(launch.inputs, cost.countsInput)))
    return fail("expected a ragged launch to have the counts of its rows among its inputs");
  bool needsPeers = cost.raggedRows > 0 && cost.collective == Collective::AllToAll;
  if (needsPeers && cost.peerDim != 0 && cost.peerDim != 1)
    return fail("expected the counts' dimension by members to be 0 or 1 but got " + llvm::Twine(cost.peerDim));
  if (cost.copies < 1 || (needsPeers && program.groups[launch.group].size % cost.copies != 0))
    return fail("expected copies to divide the members but got " + llvm::Twine(cost.copies));
  bool isPhase = cost.phases >= 1 && cost.phase >= 0 && cost.phase < cost.phases;
  bool isExchange = cost.collective == Collective::AllToAll;
  // All holders of an expert are in one block.
  if (!isPhase ||
      (cost.phases > 1 && (!isExchange || program.groups[launch.group].size / cost.copies % cost.phases != 0)))
    return fail("expected phases of an all_to_all, in a number that divides its members, but got phase " +
                llvm::Twine(cost.phase) + " of " + llvm::Twine(cost.phases));
  bool finite =
      cost.flops >= 0 && cost.flops < 1e300 && cost.bytesRead >= 0 && cost.bytesWritten >= 0 && cost.payload >= 0;
  if (!finite)
    return fail("expected finite figures that are not negative");
  return checkCounts(program, index);
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

using Launches = llvm::SmallVector<uint32_t, 2>;

/// Adds a launch to wait for. The later launch of a stream ends later, so it is enough.
static void awaitLaunch(const SimProgram &program, Launches &to, uint32_t launch) {
  uint32_t stream = program.launches[launch].stream;
  auto *known = llvm::find_if(to, [&](uint32_t other) { return program.launches[other].stream == stream; });
  if (known == to.end())
    to.push_back(launch);
  else
    *known = std::max(*known, launch);
}

/// Finds the launches that each launch waits for.
static llvm::Error linkLaunches(const SimProgram &program, LinkedProgram &linked) {
  /// Launches that must end before the next op, by stream. After a launch, only that launch.
  std::vector<Launches> pending(program.streams.size());
  /// Launches that the last record of an event stands for, by event.
  llvm::DenseMap<uint32_t, Launches> events;
  for (const SimOp &op : program.ops) {
    Launches &before = pending[op.stream];
    if (op.kind == SimOp::Kind::Launch) {
      assert(program.launches[op.index].stream == op.stream && "each launch has an op on its stream");
      for (uint32_t dep : before)
        linked.launches[dep].successors.push_back(op.index);
      linked.launches[op.index].deps = before;
      before.assign(1, op.index);
    } else if (op.kind == SimOp::Kind::Record) {
      events[op.index] = before;
    } else {
      auto event = events.find(op.index);
      if (event == events.end())
        return llvm::createStringError("program '" + program.name + "': stream '" + program.streams[op.stream] +
                                       "' waits for event " + llvm::Twine(op.index) +
                                       ", which was not recorded before");
      for (uint32_t launch : event->second)
        awaitLaunch(program, before, launch);
    }
  }
  return llvm::Error::success();
}

/// Index in SimWorld::groups of a program's group.
static int32_t addGroup(SimWorld &world, const SimGroup &group) {
  auto isSame = [&](const SimGroup &other) {
    return other.size == group.size && other.stride == group.stride && other.first == group.first &&
           other.span == group.span;
  };
  auto found = llvm::find_if(world.groups, isSame);
  if (found != world.groups.end())
    return static_cast<int32_t>(found - world.groups.begin());
  world.groups.push_back(group);
  return static_cast<int32_t>(world.groups.size()) - 1;
}

static void linkMeetings(SimWorld &world, const SimProgram &program, LinkedProgram &linked) {
  llvm::SmallVector<int32_t> numbers;
  for (const SimGroup &group : program.groups)
    numbers.push_back(addGroup(world, group));
  linked.meetings.resize(world.groups.size());
  for (auto [index, launch] : llvm::enumerate(program.launches)) {
    LinkedLaunch &it = linked.launches.emplace_back();
    it.stream = launch.stream;
    it.resource = launch.cost.resource;
    if (launch.group < 0)
      continue;
    it.group = numbers[launch.group];
    it.meeting = linked.meetings[it.group].size();
    linked.meetings[it.group].push_back(index);
  }
}

llvm::Expected<SimWorld> SimWorld::create(llvm::ArrayRef<SimProgram> programs, int64_t ranks) {
  SimWorld world;
  world.programs = programs;
  if (llvm::Error error = checkRanks(programs, ranks))
    return error;
  for (auto [index, program] : llvm::enumerate(programs)) {
    world.programOfRank.insert(world.programOfRank.end(), program.numRanks, index);
    for (const SimGroup &group : program.groups)
      if (llvm::Error error = checkGroup(program, group, ranks))
        return error;
    for (uint32_t launch = 0; launch < program.launches.size(); ++launch)
      if (llvm::Error error = checkLaunch(program, launch))
        return error;
    LinkedProgram &linked = world.linked.emplace_back();
    linkMeetings(world, program, linked);
    if (llvm::Error error = linkLaunches(program, linked))
      return error;
    world.numStreams = std::max<uint32_t>(world.numStreams, program.streams.size());
  }
  for (LinkedProgram &linked : world.linked)
    linked.meetings.resize(world.groups.size());
  return world;
}
