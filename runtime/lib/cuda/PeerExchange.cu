//===- PeerExchange.cu - exchanges by stores into other devices' memory ---===//
//
// Five kernels: a member says where its operands are and signals that they may be used; a block for each target waits
// for its signal and lists the runs of rows for it; the runs are copied; the member signals that its rows are there; it
// waits until all others have. Signals are set to zero again by their readers, so that a graph can repeat the kernels.
//
//===----------------------------------------------------------------------===//

#include "core/Attributes.h"
#include "core/Ragged.h"
#include "cuda/PeerExchange.h"
#include "cuda/Reduce.cuh"

namespace moert::cuda {

/// Signals of other members in this member's memory.
struct Signals {
  volatile uint32_t *flags;
  int64_t count;
  const volatile uint32_t *aborted;

  __device__ bool isRaised(int64_t i) const { return flags[i] != 0 || *aborted != 0; }
  /// Whether a kernel would wait for none of them.
  bool operator()() const {
    for (int64_t i = 0; i < count; ++i)
      if (flags[i] == 0 && *aborted == 0)
        return false;
    return true;
  }
};

namespace {

/// Bytes that a block copies at a time: four accesses of 16 bytes by each thread.
constexpr int64_t kRunPortion = 4 * 16 * kThreads;
/// Blocks that copy, of all targets together. A few saturate NVLink, and leave the other multiprocessors to products.
constexpr int64_t kCopyBlocks = 48;

/// A run of bytes. Without `from`, the bytes become zero.
struct PeerRun {
  const char *from;
  char *to;
  int64_t bytes;
};

/// Waits for every `step`-th signal from `first` on, and takes it back.
__device__ void await(const Signals &signals, int64_t first, int64_t step) {
  for (int64_t i = first + threadIdx.x * step; i < signals.count; i += blockDim.x * step) {
    while (!signals.isRaised(i)) {
    }
    signals.flags[i] = 0;
  }
  __threadfence_system();
  __syncthreads();
}

__device__ char *reach(const PeerMemory &memory, const PeerPlace &place, int64_t member) {
  return memory.bases[place.block * memory.size + member] + place.offset;
}

__device__ PeerSlot *slotOf(const PeerMemory &memory, int64_t member) {
  return reinterpret_cast<PeerSlot *>(reach(memory, memory.slot, member));
}

/// Raises a signal of all members. Their readers then see what this device has written.
__device__ void signal(const PeerMemory &memory, uint32_t (PeerSlot::*flags)[kMostPeers]) {
  __threadfence_system();
  for (int64_t i = threadIdx.x; i < memory.size; i += blockDim.x)
    *const_cast<volatile uint32_t *>((slotOf(memory, i)->*flags) + memory.member) = 1;
}

__global__ void __launch_bounds__(kThreads)
    readyKernel(PeerMemory memory, PeerPlace out, PeerPlace blocks, PeerPlace experts) {
  if (threadIdx.x == 0) {
    memory.own->out = out;
    memory.own->blockCounts = blocks;
    memory.own->expertCounts = experts;
  }
  __syncthreads();
  signal(memory, &PeerSlot::ready);
}

__global__ void __launch_bounds__(kThreads) doneKernel(PeerMemory memory) { signal(memory, &PeerSlot::done); }

__global__ void __launch_bounds__(kThreads) awaitKernel(Signals signals) { await(signals, 0, 1); }

// --- Lists of runs -----------------------------------------------------------

/// An exchange, and the lists of its runs: one for each target, and one for rows that nobody sends.
struct Job {
  RaggedSizes sizes;
  PeerMemory memory;
  const int32_t *blockCounts, *expertCounts; ///< this member's
  const char *rows, *addend;
  char *out;
  FaultSite faults;
  int64_t length;    ///< runs of a list at most
  int64_t *starts;   ///< [width, length of the counts]: first row of each count of this member
  PeerRun *runs;     ///< [lists, length]
  int64_t *portions; ///< [lists, length + 1]: number of the portions before each run

  constexpr bool hasFilled() const { return !sizes.toExperts; }
  constexpr int64_t lists() const { return sizes.width + hasFilled(); }
  constexpr int64_t counts() const {
    return std::max(sizes.blocks * sizes.experts, sizes.sources() * sizes.ownExperts);
  }
};

/// Calls store(source, expert, the count, the first row) for the counts of an expert side [sources, own experts], in
/// the order of its rows.
template <class Store> __device__ void scanExpertSide(const RaggedSizes &sizes, const int32_t *counts, Store store) {
  const int64_t sources = sizes.sources();
  scanBlock<int64_t>(
      sources * sizes.ownExperts, [&](int64_t i) { return counts[i % sources * sizes.ownExperts + i / sources]; },
      [&](int64_t i, int64_t count, int64_t end) { store(i % sources, i / sources, count, end - count); });
}

/// The same for a block [experts] of a block side.
template <class Store> __device__ void scanBlockSide(const RaggedSizes &sizes, const int32_t *counts, Store store) {
  scanBlock<int64_t>(
      sizes.experts, [&](int64_t expert) { return counts[expert]; },
      [&](int64_t expert, int64_t count, int64_t end) { store(expert, count, end - count); });
}

/// Checks this member's counts, as Ragged::check does on the host.
__device__ void checkCounts(const Job &job) {
  const RaggedSizes &sizes = job.sizes;
  const int64_t member = job.memory.member;
  const auto sumOf = [&](const int32_t *counts, int64_t length, FaultKind negative) {
    int64_t sum = 0;
    for (int64_t i = threadIdx.x; i < length; i += kThreads) {
      sum += counts[i];
      if (counts[i] < 0)
        raise(job.faults, negative, counts[i], member);
    }
    return blockSum(sum);
  };
  for (int64_t b = 0; b < sizes.blocks; ++b) {
    const int64_t rows = sumOf(job.blockCounts + b * sizes.experts, sizes.experts, FaultKind::BlockCountNegative);
    if (threadIdx.x == 0 && rows > sizes.blockRows)
      raise(job.faults, FaultKind::BlockOverflow, b, rows, sizes.blockRows, member);
  }
  const int64_t rows = sumOf(job.expertCounts, sizes.sources() * sizes.ownExperts, FaultKind::ExpertCountNegative);
  if (threadIdx.x == 0 && rows > sizes.expertRows)
    raise(job.faults, FaultKind::ArrivedOverflow, rows, member, sizes.expertRows);
}

/// Notes `count` rows from row `from` of this member to row `to` of the target's value, where they end before `room`.
/// The target expects `theirs`. It reports rows for which it has no room.
__device__ void addRun(const Job &job, int64_t target, char *out, int64_t run, int64_t from, int64_t to, int64_t count,
                       int64_t theirs, int64_t room) {
  const int64_t member = job.memory.member;
  if (count != theirs && job.sizes.toExperts)
    raise(job.faults, FaultKind::CountsDisagree, member, target);
  else if (count != theirs)
    raise(job.faults, FaultKind::CountsDisagree, target, member);
  const bool isValid = count == theirs && count >= 0 && to + count <= room;
  const int64_t bytes = job.sizes.rowBytes;
  job.runs[blockIdx.x * job.length + run] = {job.rows + from * bytes, out + to * bytes, isValid ? count * bytes : 0};
}

/// Lists the rows for the experts of `target`. They come there by expert, then by source.
__device__ void listToExperts(const Job &job, int64_t target, const PeerSlot &its, int64_t *starts) {
  const RaggedSizes &sizes = job.sizes;
  for (int64_t b = 0; b < sizes.blocks; ++b)
    scanBlockSide(sizes, job.blockCounts + b * sizes.experts, [&](int64_t expert, int64_t, int64_t first) {
      starts[b * sizes.experts + expert] = sizes.firstRow(target, b) + first;
    });
  __syncthreads();
  char *out = reach(job.memory, its.out, target);
  const auto *counts = reinterpret_cast<const int32_t *>(reach(job.memory, its.expertCounts, target));
  const int64_t mine = (job.memory.member - sizes.firstSourceOf(target)) * sizes.blocks;
  scanExpertSide(sizes, counts, [&](int64_t source, int64_t e, int64_t theirs, int64_t first) {
    const int64_t b = source - mine, at = b * sizes.experts + sizes.firstExpert(target) + e;
    if (b >= 0 && b < sizes.blocks)
      addRun(job, target, out, e * sizes.blocks + b, starts[at], first, job.blockCounts[at], theirs, sizes.expertRows);
  });
}

/// Lists the rows that go back to `target`, from all experts of this member.
__device__ void listFromExperts(const Job &job, int64_t target, const PeerSlot &its, int64_t *starts) {
  const RaggedSizes &sizes = job.sizes;
  const int64_t member = job.memory.member;
  scanExpertSide(sizes, job.expertCounts, [&](int64_t source, int64_t e, int64_t, int64_t first) {
    starts[source * sizes.ownExperts + e] = first;
  });
  __syncthreads();
  char *out = reach(job.memory, its.out, target);
  const auto *counts = reinterpret_cast<const int32_t *>(reach(job.memory, its.blockCounts, target));
  for (int64_t b = 0; b < sizes.blocks; ++b)
    scanBlockSide(sizes, counts + b * sizes.experts, [&](int64_t expert, int64_t theirs, int64_t first) {
      const int64_t e = expert - sizes.firstExpert(member), begin = sizes.firstRow(member, b);
      const int64_t at = ((target - sizes.firstSourceOf(member)) * sizes.blocks + b) * sizes.ownExperts + e;
      if (e >= 0 && e < sizes.ownExperts)
        addRun(job, target, out, e * sizes.blocks + b, starts[at], begin + first, job.expertCounts[at], theirs,
               begin + sizes.blockRows);
    });
}

/// Lists the rows of this member's block side that no expert sends: before and behind those of the holders of this
/// phase.
__device__ void listFilled(const Job &job) {
  const RaggedSizes &sizes = job.sizes;
  const int64_t holder = sizes.firstHolderOf(job.memory.member), begin = sizes.firstExpert(holder);
  const int64_t end = sizes.firstExpert(holder + sizes.width - 1) + sizes.ownExperts;
  const bool isCopied = job.addend != job.out;
  for (int64_t i = threadIdx.x; i < sizes.copies * sizes.blocks; i += blockDim.x) {
    int64_t before = 0, used = 0;
    for (int64_t e = 0; e < end; ++e) {
      const int64_t count = job.blockCounts[i % sizes.blocks * sizes.experts + e];
      before += e < begin ? count : 0;
      used += count;
    }
    const auto fill = [&](int64_t run, int64_t first, int64_t rows) {
      const int64_t offset = (i * sizes.blockRows + first) * sizes.rowBytes;
      job.runs[blockIdx.x * job.length + run] = {job.addend ? job.addend + offset : nullptr, job.out + offset,
                                                 isCopied && rows > 0 ? rows * sizes.rowBytes : 0};
    };
    fill(2 * i, 0, before);
    fill(2 * i + 1, used, sizes.blockRows - used);
  }
}

__global__ void __launch_bounds__(kThreads) listKernel(Job job, Signals ready) {
  const RaggedSizes &sizes = job.sizes;
  const int64_t member = job.memory.member;
  int64_t length = sizes.ownExperts * sizes.blocks;
  if (blockIdx.x == sizes.width) {
    listFilled(job);
    length = 2 * sizes.copies * sizes.blocks;
  } else {
    if (blockIdx.x == 0)
      checkCounts(job);
    await(ready, blockIdx.x, sizes.width);
    const int64_t first = sizes.toExperts ? sizes.firstHolderOf(member) : sizes.firstSourceOf(member);
    const int64_t target = first + blockIdx.x;
    int64_t *starts = job.starts + blockIdx.x * job.counts();
    const PeerSlot its = *job.memory.aborted ? PeerSlot{} : *slotOf(job.memory, target);
    if (*job.memory.aborted)
      length = 0;
    else if (sizes.toExperts)
      listToExperts(job, target, its, starts);
    else
      listFromExperts(job, target, its, starts);
  }
  __syncthreads();
  const PeerRun *runs = job.runs + blockIdx.x * job.length;
  int64_t *portions = job.portions + blockIdx.x * (job.length + 1);
  const int64_t all = scanBlock<int64_t>(
      length, [&](int64_t i) { return (runs[i].bytes + kRunPortion - 1) / kRunPortion; },
      [&](int64_t i, int64_t count, int64_t end) { portions[i] = end - count; });
  for (int64_t i = length + threadIdx.x; i <= job.length; i += kThreads)
    portions[i] = all;
}

// --- Copies ------------------------------------------------------------------

template <class Unit> __device__ void copyUnits(const PeerRun &run) {
  const auto *from = reinterpret_cast<const Unit *>(run.from);
  auto *to = reinterpret_cast<Unit *>(run.to);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < run.bytes / static_cast<int64_t>(sizeof(Unit)); i += kThreads)
    to[i] = from ? from[i] : Unit{};
}

/// Copies a list's portions. The lists take turns.
__global__ void __launch_bounds__(kThreads) copyKernel(Job job) {
  const int64_t list = blockIdx.x % job.lists();
  const PeerRun *runs = job.runs + list * job.length;
  const int64_t *portions = job.portions + list * (job.length + 1);
  for (int64_t i = blockIdx.x / job.lists(); i < portions[job.length]; i += gridDim.x / job.lists()) {
    const int64_t number = std::upper_bound(portions + 1, portions + job.length, i) - portions - 1;
    PeerRun run = runs[number];
    const int64_t begin = (i - portions[number]) * kRunPortion;
    run.from = run.from ? run.from + begin : nullptr;
    run.to += begin;
    run.bytes = run.bytes - begin < kRunPortion ? run.bytes - begin : kRunPortion;
    const auto bits = reinterpret_cast<uintptr_t>(run.from) | reinterpret_cast<uintptr_t>(run.to) | run.bytes;
    if (bits % sizeof(uint4) == 0)
      copyUnits<uint4>(run);
    else
      copyUnits<uint16_t>(run);
  }
}

/// Reserves the lists in the stream's workspace.
Status reserve(const Target &target, Job &job) {
  const RaggedSizes &sizes = job.sizes;
  job.length = std::max(sizes.ownExperts * sizes.blocks, job.hasFilled() ? 2 * sizes.copies * sizes.blocks : 0);
  const auto take = [&](Regions regions) {
    job.starts = regions.take<int64_t>(sizes.width * job.counts());
    job.runs = regions.take<PeerRun>(job.lists() * job.length);
    job.portions = regions.take<int64_t>(job.lists() * (job.length + 1));
    return regions.bytes();
  };
  void *memory = nullptr;
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(take(Regions(nullptr)), memory));
  take(Regions(memory));
  return {};
}

} // namespace

Status exchangeWithPeers(const Target &target, const Call &call, const PeerMemory &memory, const PeerSlot &places) {
  using operands::AllToAllV;
  Job job{RaggedSizes(call, memory.size),
          memory,
          call.views[AllToAllV::blockCounts].as<int32_t>(),
          call.views[AllToAllV::expertCounts].as<int32_t>(),
          call.views[AllToAllV::rows].as<char>(),
          call.views[AllToAllV::addend].as<char>(),
          call.views[AllToAllV::out].as<char>(),
          target.faults(),
          0,
          nullptr,
          nullptr,
          nullptr};
  MOERT_RETURN_IF_ERROR(reserve(target, job));
  const Signals ready{memory.own->ready, memory.size, memory.aborted},
      done{memory.own->done, memory.size, memory.aborted};
  const Grid one, lists{dim3(static_cast<unsigned>(job.lists()))},
      copies{dim3(static_cast<unsigned>(std::max(kCopyBlocks / job.lists(), int64_t(1)) * job.lists()))};
  MOERT_RETURN_IF_ERROR(launch(readyKernel, one, target, memory, places.out, places.blockCounts, places.expertCounts));
  MOERT_RETURN_IF_ERROR(launchWhen(ready, listKernel, lists, target, job, ready));
  MOERT_RETURN_IF_ERROR(launch(copyKernel, copies, target, job));
  MOERT_RETURN_IF_ERROR(launch(doneKernel, one, target, memory));
  return launchWhen(done, awaitKernel, one, target, done);
}

} // namespace moert::cuda
