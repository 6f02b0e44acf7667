//===- Nccl.cpp - NCCL between processes of one machine -------------------===//

#include "Emulation.h"
#include "Streams.h"
#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"
#include "include/nccl_device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace {

using namespace moert::emulation;
namespace fs = std::filesystem;
using Bytes = std::vector<char>;
using Lock = std::lock_guard<std::mutex>;

[[noreturn]] void fail(const std::string &text) {
  std::fprintf(stderr, "NCCL emulation: %s\n", text.c_str());
  std::abort();
}

bool isVerbose() {
  const char *level = std::getenv("NCCL_DEBUG");
  return level && std::string_view(level) == "INFO";
}

/// State of a communicator. It lives while work of the communicator is enqueued.
struct State {
  std::string id;
  int size = 1, rank = 0, splits = 0, windows = 0;
  bool aborted = false, failed = false, isBlocking = true;
  bool mayUseEngines = false, hasEngines = false; ///< by CTAPolicy, and after their start
  std::atomic<int64_t> captured = 0;              ///< transfers in graphs that exist
  std::map<int, int64_t> sent, received;          ///< number of messages, by member
  std::map<int, bool> connected;
  std::map<const char *, size_t> registered, shared; ///< bytes of buffers and of windows

  fs::path file(const std::string &name) const {
    const char *folder = std::getenv("NCCL_EMULATION_FOLDER");
    return fs::path(folder ? folder : "/dev/shm") / ("moert-nccl-" + id + "-" + name);
  }
  fs::path message(int from, int to, int64_t number) const {
    return file(std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number));
  }
  void put(const fs::path &path, const Bytes &bytes) const {
    const fs::path part = path.string() + ".part";
    std::ofstream(part, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    fs::rename(part, path);
  }
  Bytes take(const fs::path &path) const {
    std::ifstream stream(path, std::ios::binary);
    Bytes bytes{std::istreambuf_iterator<char>(stream), {}};
    fs::remove(path);
    return bytes;
  }
  /// Waits on the host, without end as NCCL does.
  void awaitFile(const fs::path &path) const {
    for (int tries = 0; !fs::exists(path); ++tries) {
      if (tries > 60000)
        fail("a host waited for 60 s for " + path.string());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Gives `mine` to all members, and returns what they give. The host waits.
  std::vector<std::string> exchange(const std::string &name, const std::string &mine) const {
    auto path = [&](int from, int to) { return file(name + "-" + std::to_string(from) + "-" + std::to_string(to)); };
    for (int i = 0; i < size; ++i)
      put(path(rank, i), {mine.begin(), mine.end()});
    std::vector<std::string> all;
    for (int i = 0; i < size; ++i) {
      awaitFile(path(i, rank));
      const Bytes given = take(path(i, rank));
      all.emplace_back(given.begin(), given.end());
    }
    return all;
  }
  /// Offset in one of the blocks, or -1.
  static int64_t offsetIn(const std::map<const char *, size_t> &blocks, const void *data) {
    const auto *address = static_cast<const char *>(data);
    auto next = blocks.upper_bound(address);
    const bool isIn = next != blocks.begin() && address < std::prev(next)->first + std::prev(next)->second;
    return isIn ? address - std::prev(next)->first : -1;
  }
  bool isRegistered(const void *data) const { return offsetIn(registered, data) >= 0; }
  /// Removes messages that were not received.
  ~State() {
    std::error_code error;
    for (const auto &[from, number] : received)
      fs::remove(message(from, rank, number), error);
  }
};

struct Outgoing {
  int to;
  const char *data;
  size_t bytes;
};
/// Work of one member in a transfer.
struct Transfer {
  std::shared_ptr<State> state;
  cudaStream_t stream;
  std::vector<Outgoing> sends;
  std::vector<int> sources;
  size_t bytes;  ///< bytes from each source
  int64_t place; ///< offset of the result in a window, for copy engines; else -1 if the memory is registered, or -2
  bool isMessage;
  std::function<void(const std::vector<Bytes> &)> finish; ///< receives the messages, by place in `sources`
  std::shared_ptr<void> held = nullptr;                   ///< counts the transfer while a graph holds it
};

std::atomic<int64_t> alive = 0, made = 0;

thread_local int depth = 0;
thread_local std::vector<Transfer> begun;

void send(Transfer &transfer) {
  State &state = *transfer.state;
  if (state.aborted)
    return;
  for (const Outgoing &one : transfer.sends) {
    Bytes bytes(one.data, one.data + one.bytes);
    const auto *place = reinterpret_cast<const char *>(&transfer.place);
    bytes.insert(bytes.end(), place, place + sizeof(transfer.place));
    state.put(state.message(state.rank, one.to, state.sent[one.to]++), bytes);
  }
}

bool hasArrived(const Transfer &transfer) {
  State &state = *transfer.state;
  // Copy engines do not see an abort.
  return (state.aborted && transfer.place < 0) ||
         std::all_of(transfer.sources.begin(), transfer.sources.end(),
                     [&](int from) { return fs::exists(state.message(from, state.rank, state.received[from])); });
}

void receive(const Transfer &transfer) {
  State &state = *transfer.state;
  if (state.aborted)
    return;
  std::vector<Bytes> all;
  for (int from : transfer.sources) {
    Bytes bytes = state.take(state.message(from, state.rank, state.received[from]++));
    int64_t place = 0;
    const size_t count = bytes.size() - sizeof(place);
    std::memcpy(&place, bytes.data() + count, sizeof(place));
    bytes.resize(count);
    if (count != transfer.bytes)
      fail("expected " + std::to_string(transfer.bytes) + " bytes but got " + std::to_string(count));
    if (place != transfer.place)
      fail("the memory of a transfer is registered on one member, or at another offset than on another");
    all.push_back(std::move(bytes));
  }
  transfer.finish(all);
}

/// Connects members that exchange messages for the first time. Their hosts wait for each other.
void connect(const std::vector<Transfer> &transfers) {
  std::vector<std::pair<State *, int>> fresh;
  for (const Transfer &transfer : transfers) {
    if (!transfer.isMessage)
      continue;
    std::vector<int> peers = transfer.sources;
    for (const Outgoing &one : transfer.sends)
      peers.push_back(one.to);
    for (int peer : peers)
      if (bool &isConnected = transfer.state->connected[peer]; !std::exchange(isConnected, true))
        fresh.emplace_back(transfer.state.get(), peer);
  }
  auto door = [](State &state, int from, int to) {
    return state.file("door-" + std::to_string(from) + "-" + std::to_string(to));
  };
  for (auto [state, peer] : fresh)
    state->put(door(*state, state->rank, peer), {});
  for (auto [state, peer] : fresh)
    state->awaitFile(door(*state, peer, state->rank));
  for (auto [state, peer] : fresh)
    fs::remove(door(*state, peer, state->rank));
}

/// Counts a transfer on a captured stream until its graph and all that were made of it are destroyed.
std::shared_ptr<void> holdFor(const Transfer &transfer) {
  if (!Machine::get().resolve(transfer.stream).graph)
    return nullptr;
  ++transfer.state->captured;
  return {nullptr, [state = transfer.state](void *) { --state->captured; }};
}

/// Ends a communicator. As in NCCL 2.28, this waits until no graph holds its transfers.
void reclaim(ncclComm *comm);

/// Communicators that end with the group.
thread_local std::vector<ncclComm *> dying;

/// Sends all messages of a group before it waits for any.
ncclResult_t flush() {
  for (ncclComm *comm : std::exchange(dying, {}))
    reclaim(comm);
  std::vector<Transfer> transfers = std::exchange(begun, {});
  connect(transfers);
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  std::vector<std::shared_ptr<Transfer>> all;
  for (Transfer &transfer : transfers)
    all.push_back(std::make_shared<Transfer>(std::move(transfer)));
  cudaError_t error = cudaSuccess;
  for (const auto &one : all) {
    one->held = holdFor(*one);
    if (error == cudaSuccess)
      error = machine.enqueue(machine.resolve(one->stream), [one] { send(*one); });
  }
  bool isBlocking = true;
  for (const auto &one : all) {
    isBlocking &= one->state->isBlocking;
    if (error == cudaSuccess)
      error =
          machine.enqueue(machine.resolve(one->stream), [one] { receive(*one); }, [one] { return hasArrived(*one); });
  }
  return error != cudaSuccess ? ncclUnhandledCudaError : isBlocking ? ncclSuccess : ncclInProgress;
}

size_t sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclFloat64:
    return 8;
  default:
    return 4;
  }
}

template <class T, class Sum> void sumAs(const std::vector<const char *> &inputs, char *out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Sum sum(0);
    for (const char *input : inputs)
      sum += static_cast<Sum>(reinterpret_cast<const T *>(input)[i]);
    reinterpret_cast<T *>(out)[i] = static_cast<T>(sum);
  }
}
template <class T>
void sumNarrow(const std::vector<const char *> &inputs, char *out, size_t count, auto widen, auto narrow) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const char *input : inputs)
      sum += widen(reinterpret_cast<const T *>(input)[i]);
    reinterpret_cast<T *>(out)[i] = narrow(sum);
  }
}

void sum(const std::vector<const char *> &inputs, char *out, size_t count, ncclDataType_t type) {
  switch (type) {
  case ncclFloat32:
    return sumAs<float, float>(inputs, out, count);
  case ncclFloat64:
    return sumAs<double, double>(inputs, out, count);
  case ncclInt32:
    return sumAs<int32_t, int64_t>(inputs, out, count);
  case ncclBfloat16:
    return sumNarrow<__nv_bfloat16>(inputs, out, count, __bfloat162float, __float2bfloat16_rn);
  case ncclFloat16:
    return sumNarrow<__half>(inputs, out, count, __half2float, __float2half_rn);
  default:
    fail("cannot sum bytes");
  }
}

} // namespace

struct ncclComm {
  ncclComm() {
    ++alive;
    ++made;
  }
  ~ncclComm() { --alive; }
  std::shared_ptr<State> state = std::make_shared<State>();
};

namespace {

void reclaim(ncclComm *comm) {
  State &state = *comm->state;
  for (int tries = 0; state.captured > 0; ++tries) {
    if (tries > 60000)
      fail("a communicator could not end for 60 s, because graphs hold its transfers");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  delete comm;
}

/// Ends a communicator at once, or with its group.
ncclResult_t end(ncclComm *comm) {
  dying.push_back(comm);
  return depth == 0 ? flush() : ncclSuccess;
}

} // namespace

namespace moert::emulation {

int64_t communicators() { return alive; }
int64_t communicatorsMade() { return made; }

void failCommunicator(ncclComm *comm) {
  Lock lock(Machine::get().mutex);
  comm->state->failed = true;
}

void setNonblocking(ncclComm *comm) { comm->state->isBlocking = false; }

} // namespace moert::emulation

namespace {

Transfer transferOf(ncclComm_t comm, cudaStream_t stream, const void *in, const void *out, size_t bytes) {
  const State &state = *comm->state;
  const bool isRegistered = (!in || state.isRegistered(in)) && (!out || state.isRegistered(out));
  return {comm->state, stream, {}, {}, bytes, isRegistered ? -1 : -2, !in || !out, {}};
}

/// Moves data to `out` by copy engines, if NCCL would. Hosts wait for each other the first time, as in NCCL.
ncclResult_t useEngines(const char *what, const void *out, Transfer &transfer) {
  State &state = *transfer.state;
  const int64_t offset = State::offsetIn(state.shared, out);
  if (!state.mayUseEngines || offset < 0)
    return ncclSuccess;
  if (!std::exchange(state.hasEngines, true)) {
    if (Machine::get().resolve(transfer.stream).graph)
      return ncclInvalidUsage;
    static_cast<void>(state.exchange("engines", ""));
  }
  transfer.place = offset;
  if (isVerbose())
    std::fprintf(stderr, "NCCL INFO %s by copy engines\n", what);
  return ncclSuccess;
}

ncclResult_t add(Transfer transfer) {
  begun.push_back(std::move(transfer));
  return depth == 0 ? flush() : ncclSuccess;
}

/// A transfer to and from all others. `step` is the distance between the data of two members.
Transfer toAll(ncclComm_t comm, cudaStream_t stream, const void *in, void *out, size_t bytes, size_t step) {
  Transfer transfer = transferOf(comm, stream, in, out, bytes);
  const State &state = *comm->state;
  for (int i = 0; i < state.size; ++i)
    if (i != state.rank) {
      transfer.sends.push_back({i, static_cast<const char *>(in) + static_cast<size_t>(i) * step, bytes});
      transfer.sources.push_back(i);
    }
  return transfer;
}

/// Gathers every member's part, by member.
ncclResult_t gatherFrom(Transfer transfer, const char *own, char *out, size_t bytes) {
  transfer.finish = [=, state = transfer.state, sources = transfer.sources](const std::vector<Bytes> &came) {
    std::memmove(out + static_cast<size_t>(state->rank) * bytes, own, bytes);
    for (size_t i = 0; i < came.size(); ++i)
      std::memcpy(out + static_cast<size_t>(sources[i]) * bytes, came[i].data(), bytes);
  };
  return add(std::move(transfer));
}

/// Sums in the order of the members.
ncclResult_t sumFrom(Transfer transfer, const char *own, char *out, size_t count, ncclDataType_t type) {
  transfer.finish = [=, rank = static_cast<size_t>(transfer.state->rank)](const std::vector<Bytes> &came) {
    std::vector<const char *> inputs;
    for (const Bytes &bytes : came)
      inputs.push_back(bytes.data());
    const Bytes mine(own, own + count * sizeOf(type));
    inputs.insert(inputs.begin() + static_cast<int64_t>(rank), mine.data());
    sum(inputs, out, count, type);
  };
  return add(std::move(transfer));
}

} // namespace

const char *ncclGetErrorString(ncclResult_t) { return "an error of the emulation"; }
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --depth == 0 ? flush() : ncclSuccess; }

// --- Communicators -----------------------------------------------------------

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::random_device random;
  std::snprintf(id->internal, sizeof(id->internal), "%08x%08x", random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
  *comm = new ncclComm;
  State &state = *(*comm)->state;
  state.id = id.internal;
  state.size = size;
  state.rank = rank;
  return ncclSuccess;
}

/// Prints the settings with NCCL_DEBUG=INFO, as NCCL does.
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
  auto isSet = [](int value) { return value != NCCL_CONFIG_UNDEF_INT; };
  if (isVerbose())
    std::fprintf(stderr, "NCCL INFO comm of %d ranks: maxCTAs %s, CTAPolicy %s\n", size,
                 isSet(config->maxCTAs) ? std::to_string(config->maxCTAs).c_str() : "unset",
                 isSet(config->CTAPolicy) ? std::to_string(config->CTAPolicy).c_str() : "unset");
  ncclCommInitRank(comm, size, id, rank);
  (*comm)->state->mayUseEngines = config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *created, ncclConfig_t *) {
  State &state = *comm->state;
  const std::string name = "split" + std::to_string(state.splits++);
  const std::vector<std::string> all = state.exchange(name, std::to_string(color) + " " + std::to_string(key));
  std::vector<std::pair<int, int>> members; ///< key, rank
  for (int i = 0; i < state.size; ++i) {
    int theirColor = 0, theirKey = 0;
    std::sscanf(all[static_cast<size_t>(i)].c_str(), "%d %d", &theirColor, &theirKey);
    if (theirColor == color)
      members.emplace_back(theirKey, i);
  }
  std::sort(members.begin(), members.end());
  ncclUniqueId id;
  std::snprintf(id.internal, sizeof(id.internal), "%s.%s.%d", state.id.c_str(), name.c_str(), color);
  const auto place = std::find(members.begin(), members.end(), std::pair(key, state.rank)) - members.begin();
  ncclCommInitRank(created, static_cast<int>(members.size()), id, static_cast<int>(place));
  (*created)->state->mayUseEngines = state.mayUseEngines;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
  *count = comm->state->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
  *rank = comm->state->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end(comm); }

/// Ends transfers at once, also in a group. CUDA_EMULATION_ABORT=late stands for aborts that return after a minute
/// only, and `never` for those that also leave transfers waiting.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const char *given = std::getenv("CUDA_EMULATION_ABORT");
  const std::string_view how = given ? given : "";
  if (how != "never") {
    Lock lock(Machine::get().mutex);
    comm->state->aborted = true;
  }
  if (!how.empty())
    std::this_thread::sleep_for(std::chrono::minutes(1));
  return end(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  *error = comm->state->aborted ? ncclInvalidUsage : comm->state->failed ? ncclSystemError : ncclSuccess;
  return ncclSuccess;
}

// --- Memory ------------------------------------------------------------------

namespace {

/// Files of this process' memory, which other processes map, by the first byte.
std::map<const void *, fs::path> &memoryFiles() {
  static std::map<const void *, fs::path> files;
  return files;
}

/// Maps `bytes` of a file.
void *mapFile(const fs::path &path, size_t bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    fail("cannot make " + path.string());
  void *data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return data == MAP_FAILED ? nullptr : data;
}

} // namespace

ncclResult_t ncclMemAlloc(void **data, size_t bytes) {
  static std::atomic<int> count = 0;
  const fs::path path = State().file("memory-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
  *data = mapFile(path, bytes);
  if (!*data || adopt(*data, bytes) != cudaSuccess) {
    fs::remove(path);
    return ncclSystemError;
  }
  memoryFiles()[*data] = path;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *data) {
  const size_t bytes = disown(data);
  if (bytes == 0)
    return ncclInvalidUsage;
  ::munmap(data, bytes);
  fs::remove(memoryFiles()[data]);
  memoryFiles().erase(data);
  return ncclSuccess;
}

/// Memory of all members, by member.
struct ncclWindow_vidmem {
  std::vector<char *> bases;
  size_t bytes;
};

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *data, size_t bytes, ncclWindow_t *window, int) {
  // CUDA_EMULATION_WINDOWS=0 stands for communicators that cannot have windows.
  *window = nullptr;
  if (const char *given = std::getenv("CUDA_EMULATION_WINDOWS"); given && std::string(given) == "0")
    return ncclSuccess;
  State &state = *comm->state;
  const std::vector<std::string> all = state.exchange("window" + std::to_string(state.windows++),
                                                      std::to_string(bytes) + " " + memoryFiles().at(data).string());
  *window = new ncclWindow_vidmem{{}, bytes};
  for (int i = 0; i < state.size; ++i) {
    const std::string &text = all[static_cast<size_t>(i)];
    if (std::stoull(text) != bytes)
      fail("the members' windows have different sizes");
    (*window)->bases.push_back(
        static_cast<char *>(i == state.rank ? data : mapFile(text.substr(text.find(' ') + 1), bytes)));
  }
  state.shared[static_cast<const char *>(data)] = bytes;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  comm->state->shared.erase(window->bases[static_cast<size_t>(comm->state->rank)]);
  for (int i = 0; i < comm->state->size; ++i)
    if (i != comm->state->rank)
      ::munmap(window->bases[static_cast<size_t>(i)], window->bytes);
  delete window;
  return ncclSuccess;
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm) { return {comm->state->size, comm->state->rank, 1}; }

void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer) {
  return window->bases[static_cast<size_t>(peer)] + offset;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *data, size_t bytes, void **handle) {
  comm->state->registered[static_cast<const char *>(data)] = bytes;
  *handle = data;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle) {
  return comm->state->registered.erase(static_cast<const char *>(handle)) == 1 ? ncclSuccess : ncclInvalidUsage;
}

// --- Transfers ---------------------------------------------------------------

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Transfer transfer = transferOf(comm, stream, data, nullptr, count * sizeOf(type));
  transfer.sends.push_back({peer, static_cast<const char *>(data), transfer.bytes});
  transfer.finish = [](const std::vector<Bytes> &) {};
  return add(std::move(transfer));
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  Transfer transfer = transferOf(comm, stream, nullptr, data, count * sizeOf(type));
  transfer.sources.push_back(peer);
  transfer.finish = [data](const std::vector<Bytes> &came) { std::memcpy(data, came[0].data(), came[0].size()); };
  return add(std::move(transfer));
}

ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  const size_t bytes = count * sizeOf(type);
  const char *own = static_cast<const char *>(in) + static_cast<size_t>(comm->state->rank) * bytes;
  Transfer transfer = toAll(comm, stream, in, out, bytes, bytes);
  const ncclResult_t result = useEngines("AlltoAll", out, transfer);
  return result == ncclSuccess ? gatherFrom(std::move(transfer), own, static_cast<char *>(out), bytes) : result;
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const size_t bytes = count * sizeOf(type);
  Transfer transfer = toAll(comm, stream, in, out, bytes, 0);
  const ncclResult_t result = useEngines("AllGather", out, transfer);
  return result == ncclSuccess
             ? gatherFrom(std::move(transfer), static_cast<const char *>(in), static_cast<char *>(out), bytes)
             : result;
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const size_t bytes = count * sizeOf(type);
  Transfer transfer = toAll(comm, stream, in, out, bytes, 0);
  const bool isRoot = comm->state->rank == root;
  transfer.sources.clear();
  if (isRoot)
    transfer.finish = [=](const std::vector<Bytes> &) { std::memmove(out, in, bytes); };
  else {
    transfer.sends.clear();
    transfer.sources.push_back(root);
    transfer.finish = [=](const std::vector<Bytes> &came) { std::memcpy(out, came[0].data(), bytes); };
  }
  return add(std::move(transfer));
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Transfer transfer = toAll(comm, stream, in, out, count * sizeOf(type), 0);
  if (comm->state->rank == root) {
    transfer.sends.clear();
    return sumFrom(std::move(transfer), static_cast<const char *>(in), static_cast<char *>(out), count, type);
  }
  transfer.sources.clear();
  std::erase_if(transfer.sends, [=](const Outgoing &one) { return one.to != root; });
  transfer.finish = [](const std::vector<Bytes> &) {};
  return add(std::move(transfer));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return sumFrom(toAll(comm, stream, in, out, count * sizeOf(type), 0), static_cast<const char *>(in),
                 static_cast<char *>(out), count, type);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * sizeOf(type);
  const char *own = static_cast<const char *>(in) + static_cast<size_t>(comm->state->rank) * bytes;
  return sumFrom(toAll(comm, stream, in, out, bytes, bytes), own, static_cast<char *>(out), count, type);
}
