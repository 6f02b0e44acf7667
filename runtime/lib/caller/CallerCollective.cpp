//===- CallerCollective.cpp - collectives by a caller's functions ---------===//

#include "caller/CallerCollective.h"
#include "core/Attributes.h"
#include "host/Collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace moert::caller {
namespace {

/// Begin of the pieces if they follow each other; 0 for no bytes, and -1 if they do not.
int64_t beginOfRun(const std::vector<Pieces> &byMember) {
  int64_t begin = -1, end = -1;
  for (const Pieces &pieces : byMember)
    for (const Piece &piece : pieces) {
      if (piece.bytes == 0)
        continue;
      if (begin >= 0 && piece.offset != end)
        return -1;
      begin = begin < 0 ? piece.offset : begin;
      end = piece.offset + piece.bytes;
    }
  return std::max<int64_t>(begin, 0);
}

std::vector<int64_t> bytesByMember(const std::vector<Pieces> &byMember) {
  std::vector<int64_t> bytes;
  for (const Pieces &pieces : byMember)
    bytes.push_back(bytesOf(pieces));
  return bytes;
}

template <class Visit> void forPieces(const std::vector<Pieces> &byMember, Visit visit) {
  for (const Pieces &pieces : byMember)
    for (const Piece &piece : pieces)
      visit(piece);
}

char *reserve(std::vector<char> &memory, int64_t bytes) {
  memory.resize(std::max(memory.size(), static_cast<size_t>(bytes)));
  return memory.data();
}

} // namespace

Status CallerCollectives::run(const Call &call, int64_t &arrived) {
  group = &groups[static_cast<size_t>(call.group)];
  instance = group->instanceOf(table.rank);
  ranks.clear();
  for (int64_t member = 0; member < group->size; ++member)
    ranks.push_back(group->rankOf(instance, member));
  members = {group->name.c_str(), ranks.data(), group->size, group->memberOf(table.rank)};
  received = 0;
  Status status = checkExchangeValues(call, size(), members.member);
  if (status.ok())
    status = exchange(call);
  arrived = received;
  // The bytes of a sum are counted as if members shared the work, because the plan does not decide how it is divided.
  int64_t count = sentOperand(call).elements();
  if (call.kind == Kind::AllReduce && status.ok())
    status = reducedElements(call, count);
  if (call.kind == Kind::AllReduce || call.kind == Kind::ReduceScatter || call.kind == Kind::Reduce)
    arrived = summedBytes(call, size(), members.member, count);
  return status;
}

Status CallerCollectives::exchange(const Call &call) {
  switch (call.kind) {
  case Kind::AllReduce:
    return allReduce(call);
  case Kind::ReduceScatter:
    return reduceScatter(call);
  case Kind::Reduce:
    return reduce(call);
  case Kind::ReduceExperts:
    return reduceExperts(call);
  case Kind::AssumeReplicated:
    return compareReplicas(call);
  default:
    return exchangePieces(call);
  }
}

// --- Exchanges -----------------------------------------------------------------

/// Sends from and receives into the operands if their pieces are contiguous. Otherwise packs pieces, and copies the
/// member's own.
Status CallerCollectives::exchangePieces(const Call &call) {
  std::vector<Pieces> leaving(static_cast<size_t>(size())), arriving;
  for (int64_t to = 0; to < size(); ++to)
    piecesSent(call, size(), members.member, to, leaving[static_cast<size_t>(to)]);
  piecesReceived(call, size(), members.member, arriving);
  auto own = static_cast<size_t>(members.member);
  if (beginOfRun(leaving) < 0 || beginOfRun(arriving) < 0) {
    int64_t bytes = 0;
    if (!arriving[own].empty())
      MOERT_RETURN_IF_ERROR(
          host::copyPieces({call, members.member, leaving[own]}, {call, members.member, arriving[own]}, bytes));
    leaving[own].clear();
    arriving[own].clear();
  }
  std::vector<int64_t> sent = bytesByMember(leaving), expected = bytesByMember(arriving);
  int64_t first = beginOfRun(leaving), place = beginOfRun(arriving);
  char *from = sentOperand(call).as<char>() + std::max<int64_t>(first, 0);
  if (first < 0) {
    from = reserve(outgoing, std::accumulate(sent.begin(), sent.end(), int64_t(0)));
    char *next = from;
    forPieces(leaving, [&](const Piece &piece) {
      next = std::copy_n(sentOperand(call).as<char>() + piece.offset, piece.bytes, next);
    });
  }
  char *operand = receivedOperand(call).as<char>(), *to = operand + std::max<int64_t>(place, 0);
  if (place < 0)
    to = reserve(incoming, std::accumulate(expected.begin(), expected.end(), int64_t(0)));
  MOERT_RETURN_IF_ERROR(allToAll(from, sent, to, expected));
  if (place < 0)
    forPieces(arriving, [&](const Piece &piece) {
      std::copy_n(to, piece.bytes, operand + piece.offset);
      to += piece.bytes;
    });
  host::fillUnsent(call, size(), members.member);
  return {};
}

// --- Sums ----------------------------------------------------------------------

/// Sums the members' parts, of `bytes` each. `own` is this member's part, or null if it is among the others.
Status CallerCollectives::sumParts(const char *parts, int64_t bytes, int32_t dtype, const void *own, void *out) {
  std::vector<const void *> sources;
  for (int64_t member = 0; member < size(); ++member)
    sources.push_back(own && member == members.member ? own : parts + member * bytes);
  return host::sumInOrder(sources, out, bytes / static_cast<int64_t>(dtypeSize(dtype)), dtype);
}

/// Sums this member's segment of all members' `in`, which has a segment of `elements` for each member.
Status CallerCollectives::sumSegments(const void *in, int64_t elements, int32_t dtype, void *out) {
  auto bytes = elements * static_cast<int64_t>(dtypeSize(dtype));
  auto mine = static_cast<const char *>(in) + members.member * bytes;
  std::vector<int64_t> each(static_cast<size_t>(size()), bytes);
  char *parts = reserve(incoming, size() * bytes);
  MOERT_RETURN_IF_ERROR(allToAll(in, each, parts, each));
  return sumParts(parts, bytes, dtype, mine, out);
}

/// Lets each member sum everything, for few elements: a second exchange would take longer.
Status CallerCollectives::sumAll(const Call &call, int64_t count) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  auto bytes = count * static_cast<int64_t>(dtypeSize(in.dtype));
  char *parts = reserve(incoming, size() * bytes);
  MOERT_RETURN_IF_ERROR(allGather(in.data, bytes, parts));
  return sumParts(parts, bytes, in.dtype, nullptr, out.data);
}

Status CallerCollectives::allReduce(const Call &call) {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(call, count));
  const View &in = sentOperand(call), &out = receivedOperand(call);
  auto width = static_cast<int64_t>(dtypeSize(in.dtype));
  constexpr int64_t kFewBytes = 1 << 14;
  if (count * width <= kFewBytes)
    return sumAll(call, count);
  // Segments have one size, and zeros fill up the last one.
  int64_t segment = (count + size() - 1) / size();
  const void *whole = in.data;
  void *sums = out.data;
  if (segment * size() != count) {
    char *padded = reserve(outgoing, 2 * segment * size() * width);
    std::memcpy(padded, in.data, static_cast<size_t>(count * width));
    std::memset(padded + count * width, 0, static_cast<size_t>((segment * size() - count) * width));
    whole = padded;
    sums = padded + segment * size() * width;
  }
  char *own = static_cast<char *>(sums) + members.member * segment * width;
  MOERT_RETURN_IF_ERROR(sumSegments(whole, segment, in.dtype, own));
  ownSum.assign(own, own + segment * width);
  MOERT_RETURN_IF_ERROR(allGather(ownSum.data(), segment * width, sums));
  if (sums != out.data)
    std::memcpy(out.data, sums, static_cast<size_t>(count * width));
  return {};
}

Status CallerCollectives::reduceScatter(const Call &call) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Cut cut(in, attributes::ReduceScatter::of(call).dim, size());
  const char *from = in.as<char>();
  if (cut.outer > 1) {
    char *packed = reserve(outgoing, in.bytes());
    cut.pack(from, packed);
    from = packed;
  }
  return sumSegments(from, out.elements(), in.dtype, out.data);
}

Status CallerCollectives::reduce(const Call &call) {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  int64_t root = attributes::Reduce::of(call).root;
  bool isRoot = root == members.member;
  std::vector<int64_t> sent(static_cast<size_t>(size())), expected(sent.size(), isRoot ? in.bytes() : 0);
  sent[static_cast<size_t>(root)] = in.bytes();
  char *parts = reserve(incoming, isRoot ? size() * in.bytes() : 0);
  MOERT_RETURN_IF_ERROR(allToAll(in.data, sent, parts, expected));
  if (!isRoot) {
    std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
    return {};
  }
  return sumParts(parts, in.bytes(), in.dtype, nullptr, out.data);
}

/// Does the host's share on the members' gradients of this member's experts.
Status CallerCollectives::reduceExperts(const Call &call) {
  const View &in = sentOperand(call);
  std::vector<int64_t> sent, expected;
  std::vector<Call> calls(static_cast<size_t>(size()), call);
  OwnedExperts own(call, members.member);
  const int32_t *shadows = call.views[operands::ReduceExperts::shadows].as<int32_t>();
  int64_t owned = 0;
  for (int64_t member = 0; member < size(); ++member) {
    OwnedExperts theirs(call, member);
    auto count = std::count(shadows + theirs.first, shadows + theirs.first + theirs.count, 1);
    sent.push_back(count * theirs.bytes);
    owned = member == members.member ? count : owned;
  }
  expected.assign(sent.size(), owned * own.bytes);
  // There is room for the experts before this member's, so that the others' inputs begin where this one's do.
  char *parts = reserve(incoming, own.place * own.bytes + size() * owned * own.bytes);
  MOERT_RETURN_IF_ERROR(allToAll(in.data, sent, parts + own.place * own.bytes, expected));
  std::vector<const Call *> all;
  for (int64_t member = 0; member < size(); ++member) {
    View &view = calls[static_cast<size_t>(member)].views[operands::ReduceExperts::in];
    if (member != members.member)
      view.data = parts + member * owned * own.bytes;
    all.push_back(&calls[static_cast<size_t>(member)]);
  }
  host::Share share{all, members.member};
  return host::pullReduceExperts(share);
}

Status CallerCollectives::compareReplicas(const Call &call) {
  const View &value = sentOperand(call);
  bool isFirst = members.member == 0;
  std::vector<int64_t> sent(static_cast<size_t>(size())), expected(sent.size());
  expected[0] = value.bytes();
  char *packed = reserve(outgoing, isFirst ? size() * value.bytes() : 0), *first = reserve(incoming, value.bytes());
  for (int64_t to = 0; isFirst && to < size(); ++to) {
    sent[static_cast<size_t>(to)] = value.bytes();
    std::memcpy(packed + to * value.bytes(), value.data, static_cast<size_t>(value.bytes()));
  }
  MOERT_RETURN_IF_ERROR(allToAll(packed, sent, first, expected));
  View other = value;
  other.data = first;
  return host::compareReplicas(value, other, members.member, *group, instance);
}

// --- The caller's functions ------------------------------------------------------

Status CallerCollectives::located(int32_t code, const char *function) const {
  if (code == 0)
    return {};
  const char *text = table.last_error ? table.last_error(table.context) : nullptr;
  return Status::error(MOERT_ERROR_INTERNAL, "the caller's ", function, " on group '", group->name, "' failed",
                       (text ? std::string(": ") + text : ""));
}

Status CallerCollectives::allToAll(const void *send, std::span<const int64_t> sent, void *receive,
                                   std::span<const int64_t> bytes) {
  for (int64_t member = 0; member < size(); ++member)
    received += member == members.member ? 0 : bytes[static_cast<size_t>(member)];
  return located(table.all_to_all(table.context, &members, send, sent.data(), receive, bytes.data()), "all_to_all");
}

Status CallerCollectives::allGather(const void *send, int64_t bytes, void *receive) {
  received += (size() - 1) * bytes;
  return located(table.all_gather(table.context, &members, send, bytes, receive), "all_gather");
}

} // namespace moert::caller
