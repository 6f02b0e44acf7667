//===- Chakra.cpp - a step as Chakra execution traces ---------------------===//
//
// Attributes have the types that both readers of the format accept: the older one of Chakra (src/feeder) reads only one
// field of each attribute, and the newer one of ASTRA-sim (feeder_v3) converts between integers. All dependencies are
// data_deps, since the older reader knows no others.
//
//===----------------------------------------------------------------------===//
#include "moe/Report/Chakra.h"

#include "chakra.pb.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/LEB128.h"

#include <cmath>
#include <set>

using namespace mlir::moe;
namespace chakra = ::moe_chakra;
using chakra::AttributeProto;
using chakra::Node;
using llvm::Twine;

/// Version that MLCommons' own generators write.
static constexpr const char *schemaVersion = "0.0.4";
/// Shortest wait in seconds; less is the rounding of sums.
static constexpr double leastWait = 1e-9;

/// Rounds begins and ends instead of durations, which keeps errors from adding up along a stream.
static uint64_t toMicros(double seconds) { return std::llround(seconds * 1e6); }

namespace {
/// Form in which a launch takes place between ranks.
enum class ExchangeForm {
  None,       ///< no other rank takes part
  Channel,    ///< one rank sends, and one receives
  Phase,      ///< a part of an all_to_all, in which members send to some of the others
  Collective, ///< all members of a group take part in one operation
};
} // namespace

static ExchangeForm getExchangeForm(const SimWorld &world, uint32_t program, uint32_t index) {
  const LinkedLaunch &linked = world.linked[program].launches[index];
  if (!linked.exchanges() || world.groups[linked.group].size == 1)
    return ExchangeForm::None;
  if (world.groups[linked.group].isChannel())
    return ExchangeForm::Channel;
  return world.programs[program].launches[index].cost.phases > 1 ? ExchangeForm::Phase : ExchangeForm::Collective;
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

static llvm::StringRef getStreamName(const SimWorld &world, int64_t rank, uint32_t launch) {
  const SimProgram &program = world.getProgram(rank);
  return program.streams[program.launches[launch].stream];
}

std::pair<ChakraTraces::Instance, std::string> ChakraTraces::getGroupKey(int64_t rank, uint32_t launch) const {
  MeetingId id = world.getMeeting(rank, launch);
  return {{id.group, id.instance}, getStreamName(world, rank, launch).str()};
}

void ChakraTraces::addGroup(int64_t rank, uint32_t launch) {
  if (!groupIds.try_emplace(getGroupKey(rank, launch), groupMembers.size() + 1).second)
    return;
  MeetingId id = world.getMeeting(rank, launch);
  std::vector<int64_t> &ranks = groupMembers.emplace_back();
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
    llvm::StringRef name = getStreamName(world, rank, launch), otherName = getStreamName(world, other, otherLaunch);
    if (name != otherName)
      return makeLaunchError(world.getProgram(other), otherLaunch,
                             "expected stream '" + name + "', on which rank " + Twine(rank) + " takes part, but got '" +
                                 otherName + "': the collectives of a Chakra trace have one order for all members");
  }
  return llvm::Error::success();
}

llvm::Error ChakraTraces::findGroups() {
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> compared; // group, and programs of two members
  for (auto [program, its] : llvm::enumerate(world.programs))
    for (uint32_t launch : findCommunicators(world, program))
      for (int64_t rank = its.firstRank; rank < its.firstRank + its.numRanks; ++rank) {
        addGroup(rank, launch);
        MeetingId id = world.getMeeting(rank, launch);
        int64_t first = world.getRank(id, 0);
        if (compared.insert({id.group, world.programOfRank[first], program}).second)
          if (llvm::Error error = checkStreams(world, id.group, first, rank))
            return error;
      }
  return llvm::Error::success();
}

void ChakraTraces::writeGroups(llvm::raw_ostream &os) const {
  llvm::json::OStream json(os);
  json.object([&] {
    for (auto [index, ranks] : llvm::enumerate(groupMembers))
      json.attribute(std::to_string(index + 1), ranks);
  });
  os << "\n";
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

llvm::Expected<ChakraTraces> ChakraTraces::create(const SimHeader &header, const SimResult &step) {
  int64_t ranks = 0;
  for (const SimRank &rank : step.ranks)
    ranks += rank.count;
  llvm::Expected<SimWorld> world = SimWorld::create(step.programs, ranks);
  if (!world)
    return world.takeError();
  ChakraTraces traces(header, step, std::move(*world));
  if (llvm::Error error = traces.findGroups())
    return error;
  for (const SimRank &rank : step.ranks)
    traces.classes.emplace_back(step.programs[rank.program].launches.size());
  for (const SimTime &time : step.times)
    traces.classes[time.rank][time.launch].time = &time;
  for (uint32_t index = 0; index < traces.classes.size(); ++index)
    traces.findHostWaits(index);
  for (uint32_t index = 0; index < traces.classes.size(); ++index)
    traces.numberNodes(index);
  return traces;
}

/// Time at which all that the launch depends on has ended.
double ChakraTraces::getReady(uint32_t rankClass, uint32_t launch) const {
  double ready = 0;
  for (uint32_t dep : world.linked[step.ranks[rankClass].program].launches[launch].deps)
    ready = std::max(ready, classes[rankClass][dep].time->end);
  return ready;
}

/// The same for all members of an exchange, which begins with the last one.
double ChakraTraces::getReadyOfAll(uint32_t rankClass, uint32_t launch) const {
  const SimRank &rank = step.ranks[rankClass];
  if (getExchangeForm(world, rank.program, launch) == ExchangeForm::None)
    return getReady(rankClass, launch);
  MeetingId id = world.getMeeting(rank.rank, launch);
  double ready = 0;
  for (int64_t member = 0; member < world.groups[id.group].size; ++member) {
    int64_t its = world.getRank(id, member);
    ready = std::max(ready, getReady(getClass(its), *world.getMeetingLaunch(its, id)));
  }
  return ready;
}

/// Finds waits: a launch that begins later than it is ready has waited for its host. The simulator knows the launch
/// that the host had waited for. From its end on, or from the end of the host's work before, the host was busy.
void ChakraTraces::findHostWaits(uint32_t rankClass) {
  double hostEnd = 0;
  for (auto [launch, traced] : llvm::enumerate(classes[rankClass])) {
    const SimTime *time = traced.time;
    auto isLate = [&](double ready) { return time->begin - ready >= leastWait; };
    if (!isLate(std::max(hostEnd, getReady(rankClass, launch))) || !isLate(getReadyOfAll(rankClass, launch)))
      continue;
    HostWait wait{hostEnd, time->begin, -1};
    if (time->cause >= 0)
      if (const SimTime &cause = step.times[time->cause];
          cause.rank == rankClass && cause.launch < launch && cause.end <= time->begin) {
        wait.after = static_cast<int32_t>(cause.launch);
        wait.begin = std::max(wait.begin, cause.end);
      }
    traced.host = wait;
    hostEnd = time->begin;
  }
}

void ChakraTraces::numberNodes(uint32_t rankClass) {
  uint64_t next = 0;
  for (auto [launch, traced] : llvm::enumerate(classes[rankClass])) {
    traced.firstNode = next + (traced.host ? 1 : 0);
    traced.numNodes = std::max<size_t>(1, getTransfers(step.ranks[rankClass].rank, launch).size());
    next = traced.firstNode + traced.numNodes;
  }
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

uint32_t ChakraTraces::getClass(int64_t rank) const {
  // A class has consecutive ranks.
  auto next = llvm::partition_point(step.ranks, [&](const SimRank &it) { return it.rank <= rank; });
  return next - step.ranks.begin() - 1;
}

/// Share of a ragged launch's rows that a rank uses; 1 for others.
double ChakraTraces::getUse(int64_t rank, uint32_t launch) const {
  int64_t most = world.getLaunch(rank, launch).cost.raggedRows;
  if (most == 0)
    return 1;
  return static_cast<double>(getTraced(rank, launch).time->rows) / static_cast<double>(most);
}

/// Size of a collective as ASTRA-sim defines it: the bytes of a member. Members have the same size there, so a ragged
/// collective takes that of the member with the most rows. A size of 0 would never end.
int64_t ChakraTraces::getCollectiveBytes(int64_t rank, uint32_t launch) const {
  const OpCost &cost = world.getLaunch(rank, launch).cost;
  MeetingId id = world.getMeeting(rank, launch);
  int64_t members = world.groups[id.group].size;
  double payload =
      static_cast<double>(cost.payload) / static_cast<double>(cost.collective == Collective::AllGather ? members : 1);
  if (cost.raggedRows == 0)
    return std::max<int64_t>(1, std::llround(payload));
  auto [known, isNew] = knownBytes.try_emplace({{id.group, id.instance}, id.number});
  if (!isNew)
    return known->second;
  double use = 0;
  for (int64_t member = 0; member < members; ++member) {
    int64_t other = world.getRank(id, member);
    use = std::max(use, getUse(other, *world.getMeetingLaunch(other, id)));
  }
  return known->second = std::max<int64_t>(1, std::llround(use * payload));
}

/// Transfers of a launch; none of a collective, or without another rank.
std::vector<ChakraTraces::Transfer> ChakraTraces::getTransfers(int64_t rank, uint32_t launch) const {
  ExchangeForm form = getExchangeForm(world, world.programOfRank[rank], launch);
  if (form != ExchangeForm::Channel && form != ExchangeForm::Phase)
    return {};
  MeetingId id = world.getMeeting(rank, launch);
  const SimGroup &group = world.groups[id.group];
  const OpCost &cost = world.getLaunch(rank, launch).cost;
  int64_t own = group.getMember(rank);
  if (form == ExchangeForm::Channel)
    return {{group.isSender(rank), world.getRank(id, 1 - own), cost.payload}};
  auto getBytes = [&](int64_t from, int64_t to) {
    int64_t sender = world.getRank(id, from);
    double use = getUse(sender, *world.getMeetingLaunch(sender, id));
    return std::llround(use * static_cast<double>(cost.getBytesToPeer(group.size, from, to)));
  };
  std::vector<Transfer> transfers;
  for (int64_t other = 0; other < group.size; ++other) {
    if (other == own)
      continue;
    if (cost.isPeer(group.size, own, other))
      transfers.push_back({true, world.getRank(id, other), getBytes(own, other)});
    if (cost.isPeer(group.size, other, own))
      transfers.push_back({false, world.getRank(id, other), getBytes(other, own)});
  }
  return transfers;
}

/// Tag of a transfer, the same for both ends, and different for each meeting of two ranks.
int64_t ChakraTraces::getTag(int64_t rank, uint32_t launch) const {
  MeetingId id = world.getMeeting(rank, launch);
  return static_cast<int64_t>(id.number) * static_cast<int64_t>(world.groups.size()) + id.group;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

template <class Message> static AttributeProto &addAttribute(Message &message, const char *name) {
  AttributeProto *attribute = message.add_attr();
  attribute->set_name(name);
  return *attribute;
}

/// Writes a message, and returns its bytes.
static uint64_t writeMessage(const google::protobuf::MessageLite &message, llvm::raw_ostream &os) {
  std::string bytes = message.SerializeAsString();
  unsigned lengthBytes = llvm::encodeULEB128(bytes.size(), os);
  os << bytes;
  return lengthBytes + bytes.size();
}

static Node makeNode(uint64_t id, const std::string &name, double begin, double end, bool isHost) {
  Node node;
  node.set_id(id);
  node.set_name(name);
  node.set_start_time_micros(toMicros(begin));
  node.set_duration_micros(toMicros(end) - toMicros(begin));
  addAttribute(node, "is_cpu_op").set_bool_val(isHost);
  return node;
}

void ChakraTraces::addDeps(Node &node, const TracedLaunch &launch) {
  for (uint64_t id = launch.firstNode; id < launch.firstNode + launch.numNodes; ++id)
    node.add_data_deps(id);
}

/// Sets the work of one rank. A launch that only moves bytes has one operation, since ASTRA-sim divides by them.
void ChakraTraces::setWork(Node &node, int64_t rank, uint32_t launch) const {
  const SimProgram &program = world.getProgram(rank);
  const SimLaunch &its = program.launches[launch];
  const SimTime &time = *getTraced(rank, launch).time;
  auto isHost = [&](int32_t buffer) { return buffer >= 0 && program.buffers[buffer].isHost; };
  bool isCopy = its.cost.resource == Resource::HostLink;
  node.set_type(!isCopy                             ? chakra::COMP_NODE
                : llvm::any_of(its.outputs, isHost) ? chakra::MEM_STORE_NODE
                                                    : chakra::MEM_LOAD_NODE);
  // The other launches are collectives of one member, and markers.
  bool isWork = isCopy || its.cost.resource == Resource::Matrix || its.cost.resource == Resource::Memory;
  // A copy reads and writes its bytes once each.
  int64_t bytes = isWork ? std::llround(isCopy ? time.bytes / 2 : time.bytes) : 0;
  addAttribute(node, "tensor_size").set_uint64_val(bytes);
  if (!isCopy)
    addAttribute(node, "num_ops").set_int64_val(isWork ? std::max<int64_t>(bytes > 0, std::llround(time.flops)) : 0);
}

static chakra::CollectiveCommType getCommType(Collective collective) {
  switch (collective) {
  case Collective::AllGather:
    return chakra::ALL_GATHER;
  case Collective::ReduceScatter:
    return chakra::REDUCE_SCATTER;
  case Collective::AllReduce:
    return chakra::ALL_REDUCE;
  case Collective::AllToAll:
    return chakra::ALL_TO_ALL;
  case Collective::Broadcast:
    return chakra::BROADCAST;
  case Collective::Reduce:
    return chakra::REDUCE;
  case Collective::None:
    break;
  }
  llvm_unreachable("a launch that uses the network has a collective");
}

void ChakraTraces::setCollective(Node &node, int64_t rank, uint32_t launch) const {
  node.set_type(chakra::COMM_COLL_NODE);
  addAttribute(node, "comm_type").set_int64_val(getCommType(world.getLaunch(rank, launch).cost.collective));
  addAttribute(node, "comm_size").set_int64_val(getCollectiveBytes(rank, launch));
  addAttribute(node, "comm_priority").set_int32_val(0);
  addAttribute(node, "pg_name").set_string_val(std::to_string(groupIds.at(getGroupKey(rank, launch))));
}

void ChakraTraces::setTransfer(Node &node, int64_t rank, uint32_t launch, const Transfer &transfer) const {
  node.set_type(transfer.isSend ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
  addAttribute(node, "comm_size").set_int64_val(std::max<int64_t>(1, transfer.bytes));
  addAttribute(node, "comm_src").set_int32_val(static_cast<int32_t>(transfer.isSend ? rank : transfer.peer));
  addAttribute(node, "comm_dst").set_int32_val(static_cast<int32_t>(transfer.isSend ? transfer.peer : rank));
  addAttribute(node, "comm_tag").set_int32_val(static_cast<int32_t>(getTag(rank, launch)));
}

/// Writes the node of the host before a late launch; `before` is its last node.
uint64_t ChakraTraces::writeHost(int64_t rank, uint32_t launch, std::optional<uint64_t> before,
                                 llvm::raw_ostream &os) const {
  const TracedLaunch &traced = getTraced(rank, launch);
  Node node = makeNode(traced.firstNode - 1, "host", traced.host->begin, traced.host->end, /*isHost=*/true);
  node.set_type(chakra::COMP_NODE);
  if (before)
    node.add_data_deps(*before);
  if (traced.host->after >= 0)
    addDeps(node, getTraced(rank, traced.host->after));
  return writeMessage(node, os);
}

uint64_t ChakraTraces::writeLaunch(int64_t rank, uint32_t launch, llvm::raw_ostream &os) const {
  const SimProgram &program = world.getProgram(rank);
  const TracedLaunch &traced = getTraced(rank, launch);
  std::string name = getLaunchName(program, launch);
  if (const std::string &label = program.launches[launch].label; !label.empty())
    name += " " + label;
  Node node =
      makeNode(traced.firstNode, llvm::json::fixUTF8(name), traced.time->begin, traced.time->end, /*isHost=*/false);
  for (uint32_t dep : world.getLinked(rank).launches[launch].deps)
    addDeps(node, getTraced(rank, dep));
  if (traced.host)
    node.add_data_deps(traced.firstNode - 1);
  ExchangeForm form = getExchangeForm(world, world.programOfRank[rank], launch);
  std::vector<Transfer> transfers = getTransfers(rank, launch);
  if (transfers.empty()) {
    form == ExchangeForm::Collective ? setCollective(node, rank, launch) : setWork(node, rank, launch);
    return writeMessage(node, os);
  }
  uint64_t bytes = 0;
  for (auto [index, transfer] : llvm::enumerate(transfers)) {
    Node one = node;
    one.set_id(traced.firstNode + index);
    setTransfer(one, rank, launch, transfer);
    bytes += writeMessage(one, os);
  }
  return bytes;
}

uint64_t ChakraTraces::write(int64_t rank, llvm::raw_ostream &os) const {
  chakra::GlobalMetadata metadata;
  metadata.set_version(schemaVersion);
  addAttribute(metadata, "plan").set_string_val(header.plan);
  addAttribute(metadata, "schedule").set_string_val(header.schedule);
  addAttribute(metadata, "cluster").set_string_val(header.cluster);
  uint64_t bytes = writeMessage(metadata, os);
  std::optional<uint64_t> host;
  for (uint32_t launch = 0; launch < world.getProgram(rank).launches.size(); ++launch) {
    if (const TracedLaunch &traced = getTraced(rank, launch); traced.host) {
      bytes += writeHost(rank, launch, host, os);
      host = traced.firstNode - 1;
    }
    bytes += writeLaunch(rank, launch, os);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// The traces
//===----------------------------------------------------------------------===//

std::vector<std::string> ChakraTraces::getNotes() const {
  // ASTRA-sim has 500000000 tags for sends and as many for collectives (Sys::FrontEndSendRecvType), and counts those of
  // communicator i from 1000000 i on (CommunicatorGroup::set_id).
  constexpr size_t mostGroups = 499;
  constexpr int64_t mostTags = 500'000'000;
  bool hasReduce = false, hasBroadcast = false, hasCopy = false;
  int64_t lastTag = 0;
  for (const SimProgram &program : step.programs)
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      hasReduce |= launch.cost.collective == Collective::Reduce;
      hasBroadcast |= launch.cost.collective == Collective::Broadcast && !program.groups[launch.group].isChannel();
      hasCopy |= launch.cost.resource == Resource::HostLink;
      if (!getTransfers(program.firstRank, index).empty())
        lastTag = std::max(lastTag, getTag(program.firstRank, index));
    }
  std::vector<std::string> notes;
  if (hasReduce)
    notes.emplace_back("ASTRA-sim has no REDUCE, and stops at one unless it only replays the trace");
  if (hasBroadcast)
    notes.emplace_back("ASTRA-sim does not simulate a BROADCAST, and takes its time from the trace");
  if (hasCopy)
    notes.emplace_back("copies to and from the host are loads and stores of ASTRA-sim's remote memory, so its "
                       "--remote-memory-configuration needs one");
  if (groupMembers.size() > mostGroups)
    notes.push_back(("the plan has " + Twine(groupMembers.size()) + " communicators, but ASTRA-sim tells " +
                     Twine(mostGroups) + " apart and may take a message of one for another's")
                        .str());
  if (lastTag >= mostTags)
    notes.push_back(("the plan has tags up to " + Twine(lastTag) + ", but ASTRA-sim takes them modulo " +
                     Twine(mostTags) + " and may take one transfer for another")
                        .str());
  return notes;
}

uint64_t ChakraTraces::getBytes() const {
  uint64_t bytes = 0;
  for (const SimRank &rank : step.ranks)
    bytes += rank.count * write(rank.rank, llvm::nulls());
  return bytes;
}
