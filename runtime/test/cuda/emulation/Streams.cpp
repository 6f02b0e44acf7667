//===- Streams.cpp - enqueued work, and its order -------------------------===//

#include "Streams.h"

#include "Emulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

namespace moert::emulation {

using Lock = std::lock_guard<std::mutex>;

static int64_t fromEnvironment(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

Machine::Machine() {
  random.seed(static_cast<uint64_t>(fromEnvironment("CUDA_EMULATION_SEED", 1)));
  devices = static_cast<int>(fromEnvironment("CUDA_EMULATION_DEVICES", 2));
  queues = fromEnvironment("CUDA_DEVICE_MAX_CONNECTIONS", 8);
  readVisible();
  memory = size_t(4) << 30;
}

Machine::~Machine() {
  const char *path = std::getenv("CUDA_EMULATION_COUNTS");
  if (std::FILE *file = path ? std::fopen(path, "w") : nullptr) {
    std::fprintf(
        file, "{\"launches\": %lld, \"waits\": %lld, \"allocations\": %lld, \"queues\": %lld, \"small_grids\": %lld}\n",
        static_cast<long long>(launches), static_cast<long long>(waits), static_cast<long long>(allocations),
        static_cast<long long>(queues), static_cast<long long>(smallGrids));
    std::fclose(file);
  }
}

/// Reads the list as CUDA does: numbers up to the first one that no device has.
void Machine::readVisible() {
  const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text)
    return;
  for (char *rest = nullptr;; text = rest + 1) {
    const int64_t number = std::strtoll(text, &rest, 10);
    if (rest == text || number < 0 || number >= devices)
      break;
    visible.push_back(static_cast<int>(number));
    if (*rest != ',')
      break;
  }
  devices = static_cast<int>(visible.size());
}

int Machine::numberOf(int device) const {
  const auto index = static_cast<size_t>(device);
  return index < visible.size() ? visible[index] : device;
}

Machine &Machine::get() {
  static Machine machine;
  return machine;
}

int &currentDevice() {
  thread_local int device = 0;
  return device;
}

cudaStreamCaptureMode &threadMode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

CUstream_st &Machine::resolve(cudaStream_t stream) {
  if (stream)
    return *stream;
  cudaStream_t &found = defaults[currentDevice()];
  if (!found)
    found = createStream();
  return *found;
}

cudaStream_t Machine::createStream() {
  streams.push_back(std::make_unique<CUstream_st>());
  streams.back()->device = currentDevice();
  return streams.back().get();
}

void Machine::destroyStream(cudaStream_t stream) {
  runUntil([&] { return stream->tasks.empty(); });
  std::erase_if(streams, [&](const auto &owned) { return owned.get() == stream; });
}

cudaError_t Machine::enqueue(CUstream_st &stream, std::function<void()> run, std::function<bool()> hasArrived) {
  if (stream.device != currentDevice())
    return cudaErrorInvalidResourceHandle;
  if (!stream.graph) {
    stream.tasks.push_back({std::move(run), nullptr, 0, std::move(hasArrived)});
    return cudaSuccess;
  }
  if (stream.graph->isInvalid)
    return cudaErrorStreamCaptureInvalidated;
  stream.graph->nodes.push_back({std::move(run), stream.last, std::move(hasArrived)});
  stream.last = {stream.graph->nodes.size() - 1};
  return cudaSuccess;
}

void Machine::pause() {
  mutex.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  mutex.lock();
}

void Machine::waitForOthers() {
  const bool mayCome = std::any_of(streams.begin(), streams.end(), [](const auto &stream) {
    return !stream->tasks.empty() && stream->tasks.front().isNext();
  });
  if (!mayCome && !isInGraph)
    failDeadlock();
  pause();
}

bool Machine::runOne() {
  // A graph is one task, even if other threads ask meanwhile.
  if (isInGraph)
    return false;
  std::vector<CUstream_st *> able;
  for (auto &stream : streams)
    if (!stream->tasks.empty() && stream->tasks.front().isReady())
      able.push_back(stream.get());
  if (able.empty())
    return false;
  auto &tasks = able[random() % able.size()]->tasks;
  Task task = std::move(tasks.front());
  tasks.pop_front();
  if (task.run)
    task.run();
  return true;
}

void Machine::drain() {
  runUntil([&] { return std::all_of(streams.begin(), streams.end(), [](auto &s) { return s->tasks.empty(); }); });
}

void Machine::drainDevice() {
  const int device = currentDevice();
  runUntil([&] {
    return std::all_of(streams.begin(), streams.end(),
                       [&](auto &s) { return s->device != device || s->tasks.empty(); });
  });
}

void Machine::runGraph(const CUgraph_st &graph) {
  std::vector<size_t> missing(graph.nodes.size()), able;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    missing[i] = graph.nodes[i].after.size();
    if (missing[i] == 0)
      able.push_back(i);
  }
  isInGraph = true;
  while (!able.empty()) {
    std::swap(able[random() % able.size()], able.back());
    const size_t node = able.back();
    if (graph.nodes[node].hasArrived && !graph.nodes[node].hasArrived()) {
      pause();
      continue;
    }
    able.pop_back();
    graph.nodes[node].run();
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (size_t met = std::count(graph.nodes[i].after.begin(), graph.nodes[i].after.end(), node); met > 0)
        if ((missing[i] -= met) == 0)
          able.push_back(i);
  }
  isInGraph = false;
}

void Machine::beginCapture(CUstream_st &stream, cudaStreamCaptureMode mode) {
  stream.graph = captures.emplace_back(new CUgraph_st);
  stream.graph->origin = &stream;
  stream.graph->mode = mode;
  stream.graph->thread = std::this_thread::get_id();
  stream.last.clear();
}

void Machine::endCapture(const CUgraph_st *graph) {
  std::erase(captures, graph);
  for (auto &stream : streams)
    if (stream->graph == graph) {
      stream->graph = nullptr;
      stream->last.clear();
    }
}

/// The rules of cudaThreadExchangeStreamCaptureMode.
cudaError_t Machine::checkUnsafe() {
  cudaError_t error = cudaSuccess;
  if (threadMode() == cudaStreamCaptureModeRelaxed)
    return error;
  for (CUgraph_st *graph : captures) {
    const bool isOwn = graph->thread == std::this_thread::get_id();
    const bool forbids =
        isOwn ? graph->mode != cudaStreamCaptureModeRelaxed
              : graph->mode == cudaStreamCaptureModeGlobal && threadMode() == cudaStreamCaptureModeGlobal;
    if (!forbids)
      continue;
    graph->isInvalid = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t Machine::checkNoCapture() {
  cudaError_t error = checkUnsafe();
  for (CUgraph_st *graph : captures)
    if (graph->origin->device == currentDevice()) {
      graph->isInvalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

/// Refuses to wait for a stream or an event that a capture holds, in every mode. An event stays captured until its next
/// record.
static cudaError_t checkNotHeld(Machine &machine, CUgraph_st *graph, cudaError_t error) {
  if (!graph)
    return machine.checkUnsafe();
  if (machine.isCaptured(graph))
    graph->isInvalid = true;
  return error;
}

void Machine::failDeadlock() {
  std::fprintf(stderr, "CUDA emulation: a wait that never ends: no stream can go on\n");
  for (size_t i = 0; i < streams.size(); ++i)
    if (!streams[i]->tasks.empty())
      std::fprintf(stderr, "  stream %zu: %zu tasks, the first waits for an event\n", i, streams[i]->tasks.size());
  std::abort();
}

cudaError_t injected(Machine &machine) { return std::exchange(machine.failure, cudaSuccess); }

void setSeed(uint64_t seed) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  machine.random.seed(seed);
}

void setDevices(int count, size_t bytes) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  machine.devices = count;
  machine.memory = bytes;
}

void failNext(int error) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  machine.failure = static_cast<cudaError_t>(error);
}

cudaError_t enqueueWork(cudaStream_t stream, std::function<void()> body) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  ++machine.launches;
  return noted(machine.enqueue(machine.resolve(stream), std::move(body)));
}

} // namespace moert::emulation

using namespace moert::emulation;

// --- Streams -----------------------------------------------------------------

/// Priorities of data-centre GPUs: lower numbers are more urgent.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  const cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
  if (error == cudaSuccess)
    (*stream)->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  return error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = injected(machine); error != cudaSuccess)
    return noted(error);
  // Other streams and the default stream would wait for each other. The emulation does not support this.
  if (flags != cudaStreamNonBlocking)
    return noted(cudaErrorNotSupported);
  if (cudaError_t error = machine.checkUnsafe(); error != cudaSuccess)
    return noted(error);
  *stream = machine.createStream();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  machine.destroyStream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  CUstream_st &resolved = machine.resolve(stream);
  if (cudaError_t error = checkNotHeld(machine, resolved.graph, cudaErrorStreamCaptureUnsupported);
      error != cudaSuccess)
    return noted(error);
  ++machine.waits;
  machine.runUntil([&] { return resolved.tasks.empty(); });
  return noted(injected(machine));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  CUstream_st &resolved = machine.resolve(stream);
  if (cudaError_t error = checkNotHeld(machine, resolved.graph, cudaErrorStreamCaptureUnsupported);
      error != cudaSuccess)
    return noted(error);
  if (!resolved.tasks.empty())
    machine.runOne();
  return noted(resolved.tasks.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize() {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = machine.checkNoCapture(); error != cudaSuccess)
    return noted(error);
  machine.drain();
  return noted(injected(machine));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  return enqueueWork(stream, [=] { function(data); });
}

// --- Events ------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->hasTime = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  CUstream_st &resolved = machine.resolve(stream);
  if (resolved.graph && resolved.graph->isInvalid)
    return noted(cudaErrorStreamCaptureInvalidated);
  event->graph = resolved.graph;
  event->nodes = resolved.last;
  if (resolved.graph)
    return cudaSuccess;
  auto state = event->state;
  const int64_t version = ++state->issued;
  return noted(machine.enqueue(resolved, [state, version] {
    state->completed = std::max(state->completed, version);
    state->time = std::chrono::steady_clock::now();
  }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  CUstream_st &resolved = machine.resolve(stream);
  if (event->graph && !machine.isCaptured(event->graph))
    return noted(cudaErrorCapturedEvent);
  if (event->graph) {
    if (resolved.graph && resolved.graph != event->graph)
      return noted(cudaErrorStreamCaptureIsolation);
    if (event->graph->isInvalid)
      return noted(cudaErrorStreamCaptureInvalidated);
    if (!resolved.graph)
      resolved.last.clear();
    resolved.graph = event->graph;
    resolved.last.insert(resolved.last.end(), event->nodes.begin(), event->nodes.end());
    std::sort(resolved.last.begin(), resolved.last.end());
    resolved.last.erase(std::unique(resolved.last.begin(), resolved.last.end()), resolved.last.end());
    return cudaSuccess;
  }
  if (resolved.graph)
    return noted(cudaErrorStreamCaptureIsolation);
  resolved.tasks.push_back({nullptr, event->state, event->state->issued, {}});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = checkNotHeld(machine, event->graph, cudaErrorCapturedEvent); error != cudaSuccess)
    return noted(error);
  const EventState &state = *event->state;
  if (state.completed < state.issued)
    machine.runOne();
  return noted(state.completed < state.issued ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (cudaError_t error = checkNotHeld(machine, event->graph, cudaErrorCapturedEvent); error != cudaSuccess)
    return noted(error);
  const std::shared_ptr<EventState> state = event->state;
  ++machine.waits;
  machine.runUntil([&, version = state->issued] { return state->completed >= version; });
  return noted(injected(machine));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (!begin->hasTime || !end->hasTime || begin->state->issued == 0 || end->state->issued == 0)
    return noted(cudaErrorInvalidResourceHandle);
  if (begin->state->completed < begin->state->issued || end->state->completed < end->state->issued)
    return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->state->time - begin->state->time).count();
  return cudaSuccess;
}

// --- Graphs ------------------------------------------------------------------

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, threadMode());
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  if (!stream || stream->graph)
    return noted(cudaErrorStreamCaptureUnsupported);
  machine.beginCapture(*stream, mode);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  const CUgraph_st *graph = stream ? stream->graph : nullptr;
  *status = !graph             ? cudaStreamCaptureStatusNone
            : graph->isInvalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

/// Whether each node comes before a node after which `stream` would go on.
static bool isJoined(const CUgraph_st &graph, const CUstream_st &stream) {
  std::set<size_t> before(stream.last.begin(), stream.last.end());
  for (size_t node = graph.nodes.size(); node-- > 0;)
    if (before.count(node))
      before.insert(graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  return before.size() == graph.nodes.size();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  Machine &machine = Machine::get();
  Lock lock(machine.mutex);
  *graph = nullptr;
  if (!stream || !stream->graph || stream->graph->origin != stream)
    return noted(cudaErrorStreamCaptureUnmatched);
  CUgraph_st *captured = stream->graph;
  if (captured->mode != cudaStreamCaptureModeRelaxed && captured->thread != std::this_thread::get_id())
    return noted(cudaErrorStreamCaptureWrongThread);
  const cudaError_t error = captured->isInvalid             ? cudaErrorStreamCaptureInvalidated
                            : !isJoined(*captured, *stream) ? cudaErrorStreamCaptureUnjoined
                                                            : cudaSuccess;
  machine.endCapture(captured);
  if (error != cudaSuccess) {
    delete captured;
    return noted(error);
  }
  *graph = captured;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return enqueueWork(stream, [graph = exec->graph] { Machine::get().runGraph(*graph); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
