//===- world.h - the C API of programs that run plans ---------------------===//
//
// A program opens a plan, makes a world for one of the plan's programs, writes the arguments of each rank, runs steps,
// and reads the results. `moe-run` uses this API. Functions return a moert_status, and moert_last_error() has the text.
// A plan must outlive its worlds. One thread at a time uses a world.
//
// With backends that run one process per rank, all processes make the same calls in the same order, except for writes,
// which concern the ranks of one process. A read returns the value of any rank to all processes.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_WORLD_H
#define MOERT_WORLD_H

#include "moert/moert.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Raised whenever a structure of this header changes.
#define MOERT_WORLD_CONFIG_VERSION 12
#define MOERT_COMMUNICATOR_VERSION 1
#define MOERT_CUDA_CALLER_VERSION 1

typedef struct moert_plan *moert_plan_t;
typedef struct moert_world *moert_world_t;

typedef enum moert_program {
  /// The ranks' programs: one program, or one for each stage of a pipeline.
  MOERT_PROGRAM_RANK = 0,
  /// The one-rank reference.
  MOERT_PROGRAM_REFERENCE = 1
} moert_program;

/// The members of one instance of a group, as ranks of the world in rising order of members.
typedef struct moert_members {
  const char *group;
  const int64_t *ranks;
  int64_t count;
  int64_t member; ///< index of this process among them
} moert_members;

/// Functions by which a caller exchanges bytes between its processes, which run one rank each (backend "caller"). The
/// runtime calls the functions one after another from its own thread, on all members in the same order, and waits for
/// their return. They return 0, or another number after an error. All memory is host memory.
typedef struct moert_communicator {
  uint64_t size;    ///< sizeof(moert_communicator)
  uint32_t version; ///< MOERT_COMMUNICATOR_VERSION
  void *context;    ///< the first argument of all functions
  int64_t rank;     ///< rank of this process
  int64_t ranks;    ///< number of processes, which must be the plan's world
  /// Sends sent[m] bytes to each member m, which lie one after another in `send`, and receives received[m] bytes from
  /// each, one after another, to `receive`. Sender and receiver give the same number.
  int32_t (*all_to_all)(void *context, const moert_members *members, const void *send, const int64_t *sent,
                        void *receive, const int64_t *received);
  /// Gathers the `bytes` bytes at `send` of all members, in the order of members, to `receive`.
  int32_t (*all_gather)(void *context, const moert_members *members, const void *send, int64_t bytes, void *receive);
  /// The text of the last error; may be null.
  const char *(*last_error)(void *context);
} moert_communicator;

/// Runs steps among a caller's own work on a GPU (backend "cuda"), in processes that run one rank each. The world is on
/// the device that is current when the world is made, and this device must be current when the world runs. The caller
/// owns streams and communicators, which outlive the world: the runtime makes, splits, aborts and destroys none of
/// them.
typedef struct moert_cuda_caller {
  uint64_t size;    ///< sizeof(moert_cuda_caller)
  uint32_t version; ///< MOERT_CUDA_CALLER_VERSION
  void *context;    ///< the first argument of all functions
  int64_t rank;     ///< rank of this process
  int64_t ranks;    ///< number of processes, which must be the plan's world
  /// Returns the cudaStream_t of a step; null is the default stream. moert_world_run calls it. The step begins after
  /// the work that is on the stream, and later work on the stream comes after the step.
  void *(*stream)(void *context);
  /// Returns the ncclComm_t of the members of a group, in which each member has its index among them as its rank; null
  /// after an error. moert_world_create calls it once for each group of several members, in the same order on all
  /// ranks. The communicator must be blocking. Other users of it use it in the same order on all ranks, and not during
  /// moert_world_run.
  void *(*communicator)(void *context, const moert_members *members);
  /// The text of the last error; may be null.
  const char *(*last_error)(void *context);
} moert_cuda_caller;

/// Type that all floating-point values have in memory, in kernels and in moert_world_write and _read. The program is
/// the same, call by call, without the rounding of its own types.
typedef enum moert_wide {
  MOERT_WIDE_NONE = 0, ///< each value has its own type
  MOERT_WIDE_F64 = 1,
  /// 8 bytes: an integer below 2^61 - 1, modulo which sums and products are exact. Other functions are stand-ins
  /// (docs/Verification.md). Only on backend host.
  MOERT_WIDE_FIELD = 2
} moert_wide;

/// An operand of a call that ran. `dtype` is a moert_dtype, or another number for elements of exact arithmetic.
typedef struct moert_operand {
  const void *data;
  int64_t bytes;
  int32_t dtype;
  int32_t is_output;
} moert_operand;

/// A call that ran on a rank. `op` is its number in the rank's program; a loop calls the same op again.
typedef struct moert_ran {
  int64_t rank;
  int64_t op;
  int64_t operand_count;
  const moert_operand *operands; ///< without absent ones
} moert_ran;

/// Gets a call that ran, or the calls of all members of an exchange, before a call that needs their results begins. Any
/// thread calls it, one at a time.
typedef void (*moert_observe)(void *context, const moert_ran *calls, int64_t count);

/// An argument of a function whose derivative jumps nearby, so that rounding may move the argument across the jump.
typedef struct moert_near {
  int64_t rank;
  int64_t op;
  int64_t earlier;  ///< number of earlier calls of the op on the rank
  int64_t element;  ///< index in the op's input
  int32_t is_above; ///< 1: the argument is greater than the place of the jump
} moert_near;

/// Returns on which side of the jump a backward takes the derivative: 1 for above, 0 for below. Any thread calls it,
/// one at a time.
typedef int32_t (*moert_decide)(void *context, const moert_near *near);

typedef struct moert_world_config {
  uint64_t size;       ///< sizeof(moert_world_config)
  uint32_t version;    ///< MOERT_WORLD_CONFIG_VERSION
  int32_t program;     ///< moert_program
  const char *backend; ///< "host", or null for it
  int64_t workers;     ///< threads; 0: one for each core
  /// Time-out in seconds of a step, and of each wait of a process for others; 0: no limit. A process that does not
  /// respond for that long ends the job of all processes.
  double timeout_s;
  /// 1: check values that are assumed replicated, begin with memory full of NaN, and make at least one shadow in each
  /// layer that may have shadows, even if none saves time. 2: as 1, but make no shadows at all, so that experts with
  /// many rows overflow. Only on backend host.
  int32_t verify;
  int64_t variant; ///< index of the plan's variant; 0 for a plan of one shape
  int32_t emulate; ///< 1: a transfer takes at least its seconds in the metadata
  int32_t graphs;  ///< 1: a GPU launches steps without timed ops as one graph, if the plan allows it
  int32_t tf32;    ///< 1: a GPU rounds the inputs of f32 products to 10 bits of mantissa
  /// More settings that must be equal in all processes, as lines "name: value"; may be null. If one differs, no world
  /// is made, and the error gives the rank, the name and both values. The plan's file and this structure are always
  /// compared.
  const char *agreement;
  int32_t wide; ///< moert_wide
  /// Not 0: each value that a kernel computes moves by up to this number of units in the last place, at random, so that
  /// two runs show the effect of rounding. The distance is a function of the value and `perturb_seed` alone: a value
  /// that is computed twice, by several ranks or again for the backward, moves equally. Only on backend host.
  int64_t perturb_ulps;
  uint64_t perturb_seed;
  /// For backend "caller", which copies the structure; else null.
  const moert_communicator *communicator;
  /// 1: the caller gives the memory of arguments, results and arenas before each step (moert_world_bind and
  /// moert_world_bind_arena), and the world allocates none.
  int32_t bound;
  /// For backend "cuda" of a caller, with `bound`; null otherwise. The structure is copied.
  const moert_cuda_caller *cuda_caller;
  /// Null, or called for all calls that ran; requires `wide` = MOERT_WIDE_FIELD.
  moert_observe observe;
  void *observe_context;
  /// Null, or called in a backward for each f32 and f64 argument of a ReLU or a clamp near its jump. Only on backend
  /// host.
  moert_decide decide;
  void *decide_context;
  /// Bytes that the caller takes beside the world on backend host. A world that does not fit beside them is refused.
  int64_t other_bytes;
} moert_world_config;

/// A call of a routing op of a program, which `ranks` ranks from `first_rank` on run. `tokens` tokens of each rank
/// choose `choices` of `experts` experts each. `op` is the number of the op. If a step calls the op repeatedly, in a
/// loop, call k has that number plus k times the number of the program's ops. An op with `only_counts` counts the
/// choices of a layer's tokens again, for an auxiliary loss.
typedef struct moert_routing {
  int64_t op;
  int64_t tokens;
  int64_t experts;
  int64_t choices;
  int64_t first_rank;
  int64_t ranks;
  int64_t only_counts;
} moert_routing;

/// Times of one op in the last step.
typedef struct moert_op_time {
  int64_t op;
  int64_t stream;
  int64_t rows; ///< rows a ragged op used, or -1
  double begin_s;
  double end_s;
  /// Bytes that a collective copied to this rank from other members, or read from their memory to sum. They are counted
  /// when they are moved. -1 for other ops.
  int64_t bytes_received;
} moert_op_time;

/// Gets the index of this process and the number of processes from the environment of a launcher (torchrun, mpirun,
/// srun; docs/Backends.md); process 0 of 1 without one.
int32_t moert_place(int64_t *process, int64_t *processes);

/// Loads a plan .so, checks its metadata and finds its programs.
int32_t moert_plan_open(const char *path, moert_plan_t *plan);
void moert_plan_close(moert_plan_t plan);
/// Returns the plan's metadata as JSON, valid until the plan is closed.
const char *moert_plan_metadata(moert_plan_t plan);
/// Chooses the variant for `batch` sequences of `sequence` tokens of a data-parallel rank, by the plan's own code:
/// every process that asks gets the same. Fails if the plan was not compiled for that shape, or only for one shape.
int32_t moert_plan_choose(moert_plan_t plan, int64_t batch, int64_t sequence, int64_t *variant);
/// Lists the routing ops of a variant's programs (a moert_program), program by program and in their order, into
/// routings[0..capacity). `count` is the number of them. Nothing is allocated and nothing runs.
int32_t moert_plan_routings(moert_plan_t plan, int64_t variant, int32_t program, moert_routing *routings,
                            int64_t capacity, int64_t *count);

/// Fails if the memory for all ranks is not available, or if the backend cannot run the programs. It allocates no
/// memory of ranks. All processes call it, and all get the first error.
int32_t moert_world_check(moert_plan_t plan, const moert_world_config *config);
/// Allocates the memory of all ranks. The text of MOERT_ERROR_OUT_OF_MEMORY has the bytes and their purpose.
int32_t moert_world_create(moert_plan_t plan, const moert_world_config *config, moert_world_t *world);
void moert_world_destroy(moert_world_t world);
/// Gets the number of ranks of the world, and the ranks that run in this process: ranks[0..count), valid as long as the
/// world.
int32_t moert_world_ranks(moert_world_t world, int64_t *size, const int64_t **ranks, int64_t *count);

/// Copies one rank's whole part of argument `index` of its program (arguments first, then results). `bytes` must be its
/// size. Only ranks of this process can be written.
int32_t moert_world_write(moert_world_t world, int64_t rank, int64_t index, const void *data, int64_t bytes);
int32_t moert_world_read(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes);
/// Does the same as moert_world_read for `bytes` bytes from byte `offset` of that part on.
int32_t moert_world_read_at(moert_world_t world, int64_t rank, int64_t index, int64_t offset, void *data,
                            int64_t bytes);

/// Copies `bytes` bytes of the part, from byte `begin` on, of a rank of this process. No other process takes part.
int32_t moert_world_write_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, const void *data,
                                int64_t bytes);
int32_t moert_world_read_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, void *data,
                               int64_t bytes);
/// Returns once all processes of the world have called it. `error` is the text of an error of this process, of kind
/// `code`, or null. All processes get the first error of all, which names its rank.
int32_t moert_world_meet(moert_world_t world, int32_t code, const char *error);

/// Sets the address of one rank's whole part of argument or result `index` in a `bound` world, until it is set again.
/// The address must be a multiple of 16, `bytes` the value's size, the value dense, and the rank one of this process.
int32_t moert_world_bind(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes);
/// Sets the address of the arena `space`: a multiple of 256. The arena must be at least as large as moert_world_memory
/// says. Worlds that do not run at the same time may share it. It holds no value beyond a step.
int32_t moert_world_bind_arena(moert_world_t world, int64_t rank, int32_t space, void *data, int64_t bytes);

/// Gets the bytes that the plan reserves for the arena `space` (MOERT_SPACE_DEVICE or MOERT_SPACE_HOST_PINNED) of rank
/// `rank`, and the end of the last byte that any call so far used.
int32_t moert_world_memory(moert_world_t world, int64_t rank, int32_t space, int64_t *planned, int64_t *measured);
/// Gets the device memory that the process of `rank` took besides arguments, results and arenas: workspaces, and memory
/// of libraries such as NCCL, but not CUDA's context. It is 0 if the device is the host.
int32_t moert_world_other_memory(moert_world_t world, int64_t rank, int64_t *bytes);

/// Gets the seconds of this process's last step by events of its device, from the start of the step's first call to the
/// end of its last. It is 0 before the first step, and on backends other than "cuda" without a caller.
int32_t moert_world_device_seconds(moert_world_t world, double *seconds);
/// Gets the number of this process's steps so far that were launches of one CUDA graph. All others launched their calls
/// one by one.
int32_t moert_world_graph_steps(moert_world_t world, int64_t *steps);

/// Runs one step on all ranks. `seconds` is the time of the slowest process; null saves the processes a message. A
/// world in one process may run again after an error. With several processes, all end a step in which one fails, dies
/// or does not respond. The error names the rank, the op and the group, and none of these worlds can run again.
/// With a moert_cuda_caller it returns when the step is enqueued. `seconds` must then be null, and a later call returns
/// errors that only the device finds. The host still waits, without a time-out, if a plan needs it: for counts of rows
/// that an exchange or a product of experts depends on, for forced routing, under `verify`, and in the first step,
/// which allocates workspaces and connects ranks. After an error the world cannot run again. Other ranks may wait in a
/// collective for this one until the caller aborts its communicators.
int32_t moert_world_run(moert_world_t world, double *seconds);
/// Waits for the last step of a world with a moert_cuda_caller, at most `timeout_s`; steps of other worlds have always
/// ended. Returns the first error of all steps so far, such as one of a kernel or of NCCL. Calls that read or write
/// values, routing or times wait in the same way. moert_world_destroy waits too, but cannot return an error.
int32_t moert_world_wait(moert_world_t world);
/// Sets whether steps record the times of their ops, as they do at first. On a GPU this takes a little time, and
/// prevents graphs.
int32_t moert_world_time_ops(moert_world_t world, int32_t isTimed);
/// Fixes the choices of routing op `op` of a rank in all later steps: experts[0..count) are moert_route's `experts`.
/// Its other results follow from them as usual, but its `leave` has no effect. With count 0 the op chooses again.
int32_t moert_world_force_routing(moert_world_t world, int64_t rank, int64_t op, const int32_t *experts, int64_t count);
/// Sets what steps record: with 1 the choices of routing ops, with 2 the choices that forced ops would make, with 0
/// none.
int32_t moert_world_record_routing(moert_world_t world, int32_t record);
/// Gets the choices of a routing op in the last step into experts[0..capacity), and their number into `count`. The step
/// must have recorded them.
int32_t moert_world_routing(moert_world_t world, int64_t rank, int64_t op, int32_t *experts, int64_t capacity,
                            int64_t *count);

/// Gets the last step's ops on rank `rank`, stream by stream in order, into times[0..capacity). `count` is the number
/// of them.
int32_t moert_world_timeline(moert_world_t world, int64_t rank, moert_op_time *times, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif // MOERT_WORLD_H
