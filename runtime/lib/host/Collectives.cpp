//===- Collectives.cpp - one member's share of a collective ---------------===//

#include "host/Collectives.h"
#include "core/Attributes.h"
#include "core/Convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moert::host {
namespace {

void copyBytes(char *to, const char *from, int64_t bytes) {
  if (to != from && bytes > 0)
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

/// Range of the elements that a member sums, of `count`. All members cut alike, so that one member sums each element.
std::pair<int64_t, int64_t> segment(int64_t count, int64_t member, int64_t size) {
  return {count * member / size, count * (member + 1) / size};
}

char *advanced(const View &view, int64_t elements) {
  return view.as<char>() + elements * static_cast<int64_t>(dtypeSize(view.dtype));
}

/// Sums block by block in a local buffer, because `out` may be one of the sources.
template <class T, class Sum = T> void sumBlocks(std::span<const void *const> sources, void *out, int64_t count) {
  constexpr int64_t kBlock = 1024;
  Sum sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t length = std::min(kBlock, count - begin);
    for (size_t i = 0; i < sources.size(); ++i) {
      const T *source = static_cast<const T *>(sources[i]) + begin;
      for (int64_t k = 0; k < length; ++k)
        sum[k] = i ? sum[k] + convert<Sum>(source[k]) : convert<Sum>(source[k]);
    }
    T *to = static_cast<T *>(out) + begin;
    for (int64_t k = 0; k < length; ++k)
      to[k] = convert<T>(sum[k]);
  }
}

/// Returns all members' inputs from `element` on.
std::vector<const void *> inputsFrom(const Share &share, int64_t element) {
  std::vector<const void *> inputs;
  for (const Call *call : share.calls)
    inputs.push_back(advanced(sentOperand(*call), element));
  return inputs;
}

/// Sums one input of each member, and counts all but the own one as received.
Status sumInputs(Share &share, std::span<const void *const> inputs, void *out, int64_t count) {
  int32_t dtype = sentOperand(share.mine()).dtype;
  share.received += (share.size() - 1) * count * static_cast<int64_t>(dtypeSize(dtype));
  return sumInOrder(inputs, out, count, dtype);
}

Status reduceScatter(Share &share) {
  const View &in = sentOperand(share.mine()), &out = receivedOperand(share.mine());
  Cut cut(in, attributes::ReduceScatter::of(share.mine()).dim, share.size());
  int64_t run = cut.run / static_cast<int64_t>(dtypeSize(in.dtype));
  std::vector<const void *> inputs = inputsFrom(share, share.member * run);
  for (int64_t o = 0; o < cut.outer; ++o) {
    MOERT_RETURN_IF_ERROR(sumInputs(share, inputs, advanced(out, o * run), run));
    for (const void *&input : inputs)
      input = static_cast<const char *>(input) + share.size() * cut.run;
  }
  return {};
}

/// Each member sums one segment for all, and then takes the other segments from the others.
Status allReduce(Share &share, int phase) {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(share.mine(), count));
  MOERT_RETURN_IF_ERROR(checkAlike(share.mine(), share.member, share.of(0)));
  const View &out = receivedOperand(share.mine());
  if (phase == 0) {
    auto [begin, end] = segment(count, share.member, share.size());
    return sumInputs(share, inputsFrom(share, begin), advanced(out, begin), end - begin);
  }
  for (int64_t i = 0; i < share.size(); ++i) {
    auto [begin, end] = segment(count, i, share.size());
    if (i != share.member)
      share.copy(i, advanced(out, begin), advanced(receivedOperand(share.of(i)), begin),
                 (end - begin) * static_cast<int64_t>(dtypeSize(out.dtype)));
  }
  return {};
}

/// Each member sums one segment into the root's output. Other outputs become zero when all inputs have been read.
Status reduce(Share &share, int phase) {
  int64_t root = attributes::Reduce::of(share.mine()).root;
  if (phase == 1) {
    const View &out = receivedOperand(share.mine());
    if (share.member != root)
      std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
    return {};
  }
  const View &out = receivedOperand(share.of(root));
  auto [begin, end] = segment(out.elements(), share.member, share.size());
  // The root receives what the others write into its output.
  if (share.member == root)
    share.received += out.bytes() - (end - begin) * static_cast<int64_t>(dtypeSize(out.dtype));
  return sumInputs(share, inputsFrom(share, begin), advanced(out, begin), end - begin);
}

/// Checks the values of all members that control the exchange, because this member reads what the others send.
Status checkValues(const Share &share) {
  for (int64_t i = 0; i < share.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkExchangeValues(share.of(i), share.size(), i));
  return checkAlike(share.mine(), share.member, share.of(0));
}

Status pullFrom(Share &share, int64_t source, const Pieces &received) {
  thread_local Pieces sent;
  piecesSent(share.of(source), share.size(), source, share.member, sent);
  int64_t bytes = 0;
  Status status = copyPieces({share.of(source), source, sent}, {share.mine(), share.member, received}, bytes);
  if (source != share.member)
    share.received += bytes;
  return status;
}

Status pullExchange(Share &share) {
  MOERT_RETURN_IF_ERROR(checkValues(share));
  thread_local std::vector<Pieces> received;
  piecesReceived(share.mine(), share.size(), share.member, received);
  for (int64_t source = 0; source < share.size(); ++source)
    if (const Pieces &pieces = received[source]; !pieces.empty())
      MOERT_RETURN_IF_ERROR(pullFrom(share, source, pieces));
  fillUnsent(share.mine(), share.size(), share.member);
  return {};
}

/// Does an exchange for all members, and lists once what each sends.
Status exchangeWhole(Calls calls, std::span<int64_t> received) {
  const auto size = std::ssize(calls);
  thread_local std::vector<std::vector<Pieces>> sent;
  thread_local std::vector<Pieces> expected;
  sent.resize(std::max(sent.size(), calls.size()));
  for (int64_t member = 0; member < size; ++member) {
    const Call &call = *calls[member];
    MOERT_RETURN_IF_ERROR(checkExchangeValues(call, size, member));
    MOERT_RETURN_IF_ERROR(checkAlike(call, member, *calls[0]));
    piecesSentToAll(call, size, member, sent[member]);
  }
  for (size_t member = 0; member < calls.size(); ++member) {
    const Call &call = *calls[member];
    piecesReceived(call, size, static_cast<int64_t>(member), expected);
    for (size_t source = 0; source < calls.size(); ++source) {
      int64_t bytes = 0;
      const Side from{*calls[source], static_cast<int64_t>(source), sent[source][member]};
      const Side to{call, static_cast<int64_t>(member), expected[source]};
      if (expected[source].empty())
        continue;
      MOERT_RETURN_IF_ERROR(copyPieces(from, to, bytes));
      received[member] += source == member ? 0 : bytes;
    }
    fillUnsent(call, size, static_cast<int64_t>(member));
  }
  return {};
}

} // namespace

Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    sumBlocks<float>(sources, out, count);
    return {};
  case MOERT_F64:
    sumBlocks<double>(sources, out, count);
    return {};
  case kFieldType:
    sumBlocks<Field>(sources, out, count);
    return {};
  case MOERT_I32:
    // Unsigned, because the overflow of a signed sum is undefined.
    sumBlocks<uint32_t>(sources, out, count);
    return {};
  case MOERT_BF16:
    sumBlocks<Bf16, float>(sources, out, count);
    return {};
  case MOERT_F16:
    sumBlocks<Half, float>(sources, out, count);
    return {};
  default:
    return invalid("cannot sum values of dtype ", dtype);
  }
}

Status copyPieces(const Side &from, const Side &to, int64_t &bytes) {
  MOERT_RETURN_IF_ERROR(checkPieces(from, to));
  const char *source = sentOperand(from.call).as<char>();
  char *target = receivedOperand(to.call).as<char>();
  for (size_t i = 0; i < to.pieces.size(); ++i) {
    bytes += to.pieces[i].bytes;
    copyBytes(target + to.pieces[i].offset, source + from.pieces[i].offset, to.pieces[i].bytes);
  }
  return {};
}

void fillUnsent(const Call &call, int64_t size, int64_t member) {
  thread_local Pieces pieces;
  View addend;
  piecesFilled(call, size, member, pieces, addend);
  char *out = receivedOperand(call).as<char>();
  for (const Piece &piece : pieces)
    if (addend)
      copyBytes(out + piece.offset, addend.as<char>() + piece.offset, piece.bytes);
    else if (piece.bytes > 0)
      std::memset(out + piece.offset, 0, static_cast<size_t>(piece.bytes));
}

int collectivePhases(Kind kind) { return kind == Kind::AllReduce || kind == Kind::Reduce ? 2 : 1; }

void Share::copy(int64_t source, char *to, const char *from, int64_t bytes) {
  copyBytes(to, from, bytes);
  if (source != member && to != from)
    received += bytes;
}

Status pullWhole(Calls calls, std::span<int64_t> received, const Group &group, int64_t instance) {
  if (isExchange(calls[0]->kind))
    return exchangeWhole(calls, received);
  for (int phase = 0; phase < collectivePhases(calls[0]->kind); ++phase)
    for (size_t member = 0; member < calls.size(); ++member) {
      Share share{calls, static_cast<int64_t>(member)};
      MOERT_RETURN_IF_ERROR(pullCollective(share, phase, group, instance));
      received[member] += share.received;
    }
  return {};
}

Status pullCollective(Share &share, int phase, const Group &group, int64_t instance) {
  switch (share.mine().kind) {
  case Kind::ReduceScatter:
    return reduceScatter(share);
  case Kind::AllReduce:
    return allReduce(share, phase);
  case Kind::ReduceExperts:
    return pullReduceExperts(share);
  case Kind::Reduce:
    return reduce(share, phase);
  case Kind::AssumeReplicated:
    share.received += share.member ? sentOperand(share.mine()).bytes() : 0;
    return compareReplicas(sentOperand(share.mine()), sentOperand(share.of(0)), share.member, group, instance);
  default:
    return pullExchange(share);
  }
}

Status pullReduceExperts(Share &share) {
  using operands::ReduceExperts;
  const View &addend = share.mine().views[ReduceExperts::addend], &out = share.mine().views[ReduceExperts::out];
  MOERT_RETURN_IF_ERROR(checkExchangeValues(share.mine(), share.size(), share.member));
  MOERT_RETURN_IF_ERROR(checkAlike(share.mine(), share.member, share.of(0)));
  const int32_t *shadows = share.mine().views[ReduceExperts::shadows].as<int32_t>();
  OwnedExperts own(share.mine(), share.member);
  int64_t bytes = own.bytes, place = own.place;
  std::vector<const void *> sources;
  for (int64_t i = 0; i < own.count; ++i) {
    char *to = out.as<char>() + i * bytes;
    const char *added = addend ? addend.as<char>() + i * bytes : nullptr;
    if (shadows[own.first + i]) {
      sources.clear();
      for (const Call *call : share.calls)
        sources.push_back(call->views[ReduceExperts::in].as<char>() + place * bytes);
      // The addend comes last, so that it is added to the sum of the members.
      if (added)
        sources.push_back(added);
      share.received += (share.size() - 1) * bytes;
      MOERT_RETURN_IF_ERROR(sumInOrder(sources, to, own.elements, out.dtype));
      ++place;
    } else if (added) {
      share.copy(share.member, to, added, bytes);
    } else {
      std::memset(to, 0, static_cast<size_t>(bytes));
    }
  }
  return {};
}

Status compareReplicas(const View &mine, const View &first, int64_t member, const Group &group, int64_t instance) {
  if (member == 0)
    return {};
  // Equal NaNs pass too. The check of the results finds them.
  if (std::memcmp(mine.data, first.data, static_cast<size_t>(mine.bytes())) == 0)
    return {};
  double difference = 0, norm = 0;
  for (int64_t i = 0, e = mine.elements(); i < e; ++i) {
    double a = elementAt(mine.data, mine.dtype, i), b = elementAt(first.data, first.dtype, i);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  double limit = roundingTolerance(mine.dtype) * std::sqrt(norm);
  // This comparison fails for NaN.
  if (std::sqrt(difference) <= limit)
    return {};
  std::string ranks;
  for (int64_t i = 0; i < std::min<int64_t>(group.size, 8); ++i)
    ranks += (i ? ", " : "") + std::to_string(group.rankOf(instance, i));
  char text[64];
  std::snprintf(text, sizeof text, "%.3g, norm %.3g", std::sqrt(difference), std::sqrt(norm));
  return Status::error(MOERT_ERROR_NOT_REPLICATED, "assumed equal on group '", group.name, "' (ranks ", ranks,
                       group.size > 8 ? ", ..." : "", "), but ranks ", group.rankOf(instance, 0), " and ",
                       group.rankOf(instance, member), " differ (norm of the difference ", text, ")");
}

} // namespace moert::host
