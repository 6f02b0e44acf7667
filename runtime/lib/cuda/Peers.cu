//===- Peers.cu - memory of other devices, by NCCL's windows --------------===//

#include "core/Attributes.h"
#include "cuda/Launch.cuh"
#include "cuda/NcclMemory.h"
#include "cuda/Peers.h"

#include <nccl_device.h>

namespace moert::cuda {
namespace {

/// Blocks that members share at most. Operands in later ones take the host's way.
constexpr size_t kMostBlocks = 256;

__global__ void writeBases(ncclWindow_t window, int size, char **bases) {
  for (int i = threadIdx.x; i < size; i += blockDim.x)
    bases[i] = static_cast<char *>(ncclGetLsaPointer(window, 0, i));
}

constexpr size_t kShared[] = {operands::AllToAllV::out, operands::AllToAllV::blockCounts,
                              operands::AllToAllV::expertCounts};

} // namespace

Status Peers::create(ncclComm_t comm, int64_t size, int64_t member, std::unique_ptr<Peers> &peers) {
  const PeerFunctions *functions = findPeerFunctions();
  if (!functions)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "this NCCL is older than 2.28");
  if (functions->teamLsa(comm).nRanks != size || size > kMostPeers)
    return Status::error(MOERT_ERROR_UNSUPPORTED, "the device does not reach the memory of all ", size, " members");
  std::unique_ptr<Peers> made(new Peers(comm, size, member));
  MOERT_RETURN_IF_ERROR(allocateDevice(static_cast<int64_t>(kMostBlocks * sizeof(char *)) * size,
                                       "addresses of other devices' memory", made->bases));
  MOERT_RETURN_IF_ERROR(allocatePinned(sizeof(uint32_t), "a signal of the host", made->aborted));
  *static_cast<uint32_t *>(made->aborted.get()) = 0;
  peers = std::move(made);
  return {};
}

Peers::~Peers() {
  for (ncclWindow_t window : windows)
    static_cast<void>(findPeerFunctions()->windowDeregister(comm, window));
}

Status Peers::add(void *data, int64_t bytes) {
  if (blocks.size() == kMostBlocks)
    return {};
  ncclWindow_t window = nullptr;
  MOERT_RETURN_IF_ERROR(check(
      findPeerFunctions()->windowRegister(comm, data, static_cast<size_t>(bytes), &window, NCCL_WIN_COLL_SYMMETRIC),
      "ncclCommWindowRegister (MOERT_PEER_EXCHANGE=0 exchanges rows by messages)", comm));
  // NCCL makes no window for communicators that cannot have one.
  if (!window)
    return {};
  windows.push_back(window);
  char **first = static_cast<char **>(bases.get()) + static_cast<int64_t>(blocks.size()) * size;
  blocks.push_back({static_cast<const char *>(data), bytes});
  const cudaError_t error =
      launchOn(nullptr, nullptr, writeBases, Grid{dim3(1), dim3(kMostPeers)}, window, static_cast<int>(size), first);
  MOERT_RETURN_IF_ERROR(check(error, "cannot find the memory of other devices"));
  return check(cudaStreamSynchronize(nullptr), "cannot find the memory of other devices");
}

Status Peers::useSlots(PeerSlot *data, int64_t count) {
  if (!find(data))
    return {};
  slots = data;
  MOERT_RETURN_IF_ERROR(clearBytes(nullptr, slots, count * static_cast<int64_t>(sizeof(PeerSlot))));
  return check(cudaStreamSynchronize(nullptr), "cannot clear signals of other devices");
}

std::optional<PeerPlace> Peers::find(const void *data) const {
  const auto *address = static_cast<const char *>(data);
  for (size_t i = 0; i < blocks.size(); ++i)
    if (address >= blocks[i].data && address < blocks[i].data + blocks[i].bytes)
      return PeerPlace{static_cast<int64_t>(i), address - blocks[i].data};
  return {};
}

bool Peers::canReach(const Call &call) const {
  return slots && std::ranges::all_of(kShared, [&](size_t i) { return find(call.views[i].data).has_value(); });
}

Status Peers::exchange(const Target &target, int64_t slot, const Call &call) const {
  using operands::AllToAllV;
  PeerSlot places{};
  places.out = *find(call.views[AllToAllV::out].data);
  places.blockCounts = *find(call.views[AllToAllV::blockCounts].data);
  places.expertCounts = *find(call.views[AllToAllV::expertCounts].data);
  const PeerMemory memory{static_cast<char *const *>(bases.get()),
                          size,
                          member,
                          *find(slots + slot),
                          slots + slot,
                          static_cast<const volatile uint32_t *>(aborted.get())};
  return exchangeWithPeers(target, call, memory, places);
}

void Peers::abort() { *static_cast<volatile uint32_t *>(aborted.get()) = 1; }

} // namespace moert::cuda
