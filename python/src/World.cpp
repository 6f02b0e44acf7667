//===- World.cpp - a rank of a plan on a caller's memory ------------------===//
#include "Error.h"
#include "Module.h"
#include "Plan.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <numeric>

namespace nb = nanobind;
using namespace nb::literals;

namespace moeplan::python {
namespace {

/// Address and bytes of memory of the caller. DLPack would give the same, but PyTorch may make CUDA's default stream
/// wait for the current one whenever it exports a tensor.
using Memory = std::pair<uintptr_t, int64_t>;

/// Functions of Python by which a world meets other processes.
class Caller {
public:
  virtual ~Caller() = default;
  virtual void addTo(moert_world_config &config) const = 0;
  virtual bool onDevice() const = 0;
  /// Sets the cudaStream_t of the next step. It has no effect on the host.
  virtual void setStream(uintptr_t) {}

protected:
  /// Runs `body` and returns 0, or 1 after an exception whose text is kept.
  template <class Body> int32_t guarded(Body body) {
    nb::gil_scoped_acquire lock;
    try {
      body();
      return 0;
    } catch (const nb::python_error &caught) {
      // A traceback, as in what(), would hide the text.
      error = std::string(nb::str(caught.type().attr("__name__")).c_str()) + ": " + nb::str(caught.value()).c_str();
      return 1;
    } catch (const std::exception &caught) {
      error = caught.what();
      return 1;
    }
  }
  static const char *getError(void *context) { return static_cast<Caller *>(context)->error.c_str(); }
  static nb::list list(const int64_t *values, int64_t count) {
    nb::list result;
    for (int64_t i = 0; i < count; ++i)
      result.append(values[i]);
    return result;
  }

private:
  std::string error;
};

/// Python functions as a moert_communicator. They get memory as memoryviews, and sizes as lists.
class HostCaller final : public Caller {
public:
  HostCaller(int64_t rank, int64_t ranks, nb::callable allToAll, nb::callable allGather)
      : allToAll(std::move(allToAll)), allGather(std::move(allGather)), table{sizeof table,
                                                                              MOERT_COMMUNICATOR_VERSION,
                                                                              static_cast<Caller *>(this),
                                                                              rank,
                                                                              ranks,
                                                                              callAllToAll,
                                                                              callAllGather,
                                                                              getError} {}

  void addTo(moert_world_config &config) const override {
    config.backend = "caller";
    config.communicator = &table;
  }
  bool onDevice() const override { return false; }

private:
  static nb::object view(const void *data, int64_t bytes) {
    // A view needs an address even if it has no elements.
    static char nothing;
    char *begin = data ? static_cast<char *>(const_cast<void *>(data)) : &nothing;
    return nb::steal(PyMemoryView_FromMemory(begin, bytes, PyBUF_WRITE));
  }
  static int32_t callAllToAll(void *context, const moert_members *members, const void *send, const int64_t *sent,
                              void *receive, const int64_t *received) {
    auto &self = static_cast<HostCaller &>(*static_cast<Caller *>(context));
    auto sum = [&](const int64_t *bytes) { return std::accumulate(bytes, bytes + members->count, int64_t(0)); };
    return self.guarded([&] {
      self.allToAll(list(members->ranks, members->count), view(send, sum(sent)), list(sent, members->count),
                    view(receive, sum(received)), list(received, members->count));
    });
  }
  static int32_t callAllGather(void *context, const moert_members *members, const void *send, int64_t bytes,
                               void *receive) {
    auto &self = static_cast<HostCaller &>(*static_cast<Caller *>(context));
    return self.guarded([&] {
      self.allGather(list(members->ranks, members->count), view(send, bytes), view(receive, members->count * bytes));
    });
  }

  nb::callable allToAll, allGather;
  moert_communicator table;
};

/// A stream, and a Python function that returns the address of a communicator, as a moert_cuda_caller.
class CudaCaller final : public Caller {
public:
  CudaCaller(int64_t rank, int64_t ranks, nb::callable communicator)
      : communicator(std::move(communicator)), table{sizeof table,
                                                     MOERT_CUDA_CALLER_VERSION,
                                                     static_cast<Caller *>(this),
                                                     rank,
                                                     ranks,
                                                     getStream,
                                                     getCommunicator,
                                                     getError} {}

  void addTo(moert_world_config &config) const override {
    config.backend = "cuda";
    config.cuda_caller = &table;
  }
  bool onDevice() const override { return true; }
  void setStream(uintptr_t address) override { stream = address; }

private:
  static void *getStream(void *context) {
    return reinterpret_cast<void *>(static_cast<CudaCaller &>(*static_cast<Caller *>(context)).stream);
  }
  static void *getCommunicator(void *context, const moert_members *members) {
    auto &self = static_cast<CudaCaller &>(*static_cast<Caller *>(context));
    uintptr_t address = 0;
    self.guarded([&] { address = nb::cast<uintptr_t>(self.communicator(list(members->ranks, members->count))); });
    return reinterpret_cast<void *>(address);
  }

  nb::callable communicator;
  uintptr_t stream = 0;
  moert_cuda_caller table;
};

/// One rank of a variant of a plan. Steps run one at a time.
class World {
public:
  World(const Plan &plan, int64_t variant, int64_t rank, std::unique_ptr<Caller> caller, int64_t workers, bool verify)
      : plan(plan.get()), caller(std::move(caller)), rank(rank) {
    moert_world_config config{};
    config.size = sizeof config;
    config.version = MOERT_WORLD_CONFIG_VERSION;
    config.variant = variant;
    config.workers = workers;
    config.verify = verify;
    config.bound = 1;
    this->caller->addTo(config);
    moert_world_t made = nullptr;
    check(moert_world_create(this->plan.get(), &config, &made));
    world.reset(made);
  }
  ~World() {
    // Threads of the world may be in a function of Python.
    nb::gil_scoped_release release;
    world.reset();
  }

  double run(const std::vector<Memory> &values, const std::vector<Memory> &arenas, uintptr_t stream) {
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < arenas.size(); ++i)
      check(moert_world_bind_arena(world.get(), rank, static_cast<int32_t>(i),
                                   reinterpret_cast<void *>(arenas[i].first), arenas[i].second));
    for (size_t i = 0; i < values.size(); ++i)
      check(moert_world_bind(world.get(), rank, static_cast<int64_t>(i), reinterpret_cast<void *>(values[i].first),
                             values[i].second));
    caller->setStream(stream);
    double seconds = 0;
    check(moert_world_run(world.get(), caller->onDevice() ? nullptr : &seconds));
    return seconds;
  }

  void wait() {
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex);
    check(moert_world_wait(world.get()));
  }

private:
  struct Destroy {
    void operator()(moert_world_t world) const { moert_world_destroy(world); }
  };

  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> plan;
  std::unique_ptr<Caller> caller;
  int64_t rank;
  std::mutex mutex;
  std::unique_ptr<std::remove_pointer_t<moert_world_t>, Destroy> world;
};

} // namespace

void registerWorld(nb::module_ &module) {
  nb::class_<World>(module, "World", "One rank of a variant of a plan, which runs on memory of the caller.")
      .def_static(
          "on_host",
          [](const Plan &plan, int64_t variant, int64_t rank, int64_t ranks, nb::callable allToAll,
             nb::callable allGather, int64_t workers, bool verify) {
            auto caller = std::make_unique<HostCaller>(rank, ranks, std::move(allToAll), std::move(allGather));
            return std::make_unique<World>(plan, variant, rank, std::move(caller), workers, verify);
          },
          "plan"_a, "variant"_a, "rank"_a, "ranks"_a, "all_to_all"_a, "all_gather"_a, "workers"_a = 1,
          "verify"_a = false,
          nb::sig(
              "def on_host(plan: Plan, variant: int, rank: int, ranks: int, all_to_all: "
              "collections.abc.Callable[[list[int], memoryview, list[int], memoryview, list[int]], None], all_gather: "
              "collections.abc.Callable[[list[int], memoryview, memoryview], None], workers: int = 1, verify: bool = "
              "False) -> World"),
          "`all_to_all(ranks, send, sent, receive, received)` sends `sent[m]` bytes to each of `ranks` and receives "
          "`received[m]` from it; `all_gather(ranks, send, receive)` receives what each has. `send` and `receive` are "
          "memoryviews.")
      .def_static(
          "on_cuda",
          [](const Plan &plan, int64_t variant, int64_t rank, int64_t ranks, nb::callable communicator, bool verify) {
            auto caller = std::make_unique<CudaCaller>(rank, ranks, std::move(communicator));
            return std::make_unique<World>(plan, variant, rank, std::move(caller), 0, verify);
          },
          "plan"_a, "variant"_a, "rank"_a, "ranks"_a, "communicator"_a, "verify"_a = false,
          nb::sig("def on_cuda(plan: Plan, variant: int, rank: int, ranks: int, communicator: "
                  "collections.abc.Callable[[list[int]], int], verify: bool = False) -> World"),
          "`communicator(ranks)` is the address of the ncclComm_t of `ranks`. The world is on the current device.")
      .def("run", &World::run, "values"_a, "arenas"_a, "stream"_a = 0,
           nb::sig("def run(self, values: collections.abc.Sequence[tuple[int, int]], arenas: "
                   "collections.abc.Sequence[tuple[int, int]], stream: int = 0) -> float"),
           "Runs the program on the addresses and bytes of its arguments and then its results, in the order of the "
           "plan's metadata, and of arenas of at least the bytes that it says, device and host_pinned. All are dense; "
           "nothing is copied. `stream` is the address of the cudaStream_t on which the step runs, 0 for the default "
           "stream. Returns the seconds that it took, or 0 on a GPU, where it only enqueues the step.")
      .def("wait", &World::wait, nb::sig("def wait(self) -> None"),
           "Waits for the last step. Errors that only the device finds, and that no later step has returned, are "
           "those of this call.");
}

} // namespace moeplan::python
