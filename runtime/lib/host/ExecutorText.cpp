//===- ExecutorText.cpp - what the executor says about stuck ranks --------===//

#include "host/Executor.h"

namespace moert::host {

constexpr size_t kMaxListed = 8;

static std::string listText(const std::vector<std::string> &items, const char *separator) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < kMaxListed; ++i)
    text += (i ? separator : "") + items[i];
  if (items.size() > kMaxListed)
    text += separator + ("and " + std::to_string(items.size() - kMaxListed) + " more");
  return text;
}

/// "op 4 all_to_all 'layer0' on stream 'comm.intra'".
std::string Executor::callText(int64_t stream, const Call &call) const {
  std::string text = "op " + std::to_string(call.op) + " " + kindName(call.kind);
  if (static_cast<size_t>(call.op) < program.ops.size() && !program.ops[static_cast<size_t>(call.op)].label.empty())
    text += " '" + program.ops[static_cast<size_t>(call.op)].label + "'";
  return text + " on stream '" + program.streams[static_cast<size_t>(stream % streamCount)] + "'";
}

static std::string operandsText(const Call &call) {
  std::vector<std::string> operands;
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i) {
    const View &view = call.views[i];
    if (view)
      operands.push_back(
          shapeText(std::vector<int64_t>(view.dims.begin(), view.dims.begin() + static_cast<size_t>(view.rank))) + " " +
          dtypeName(view.dtype));
  }
  return " (" + listText(operands, ", ") + ")";
}

std::string Executor::mismatchText(const Meeting &meeting, int64_t first, int64_t second) const {
  const Group &group = groups[static_cast<size_t>(meeting.group)];
  auto describe = [&](int64_t member) {
    auto index = static_cast<size_t>(member);
    return "rank " + std::to_string(group.rankOf(meeting.instance, member)) + " is at " +
           callText(meeting.streams[index], *meeting.calls[index]) + operandsText(*meeting.calls[index]);
  };
  return "the members of group '" + group.name + "' do not issue the same collectives: " + describe(first) + ", but " +
         describe(second);
}

/// What holds up a stream that is not at its end.
std::string Executor::waitText(int64_t stream) const {
  const Stream &queue = streams[static_cast<size_t>(stream)];
  const Item &item = queue.items[queue.head];
  int64_t rank = rankOf(stream);
  std::string where = "rank " + std::to_string(rank) + ": ";
  std::string name = "stream '" + program.streams[static_cast<size_t>(stream % streamCount)] + "'";
  if (item.type != Item::Type::Call) {
    const Signal &signal = ranks[static_cast<size_t>(rank)].signals[static_cast<size_t>(item.index)];
    std::string event = "event " + std::to_string(signal.event);
    if (item.type == Item::Type::Record)
      return where + name + " is about to record " + event;
    return where + name + " waits for " + event + " of stream '" + program.streams[static_cast<size_t>(signal.stream)] +
           "'";
  }
  const Call &call = queue.calls[static_cast<size_t>(item.index)];
  where += callText(stream, call);
  if (!isCollective(call.kind))
    return where + " is not done";

  const Group &group = groups[static_cast<size_t>(call.group)];
  int64_t instance = group.instanceOf(rank);
  const auto &sequence = meetings[static_cast<size_t>(call.group)][static_cast<size_t>(instance)];
  std::vector<std::string> members, missing;
  for (int64_t member = 0; member < group.size; ++member) {
    int64_t other = group.rankOf(instance, member);
    members.push_back(std::to_string(other));
    auto index = static_cast<size_t>(call.sequence);
    if (index < sequence.size() && sequence[index].calls[static_cast<size_t>(member)])
      continue;
    bool ended = true;
    for (int64_t s = other * streamCount; s < (other + 1) * streamCount; ++s)
      ended &= streams[static_cast<size_t>(s)].head == streams[static_cast<size_t>(s)].items.size();
    missing.push_back(std::to_string(other) + (ended ? " (at its end)" : ""));
  }
  where += " on group '" + group.name + "' of ranks " + listText(members, ", ");
  return missing.empty() ? where + " is not done" : where + " waits for ranks " + listText(missing, ", ");
}

std::string Executor::stuckText() const {
  std::vector<std::string> lines;
  for (int64_t stream = 0; stream < static_cast<int64_t>(streams.size()); ++stream)
    if (streams[static_cast<size_t>(stream)].head < streams[static_cast<size_t>(stream)].items.size())
      lines.push_back(waitText(stream));
  return "hang: " + std::to_string(lines.size()) + " of " + std::to_string(streams.size()) +
         " streams cannot go on\n  " + listText(lines, "\n  ");
}

} // namespace moert::host
