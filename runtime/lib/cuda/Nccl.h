//===- Nccl.h - collectives between processes -----------------------------===//
#ifndef MOERT_CUDA_NCCL_H
#define MOERT_CUDA_NCCL_H

#include "core/Exchange.h"
#include "core/Metadata.h"
#include "cuda/Lanes.h"
#include "net/Star.h"

#include <array>
#include <atomic>
#include <map>
#include <nccl.h>

namespace moert::cuda {

/// NCCL's communicators of this rank: one for each group that it has others in, split from that of the world, and one
/// for each channel that it sends or receives on. All processes make them alike.
class Nccl {
public:
  /// A sender and a receiver, ranks of the world.
  using Channel = std::array<int64_t, 2>;

  /// `channels` are those of all ranks, in one order everywhere.
  static Status create(const std::vector<Group> &groups, const std::vector<Channel> &channels, net::Star &processes,
                       std::unique_ptr<Nccl> &nccl);
  ~Nccl();

  /// Enqueues a collective over several ranks; counts that it hangs on are in the host's memory. `received`: bytes from
  /// others.
  Status run(Lanes &lanes, Lane &lane, const Call &call, const Group &group, int64_t &received);
  /// Ends what waits for others, from any thread. Nothing can be run afterwards.
  void abort();
  /// What went wrong in the background.
  Status failure();

private:
  Nccl() = default;
  Status createAll(const std::vector<Group> &groups, const std::vector<Channel> &channels, net::Star &processes);
  Status createChannels(const std::vector<Channel> &channels, net::Star &processes);

  struct Members {
    ncclComm_t comm;
    cudaStream_t stream;
    int64_t size, member;
  };
  Status exchange(const Call &call, const Members &members, int64_t &received);
  Status gather(const Call &call, const Members &members);
  Status allReduce(const Call &call, const Members &members);
  Status reduceScatter(const Call &call, const Members &members);
  Status broadcast(const Call &call, const Members &members, int64_t &received);
  Status reduce(const Call &call, const Members &members);
  Status compare(Lane &lane, const Call &call, const Group &group, const Members &members);
  Status reduceExperts(Lanes &lanes, Lane &lane, const Call &call, const Members &members, int64_t &received);

  int64_t rank = 0;
  ncclComm_t world = nullptr;
  std::vector<ncclComm_t> comms; ///< by group; null where the rank is alone in it
  std::map<Channel, ncclComm_t> pairs;
  std::atomic<bool> aborted = false;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCL_H
