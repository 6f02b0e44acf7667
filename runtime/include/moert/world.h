//===- world.h - the C API of programs that run plans ---------------------===//
//
// Open a plan, make a world for one of its programs, write the arguments of each rank, run steps, read the results.
// `moe-run` is written against this. Functions return a moert_status; moert_last_error() has the text. A plan must
// outlive its worlds; a world is used by one thread at a time.
//
// With backends of one process a rank, all processes make the same calls in the same order, but for writes, which
// concern the ranks of a process alone. What one reads of any rank all get.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_WORLD_H
#define MOERT_WORLD_H

#include "moert/moert.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Raised whenever a structure of this header changes.
#define MOERT_WORLD_CONFIG_VERSION 11
#define MOERT_COMMUNICATOR_VERSION 1
#define MOERT_CUDA_CALLER_VERSION 1

typedef struct moert_plan *moert_plan_t;
typedef struct moert_world *moert_world_t;

typedef enum moert_program {
  /// What the ranks run: one program, or one for each stage of a pipeline.
  MOERT_PROGRAM_RANK = 0,
  /// The one-rank reference.
  MOERT_PROGRAM_REFERENCE = 1
} moert_program;

/// The members of one instance of a group, as ranks of the world in rising order of members.
typedef struct moert_members {
  const char *group;
  const int64_t *ranks;
  int64_t count;
  int64_t member; ///< which of them this process is
} moert_members;

/// How a caller exchanges bytes between its processes, which run one rank each (backend "caller"). The runtime calls
/// the functions one after another from a thread of its own, on all members in the same order, and waits for their
/// return. They return 0, or anything else after an error. Memory is the host's.
typedef struct moert_communicator {
  uint64_t size;    ///< sizeof(moert_communicator)
  uint32_t version; ///< MOERT_COMMUNICATOR_VERSION
  void *context;    ///< the first argument of all functions
  int64_t rank;     ///< of this process
  int64_t ranks;    ///< how many processes there are; it must be the plan's world
  /// Sends sent[m] bytes to each member m, which lie one after another in `send`, and receives received[m] bytes from
  /// each, one after another, to `receive`. What members say of each other agrees.
  int32_t (*all_to_all)(void *context, const moert_members *members, const void *send, const int64_t *sent,
                        void *receive, const int64_t *received);
  /// Receives the `bytes` bytes that each member has in `send`, member after member.
  int32_t (*all_gather)(void *context, const moert_members *members, const void *send, int64_t bytes, void *receive);
  /// The text of the last error; may be null.
  const char *(*last_error)(void *context);
} moert_communicator;

/// How steps run among a caller's own work on a GPU (backend "cuda"), in processes that run one rank each. The world is
/// on the device that is current when it is made, which must be current when it runs. The caller keeps streams and
/// communicators, and they outlive the world: the runtime makes, splits, aborts and destroys none of them.
typedef struct moert_cuda_caller {
  uint64_t size;    ///< sizeof(moert_cuda_caller)
  uint32_t version; ///< MOERT_CUDA_CALLER_VERSION
  void *context;    ///< the first argument of all functions
  int64_t rank;     ///< of this process
  int64_t ranks;    ///< how many processes there are; it must be the plan's world
  /// The cudaStream_t of a step, where null is the default stream; moert_world_run asks for it. The step begins after
  /// what is on it, and what is enqueued there later comes after the step.
  void *(*stream)(void *context);
  /// The ncclComm_t of the members of a group, in which each has its place among them as its rank; null after an error.
  /// moert_world_create asks once for each group of several members, in the same order on all ranks. A communicator is
  /// a blocking one. Who else uses it does so in the same order on all ranks, and not while moert_world_run does.
  void *(*communicator)(void *context, const moert_members *members);
  /// The text of the last error; may be null.
  const char *(*last_error)(void *context);
} moert_cuda_caller;

/// Which type all floating-point values have, in memory, in kernels and in what moert_world_write and _read take: the
/// same program, call by call, without the rounding of its own types.
typedef enum moert_wide {
  MOERT_WIDE_NONE = 0, ///< each its own
  MOERT_WIDE_F64 = 1,
  /// 8 bytes: an integer below 2^61 - 1, modulo which sums and products are exact. What is no sum or product is a
  /// stand-in (docs/Rationale.md). On backend host.
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
  const moert_operand *operands; ///< those that are there
} moert_ran;

/// Gets a call that ran, or those of all members of an exchange, before a call that needs what they wrote begins. Any
/// thread calls it, one at a time.
typedef void (*moert_observe)(void *context, const moert_ran *calls, int64_t count);

typedef struct moert_world_config {
  uint64_t size;       ///< sizeof(moert_world_config)
  uint32_t version;    ///< MOERT_WORLD_CONFIG_VERSION
  int32_t program;     ///< moert_program
  const char *backend; ///< "host", or null for it
  int64_t workers;     ///< threads; 0: one for each core
  /// Seconds of a step, and of each wait of a process for others; 0: without end. In several processes one that does
  /// not answer for so long ends the job, whatever the others do.
  double timeout_s;
  /// 1: check what is assumed replicated, start from memory full of NaN, and make an expert a shadow where a layer may
  /// have shadows, even if none pays.
  int32_t verify;
  int64_t variant; ///< which of the plan's; 0 for a plan of one shape
  int32_t emulate; ///< 1: a transfer takes at least the seconds that the metadata gives it
  int32_t graphs;  ///< 1: a GPU launches steps whose ops are not timed as one graph, where the plan allows it
  int32_t tf32;    ///< 1: a GPU rounds what f32 products take to 10 bits of mantissa
  /// What else all processes must have alike, in lines "name: value"; may be null. Where they differ no world is made,
  /// and the error has the rank, the name and both values. The plan's file and this structure are compared anyway.
  const char *agreement;
  int32_t wide; ///< moert_wide
  /// Not 0: each value that a kernel computes is moved by up to so many units in the last place, at random, so that two
  /// runs show how far rounding carries. How far is a function of the value and `perturb_seed` alone: what is computed
  /// twice, by several ranks or again for the backward, is moved alike. On backend host.
  int64_t perturb_ulps;
  uint64_t perturb_seed;
  /// For backend "caller", which copies the structure; else null.
  const moert_communicator *communicator;
  /// 1: arguments, results and arenas lie where the caller says before each step (moert_world_bind and
  /// moert_world_bind_arena), and the world allocates none.
  int32_t bound;
  /// For backend "cuda" of a caller, with `bound`; null otherwise. The structure is copied.
  const moert_cuda_caller *cuda_caller;
  /// Null, or told of all calls; with `wide` = MOERT_WIDE_FIELD alone.
  moert_observe observe;
  void *observe_context;
} moert_world_config;

/// A call of a routing op of a program, which `ranks` ranks from `first_rank` on run: `tokens` tokens of each rank
/// choose `choices` of `experts` experts each. `op` is the number of the op; where a step calls it again and again, in
/// a loop, call k has that number plus k times the number of the program's ops.
typedef struct moert_routing {
  int64_t op;
  int64_t tokens;
  int64_t experts;
  int64_t choices;
  int64_t first_rank;
  int64_t ranks;
} moert_routing;

/// When one op ran in the last step.
typedef struct moert_op_time {
  int64_t op;
  int64_t stream;
  int64_t rows; ///< rows a ragged op used, or -1
  double begin_s;
  double end_s;
  /// Bytes that a collective copied to this rank, or read for it to sum, from the memory of other members: counted
  /// where they moved. -1 for what is not a collective.
  int64_t bytes_received;
} moert_op_time;

/// Which process this is of how many, as the environment of a launcher says (torchrun, mpirun, srun; docs/Runtime.md);
/// without one 0 of 1.
int32_t moert_place(int64_t *process, int64_t *processes);

/// Loads a plan .so, checks its metadata and finds its programs.
int32_t moert_plan_open(const char *path, moert_plan_t *plan);
void moert_plan_close(moert_plan_t plan);
/// The plan's metadata as JSON, valid until the plan is closed.
const char *moert_plan_metadata(moert_plan_t plan);
/// The variant to run for `batch` sequences of `sequence` tokens of a data-parallel rank, by the plan's own code: every
/// process that asks gets the same. An error where the plan was not compiled for that shape, or for only one.
int32_t moert_plan_choose(moert_plan_t plan, int64_t batch, int64_t sequence, int64_t *variant);
/// The routing ops of a variant's programs (a moert_program), program by program and in their order, into
/// routings[0..capacity); `count` is how many there are. Nothing is allocated and nothing runs.
int32_t moert_plan_routings(moert_plan_t plan, int64_t variant, int32_t program, moert_routing *routings,
                            int64_t capacity, int64_t *count);

/// Fails if moert_world_create would have no memory for all ranks, or its backend cannot run the programs. It allocates
/// no memory of ranks.
int32_t moert_world_check(moert_plan_t plan, const moert_world_config *config);
/// Allocates the memory of all ranks. MOERT_ERROR_OUT_OF_MEMORY says how much was wanted and for what.
int32_t moert_world_create(moert_plan_t plan, const moert_world_config *config, moert_world_t *world);
void moert_world_destroy(moert_world_t world);
/// Ranks of the world; which of them run in this process: ranks[0..count), valid as long as the world.
int32_t moert_world_ranks(moert_world_t world, int64_t *size, const int64_t **ranks, int64_t *count);

/// Copies one rank's whole part of argument `index` of its program (arguments first, then results); `bytes` must be its
/// size. What is written must be of a rank of this process.
int32_t moert_world_write(moert_world_t world, int64_t rank, int64_t index, const void *data, int64_t bytes);
int32_t moert_world_read(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes);
/// As moert_world_read, of `bytes` bytes from byte `offset` of that part on.
int32_t moert_world_read_at(moert_world_t world, int64_t rank, int64_t index, int64_t offset, void *data,
                            int64_t bytes);

/// The same for `bytes` bytes of the part, from byte `begin` on, of a rank of this process. No other process takes
/// part.
int32_t moert_world_write_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, const void *data,
                                int64_t bytes);
int32_t moert_world_read_range(moert_world_t world, int64_t rank, int64_t index, int64_t begin, void *data,
                               int64_t bytes);
/// Returns once all processes of the world have called it. `error` is the text of what went wrong in this process, of
/// kind `code`, or null: the first error of all is returned in all processes, and names its rank.
int32_t moert_world_meet(moert_world_t world, int32_t code, const char *error);

/// Of a world that is `bound`: where one rank's whole part of argument or result `index` lies until it is bound again.
/// An address is a multiple of 16. `bytes` must be the value's size, the value dense, and the rank of this process.
int32_t moert_world_bind(moert_world_t world, int64_t rank, int64_t index, void *data, int64_t bytes);
/// Likewise where the arena `space` lies: at a multiple of 256, and as large as moert_world_memory says or larger.
/// Worlds that do not run at the same time may share it; nothing in it outlives a step.
int32_t moert_world_bind_arena(moert_world_t world, int64_t rank, int32_t space, void *data, int64_t bytes);

/// Of rank `rank` and the arena `space` (MOERT_SPACE_DEVICE or MOERT_SPACE_HOST_PINNED): the bytes that the plan
/// reserves, and where the last byte ends that any call so far used.
int32_t moert_world_memory(moert_world_t world, int64_t rank, int32_t space, int64_t *planned, int64_t *measured);
/// Device memory that the process of `rank` took besides arguments, results and arenas: workspaces, and what libraries
/// such as NCCL have, but not CUDA's context. 0 where the device is the host.
int32_t moert_world_other_memory(moert_world_t world, int64_t rank, int64_t *bytes);

/// Runs one step on all ranks; `seconds` is how long it took, in the slowest process. Null: not asked, which spares
/// processes a word. After an error the world may be run again where it runs in this process alone. With several, all
/// end a step in which one fails, dies or stands still, with an error that says which rank, in which op of which group,
/// and none can be run again.
/// With a moert_cuda_caller it returns when the step is enqueued. `seconds` must then be null, and a later call returns
/// errors that only the device finds. The host still waits, without a time-out, where a plan needs it: for counts of
/// rows by which an exchange or a product of experts goes, for forced routing, under `verify`, and in the first step,
/// which allocates workspaces and connects ranks. After an error the world cannot be run again. Other ranks may wait
/// in a collective for this one, until the caller aborts its communicators.
int32_t moert_world_run(moert_world_t world, double *seconds);
/// Waits for the last step of a world with a moert_cuda_caller, at most `timeout_s`; other worlds have no step that
/// still runs. Returns the first error of all steps so far, such as one of a kernel or of NCCL. The calls that read or
/// write values, routing or times wait in the same way. moert_world_destroy waits too, but cannot return an error.
int32_t moert_world_wait(moert_world_t world);
/// Whether steps note when their ops run, as they do at first. It costs a GPU a little, and graphs.
int32_t moert_world_time_ops(moert_world_t world, int32_t isTimed);
/// What routing op `op` of a rank takes, in all steps from here on, instead of choosing: experts[0..count), which are
/// moert_route's `experts`. All else follows from them as ever; `leave` says nothing. With count 0 it chooses again.
int32_t moert_world_force_routing(moert_world_t world, int64_t rank, int64_t op, const int32_t *experts, int64_t count);
/// With `record` 1 steps note what routing ops choose; with 2 what they would choose, where they are told what to.
int32_t moert_world_record_routing(moert_world_t world, int32_t record);
/// What a routing op chose in the last step, which was recorded, into experts[0..capacity); `count` is how many there
/// are.
int32_t moert_world_routing(moert_world_t world, int64_t rank, int64_t op, int32_t *experts, int64_t capacity,
                            int64_t *count);

/// The last step's ops on rank `rank`, stream by stream in order, into times[0..capacity); `count` is how many there
/// are.
int32_t moert_world_timeline(moert_world_t world, int64_t rank, moert_op_time *times, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}
#endif

#endif // MOERT_WORLD_H
