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
/// Parts in which a broadcast or a reduce passes from member to member.
static constexpr int64_t kChainParts = 16;

/// Rounds begins and ends instead of durations, which keeps errors from adding up along a stream.
static uint64_t toMicros(double seconds) { return std::llround(seconds * 1e6); }

namespace {
/// Form in which a launch takes place between ranks.
enum class ExchangeForm {
  None,       ///< no other rank takes part
  Channel,    ///< one rank sends, and one receives
  Pairs,      ///< each pair of members has its own bytes, as in a phase of an all_to_all or an uneven one
  Chain,      ///< a broadcast or a reduce, which goes from neighbour to neighbour
  Collective, ///< all members of a group take part in one operation of ASTRA-sim
};
} // namespace

static ExchangeForm getExchangeForm(const SimWorld &world, const SimResult &step, uint32_t program, uint32_t index) {
  const LinkedLaunch &linked = world.linked[program].launches[index];
  if (!linked.exchanges() || world.groups[linked.group].size == 1)
    return ExchangeForm::None;
  if (world.groups[linked.group].isChannel())
    return ExchangeForm::Channel;
  const OpCost &cost = world.programs[program].launches[index].cost;
  if (cost.collective == Collective::Broadcast || cost.collective == Collective::Reduce)
    return ExchangeForm::Chain;
  // If one ragged exchange has bytes of pairs, all have.
  bool isUneven = cost.raggedRows > 0 && cost.collective == Collective::AllToAll && !step.pairBytes.empty();
  return cost.phases > 1 || isUneven ? ExchangeForm::Pairs : ExchangeForm::Collective;
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
static std::vector<uint32_t> findCommunicators(const SimWorld &world, const SimResult &step, uint32_t program) {
  std::set<std::pair<int32_t, uint32_t>> seen; // group and stream
  std::vector<uint32_t> found;
  for (auto [index, launch] : llvm::enumerate(world.linked[program].launches))
    if (getExchangeForm(world, step, program, index) == ExchangeForm::Collective &&
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
    for (uint32_t launch : findCommunicators(world, step, program))
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
  bool together = traces.endTogether();
  for (uint32_t index = 0; index < traces.classes.size(); ++index)
    traces.findTurns(index, together);
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
  if (getExchangeForm(world, step, rank.program, launch) == ExchangeForm::None)
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
  int32_t last = -1;
  for (auto [launch, traced] : llvm::enumerate(classes[rankClass])) {
    const SimTime *time = traced.time;
    auto isLate = [&](double ready) { return time->begin - ready >= leastWait; };
    if (!isLate(std::max(hostEnd, getReady(rankClass, launch))) || !isLate(getReadyOfAll(rankClass, launch)))
      continue;
    HostWait wait{hostEnd, time->begin, -1, last};
    if (time->cause >= 0)
      if (const SimTime &cause = step.times[time->cause];
          cause.rank == rankClass && cause.launch < launch && cause.end <= time->begin) {
        wait.after = static_cast<int32_t>(cause.launch);
        wait.begin = std::max(wait.begin, cause.end);
      }
    traced.host = wait;
    hostEnd = time->begin;
    last = static_cast<int32_t>(launch);
  }
}

/// Whether each exchange ends at one time for all members, as it does in closed form.
bool ChakraTraces::endTogether() const {
  for (auto [rankClass, rank] : llvm::enumerate(step.ranks))
    for (auto [launch, traced] : llvm::enumerate(classes[rankClass])) {
      if (getExchangeForm(world, step, rank.program, launch) == ExchangeForm::None)
        continue;
      MeetingId id = world.getMeeting(rank.rank, launch);
      int64_t first = world.getRank(id, 0);
      const TracedLaunch &its = getTraced(first, *world.getMeetingLaunch(first, id));
      if (std::abs(traced.time->end - its.time->end) >= leastWait)
        return false;
    }
  return true;
}

/// Finds the times at which a rank comes to its launches. ASTRA-sim has one exchange of a device under way, so
/// exchanges at one time take turns. They do so in the order of their ends, which is the same for all members. It also
/// lets a replay end all of them in time.
void ChakraTraces::findTurns(uint32_t rankClass, bool together) {
  const SimRank &rank = step.ranks[rankClass];
  std::vector<TracedLaunch> &launches = classes[rankClass];
  std::vector<uint32_t> exchanges;
  for (auto [launch, traced] : llvm::enumerate(launches)) {
    bool isCopy = world.getLaunch(rank.rank, launch).cost.resource == Resource::HostLink;
    bool isCollective = getExchangeForm(world, step, rank.program, launch) == ExchangeForm::Collective;
    std::vector<Transfer> transfers = getTransfers(rank.rank, launch);
    traced.begin = isCollective || !transfers.empty()
                       ? std::max(getReady(rankClass, launch), traced.host ? traced.host->end : 0)
                       : traced.time->begin;
    bool sends = llvm::any_of(transfers, [](const Transfer &it) { return it.isSend; });
    if (together && (isCopy || isCollective || sends))
      exchanges.push_back(launch);
  }
  llvm::stable_sort(exchanges, [&](uint32_t a, uint32_t b) { return launches[a].time->end < launches[b].time->end; });
  for (size_t index = 1; index < exchanges.size(); ++index) {
    const TracedLaunch &last = launches[exchanges[index - 1]];
    TracedLaunch &next = launches[exchanges[index]];
    if (last.time->end - next.begin < leastWait)
      continue;
    next.turn = static_cast<int32_t>(exchanges[index - 1]);
    next.begin = last.time->end;
  }
}

/// Launches, and their hosts before them (true), in the order of their ends. So a node depends only on nodes before it.
std::vector<std::pair<uint32_t, bool>> ChakraTraces::getOrder(uint32_t rankClass) const {
  const std::vector<TracedLaunch> &launches = classes[rankClass];
  std::vector<std::pair<uint32_t, bool>> order;
  for (auto [launch, traced] : llvm::enumerate(launches)) {
    if (traced.host)
      order.emplace_back(launch, true);
    order.emplace_back(launch, false);
  }
  auto getEnd = [&](const std::pair<uint32_t, bool> &it) {
    return it.second ? launches[it.first].host->end : launches[it.first].time->end;
  };
  llvm::stable_sort(order, [&](const auto &a, const auto &b) { return getEnd(a) < getEnd(b); });
  return order;
}

/// Numbers the nodes of a rank's launches. Ranks of a class may have different transfers.
std::vector<ChakraTraces::NodeIds> ChakraTraces::numberNodes(int64_t rank) const {
  std::vector<NodeIds> ids(world.getProgram(rank).launches.size());
  uint64_t next = 0;
  for (auto [launch, isHost] : getOrder(getClass(rank))) {
    NodeIds &its = ids[launch];
    if (isHost) {
      its.host = next++;
      continue;
    }
    its.first = next;
    std::optional<uint64_t> last[2]; // receive and send
    for (const Transfer &transfer : getTransfers(rank, launch))
      last[transfer.isSend] = next++;
    for (std::optional<uint64_t> node : last)
      if (node)
        its.last.push_back(*node);
    if (its.last.empty())
      its.last.push_back(next++);
  }
  return ids;
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

/// Bytes of a collective's payload that are in use, on the member with the most.
int64_t ChakraTraces::getUsedBytes(int64_t rank, uint32_t launch) const {
  const OpCost &cost = world.getLaunch(rank, launch).cost;
  if (cost.raggedRows == 0)
    return cost.payload;
  MeetingId id = world.getMeeting(rank, launch);
  auto [known, isNew] = knownBytes.try_emplace({{id.group, id.instance}, id.number});
  if (!isNew)
    return known->second;
  double use = 0;
  for (int64_t member = 0; member < world.groups[id.group].size; ++member) {
    int64_t other = world.getRank(id, member);
    use = std::max(use, getUse(other, *world.getMeetingLaunch(other, id)));
  }
  return known->second = std::llround(use * static_cast<double>(cost.payload));
}

/// Size of a collective as ASTRA-sim defines it: the bytes of a member. A size of 0 would never end.
int64_t ChakraTraces::getCollectiveBytes(int64_t rank, uint32_t launch) const {
  int64_t bytes = getUsedBytes(rank, launch), members = world.groups[world.getMeeting(rank, launch).group].size;
  bool isGather = world.getLaunch(rank, launch).cost.collective == Collective::AllGather;
  return std::max<int64_t>(1, isGather ? bytes / members : bytes);
}

/// Transfers of a launch, in order; none of a collective, or without another rank.
std::vector<ChakraTraces::Transfer> ChakraTraces::getTransfers(int64_t rank, uint32_t launch) const {
  ExchangeForm form = getExchangeForm(world, step, world.programOfRank[rank], launch);
  if (form == ExchangeForm::None || form == ExchangeForm::Collective)
    return {};
  MeetingId id = world.getMeeting(rank, launch);
  if (form == ExchangeForm::Pairs)
    return getPairs(rank, launch, id);
  if (form == ExchangeForm::Chain)
    return getChain(rank, launch, id);
  const SimGroup &group = world.groups[id.group];
  int64_t peer = world.getRank(id, 1 - group.getMember(rank));
  return {{group.isSender(rank), peer, std::max<int64_t>(1, world.getLaunch(rank, launch).cost.payload)}};
}

/// Bytes from a member with this launch to another one.
int64_t ChakraTraces::getPairBytes(int64_t from, uint32_t launch, const MeetingId &id, int64_t to) const {
  if (auto known = step.pairBytes.find({getClass(from), launch}); known != step.pairBytes.end())
    return std::max<int64_t>(1, known->second[to]);
  const SimGroup &group = world.groups[id.group];
  int64_t bytes = world.getLaunch(from, launch).cost.getBytesToPeer(group.size, group.getMember(from), to);
  return std::max<int64_t>(1, std::llround(getUse(from, launch) * static_cast<double>(bytes)));
}

/// Transfers between pairs of members. The k-th one goes to the k-th member after this one, so that no two members
/// send to one at a time. A size of 0 would never end.
std::vector<ChakraTraces::Transfer> ChakraTraces::getPairs(int64_t rank, uint32_t launch, const MeetingId &id) const {
  const OpCost &cost = world.getLaunch(rank, launch).cost;
  int64_t members = world.groups[id.group].size, own = world.groups[id.group].getMember(rank);
  std::vector<Transfer> transfers;
  for (int64_t k = 1; k < members; ++k) {
    int64_t to = (own + k) % members, from = (own + members - k) % members, sender = world.getRank(id, from);
    if (cost.isPeer(members, own, to))
      transfers.push_back({true, world.getRank(id, to), getPairBytes(rank, launch, id, to)});
    if (cost.isPeer(members, from, own))
      transfers.push_back({false, sender, getPairBytes(sender, *world.getMeetingLaunch(sender, id), id, own)});
  }
  return transfers;
}

/// Transfers of a value that goes from neighbour to neighbour in parts, from the root of a broadcast or to that of a
/// reduce. A member passes a part on, or adds its own to it, while the next part arrives.
std::vector<ChakraTraces::Transfer> ChakraTraces::getChain(int64_t rank, uint32_t launch, const MeetingId &id) const {
  const OpCost &cost = world.getLaunch(rank, launch).cost;
  int64_t bytes = getUsedBytes(rank, launch), members = world.groups[id.group].size;
  int64_t place = (world.groups[id.group].getMember(rank) + members - cost.root) % members; // steps from the root
  bool isReduce = cost.collective == Collective::Reduce;
  auto getPeer = [&](int64_t other) { return world.getRank(id, (other + cost.root) % members); };
  int64_t from = isReduce ? place + 1 : place - 1, to = isReduce ? place - 1 : place + 1;
  bool hasFrom = from >= 0 && from < members, hasTo = to >= 0 && to < members;
  std::vector<Transfer> transfers;
  for (int64_t part = 0; part < kChainParts; ++part) {
    int64_t its = bytes * (part + 1) / kChainParts - bytes * part / kChainParts;
    if (its > 0 && hasFrom)
      transfers.push_back({false, getPeer(from), its, part});
    if (its > 0 && hasTo)
      transfers.push_back({true, getPeer(to), its, part, hasFrom});
  }
  return transfers;
}

/// Tag of a transfer, the same for both ends, and different for each transfer between two ranks.
int64_t ChakraTraces::getTag(int64_t rank, uint32_t launch, int64_t part) const {
  MeetingId id = world.getMeeting(rank, launch);
  return (static_cast<int64_t>(id.number) * static_cast<int64_t>(world.groups.size()) + id.group) * kChainParts + part;
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

static void addDeps(Node &node, llvm::ArrayRef<uint64_t> ids) { node.mutable_data_deps()->Add(ids.begin(), ids.end()); }

/// Sets bytes and operations. ASTRA-sim's roofline divides by operations, and does not go on after a node without
/// bytes. So a launch that only moves bytes has one operation, and a marker has one operation and one byte.
static void setSize(Node &node, int64_t bytes, std::optional<int64_t> operations) {
  addAttribute(node, "tensor_size").set_uint64_val(std::max<int64_t>(1, bytes));
  if (operations)
    addAttribute(node, "num_ops").set_int64_val(std::max<int64_t>(1, *operations));
}

/// Sets the work of one rank.
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
  setSize(node, bytes, isCopy ? std::nullopt : std::optional(isWork ? std::llround(time.flops) : 0));
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
  case Collective::Reduce:
  case Collective::None:
    break;
  }
  llvm_unreachable("other exchanges are written as transfers");
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
  addAttribute(node, "comm_size").set_int64_val(transfer.bytes);
  addAttribute(node, "comm_src").set_int32_val(static_cast<int32_t>(transfer.isSend ? rank : transfer.peer));
  addAttribute(node, "comm_dst").set_int32_val(static_cast<int32_t>(transfer.isSend ? transfer.peer : rank));
  addAttribute(node, "comm_tag").set_int32_val(static_cast<int32_t>(getTag(rank, launch, transfer.part)));
}

/// Writes the node of the host before a late launch.
uint64_t ChakraTraces::writeHost(int64_t rank, uint32_t launch, llvm::ArrayRef<NodeIds> ids,
                                 llvm::raw_ostream &os) const {
  const TracedLaunch &traced = getTraced(rank, launch);
  Node node = makeNode(ids[launch].host, "host", traced.host->begin, traced.host->end, /*isHost=*/true);
  node.set_type(chakra::COMP_NODE);
  if (traced.host->before >= 0)
    node.add_data_deps(ids[traced.host->before].host);
  if (traced.host->after >= 0)
    addDeps(node, ids[traced.host->after].last);
  return writeMessage(node, os);
}

uint64_t ChakraTraces::writeLaunch(int64_t rank, uint32_t launch, llvm::ArrayRef<NodeIds> ids,
                                   llvm::raw_ostream &os) const {
  const SimProgram &program = world.getProgram(rank);
  const TracedLaunch &traced = getTraced(rank, launch);
  ExchangeForm form = getExchangeForm(world, step, world.programOfRank[rank], launch);
  std::string name = getLaunchName(program, launch);
  if (const std::string &label = program.launches[launch].label; !label.empty())
    name += " " + label;
  Node node = makeNode(ids[launch].first, llvm::json::fixUTF8(name), traced.begin, traced.time->end, /*isHost=*/false);
  for (uint32_t dep : world.getLinked(rank).launches[launch].deps)
    addDeps(node, ids[dep].last);
  if (traced.turn >= 0)
    addDeps(node, ids[traced.turn].last);
  if (traced.host)
    node.add_data_deps(ids[launch].host);
  if (std::vector<Transfer> transfers = getTransfers(rank, launch); !transfers.empty())
    return writeTransfers(rank, launch, transfers, node, os);
  form == ExchangeForm::Collective ? setCollective(node, rank, launch) : setWork(node, rank, launch);
  return writeMessage(node, os);
}

/// Writes the transfers of a launch, which are like `node` except for their work. Sends wait for each other, and so do
/// receives. ASTRA-sim replays sends one by one, so they share the time of the launch. The first receive has all of it.
uint64_t ChakraTraces::writeTransfers(int64_t rank, uint32_t launch, llvm::ArrayRef<Transfer> transfers,
                                      const Node &node, llvm::raw_ostream &os) const {
  uint64_t bytes = 0, begin = node.start_time_micros(), micros = node.duration_micros();
  uint64_t numSends = llvm::count_if(transfers, [](const Transfer &it) { return it.isSend; }), sends = 0;
  std::optional<uint64_t> lastOf[2]; // receive and send
  bool passesOn = llvm::any_of(transfers, [](const Transfer &it) { return it.passesOn; });
  for (auto [index, transfer] : llvm::enumerate(transfers)) {
    Node one = node;
    one.set_id(node.id() + index);
    std::optional<uint64_t> &last = lastOf[transfer.isSend];
    if (last)
      one.clear_data_deps();
    if (last)
      one.add_data_deps(*last);
    if (transfer.passesOn)
      one.add_data_deps(one.id() - 1);
    uint64_t from = transfer.isSend ? micros * sends / numSends : last && !passesOn ? micros : 0;
    uint64_t until = transfer.isSend ? micros * ++sends / numSends : passesOn ? 0 : micros;
    one.set_start_time_micros(begin + from);
    one.set_duration_micros(until - from);
    setTransfer(one, rank, launch, transfer);
    last = one.id();
    bytes += writeMessage(one, os);
  }
  return bytes;
}

/// Writes a marker after the last launch of each stream. ASTRA-sim throws an error when a rank ends whose trace has
/// nodes of the host or copies. It catches the error after a computation, but not after an exchange, where all ranks
/// stop.
uint64_t ChakraTraces::writeEnd(int64_t rank, llvm::ArrayRef<NodeIds> ids, llvm::raw_ostream &os) const {
  const SimProgram &program = world.getProgram(rank);
  std::map<uint32_t, uint32_t> lastOf; // launches by stream
  double end = 0;
  uint64_t last = 0;
  for (uint32_t launch = 0; launch < program.launches.size(); ++launch) {
    lastOf[program.launches[launch].stream] = launch;
    end = std::max(end, getTraced(rank, launch).time->end);
    last = std::max(last, *llvm::max_element(ids[launch].last));
  }
  Node node = makeNode(last + 1, "end", end, end, /*isHost=*/false);
  node.set_type(chakra::COMP_NODE);
  setSize(node, 0, 0);
  for (auto [stream, launch] : lastOf)
    addDeps(node, ids[launch].last);
  return writeMessage(node, os);
}

uint64_t ChakraTraces::write(int64_t rank, llvm::raw_ostream &os) const {
  chakra::GlobalMetadata metadata;
  metadata.set_version(schemaVersion);
  addAttribute(metadata, "plan").set_string_val(header.plan);
  addAttribute(metadata, "schedule").set_string_val(header.schedule);
  addAttribute(metadata, "cluster").set_string_val(header.cluster);
  uint64_t bytes = writeMessage(metadata, os);
  std::vector<NodeIds> ids = numberNodes(rank);
  for (auto [launch, isHost] : getOrder(getClass(rank)))
    bytes += isHost ? writeHost(rank, launch, ids, os) : writeLaunch(rank, launch, ids, os);
  return bytes + writeEnd(rank, ids, os);
}

//===----------------------------------------------------------------------===//
// The traces
//===----------------------------------------------------------------------===//

std::vector<std::string> ChakraTraces::getNotes() const {
  // ASTRA-sim has 500000000 tags for sends and as many for collectives (Sys::FrontEndSendRecvType), and counts those of
  // communicator i from 1000000 i on (CommunicatorGroup::set_id).
  constexpr size_t mostGroups = 499;
  constexpr int64_t mostTags = 500'000'000;
  int64_t lastTag = 0;
  for (const SimProgram &program : step.programs)
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      for (const Transfer &transfer : getTransfers(program.firstRank, index))
        lastTag = std::max(lastTag, getTag(program.firstRank, index, transfer.part));
    }
  std::vector<std::string> notes;
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
