//===- Transfer.h - one member's share of a collective over MPI -----------===//
#ifndef MOERT_MPI_TRANSFER_H
#define MOERT_MPI_TRANSFER_H

#include "core/Exchange.h"
#include "core/Metadata.h"
#include "host/HostMemory.h"
#include "mpi/Session.h"

#include <algorithm>

namespace moert::mpi {

/// Largest count that is passed to MPI, whose counts are ints.
constexpr int64_t kMostCount = int64_t(1) << 30;

/// Calls function(first, count) for `count` elements in parts of at most kMostCount, up to the first error.
template <class Function> Status forParts(int64_t count, Function function) {
  for (int64_t first = 0; first < count; first += kMostCount)
    MOERT_RETURN_IF_ERROR(function(first, static_cast<int>(std::min(kMostCount, count - first))));
  return {};
}

/// MPI type of a message of an operand's pieces. Lengths and offsets may exceed 2 GiB.
class PiecesType {
public:
  explicit PiecesType(const Pieces &pieces);
  ~PiecesType() { MPI_Type_free(&type); }
  PiecesType(const PiecesType &) = delete;
  PiecesType &operator=(const PiecesType &) = delete;

  MPI_Datatype get() const { return type; }
  int64_t bytes() const { return total; }

private:
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int64_t total = 0;
};

/// Sum operations of types that MPI does not have.
struct SumOps {
  MPI_Op bf16 = MPI_OP_NULL;
  MPI_Op f16 = MPI_OP_NULL;

  SumOps();
  ~SumOps();
};

/// The members that a transfer connects.
struct Channel {
  MPI_Comm comm;
  const SumOps *sums;
  const Group *group;
  int64_t instance;
  int64_t size;   ///< number of members: of the group, or 2
  int64_t member; ///< index of this member
  /// The members' ranks in comm: all, or sender and receiver.
  std::vector<int> ranks;
  int tag;
};

/// Runs one member's share of a collective without waiting. Exchanges are messages between two members each, so that
/// the length of each can be checked. Sums are MPI's own collectives.
class Transfer : public Operation {
public:
  /// Called at the end with the result and the number of bytes that came from other members.
  using Done = std::function<void(const Status &, int64_t received)>;

  Transfer(const Call &call, Channel channel, Done done)
      : call(call), channel(std::move(channel)), done(std::move(done)) {}

  bool advance() override;

private:
  struct Message {
    int64_t peer;
    std::unique_ptr<PiecesType> type;
    bool isReceived;
  };

  Status begin();
  Status beginExchange();
  Status copyOwn(const Pieces &arriving);
  Status beginSum();
  Status allReduce();
  Status reduceScatter();
  Status reduce();
  Status reduceExperts();
  Status beginReplicas();
  Status finish();
  Status finishExperts();
  Status checkMessages(const std::vector<MPI_Status> &statuses);

  Status sumTo(const void *in, void *out, int64_t count, int64_t root);
  Status stage(int64_t bytes, char *&data);
  MPI_Op sumOf(const View &view) const;
  MPI_Request *next() { return &requests.emplace_back(MPI_REQUEST_NULL); }

  Call call;
  Channel channel;
  Done done;
  bool begun = false;
  std::vector<MPI_Request> requests;
  std::vector<Message> messages; ///< messages of the first requests
  host::Block staging;
  int64_t received = 0;
};

} // namespace moert::mpi

#endif // MOERT_MPI_TRANSFER_H
