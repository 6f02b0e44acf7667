//===- LocalExchange.cpp - collectives of members on one device -----------===//

#include "cuda/LocalExchange.h"
#include "cuda/Collective.h"
#include "host/Collectives.h"

#include <deque>

namespace moert::cuda {
namespace {

/// One collective of members that are all here.
class Exchange {
public:
  explicit Exchange(const LocalMembers &members) : members(members), lane(members.lane) {
    for (const Call *call : members.calls)
      calls.push_back(*call);
  }

  Status run();

private:
  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  const Call &of(int64_t member) const { return calls[static_cast<size_t>(member)]; }
  Target target() { return members.lanes.target(lane, calls[0]); }

  Status fetchValues();
  Status fetch(View &view, std::vector<char> &values);
  Status exchange(int64_t member);
  Status copyPieces(int64_t from, int64_t to, const Pieces &received);
  Status fill(int64_t member);
  Status copy(void *to, const void *from, int64_t bytes);
  Status sum();
  Status sumTo(int64_t element, int64_t count, void *to);
  Status allReduce();
  Status reduceScatter();
  Status reduce();
  Status reduceExperts();
  Status reduceExpertsOf(int64_t member);
  Status compare();

  const LocalMembers &members;
  Lane &lane;
  std::vector<Call> calls; ///< whose counts and shadows are in the host's memory
  std::deque<std::vector<char>> fetched;
};

Status Exchange::fetch(View &view, std::vector<char> &values) {
  values.resize(static_cast<size_t>(view.bytes()));
  MOERT_RETURN_IF_ERROR(
      check(cudaMemcpyAsync(values.data(), view.data, values.size(), cudaMemcpyDefault, lane.context.stream),
            "cannot copy counts to the host"));
  view.data = values.data();
  return {};
}

Status Exchange::fetchValues() {
  for (Call &call : calls)
    for (size_t operand : valueOperands(call.kind))
      if (View &view = call.views[operand])
        MOERT_RETURN_IF_ERROR(fetch(view, fetched.emplace_back()));
  if (fetched.empty())
    return {};
  MOERT_RETURN_IF_ERROR(check(cudaStreamSynchronize(lane.context.stream), "cannot wait for counts"));
  for (int64_t member = 0; member < size(); ++member)
    MOERT_RETURN_IF_ERROR(checkExchangeValues(of(member), size(), member));
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

Status Exchange::copy(void *to, const void *from, int64_t bytes) {
  if (to == from || bytes <= 0)
    return {};
  return check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, lane.context.stream),
               "cannot copy between members");
}

Status Exchange::copyPieces(int64_t from, int64_t to, const Pieces &received) {
  Pieces sent;
  piecesSent(of(from), size(), from, to, sent);
  auto sameBytes = [](const Piece &a, const Piece &b) { return a.bytes == b.bytes; };
  if (!std::equal(sent.begin(), sent.end(), received.begin(), received.end(), sameBytes))
    return piecesDisagree(of(to), from, to);
  char *source = sentOperand(of(from)).as<char>(), *target = receivedOperand(of(to)).as<char>();
  for (size_t i = 0; i < sent.size(); ++i) {
    MOERT_RETURN_IF_ERROR(copy(target + received[i].offset, source + sent[i].offset, sent[i].bytes));
    if (from != to)
      members.received[static_cast<size_t>(to)] += sent[i].bytes;
  }
  return {};
}

/// What nobody sends.
Status Exchange::fill(int64_t member) {
  Pieces pieces;
  View addend;
  piecesFilled(of(member), size(), member, pieces, addend);
  char *out = receivedOperand(of(member)).as<char>();
  for (const Piece &piece : pieces) {
    if (addend)
      MOERT_RETURN_IF_ERROR(copy(out + piece.offset, addend.as<char>() + piece.offset, piece.bytes));
    else if (piece.bytes > 0)
      MOERT_RETURN_IF_ERROR(
          check(cudaMemsetAsync(out + piece.offset, 0, static_cast<size_t>(piece.bytes), lane.context.stream),
                "cannot clear rows"));
  }
  return {};
}

Status Exchange::exchange(int64_t member) {
  std::vector<Pieces> received;
  piecesReceived(of(member), size(), member, received);
  for (int64_t source = 0; source < size(); ++source)
    if (const Pieces &pieces = received[static_cast<size_t>(source)]; !pieces.empty())
      MOERT_RETURN_IF_ERROR(copyPieces(source, member, pieces));
  return fill(member);
}

Status Exchange::sum() {
  for (int64_t member = 0; member < size(); ++member) {
    int64_t count = of(member).views[0].elements();
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

/// All members' inputs from `element` on, summed.
Status Exchange::sumTo(int64_t element, int64_t count, void *to) {
  const View &in = of(0).views[0];
  std::vector<const void *> sources;
  for (const Call &call : calls)
    sources.push_back(call.views[0].as<char>() + element * static_cast<int64_t>(dtypeSize(in.dtype)));
  return sumSources(target(), sources, to, count, in.dtype);
}

/// By way of the workspace, because an output may be an input.
Status Exchange::allReduce() {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(of(0), count));
  int64_t bytes = count * static_cast<int64_t>(dtypeSize(of(0).views[0].dtype));
  char *sums;
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(bytes, sums));
  MOERT_RETURN_IF_ERROR(sumTo(0, count, sums));
  for (const Call &call : calls)
    MOERT_RETURN_IF_ERROR(copy(call.views[2].data, sums, bytes));
  return {};
}

Status Exchange::reduceScatter() {
  const View &in = of(0).views[0];
  Cut cut(in, of(0).ints[0], size());
  char *sums;
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(in.bytes(), sums));
  MOERT_RETURN_IF_ERROR(sumTo(0, in.elements(), sums));
  for (int64_t member = 0; member < size(); ++member)
    for (int64_t o = 0; o < cut.outer; ++o)
      MOERT_RETURN_IF_ERROR(
          copy(of(member).views[1].as<char>() + o * cut.run, sums + (o * size() + member) * cut.run, cut.run));
  return {};
}

Status Exchange::reduce() {
  const View &in = of(0).views[0];
  char *sums;
  MOERT_RETURN_IF_ERROR(lane.context.workspace.reserve(in.bytes(), sums));
  MOERT_RETURN_IF_ERROR(sumTo(0, in.elements(), sums));
  for (int64_t member = 0; member < size(); ++member) {
    const View &out = of(member).views[1];
    if (member == of(0).ints[0])
      MOERT_RETURN_IF_ERROR(copy(out.data, sums, out.bytes()));
    else
      MOERT_RETURN_IF_ERROR(check(cudaMemsetAsync(out.data, 0, static_cast<size_t>(out.bytes()), lane.context.stream),
                                  "cannot clear a value"));
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
  const View &addend = mine.views[2], &out = mine.views[3];
  const int32_t *shadows = mine.views[1].as<int32_t>();
  int64_t own = out.dims[0], count = own ? out.elements() / own : 0,
          bytes = count * static_cast<int64_t>(dtypeSize(out.dtype));
  int64_t place = std::count(shadows, shadows + member * own, 1);
  for (int64_t i = 0; i < own; ++i) {
    char *to = out.as<char>() + i * bytes;
    const char *added = addend ? addend.as<char>() + i * bytes : nullptr;
    if (shadows[member * own + i]) {
      std::vector<const void *> sources;
      for (const Call &call : calls)
        sources.push_back(call.views[0].as<char>() + place * bytes);
      if (added)
        sources.push_back(added);
      MOERT_RETURN_IF_ERROR(sumSources(target(), sources, to, count, out.dtype));
      members.received[static_cast<size_t>(member)] += (size() - 1) * bytes;
      ++place;
    } else if (added) {
      MOERT_RETURN_IF_ERROR(copy(to, added, bytes));
    } else if (bytes > 0) {
      MOERT_RETURN_IF_ERROR(
          check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), lane.context.stream), "cannot clear a gradient"));
    }
  }
  return {};
}

/// Under verification only, so that it may wait.
Status Exchange::compare() {
  for (Call &call : calls)
    MOERT_RETURN_IF_ERROR(fetch(call.views[0], fetched.emplace_back()));
  MOERT_RETURN_IF_ERROR(check(cudaStreamSynchronize(lane.context.stream), "cannot wait for values"));
  for (int64_t member = 1; member < size(); ++member) {
    members.received[static_cast<size_t>(member)] = of(member).views[0].bytes();
    MOERT_RETURN_IF_ERROR(
        host::compareReplicas(of(member).views[0], of(0).views[0], member, members.group, members.instance));
  }
  return {};
}

} // namespace

Status runLocally(const LocalMembers &members) { return Exchange(members).run(); }

} // namespace moert::cuda
