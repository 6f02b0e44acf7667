//===- Transfer.cpp - one member's share of a collective over MPI ---------===//

#include "mpi/Transfer.h"
#include "core/Attributes.h"
#include "host/Collectives.h"

#include <cstring>

namespace moert::mpi {
namespace {

template <int32_t dtype> void sum16(void *in, void *inout, int *count, MPI_Datatype *) {
  const void *sources[] = {in, inout};
  // sumInOrder knows the type, so it cannot fail.
  (void)host::sumInOrder(sources, inout, *count, dtype);
}

MPI_Datatype typeOf(const View &view) {
  switch (view.dtype) {
  case MOERT_F32:
    return MPI_FLOAT;
  case MOERT_F64:
    return MPI_DOUBLE;
  case MOERT_BF16:
  case MOERT_F16:
    return MPI_UINT16_T;
  default:
    // Unsigned, because the overflow of a signed sum is undefined.
    return MPI_UINT32_T;
  }
}

/// Whether the two share memory, which MPI's collectives do not allow.
bool overlap(const View &view, const View &other) {
  return view.as<char>() < other.as<char>() + other.bytes() && other.as<char>() < view.as<char>() + view.bytes();
}

} // namespace

PiecesType::PiecesType(const Pieces &pieces) {
  std::vector<int> lengths;
  std::vector<MPI_Aint> offsets;
  for (const Piece &piece : pieces) {
    total += piece.bytes;
    (void)forParts(piece.bytes, [&](int64_t first, int length) -> Status {
      const MPI_Aint offset = piece.offset + first;
      if (!lengths.empty() && offsets.back() + lengths.back() == offset && lengths.back() <= kMostCount - length) {
        lengths.back() += length;
        return {};
      }
      lengths.push_back(length);
      offsets.push_back(offset);
      return {};
    });
  }
  MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(), MPI_BYTE, &type);
  MPI_Type_commit(&type);
}

SumOps::SumOps() {
  MPI_Op_create(sum16<MOERT_BF16>, 1, &bf16);
  MPI_Op_create(sum16<MOERT_F16>, 1, &f16);
}
SumOps::~SumOps() {
  MPI_Op_free(&bf16);
  MPI_Op_free(&f16);
}

MPI_Op Transfer::sumOf(const View &view) const {
  return view.dtype == MOERT_BF16 ? channel.sums->bf16 : view.dtype == MOERT_F16 ? channel.sums->f16 : MPI_SUM;
}

Status Transfer::stage(int64_t bytes, char *&data) {
  Status status = host::allocateBlock(std::max<int64_t>(bytes, 1), "a collective's staging", staging);
  data = static_cast<char *>(staging.get());
  return status;
}

bool Transfer::advance() {
  Status status;
  if (!begun) {
    begun = true;
    status = begin();
  }
  if (status.ok()) {
    int flag = 0;
    std::vector<MPI_Status> statuses(requests.size());
    int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, statuses.data());
    if (code == MPI_SUCCESS && !flag)
      return false;
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
      status = check(code, "MPI_Testall");
    if (status.ok())
      status = checkMessages(statuses);
    if (status.ok())
      status = finish();
  }
  messages.clear();
  done(status, received);
  return true;
}

Status Transfer::begin() {
  MOERT_RETURN_IF_ERROR(checkExchangeValues(call, channel.size, channel.member));
  if (isExchange(call.kind))
    return beginExchange();
  return call.kind == Kind::AssumeReplicated ? beginReplicas() : beginSum();
}

// --- Exchanges -----------------------------------------------------------------

Status Transfer::beginExchange() {
  std::vector<Pieces> arriving;
  Pieces leaving;
  char *from = sentOperand(call).as<char>(), *to = receivedOperand(call).as<char>();
  piecesReceived(call, channel.size, channel.member, arriving);
  for (int64_t peer = 0; peer < channel.size; ++peer) {
    const Pieces &pieces = arriving[static_cast<size_t>(peer)];
    if (pieces.empty() || peer == channel.member)
      continue;
    messages.push_back({peer, std::make_unique<PiecesType>(pieces), true});
    received += messages.back().type->bytes();
    MOERT_RETURN_IF_ERROR(check(MPI_Irecv(to, 1, messages.back().type->get(), channel.ranks[static_cast<size_t>(peer)],
                                          channel.tag, channel.comm, next()),
                                "MPI_Irecv"));
  }
  for (int64_t i = 1; i < channel.size; ++i) {
    // Members begin with different peers.
    int64_t peer = (channel.member + i) % channel.size;
    piecesSent(call, channel.size, channel.member, peer, leaving);
    if (leaving.empty())
      continue;
    messages.push_back({peer, std::make_unique<PiecesType>(leaving), false});
    MOERT_RETURN_IF_ERROR(check(MPI_Isend(from, 1, messages.back().type->get(),
                                          channel.ranks[static_cast<size_t>(peer)], channel.tag, channel.comm, next()),
                                "MPI_Isend"));
  }
  return copyOwn(arriving[static_cast<size_t>(channel.member)]);
}

/// Copies the pieces that the member sends to itself, and fills those that nobody sends.
Status Transfer::copyOwn(const Pieces &arriving) {
  Pieces leaving;
  piecesSent(call, channel.size, channel.member, channel.member, leaving);
  int64_t bytes = 0;
  if (!arriving.empty())
    MOERT_RETURN_IF_ERROR(host::copyPieces({call, channel.member, leaving}, {call, channel.member, arriving}, bytes));
  host::fillUnsent(call, channel.size, channel.member);
  return {};
}

/// Checks the length of each message. Another length than expected means that the members disagree.
Status Transfer::checkMessages(const std::vector<MPI_Status> &statuses) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message &message = messages[i];
    if (!message.isReceived)
      continue;
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&statuses[i], message.type->get(), &bytes);
    int code = MPI_SUCCESS;
    MPI_Error_class(statuses[i].MPI_ERROR, &code);
    if (code == MPI_ERR_TRUNCATE)
      return invalid(piecesDisagree(call, message.peer, channel.member).message, " (more than the ",
                     message.type->bytes(), " bytes that were expected came)");
    if (bytes != message.type->bytes())
      return invalid(piecesDisagree(call, message.peer, channel.member).message, " (", bytes, " of ",
                     message.type->bytes(), " bytes came)");
  }
  return {};
}

// --- Sums ----------------------------------------------------------------------

Status Transfer::beginSum() {
  switch (call.kind) {
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

Status Transfer::allReduce() {
  int64_t count;
  MOERT_RETURN_IF_ERROR(reducedElements(call, count));
  const View &in = sentOperand(call), &out = receivedOperand(call);
  auto width = static_cast<int64_t>(dtypeSize(in.dtype));
  // MPI does not say how many bytes it moves.
  received = summedBytes(call, channel.size, channel.member, count);
  return forParts(count, [&](int64_t first, int part) {
    char *from = in.as<char>() + first * width, *to = out.as<char>() + first * width;
    return check(
        MPI_Iallreduce(from == to ? MPI_IN_PLACE : from, to, part, typeOf(in), sumOf(in), channel.comm, next()),
        "MPI_Iallreduce");
  });
}

Status Transfer::reduceScatter() {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  Cut cut(in, attributes::ReduceScatter::of(call).dim, channel.size);
  received = summedBytes(call, channel.size, channel.member, in.elements());
  const char *from = in.as<char>();
  if (cut.outer > 1 || overlap(in, out)) {
    char *packed;
    MOERT_RETURN_IF_ERROR(stage(in.bytes(), packed));
    cut.pack(from, packed);
    from = packed;
  }
  int64_t count = out.elements();
  if (count <= kMostCount)
    return check(
        MPI_Ireduce_scatter_block(from, out.data, static_cast<int>(count), typeOf(in), sumOf(in), channel.comm, next()),
        "MPI_Ireduce_scatter_block");
  for (int64_t root = 0; root < channel.size; ++root)
    MOERT_RETURN_IF_ERROR(sumTo(from + root * out.bytes(), out.data, count, root));
  return {};
}

/// Sums the `count` elements that each member has at `in` to `out` of member `root`. They have the input's type.
Status Transfer::sumTo(const void *in, void *out, int64_t count, int64_t root) {
  const View &view = sentOperand(call);
  auto width = static_cast<int64_t>(dtypeSize(view.dtype));
  return forParts(count, [&](int64_t first, int part) {
    const char *from = static_cast<const char *>(in) + first * width;
    char *to = static_cast<char *>(out) + first * width;
    bool inPlace = root == channel.member && from == to;
    return check(MPI_Ireduce(inPlace ? MPI_IN_PLACE : from, to, part, typeOf(view), sumOf(view), static_cast<int>(root),
                             channel.comm, next()),
                 "MPI_Ireduce");
  });
}

Status Transfer::reduce() {
  const View &in = sentOperand(call), &out = receivedOperand(call);
  int64_t root = attributes::Reduce::of(call).root;
  received = summedBytes(call, channel.size, channel.member, in.elements());
  return sumTo(in.data, out.data, in.elements(), root);
}

/// Sums the gradients of each shadowed expert at its owner, into staging. finishExperts() adds the addend.
Status Transfer::reduceExperts() {
  using operands::ReduceExperts;
  const View &in = call.views[ReduceExperts::in], &out = call.views[ReduceExperts::out];
  const View &shadows = call.views[ReduceExperts::shadows];
  OwnedExperts own(call, channel.member);
  char *sums;
  MOERT_RETURN_IF_ERROR(stage(out.bytes(), sums));
  int64_t place = 0;
  for (int64_t e = 0; e < shadows.elements(); ++e) {
    if (!shadows.as<int32_t>()[e])
      continue;
    int64_t owner = e / own.count;
    if (owner == channel.member)
      received += (channel.size - 1) * own.bytes;
    MOERT_RETURN_IF_ERROR(
        sumTo(in.as<char>() + place++ * own.bytes, sums + e % own.count * own.bytes, own.elements, owner));
  }
  return {};
}

Status Transfer::beginReplicas() {
  const View &value = sentOperand(call);
  char *first;
  MOERT_RETURN_IF_ERROR(stage(value.bytes(), first));
  if (channel.member == 0)
    std::memcpy(first, value.data, static_cast<size_t>(value.bytes()));
  else
    received = value.bytes();
  return forParts(value.bytes(), [&](int64_t begin, int part) {
    return check(MPI_Ibcast(first + begin, part, MPI_BYTE, 0, channel.comm, next()), "MPI_Ibcast");
  });
}

// --- Completion ----------------------------------------------------------------

Status Transfer::finish() {
  switch (call.kind) {
  case Kind::Reduce:
    if (const View &out = receivedOperand(call); channel.member != attributes::Reduce::of(call).root)
      std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
    return {};
  case Kind::ReduceExperts:
    return finishExperts();
  case Kind::AssumeReplicated: {
    View first = sentOperand(call);
    first.data = staging.get();
    return host::compareReplicas(sentOperand(call), first, channel.member, *channel.group, channel.instance);
  }
  default:
    return {};
  }
}

Status Transfer::finishExperts() {
  using operands::ReduceExperts;
  const View &addend = call.views[ReduceExperts::addend], &out = call.views[ReduceExperts::out];
  const View &shadows = call.views[ReduceExperts::shadows];
  OwnedExperts own(call, channel.member);
  for (int64_t i = 0; i < own.count; ++i) {
    char *sum = static_cast<char *>(staging.get()) + i * own.bytes, *to = out.as<char>() + i * own.bytes;
    const char *added = addend ? addend.as<char>() + i * own.bytes : nullptr;
    std::vector<const void *> sources;
    if (shadows.as<int32_t>()[own.first + i])
      sources.push_back(sum);
    if (added)
      sources.push_back(added);
    if (sources.empty())
      std::memset(to, 0, static_cast<size_t>(own.bytes));
    else
      MOERT_RETURN_IF_ERROR(host::sumInOrder(sources, to, own.elements, out.dtype));
  }
  return {};
}

} // namespace moert::mpi
