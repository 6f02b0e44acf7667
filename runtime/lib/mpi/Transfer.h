//===- Transfer.h - one member's share of a collective over MPI -----------===//
#ifndef MOERT_MPI_TRANSFER_H
#define MOERT_MPI_TRANSFER_H

#include "core/Metadata.h"
#include "host/HostMemory.h"
#include "mpi/Pieces.h"
#include "mpi/Session.h"

namespace moert::mpi {

/// Sums of types that MPI does not know.
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

/// One member's share of a collective, which never blocks. Exchanges are messages between two members each, so that
/// each is known to have come whole. Sums are MPI's own collectives.
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
  bool isIn(const View &view, const View &other) const;
  MPI_Datatype typeOf(const View &view) const;
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
