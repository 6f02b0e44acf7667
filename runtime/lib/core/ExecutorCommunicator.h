//===- ExecutorCommunicator.h - collectives that wait in queues -----------===//
#ifndef MOERT_CORE_EXECUTORCOMMUNICATOR_H
#define MOERT_CORE_EXECUTORCOMMUNICATOR_H

#include "core/Exchange.h"
#include "core/Executor.h"

namespace moert {

/// Checks collectives and submits them to the executor.
class ExecutorCommunicator : public Communicator {
public:
  ExecutorCommunicator(Executor &executor, const std::vector<Group> &groups, bool verify)
      : executor(executor), groups(groups), verify(verify) {}

  Status issue(int64_t rank, int64_t stream, Call call) final {
    const Group &group = groups[call.group];
    MOERT_RETURN_IF_ERROR(checkCollective(call, group.size, group.memberOf(rank)));
    if (call.kind != Kind::AssumeReplicated || verify)
      submit(rank, stream, call);
    return {};
  }

protected:
  virtual void submit(int64_t rank, int64_t stream, const Call &call) { executor.submit(rank, stream, call); }

private:
  Executor &executor;
  const std::vector<Group> &groups;
  bool verify;
};

} // namespace moert

#endif // MOERT_CORE_EXECUTORCOMMUNICATOR_H
