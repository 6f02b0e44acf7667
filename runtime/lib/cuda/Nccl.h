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

/// Variable by which NCCL starts the kernels of all communicators in the order in which the host issues them.
inline constexpr const char *kOrderVariable = "NCCL_LAUNCH_ORDER_IMPLICIT";
/// Fails unless the variable is set.
Status checkOrder();

/// NCCL's communicators of this rank. It has one for each group with other ranks, split from the world's, and one for
/// each channel on which it sends or receives. All processes make them in the same order. A caller can also lend its
/// communicators.
class Nccl {
public:
  /// A sender and a receiver, as ranks of the world.
  using Channel = std::array<int64_t, 2>;
  /// Uses of the communicators.
  struct Uses {
    std::span<const Program> programs;
    const std::vector<Group> &groups;
    std::vector<Channel> channels; ///< channels of all ranks, in the same order everywhere
  };

  static Status create(const Uses &uses, Lanes &lanes, net::Star &processes, std::unique_ptr<Nccl> &nccl);
  /// Wraps a caller's communicators, one for each group. Null if the rank is alone in it.
  static std::unique_ptr<Nccl> borrow(int64_t rank, std::vector<ncclComm_t> comms);
  ~Nccl();

  /// Whether the members of a group can write into each other's memory.
  bool hasPeers(int64_t group) const { return static_cast<size_t>(group) < peers.size() && peers[group]; }
  /// Whether a collective takes no counts from the host: kernels write rows straight into other devices' memory. Timed
  /// calls do not, because their bytes are not known.
  bool needsNoCounts(const Lanes &lanes, const Call &call) const;
  /// Enqueues a collective over several ranks. Counts that it depends on are in the host's memory, unless it needs
  /// none. `received` is the number of bytes from other members, if the host knows it.
  Status run(Lanes &lanes, Lane &lane, const Call &call, const Group &group, int64_t &received);
  /// Allocates memory for operands, which this object owns. NCCL works directly in it if all processes can register it.
  /// Unless `isOwn`, all ranks of a program allocate as many bytes, and may write there.
  Status allocate(int64_t bytes, const std::string &what, void *&data, bool isOwn = false);
  /// Lets copy engines fill the buffers for messages of one size. All ranks call it between two steps.
  Status shareBuffers(Lanes &lanes);
  /// Aborts what waits for other ranks, from any thread. No collective can run afterwards. Returns when no graph holds
  /// the communicators any more.
  void abort();
  /// Returns the error of NCCL's background work, if there is one.
  Status failure();

private:
  Nccl() = default;
  Status createAll(const Uses &uses, ncclConfig_t config, net::Star &processes);
  Status createChannels(const std::vector<Channel> &channels, ncclConfig_t config, net::Star &processes);
  std::vector<ncclComm_t> allComms() const;
  Status prepareMemory(net::Star &processes);
  Status preparePeers(const Uses &uses, Lanes &lanes, net::Star &processes);
  Status connectAll(const Uses &uses, Lane &lane);
  Status connect(ncclComm_t comm, int64_t size, int64_t member, Lane &lane);
  Status startEngines(ncclComm_t comm, const Group &group, Lane &lane);

  /// Marks that a thread calls NCCL. No thread may while another one aborts.
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
  /// Call, lane and members of a collective.
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
  Status reserve(Lane &lane, int64_t bytes, bool isEven, char *&data);
  Status makeMessages(const Place &place, Messages::Own own, Messages &messages);

  int64_t rank = 0;
  ncclComm_t world = nullptr;
  std::vector<ncclComm_t> comms; ///< by group. Null if the rank is alone in it
  bool isBorrowed = false;       ///< the caller owns the communicators
  std::map<Channel, ncclComm_t> pairs;

  std::mutex mutex; ///< guards the end of the communicators, and the members below
  std::condition_variable unused;
  bool aborted = false;
  bool inUse = false; ///< a thread calls NCCL

  /// Buffer for the messages of a stream's exchanges, which run one after the other.
  struct Buffer {
    char *data = nullptr;
    int64_t bytes = 0;
    bool isShared = false; ///< known to the other members
  };
  /// Buffers for any messages, and for those that are of one size on all members.
  std::map<const Lane *, Buffer> buffers, evenBuffers;
  bool hasEngines = false;                   ///< whether NCCL may move data by copy engines
  bool isRegistered = false;                 ///< whether NCCL registers the memory
  std::vector<std::unique_ptr<Peers>> peers; ///< by group. Null if the device does not reach all members' memory
  NcclMemory registered;
  std::vector<DeviceMemory> plain;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_NCCL_H
