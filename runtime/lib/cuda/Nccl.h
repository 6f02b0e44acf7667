//===- Nccl.h - collectives between processes -----------------------------===//
#ifndef MOERT_CUDA_NCCL_H
#define MOERT_CUDA_NCCL_H

#include "core/Metadata.h"
#include "cuda/Lanes.h"
#include "cuda/Messages.h"
#include "cuda/NcclMemory.h"
#include "net/Star.h"

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>

namespace moert::cuda {

/// NCCL's communicators of this rank: one for each group that it has others in, split from that of the world, and one
/// for each channel that it sends or receives on. All processes make them alike. Or those that a caller keeps.
class Nccl {
public:
  /// A sender and a receiver, ranks of the world.
  using Channel = std::array<int64_t, 2>;
  /// What the communicators are for.
  struct Uses {
    std::span<const Program> programs;
    const std::vector<Group> &groups;
    std::vector<Channel> channels; ///< of all ranks, in one order everywhere
  };

  static Status create(const Uses &uses, Lanes &lanes, net::Star &processes, std::unique_ptr<Nccl> &nccl);
  /// Of a caller's communicators, one for each group; null where the rank is alone.
  static std::unique_ptr<Nccl> borrow(int64_t rank, std::vector<ncclComm_t> comms);
  ~Nccl();

  /// Enqueues a collective over several ranks; counts that it hangs on are in the host's memory. `received`: bytes from
  /// others.
  Status run(Lanes &lanes, Lane &lane, const Call &call, const Group &group, int64_t &received);
  /// Memory of operands, until this is gone: such that NCCL works in it, if it can in all processes.
  Status allocate(int64_t bytes, const std::string &what, void *&data);
  /// Ends what waits for others, from any thread. Nothing can be run afterwards.
  void abort();
  /// What went wrong in the background.
  Status failure();

private:
  Nccl() = default;
  Status createAll(const Uses &uses, net::Star &processes);
  Status createChannels(const std::vector<Channel> &channels, net::Star &processes);
  std::vector<ncclComm_t> allComms() const;
  Status prepareMemory(net::Star &processes);
  Status connectAll(const Uses &uses, Lane &lane);
  Status connect(ncclComm_t comm, int64_t size, int64_t member, Lane &lane);

  /// For as long as a thread calls NCCL: none may while another one aborts.
  class Use {
  public:
    explicit Use(Nccl &nccl);
    ~Use();
    Status status; ///< an error after an abort

  private:
    Nccl &nccl;
  };

  struct Members {
    ncclComm_t comm;
    cudaStream_t stream;
    int64_t size, member;
  };
  /// Where a collective runs.
  struct Place {
    Lanes &lanes;
    Lane &lane;
    const Call &call;
    Members members;

    Target target() const { return lanes.target(lane, call); }
  };
  Status enqueue(const Place &place, const Group &group, int64_t &received);
  Status transfer(const Place &place, const Group &group, int64_t &received);
  Status exchange(const Place &place, int64_t &received);
  Status gather(const Place &place);
  Status allReduce(const Call &call, const Members &members, int64_t &received);
  Status reduceScatter(const Place &place);
  Status broadcast(const Call &call, const Members &members, int64_t &received);
  Status reduce(const Call &call, const Members &members);
  Status compare(const Place &place, const Group &group);
  Status reduceExperts(const Place &place, int64_t &received);
  Status reserve(Lane &lane, int64_t bytes, char *&data);
  Status makeMessages(const Place &place, Messages::Own own, Messages &messages);

  int64_t rank = 0;
  ncclComm_t world = nullptr;
  std::vector<ncclComm_t> comms; ///< by group; null where the rank is alone in it
  bool isBorrowed = false;       ///< a caller's, which it destroys itself
  std::map<Channel, ncclComm_t> pairs;

  std::mutex mutex; ///< of the communicators' end, and of what follows
  std::condition_variable unused;
  bool aborted = false;
  bool inUse = false; ///< a thread calls NCCL

  /// Messages of a stream's exchanges, which come one after the other.
  struct Buffer {
    char *data = nullptr;
    int64_t bytes = 0;
  };
  std::map<const Lane *, Buffer> buffers;
  bool isRegistered = false; ///< memory is NCCL's own
  NcclMemory registered;
  std::vector<DeviceMemory> plain;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCL_H
