//===- World.cpp - a rank of a plan on a caller's memory ------------------===//
#include "Error.h"
#include "Module.h"
#include "Plan.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

namespace nb = nanobind;
using namespace nb::literals;

namespace moeplan::python {
namespace {

/// Dense memory of any type, by DLPack or the buffer protocol: nothing is copied.
using Array = nb::ndarray<nb::c_contig>;

/// Functions of Python as a moert_communicator. They get memory as memoryviews, and sizes as lists.
class Communicator {
public:
  Communicator(int64_t rank, int64_t ranks, nb::callable allToAll, nb::callable allGather)
      : allToAll(std::move(allToAll)), allGather(std::move(allGather)) {
    table.size = sizeof table;
    table.version = MOERT_COMMUNICATOR_VERSION;
    table.context = this;
    table.rank = rank;
    table.ranks = ranks;
    table.all_to_all = callAllToAll;
    table.all_gather = callAllGather;
    table.last_error = [](void *context) { return static_cast<Communicator *>(context)->error.c_str(); };
  }

  moert_communicator table{};

private:
  static nb::object view(const void *data, int64_t bytes) {
    // A view needs an address, also where there is nothing.
    static char nothing;
    char *begin = data ? static_cast<char *>(const_cast<void *>(data)) : &nothing;
    return nb::steal(PyMemoryView_FromMemory(begin, bytes, PyBUF_WRITE));
  }
  static nb::list list(const int64_t *values, int64_t count, int64_t &sum) {
    nb::list result;
    for (int64_t i = 0; i < count; ++i) {
      result.append(values[i]);
      sum += values[i];
    }
    return result;
  }
  template <class Body> int32_t guarded(Body body) noexcept {
    nb::gil_scoped_acquire lock;
    try {
      body();
      return 0;
    } catch (const std::exception &caught) {
      error = caught.what();
      return 1;
    }
  }
  static int32_t callAllToAll(void *context, const moert_members *members, const void *send, const int64_t *sent,
                              void *receive, const int64_t *received) {
    auto &self = *static_cast<Communicator *>(context);
    return self.guarded([&] {
      int64_t ignored = 0, bytesSent = 0, bytesReceived = 0;
      nb::list ranks = list(members->ranks, members->count, ignored);
      nb::list sizesSent = list(sent, members->count, bytesSent);
      nb::list sizesReceived = list(received, members->count, bytesReceived);
      self.allToAll(ranks, view(send, bytesSent), sizesSent, view(receive, bytesReceived),
                    sizesReceived);
    });
  }
  static int32_t callAllGather(void *context, const moert_members *members, const void *send, int64_t bytes,
                               void *receive) {
    auto &self = *static_cast<Communicator *>(context);
    return self.guarded([&] {
      int64_t ignored = 0;
      nb::list ranks = list(members->ranks, members->count, ignored);
      self.allGather(ranks, view(send, bytes), view(receive, members->count * bytes));
    });
  }

  nb::callable allToAll, allGather;
  std::string error;
};

/// One rank of a variant of a plan. Steps run one at a time.
class World {
public:
  World(const Plan &plan, int64_t variant, int64_t rank, int64_t ranks, nb::callable allToAll, nb::callable allGather,
        int64_t workers, bool verify)
      : plan(plan.get()), communicator(rank, ranks, std::move(allToAll), std::move(allGather)), rank(rank) {
    moert_world_config config{};
    config.size = sizeof config;
    config.version = MOERT_WORLD_CONFIG_VERSION;
    config.backend = "caller";
    config.variant = variant;
    config.workers = workers;
    config.verify = verify;
    config.communicator = &communicator.table;
    config.bound = 1;
    moert_world_t made = nullptr;
    check(moert_world_create(this->plan.get(), &config, &made));
    world.reset(made);
  }
  ~World() {
    // Its threads may be in a function of Python.
    nb::gil_scoped_release release;
    world.reset();
  }

  double run(const std::vector<Array> &values, const std::vector<Array> &arenas) {
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < arenas.size(); ++i)
      check(moert_world_bind_arena(world.get(), rank, static_cast<int32_t>(i), arenas[i].data(),
                                   static_cast<int64_t>(arenas[i].nbytes())));
    for (size_t i = 0; i < values.size(); ++i)
      check(moert_world_bind(world.get(), rank, static_cast<int64_t>(i), values[i].data(),
                             static_cast<int64_t>(values[i].nbytes())));
    double seconds = 0;
    check(moert_world_run(world.get(), &seconds));
    return seconds;
  }

private:
  struct Destroy {
    void operator()(moert_world_t world) const { moert_world_destroy(world); }
  };

  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> plan;
  Communicator communicator;
  int64_t rank;
  std::mutex mutex;
  std::unique_ptr<std::remove_pointer_t<moert_world_t>, Destroy> world;
};

} // namespace

void registerWorld(nb::module_ &module) {
  nb::class_<World>(module, "World", "One rank of a variant of a plan, which runs on memory of the caller.")
      .def(nb::init<const Plan &, int64_t, int64_t, int64_t, nb::callable, nb::callable, int64_t, bool>(), "plan"_a,
           "variant"_a, "rank"_a, "ranks"_a, "all_to_all"_a, "all_gather"_a, "workers"_a = 1, "verify"_a = false,
           "`all_to_all(ranks, send, sent, receive, received)` sends `sent[m]` bytes to each of `ranks` and receives "
           "`received[m]` from it; `all_gather(ranks, send, receive)` receives what each has. `send` and `receive` are "
           "memoryviews.")
      .def("run", &World::run, "values"_a, "arenas"_a,
           "Runs the program on its arguments and then its results, in the order of the plan's metadata, and with "
           "arenas of at least the bytes that it says, device and host_pinned. All are dense; nothing is copied. Returns "
           "the seconds that it took.");
}

} // namespace moeplan::python
