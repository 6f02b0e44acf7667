//===- CallersMemory.h - exchanges of callers in one process ---*- C++ -*-===//
#ifndef MOERT_TEST_CALLERSMEMORY_H
#define MOERT_TEST_CALLERSMEMORY_H

#include "moert/world.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

namespace moert::test {

/// A repeated meeting of the members of one group.
struct Meeting {
  /// Data that each member sends, and the beginning of the part for each member.
  std::vector<const char *> sends;
  std::vector<std::vector<int64_t>> begins;
  int64_t arrived = 0, left = 0;
};

class Memory {
public:
  /// Copies the parts that the members have for this one, of bytes[member] bytes, to `receive`. Waits for all.
  void exchange(const moert_members &members, const void *send, std::vector<int64_t> begins, char *receive,
                const std::vector<int64_t> &bytes) {
    std::unique_lock lock(mutex);
    Meeting &meeting = meetings[std::vector<int64_t>(members.ranks, members.ranks + members.count)];
    changed.wait(lock, [&] { return meeting.left == 0; });
    meeting.sends.resize(static_cast<size_t>(members.count));
    meeting.begins.resize(static_cast<size_t>(members.count));
    meeting.sends[static_cast<size_t>(members.member)] = static_cast<const char *>(send);
    meeting.begins[static_cast<size_t>(members.member)] = std::move(begins);
    if (++meeting.arrived == members.count)
      meeting.left = members.count;
    changed.notify_all();
    changed.wait(lock, [&] { return meeting.left > 0; });
    for (size_t member = 0; member < bytes.size(); ++member) {
      if (bytes[member] > 0)
        std::memcpy(receive, meeting.sends[member] + meeting.begins[member][static_cast<size_t>(members.member)],
                    static_cast<size_t>(bytes[member]));
      receive += bytes[member];
    }
    if (--meeting.arrived == 0)
      meeting.left = 0;
    changed.notify_all();
    // A member may reuse its memory only when all have copied from it.
    changed.wait(lock, [&] { return meeting.left == 0 || meeting.arrived == 0; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int64_t>, Meeting> meetings;
};

inline int32_t allToAll(void *context, const moert_members *members, const void *send, const int64_t *sent,
                        void *receive, const int64_t *received) {
  std::vector<int64_t> begins(static_cast<size_t>(members->count));
  std::exclusive_scan(sent, sent + members->count, begins.begin(), int64_t(0));
  static_cast<Memory *>(context)->exchange(*members, send, begins, static_cast<char *>(receive),
                                           {received, received + members->count});
  return 0;
}

inline int32_t allGather(void *context, const moert_members *members, const void *send, int64_t bytes, void *receive) {
  auto count = static_cast<size_t>(members->count);
  static_cast<Memory *>(context)->exchange(*members, send, std::vector<int64_t>(count), static_cast<char *>(receive),
                                           std::vector<int64_t>(count, bytes));
  return 0;
}

/// Functions of one rank, which share `memory` with those of the other ranks.
inline moert_communicator makeTable(Memory &memory, int64_t rank, int64_t ranks) {
  return {sizeof(moert_communicator), MOERT_COMMUNICATOR_VERSION, &memory, rank, ranks, allToAll, allGather, nullptr};
}

} // namespace moert::test

#endif // MOERT_TEST_CALLERSMEMORY_H
