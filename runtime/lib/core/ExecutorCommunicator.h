//===- ExecutorCommunicator.h - collectives that wait in queues -----------===//
#ifndef MOERT_CORE_EXECUTORCOMMUNICATOR_H
#define MOERT_CORE_EXECUTORCOMMUNICATOR_H

#include "core/Exchange.h"
#include "core/Executor.h"

namespace moert {

/// Checks collectives and leaves them to the executor.
class ExecutorCommunicator final : public Communicator {
public:
  ExecutorCommunicator(Executor &executor, const std::vector<Group> &groups, bool verify)
      : executor(executor), groups(groups), verify(verify) {}

  Status issue(int64_t rank, int64_t stream, Call call) override {
    const Group &group = groups[static_cast<size_t>(call.group)];
    if (Status status = checkCollective(call, group.size, group.memberOf(rank)); !status.ok())
      return status;
    if (call.kind != Kind::AssumeReplicated || verify)
      executor.submit(rank, stream, call);
    return {};
  }

private:
  Executor &executor;
  const std::vector<Group> &groups;
  bool verify;
};

} // namespace moert

#endif // MOERT_CORE_EXECUTORCOMMUNICATOR_H
