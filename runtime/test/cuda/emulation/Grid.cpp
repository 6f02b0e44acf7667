//===- Grid.cpp - running the blocks of a kernel --------------------------===//
//
// A fiber runs one thread of a block after the other while none of them waits. A thread that waits keeps its fiber, and
// another fiber goes on with the rest. A kernel without barriers thus needs one fiber and few switches.
//
//===----------------------------------------------------------------------===//
#include "Grid.h"

#include "Fiber.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace moert::emulation {
namespace {

constexpr unsigned kWarp = 32;

struct Thread {
  enum State { Unstarted, Running, Waiting, Ready, Done };
  State state = Unstarted;
  uint3 index{};
  // These belong to the thread's last wait.
  Fiber *fiber = nullptr;
  Site site{};
  unsigned mask = 0; ///< lanes that the thread waits for, or 0 for all threads of the block
  uint64_t given = 0;
  /// Values of the lanes of its warp.
  std::array<uint64_t, kWarp> received{};
};

uint3 indexOf(unsigned linear, dim3 extent) {
  return {linear % extent.x, linear / extent.x % extent.y, linear / extent.x / extent.y};
}

/// The running block, of which there is one at a time.
class Block {
public:
  Block(const Grid &grid, std::mt19937_64 &random)
      : grid(grid), random(random), shared(std::make_unique_for_overwrite<char[]>(grid.sharedBytes)),
        threads(grid.threads.x * grid.threads.y * grid.threads.z), order(threads.size()),
        waitingLanes((threads.size() + kWarp - 1) / kWarp) {
    std::iota(order.begin(), order.end(), 0u);
    for (unsigned i = 0; i < threads.size(); ++i)
      threads[i].index = indexOf(i, grid.threads);
  }

  void run(unsigned index);
  void runUnstarted();
  const uint64_t *wait(Site site, unsigned mask, uint64_t given);
  unsigned lane() const { return current % kWarp; }
  void *sharedMemory() const { return shared.get(); }

private:
  void enter(Fiber *fiber);
  void select(unsigned index);
  void resumeAny();
  void releaseBlock();
  void releaseWarp();
  void release(Thread &thread);
  [[noreturn]] void fail(const char *what);

  const Grid &grid;
  std::mt19937_64 &random;
  std::unique_ptr<char[]> shared;
  std::vector<Thread> threads;
  std::vector<unsigned> order; ///< order in which threads start
  size_t started = 0;
  std::vector<unsigned> ready; ///< threads whose wait has ended
  size_t waitingForBlock = 0;
  std::vector<unsigned> waitingLanes; ///< lanes of each warp that wait for others of it, as a mask
  unsigned current = 0;               ///< running thread
  Fiber *active = nullptr;
};

Block *running = nullptr;
/// Fibers of all earlier blocks, which are used again. Each runs unstarted threads of the running block.
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber *> idleFibers;

Fiber *idleFiber() {
  if (idleFibers.empty()) {
    fibers.push_back(std::make_unique<Fiber>([] { running->runUnstarted(); }));
    return fibers.back().get();
  }
  Fiber *fiber = idleFibers.back();
  idleFibers.pop_back();
  return fiber;
}

void Block::run(unsigned index) {
  blockIdx = indexOf(index, grid.blocks);
  for (Thread &thread : threads)
    thread.state = Thread::Unstarted;
  std::memset(shared.get(), 0xff, grid.sharedBytes);
  std::shuffle(order.begin(), order.end(), random);
  started = 0;
  while (started < order.size() || !ready.empty()) {
    // A thread that may go on does so at once half of the time, so that some run ahead of others.
    if (!ready.empty() && (started == order.size() || random() % 2 == 0))
      resumeAny();
    else
      enter(idleFiber());
  }
  if (std::any_of(threads.begin(), threads.end(), [](const Thread &t) { return t.state != Thread::Done; }))
    fail("threads of a block wait for others that never come");
}

void Block::enter(Fiber *fiber) {
  active = fiber;
  fiber->enter();
}

void Block::select(unsigned index) {
  current = index;
  threadIdx = threads[index].index;
  threads[index].state = Thread::Running;
}

void Block::resumeAny() {
  std::swap(ready[random() % ready.size()], ready.back());
  const unsigned next = ready.back();
  ready.pop_back();
  select(next);
  enter(threads[next].fiber);
}

void Block::runUnstarted() {
  while (started < order.size()) {
    select(order[started++]);
    grid.body();
    threads[current].state = Thread::Done;
  }
  idleFibers.push_back(active);
}

/// Leaves the calling thread's fiber until all that it waits for have arrived.
const uint64_t *Block::wait(Site site, unsigned mask, uint64_t given) {
  Thread &thread = threads[current];
  thread.state = Thread::Waiting;
  thread.fiber = active;
  thread.site = site;
  thread.mask = mask;
  thread.given = given;
  if (mask != 0)
    releaseWarp();
  else if (++waitingForBlock == threads.size())
    releaseBlock();
  thread.fiber->leave();
  return thread.received.data();
}

void Block::release(Thread &thread) {
  thread.state = Thread::Ready;
  ready.push_back(static_cast<unsigned>(&thread - threads.data()));
}

void Block::releaseBlock() {
  waitingForBlock = 0;
  for (const Thread &thread : threads)
    if (!(thread.site == threads[0].site))
      fail("threads of a block wait at different barriers");
  for (Thread &thread : threads)
    release(thread);
}

/// Releases the lanes that the current thread waits for if they all wait for each other.
void Block::releaseWarp() {
  const Thread &caller = threads[current];
  const unsigned mask = caller.mask, first = current / kWarp * kWarp;
  if (!(mask >> lane() & 1))
    fail("a thread is not in the mask of its own warp's barrier");
  if (first + std::bit_width(mask) > threads.size())
    fail("the mask of a warp's barrier names lanes that the block does not have");
  unsigned &waiting = waitingLanes[current / kWarp];
  waiting |= 1u << lane();
  if ((waiting & mask) != mask)
    return;
  std::array<uint64_t, kWarp> given;
  given.fill(~uint64_t(0));
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const unsigned i = std::countr_zero(rest);
    const Thread &thread = threads[first + i];
    // A lane that waits elsewhere may still come. The end of the block detects if it does not.
    if (thread.mask != mask || !(thread.site == caller.site))
      return;
    given[i] = thread.given;
  }
  waiting &= ~mask;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    Thread &thread = threads[first + std::countr_zero(rest)];
    thread.received = given;
    release(thread);
  }
}

std::string textOf(const Thread &thread) {
  if (thread.state != Thread::Waiting)
    return thread.state == Thread::Done ? "has ended" : "runs";
  return std::string("waits at ") + thread.site.barrier + " in " + thread.site.where.file + ":" +
         std::to_string(thread.site.where.line);
}

void Block::fail(const char *what) {
  std::fprintf(stderr, "CUDA emulation: %s: block (%u, %u, %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z);
  for (size_t first = 0, last = 0; first < threads.size(); first = last) {
    const std::string text = textOf(threads[first]);
    while (last < threads.size() && textOf(threads[last]) == text)
      ++last;
    std::fprintf(stderr, "  threads %zu to %zu: %s\n", first, last - 1, text.c_str());
  }
  std::abort();
}

} // namespace

void waitForBlock(Site site) { running->wait(site, 0, 0); }
const uint64_t *exchangeInWarp(Site site, unsigned mask, uint64_t value) {
  // A mask without lanes would mean the block.
  return running->wait(site, mask ? mask : 1u << running->lane(), value);
}
unsigned laneIndex() { return running->lane(); }
void *dynamicShared() { return running->sharedMemory(); }

void runGrid(const Grid &grid, std::mt19937_64 &random) {
  Block block(grid, random);
  running = &block;
  blockDim = grid.threads;
  gridDim = grid.blocks;
  std::vector<unsigned> order(grid.blocks.x * grid.blocks.y * grid.blocks.z);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  for (unsigned index : order)
    block.run(index);
  running = nullptr;
}

} // namespace moert::emulation
