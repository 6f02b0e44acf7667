//===- ExecutorText.cpp - what the executor says about stuck ranks --------===//

#include "core/Executor.h"

namespace moert {

constexpr size_t kMaxListed = 8;

static std::string listText(const std::vector<std::string> &items, const char *separator) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < kMaxListed; ++i)
    text += (i ? separator : "") + items[i];
  if (items.size() > kMaxListed)
    text += separator + ("and " + std::to_string(items.size() - kMaxListed) + " more");
  return text;
}

/// "stream 'comm.intra'".
std::string Executor::streamText(int64_t stream) const {
  int64_t rank = rankOf(stream);
  return "stream '" + programOf(rank).streams[stream - indexOf(rank, 0)] + "'";
}

/// "op 4 all_to_all 'layer0' on stream 'comm.intra'".
std::string Executor::callText(int64_t stream, const Call &call) const {
  return callName(programOf(rankOf(stream)), call) + " on " + streamText(stream);
}

static std::string operandsText(const Call &call) {
  std::vector<std::string> operands;
  for (int i = 0; i < call.viewCount; ++i)
    if (const View &view = call.views[i])
      operands.push_back(operandText(view));
  return " (" + listText(operands, ", ") + ")";
}

std::string Executor::mismatchText(const Meeting &meeting, int64_t first, int64_t second) const {
  const std::string &group = groups[meeting.channel.group].name;
  auto describe = [&](int64_t member) {
    return joined("rank ", rankOf(meeting.channel, member), " is at ",
                  callText(meeting.streams[member], *meeting.calls[member]), operandsText(*meeting.calls[member]));
  };
  const bool isPair = meeting.channel.isPair();
  return joined(isPair ? "a send and its receive on group '" : "the members of group '", group,
                isPair ? "' are not of the same shape and dtype: " : "' do not issue the same collectives: ",
                describe(first), ", but ", describe(second));
}

/// Describes the event that a stream waits for.
std::string Executor::eventText(int64_t stream, const Item &item) const {
  int64_t rank = rankOf(stream);
  const IssuedQueues &queues = *ranks[rank].queues;
  const IssuedQueues::Signal &signal = queues.signals[item.index];
  std::string event = "event " + std::to_string(signal.event);
  if (item.type == Item::Type::Record)
    return streamText(stream) + " is about to record " + event;
  return streamText(stream) + " waits for " + event + " of " + streamText(indexOf(rank, signal.stream));
}

/// " on group 'ep' of ranks 2, 3 waits for ranks 3".
std::string Executor::missingText(const Channel &channel, const Call &call) const {
  auto sequence = meetings.find(channel);
  auto index = static_cast<size_t>(call.sequence);
  std::vector<std::string> members, missing;
  for (int64_t member = 0; member < sizeOf(channel); ++member) {
    int64_t other = rankOf(channel, member);
    members.push_back(std::to_string(other));
    if (sequence != meetings.end() && index < sequence->second.size() && sequence->second[index].calls[member])
      continue;
    bool ended = true;
    for (int64_t s = indexOf(other, 0); s < policy.endOf(other); ++s)
      ended &= !policy.head(s);
    missing.push_back(std::to_string(other) + (ended ? " (at its end)" : ""));
  }
  std::string text = " on group '" + groups[channel.group].name + "'";
  text +=
      channel.isPair() ? " from rank " + members[0] + " to rank " + members[1] : " of ranks " + listText(members, ", ");
  return missing.empty() ? text + " is not done" : text + " waits for ranks " + listText(missing, ", ");
}

/// Describes what a stream that is not at its end waits for.
std::string Executor::waitText(int64_t stream) const {
  const Item &item = *policy.head(stream);
  std::string where = "rank " + std::to_string(rankOf(stream)) + ": ";
  if (item.type != Item::Type::Call)
    return where + eventText(stream, item);
  Call call;
  if (Status status = callOf(stream, item, call); !status.ok())
    return where + status.message;
  where += callText(stream, call);
  bool meets = isCollective(call.kind) && !client.isRemote(call);
  return where + (meets ? missingText(channelOf(rankOf(stream), call), call) : " is not done");
}

std::string Executor::runningText() const {
  std::lock_guard lock(mutex);
  return runningLocked();
}

std::string Executor::runningLocked() const {
  std::vector<std::string> lines;
  for (int64_t rank : local) {
    if (ranks[rank].issuing)
      lines.push_back("rank " + std::to_string(rank) + ": its program issues its calls");
    for (int64_t stream = indexOf(rank, 0); stream < policy.endOf(rank); ++stream)
      if (const Call *call = streams[stream].current)
        lines.push_back("rank " + std::to_string(rank) + ": " + callText(stream, *call));
  }
  return listText(lines, "\n  ");
}

std::string Executor::stuckText() const {
  std::vector<std::string> lines;
  for (int64_t stream = 0; stream < std::ssize(streams); ++stream)
    if (policy.head(stream))
      lines.push_back(waitText(stream));
  return joined("hang: ", lines.size(), " of ", streams.size(), " streams cannot go on\n  ", listText(lines, "\n  "));
}

} // namespace moert
