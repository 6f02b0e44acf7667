//===- LocalExchange.cpp - collectives of members on one device -----------===//

#include "cuda/LocalExchange.h"
#include "core/Attributes.h"
#include "cuda/Copies.h"
#include "cuda/PieceCopies.h"
#include "host/Collectives.h"

namespace moert::cuda {
namespace {

/// A collective whose members are all in this process.
class Exchange {
public:
  explicit Exchange(const LocalMembers &members) : members(members), lane(*members.on[0]) {
    for (const Call *call : members.calls)
      calls.push_back(*call);
  }

  Status run();

private:
  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  const Call &of(int64_t member) const { return calls[static_cast<size_t>(member)]; }
  cudaStream_t stream() const { return lane.context.stream; }
  Target target() { return members.lanes.target(lane, calls[0]); }

  Status fetchValues();
  Status exchange(int64_t member);
  Status sum();
  Status sumInputs(int64_t count, char *&sums);
  Status allReduce();
  Status reduceScatter();
  Status reduce();
  Status reduceExperts();
  Status reduceExpertsOf(int64_t member);
  Status compare();

  const LocalMembers &members;
  Lane &lane;
  std::vector<Call> calls; ///< calls with counts and shadows in the host's memory
  HostValues values;
};

Status Exchange::fetchValues() {
  for (size_t member = 0; member < calls.size(); ++member)
    MOERT_RETURN_IF_ERROR(values.fetchOperands(members.on[member]->context, calls[member]));
  if (values.empty())
    return {};
  for (int64_t member = 0; member < size(); ++member) {
    MOERT_RETURN_IF_ERROR(checkExchangeValues(of(member), size(), member));
    MOERT_RETURN_IF_ERROR(checkAlike(of(member), member, of(0)));
  }
  return {};
}

Status Exchange::run() {
  MOERT_RETURN_IF_ERROR(fetchValues());
  if (of(0).kind == Kind::AssumeReplicated)
    return compare();
  if (!isExchange(of(0).kind) && !isPointToPoint(of(0).kind))
    return sum();
  for (int64_t member = 0; member < size(); ++member)
    MOERT_RETURN_IF_ERROR(exchange(member));
  return {};
}

Status Exchange::exchange(int64_t member) {
  PieceCopies copies;
  std::vector<Pieces> received;
  piecesReceived(of(member), size(), member, received);
  for (int64_t source = 0; source < size(); ++source) {
    const Pieces &pieces = received[static_cast<size_t>(source)];
    if (pieces.empty())
      continue;
    Pieces sent;
    piecesSent(of(source), size(), source, member, sent);
    MOERT_RETURN_IF_ERROR(checkPieces({of(source), source, sent}, {of(member), member, pieces}));
    copies.add(sentOperand(of(source)).as<char>(), sent, receivedOperand(of(member)).as<char>(), pieces);
    if (source != member)
      members.received[static_cast<size_t>(member)] += bytesOf(pieces);
  }
  MOERT_RETURN_IF_ERROR(copies.launch(target()));
  return fillUnsent(stream(), of(member), size(), member);
}

Status Exchange::sum() {
  for (int64_t member = 0; member < size(); ++member) {
    int64_t count = sentOperand(of(member)).elements();
    if (of(member).kind == Kind::AllReduce)
      MOERT_RETURN_IF_ERROR(reducedElements(of(member), count));
    if (of(member).kind != Kind::ReduceExperts)
      members.received[static_cast<size_t>(member)] = summedBytes(of(member), size(), member, count);
  }
  switch (of(0).kind) {
  case Kind::AllReduce:
    return allReduce();
  case Kind::ReduceScatter:
    return reduceScatter();
  case Kind::Reduce:
    return reduce();
  case Kind::ReduceExperts:
    return reduceExperts();
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a collective");
  }
}

/// Sums the first `count` elements of all members' inputs, in the workspace, because an output may be an input.
Status Exchange::sumInputs(int64_t count, char *&sums) {
  const int32_t dtype = sentOperand(of(0)).dtype;
  std::vector<const void *> sources;
  for (const Call &call : calls)
    sources.push_back(sentOperand(call).data);
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(count * static_cast<int64_t>(dtypeSize(dtype)), sums));
  return sumSources(target(), sources, sums, count, dtype);
}

Status Exchange::allReduce() {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(of(0), count));
  int64_t bytes = count * static_cast<int64_t>(dtypeSize(sentOperand(of(0)).dtype));
  char *sums = nullptr;
  MOERT_RETURN_IF_ERROR(sumInputs(count, sums));
  for (const Call &call : calls)
    MOERT_RETURN_IF_ERROR(copyBytes(stream(), receivedOperand(call).data, sums, bytes));
  return {};
}

Status Exchange::reduceScatter() {
  const View &in = sentOperand(of(0));
  Cut cut(in, attributes::ReduceScatter::of(of(0)).dim, size());
  char *sums = nullptr;
  MOERT_RETURN_IF_ERROR(sumInputs(in.elements(), sums));
  for (int64_t member = 0; member < size(); ++member)
    for (int64_t o = 0; o < cut.outer; ++o)
      MOERT_RETURN_IF_ERROR(copyBytes(stream(), receivedOperand(of(member)).as<char>() + o * cut.run,
                                      sums + (o * size() + member) * cut.run, cut.run));
  return {};
}

Status Exchange::reduce() {
  const View &in = sentOperand(of(0));
  const int64_t root = attributes::Reduce::of(of(0)).root;
  char *sums = nullptr;
  MOERT_RETURN_IF_ERROR(sumInputs(in.elements(), sums));
  for (int64_t member = 0; member < size(); ++member) {
    const View &out = receivedOperand(of(member));
    MOERT_RETURN_IF_ERROR(member == root ? copyBytes(stream(), out.data, sums, out.bytes())
                                         : clearBytes(stream(), out.data, out.bytes()));
  }
  return {};
}

Status Exchange::reduceExperts() {
  for (int64_t member = 0; member < size(); ++member)
    MOERT_RETURN_IF_ERROR(reduceExpertsOf(member));
  return {};
}

Status Exchange::reduceExpertsOf(int64_t member) {
  const Call &mine = of(member);
  using operands::ReduceExperts;
  const View &addend = mine.views[ReduceExperts::addend], &out = mine.views[ReduceExperts::out];
  const int32_t *shadows = mine.views[ReduceExperts::shadows].as<int32_t>();
  OwnedExperts own(mine, member);
  int64_t place = own.place;
  for (int64_t i = 0; i < own.count; ++i) {
    std::vector<const void *> sources;
    if (shadows[own.first + i]) {
      for (const Call &call : calls)
        sources.push_back(call.views[ReduceExperts::in].as<char>() + place * own.bytes);
      members.received[static_cast<size_t>(member)] += (size() - 1) * own.bytes;
      ++place;
    }
    if (addend)
      sources.push_back(addend.as<char>() + i * own.bytes);
    // Without sources the sum is zero.
    MOERT_RETURN_IF_ERROR(sumSources(target(), sources, out.as<char>() + i * own.bytes, own.elements, out.dtype));
  }
  return {};
}

/// Compares replicas. Only verification does so, so the host may wait.
Status Exchange::compare() {
  for (Call &call : calls)
    MOERT_RETURN_IF_ERROR(values.fetch(lane.context, call.views[operands::AssumeReplicated::in]));
  for (int64_t member = 1; member < size(); ++member) {
    members.received[static_cast<size_t>(member)] = sentOperand(of(member)).bytes();
    MOERT_RETURN_IF_ERROR(
        host::compareReplicas(sentOperand(of(member)), sentOperand(of(0)), member, members.group, members.instance));
  }
  return {};
}

} // namespace

Status runLocally(const LocalMembers &members) { return Exchange(members).run(); }

} // namespace moert::cuda
