//===- WorldApi.cpp - the C API of world.h --------------------------------===//

#include "core/Error.h"
#include "core/Listing.h"
#include "core/PlanLibrary.h"
#include "core/ProcessPlace.h"
#include "moert/world.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

using namespace moert;

struct moert_plan {
  PlanLibrary library;
};

struct moert_world {
  std::unique_ptr<World> world;
};

/// Runs `body` on the world if the handle is not null and `given` holds, which says that out-parameters are not null.
template <class Body> static int32_t onWorld(moert_world_t world, bool given, Body body) {
  return guarded([&]() -> Status {
    if (!world || !given)
      return invalid("expected a world and out-parameters that are not null");
    return body(*world->world);
  });
}

/// Does the same after the last step has ended.
template <class Body> static int32_t onIdleWorld(moert_world_t world, bool given, Body body) {
  return onWorld(world, given, [&](World &inner) -> Status {
    Status status = inner.wait();
    return status.ok() ? body(inner) : status;
  });
}

/// Programs of the ranks of a variant, or its reference.
struct ChosenPrograms {
  WorldPrograms programs;
  const std::vector<Group> *groups;
  int64_t world;
};

static Status choosePrograms(const PlanLibrary &library, int64_t variant, int32_t program, ChosenPrograms &chosen) {
  static const std::vector<Group> noGroups;
  if (program != MOERT_PROGRAM_REFERENCE && program != MOERT_PROGRAM_RANK)
    return invalid("expected program 0 or 1 but got ", program);
  auto variants = std::ssize(library.variants);
  if (variant < 0 || variant >= variants)
    return invalid("expected a variant from 0 to ", variants - 1, " but got ", variant);
  const Metadata &metadata = library.variants[variant];
  const PlanEntries &entries = library.entries[variant];
  if (program == MOERT_PROGRAM_RANK)
    chosen = {{metadata.programs, entries.ranks}, &metadata.groups, metadata.world};
  else if (metadata.reference)
    chosen = {{{&*metadata.reference, 1}, {&entries.reference, 1}}, &noGroups, 1};
  else
    return invalid("the plan has no reference program");
  return {};
}

/// Text that all processes must have alike, in lines. The first line that differs is reported, so options of the user
/// come before what follows from them.
static std::string identityOf(const PlanLibrary &library, const moert_world_config &config) {
  std::ostringstream seconds;
  seconds << config.timeout_s;
  return joined("runtime: ABI ", MOERT_ABI_VERSION, "\nplan: SHA-256 ", library.digest, "\n",
                config.agreement ? config.agreement : "", "variant: ", config.variant, "\nprogram: ", config.program,
                "\nverify: ", config.verify, "\ntf32: ", config.tf32, "\nwide: ", config.wide,
                "\ngraphs: ", config.graphs, "\nemulated links: ", config.emulate, "\ntime-out: ", seconds.str(),
                " s\n");
}

/// Checks the size and the version of a caller's structure.
template <class Table> static Status checkTable(const Table &table, const char *name, uint32_t version) {
  return invalidUnless(table.size == sizeof table && table.version == version, "expected a ", name, " of version ",
                       version, " and ", sizeof table, " bytes but got version ", table.version, " and ", table.size,
                       " bytes");
}

/// Checks the options of a world with a caller's memory and processes.
static Status checkCaller(const moert_world_config &config, const WorldOptions &options) {
  if (options.isBound && config.wide != MOERT_WIDE_NONE)
    return invalid("expected wide = 0 of a world whose memory the caller gives");
  const moert_communicator *table = config.communicator;
  if ((options.backend == "caller") != (table != nullptr))
    return invalid("expected a communicator for backend 'caller', and for no other one; the backend is '",
                   options.backend, "'");
  if (!table)
    return {};
  MOERT_RETURN_IF_ERROR(checkTable(*table, "moert_communicator", MOERT_COMMUNICATOR_VERSION));
  return invalidUnless(table->all_to_all && table->all_gather,
                       "expected a moert_communicator with all_to_all and all_gather");
}

/// Checks the options of a world with a caller's memory, and perhaps its GPU stream.
static Status checkCudaCaller(const moert_world_config &config, const WorldOptions &options) {
  if (options.isBound && options.device.graphs)
    return invalid("expected graphs = 0 of a world whose memory the caller gives: a CUDA graph would use the addresses "
                   "of the step that it was made of again");
  const moert_cuda_caller *table = config.cuda_caller;
  if (!table)
    return {};
  MOERT_RETURN_IF_ERROR(checkTable(*table, "moert_cuda_caller", MOERT_CUDA_CALLER_VERSION));
  if (!table->stream || !table->communicator)
    return invalid("expected a moert_cuda_caller with stream and communicator");
  if (options.backend != "cuda" || !options.isBound)
    return invalid("expected a moert_cuda_caller for backend 'cuda' with bound = 1 alone; the backend is '",
                   options.backend, "', and bound is ", config.bound);
  return invalidUnless(!config.agreement,
                       "agreement must be null with a moert_cuda_caller, whose processes compare nothing");
}

/// Reads the options of a world from its configuration.
static Status readOptions(const PlanLibrary &library, const moert_world_config &config, WorldOptions &options) {
  options.backend = config.backend ? config.backend : "host";
  options.device.workers = config.workers;
  options.device.verify = config.verify != 0;
  options.leastShadows = config.verify == 2 ? -1 : config.verify;
  options.device.emulate = config.emulate != 0;
  options.device.graphs = config.graphs != 0;
  options.device.tf32 = config.tf32 != 0;
  options.device.identity = identityOf(library, config);
  options.device.timeout = config.timeout_s;
  options.device.communicator = config.communicator;
  options.device.cudaCaller = config.cuda_caller;
  options.timeout = config.timeout_s;
  options.isBound = config.bound != 0;
  options.otherBytes = config.other_bytes;
  MOERT_RETURN_IF_ERROR(
      invalidUnless(config.other_bytes >= 0, "expected other_bytes of at least 0 but got ", config.other_bytes));
  MOERT_RETURN_IF_ERROR(readModes(config, options.backend, options.modes));
  MOERT_RETURN_IF_ERROR(checkCaller(config, options));
  return checkCudaCaller(config, options);
}

/// Calls `body` with the arguments of World::create and World::check.
template <class Body> static Status withWorld(moert_plan_t plan, const moert_world_config *config, Body body) {
  if (!plan || !config)
    return invalid("expected a plan and a configuration that are not null");
  MOERT_RETURN_IF_ERROR(checkTable(*config, "moert_world_config", MOERT_WORLD_CONFIG_VERSION));
  ChosenPrograms chosen;
  MOERT_RETURN_IF_ERROR(choosePrograms(plan->library, config->variant, config->program, chosen));
  WorldOptions options;
  MOERT_RETURN_IF_ERROR(readOptions(plan->library, *config, options));
  return body(chosen.programs, *chosen.groups, chosen.world, options);
}

/// Copies what `read` gives into to[0..capacity), as far as there is room.
template <class T, class Read> static Status copyOut(T *to, int64_t capacity, int64_t &count, Read read) {
  std::vector<T> values;
  MOERT_RETURN_IF_ERROR(read(values));
  count = std::ssize(values);
  std::copy_n(values.begin(), std::clamp<int64_t>(capacity, 0, count), to);
  return {};
}

static Status chooseVariant(const PlanLibrary &library, int64_t batch, int64_t sequence, int64_t &variant) {
  if (!library.choose)
    return invalid("the plan has one shape, so that there is nothing to choose");
  int64_t chosen = library.choose(batch, sequence);
  if (chosen < 0)
    return invalid("expected a batch and a sequence that the plan was compiled for, ", shapesText(library.variants),
                   ", but got ", batch, " x ", sequence);
  if (chosen >= std::ssize(library.variants))
    return Status::error(MOERT_ERROR_INTERNAL, "the plan chose variant ", chosen, " of ", library.variants.size());
  variant = chosen;
  return {};
}

extern "C" {

int32_t moert_place(int64_t *process, int64_t *processes) {
  return guarded([&]() -> Status {
    if (!process || !processes)
      return invalid("expected out-parameters that are not null");
    ProcessPlace place;
    Status status = readProcessPlace(ownEnvironment, place);
    *process = place.rank;
    *processes = place.size;
    return status;
  });
}

int32_t moert_plan_open(const char *path, moert_plan_t *plan) {
  return guarded([&]() -> Status {
    if (!path || !plan)
      return invalid("expected a path and an out-parameter that are not null");
    auto made = std::make_unique<moert_plan>();
    MOERT_RETURN_IF_ERROR(made->library.open(path));
    *plan = made.release();
    return {};
  });
}

void moert_plan_close(moert_plan_t plan) { delete plan; }

const char *moert_plan_metadata(moert_plan_t plan) { return plan ? plan->library.metadataText : ""; }

int32_t moert_plan_choose(moert_plan_t plan, int64_t batch, int64_t sequence, int64_t *variant) {
  return guarded([&]() -> Status {
    if (!plan || !variant)
      return invalid("expected a plan and an out-parameter that are not null");
    return chooseVariant(plan->library, batch, sequence, *variant);
  });
}

int32_t moert_plan_routings(moert_plan_t plan, int64_t variant, int32_t program, moert_routing *routings,
                            int64_t capacity, int64_t *count) {
  return guarded([&]() -> Status {
    if (!plan || !count || (!routings && capacity > 0))
      return invalid("expected a plan and out-parameters that are not null");
    ChosenPrograms chosen;
    MOERT_RETURN_IF_ERROR(choosePrograms(plan->library, variant, program, chosen));
    return copyOut(routings, capacity, *count,
                   [&](auto &found) { return listRoutings(chosen.programs, *chosen.groups, found); });
  });
}

int32_t moert_world_create(moert_plan_t plan, const moert_world_config *config, moert_world_t *world) {
  return guarded([&]() -> Status {
    if (!world)
      return invalid("expected an out-parameter that is not null");
    auto made = std::make_unique<moert_world>();
    MOERT_RETURN_IF_ERROR(
        withWorld(plan, config, [&](const auto &...options) { return World::create(options..., made->world); }));
    *world = made.release();
    return {};
  });
}

int32_t moert_world_check(moert_plan_t plan, const moert_world_config *config) {
  return guarded([&] { return withWorld(plan, config, World::check); });
}

void moert_world_destroy(moert_world_t world) {
  if (world)
    static_cast<void>(world->world->wait());
  // A stuck step still uses the world, so it is leaked.
  if (world && !world->world->isStuck())
    delete world;
}

int32_t moert_world_ranks(moert_world_t world, int64_t *size, const int64_t **ranks, int64_t *count) {
  return onWorld(world, size && ranks && count, [&](World &inner) -> Status {
    *size = inner.size();
    *ranks = inner.localRanks().data();
    *count = static_cast<int64_t>(inner.localRanks().size());
    return {};
  });
}

int32_t moert_world_write(moert_world_t world, int64_t rank, int64_t index, const void *data, int64_t bytes) {
  return onIdleWorld(world, data || bytes == 0, [&](World &inner) { return inner.write(rank, index, data, bytes); });
}

int32_t moert_world_read(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes) {
  return onIdleWorld(world, data || bytes == 0, [&](World &inner) { return inner.read(rank, index, data, bytes); });
}

int32_t moert_world_read_at(moert_world_t world, int64_t rank, int64_t index, int64_t offset, void *data,
                            int64_t bytes) {
  return onIdleWorld(world, data || bytes == 0,
                     [&](World &inner) { return inner.read(rank, index, data, bytes, offset); });
}

int32_t moert_world_write_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, const void *data,
                                int64_t bytes) {
  return onIdleWorld(world, data || bytes == 0,
                     [&](World &inner) { return inner.write(rank, index, data, bytes, begin); });
}

int32_t moert_world_read_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, void *data,
                               int64_t bytes) {
  return onIdleWorld(world, data || bytes == 0,
                     [&](World &inner) { return inner.readLocal(rank, index, data, bytes, begin); });
}

int32_t moert_world_meet(moert_world_t world, int32_t code, const char *error) {
  return onIdleWorld(world, !error || code != MOERT_OK,
                     [&](World &inner) { return inner.meet(error ? Status::error(code, error) : Status{}); });
}

int32_t moert_world_bind(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes) {
  return onWorld(world, data || bytes == 0, [&](World &inner) { return inner.bind(rank, index, data, bytes); });
}

int32_t moert_world_bind_arena(moert_world_t world, int64_t rank, int32_t space, void *data, int64_t bytes) {
  return onWorld(world, data || bytes == 0, [&](World &inner) -> Status {
    if (space != MOERT_SPACE_DEVICE && space != MOERT_SPACE_HOST_PINNED)
      return invalid("expected an arena, space 0 or 1, but got ", space);
    return inner.bindArena(rank, space, data, bytes);
  });
}

int32_t moert_world_memory(moert_world_t world, int64_t rank, int32_t space, int64_t *planned, int64_t *measured) {
  return onWorld(world, planned && measured, [&](World &inner) -> Status {
    if (space != MOERT_SPACE_DEVICE && space != MOERT_SPACE_HOST_PINNED)
      return invalid("expected an arena, space 0 or 1, but got ", space);
    MOERT_RETURN_IF_ERROR(inner.touchedBytes(rank, space, *measured));
    *planned = inner.programOf(rank).arenaBytes[space];
    return {};
  });
}

int32_t moert_world_other_memory(moert_world_t world, int64_t rank, int64_t *bytes) {
  return onWorld(world, bytes, [&](World &inner) { return inner.otherBytes(rank, *bytes); });
}

int32_t moert_world_device_seconds(moert_world_t world, double *seconds) {
  return onWorld(world, seconds, [&](World &inner) { return inner.deviceSeconds(*seconds); });
}

int32_t moert_world_graph_steps(moert_world_t world, int64_t *steps) {
  return onWorld(world, steps, [&](World &inner) -> Status {
    *steps = inner.graphSteps();
    return {};
  });
}

int32_t moert_world_run(moert_world_t world, double *seconds) {
  return onWorld(world, true, [&](World &inner) { return inner.run(seconds); });
}

int32_t moert_world_wait(moert_world_t world) {
  return onWorld(world, true, [](World &inner) { return inner.wait(); });
}

int32_t moert_world_time_ops(moert_world_t world, int32_t isTimed) {
  return onWorld(world, true, [&](World &inner) -> Status {
    inner.timeOps(isTimed != 0);
    return {};
  });
}

int32_t moert_world_force_routing(moert_world_t world, int64_t rank, int64_t op, const int32_t *experts,
                                  int64_t count) {
  return onIdleWorld(world, count >= 0 && (experts || count == 0), [&](World &inner) {
    return inner.forceRouting(rank, op, std::vector<int32_t>(experts, experts + count));
  });
}

int32_t moert_world_record_routing(moert_world_t world, int32_t record) {
  return onIdleWorld(world, true, [&](World &inner) { return inner.recordRouting(record != 0, record == 2); });
}

int32_t moert_world_routing(moert_world_t world, int64_t rank, int64_t op, int32_t *experts, int64_t capacity,
                            int64_t *count) {
  return onIdleWorld(world, count && (experts || capacity <= 0), [&](World &inner) {
    return copyOut(experts, capacity, *count, [&](auto &chosen) { return inner.readRouting(rank, op, chosen); });
  });
}

int32_t moert_world_timeline(moert_world_t world, int64_t rank, moert_op_time *times, int64_t capacity,
                             int64_t *count) {
  return onIdleWorld(world, count && (times || capacity <= 0), [&](World &inner) {
    return copyOut(times, capacity, *count, [&](auto &all) { return inner.timeline(rank, all); });
  });
}

} // extern "C"
