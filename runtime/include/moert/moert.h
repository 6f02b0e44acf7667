//===- moert.h - the C ABI between compiled plans and the runtime ---------===//
//
// A plan .so holds one program for all ranks or one for each stage of a pipeline. A program is a function that issues
// the calls below, one per `plan` op, onto streams. A call only enqueues. Its arguments are the rank, the op's index in
// the plan's metadata, inputs, outputs, attributes (int64_t or double), the group if there is one, and the stream. It
// returns a `moert_status`; `moert_last_error()` is the text of the calling thread's last error. Absent optional inputs
// are null. Shapes are written [rows, columns], row-major and dense. `counts` is [sources, experts] i32.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_MOERT_H
#define MOERT_MOERT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Version of the ABI. It is raised when a call below or the metadata changes meaning, and plans of other versions are
/// refused.
#define MOERT_ABI_VERSION 9
/// Version of the metadata's format.
#define MOERT_METADATA_VERSION 5

typedef enum moert_status {
  MOERT_OK = 0,
  MOERT_ERROR_INVALID_ARGUMENT = 1,
  MOERT_ERROR_OUT_OF_MEMORY = 2,
  /// The step is not finished and no call can run, or a time-out passed.
  MOERT_ERROR_HANG = 3,
  /// More rows arrived than a dropless buffer was reserved for.
  MOERT_ERROR_OVERFLOW = 4,
  /// A value that is assumed equal on all members of a group differs (checked under verification only).
  MOERT_ERROR_NOT_REPLICATED = 5,
  MOERT_ERROR_UNSUPPORTED = 6,
  MOERT_ERROR_INTERNAL = 7,
  /// A process was asked to stop between two steps, and all stop.
  MOERT_ERROR_STOPPED = 8
} moert_status;

typedef enum moert_dtype { MOERT_F32 = 0, MOERT_F64 = 1, MOERT_BF16 = 2, MOERT_I32 = 3, MOERT_F16 = 4 } moert_dtype;

typedef enum moert_space {
  MOERT_SPACE_DEVICE = 0,
  MOERT_SPACE_HOST_PINNED = 1,
  /// `offset` is the index of an argument of the program (inputs first, then results), not a byte offset.
  MOERT_SPACE_ARGUMENT = 2
} moert_space;

typedef enum moert_activation_kind {
  MOERT_RELU = 0,
  /// x * Phi(x), the exact (erf) form.
  MOERT_GELU = 1,
  MOERT_SILU = 2,
  /// Input columns are interleaved (gate, up) pairs: out[j] = silu(in[2j]) * in[2j+1].
  MOERT_SWIGLU = 3,
  /// gpt-oss: g = min(in[2j], limit), u = clamp(in[2j+1], -limit, limit), out[j] = g * sigmoid(alpha g) * (u + 1).
  MOERT_SWIGLU_CLAMPED = 4,
  MOERT_SIGMOID = 5,
  /// x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is GPT-2's form with tanh.
  MOERT_GELU_TANH = 6,
  /// ln(1 + exp(x)).
  MOERT_SOFTPLUS = 7
} moert_activation_kind;

typedef enum moert_score_kind { MOERT_SOFTMAX = 0, MOERT_SIGMOID_SCORE = 1 } moert_score_kind;

/// Score of a group of experts in group-limited routing: that of its best expert (DeepSeek-V2), or the sum of its best
/// two (DeepSeek-V3).
typedef enum moert_group_score_kind { MOERT_GROUP_MAX = 0, MOERT_GROUP_TOP2 = 1 } moert_group_score_kind;

typedef enum moert_norm_kind {
  /// (x - mean) / sqrt(variance + eps), the variance the mean of squared deviations.
  MOERT_LAYER_NORM = 0,
  /// x / sqrt(mean of squares + eps).
  MOERT_RMS_NORM = 1,
  /// x itself.
  MOERT_NO_NORM = 2
} moert_norm_kind;

typedef enum moert_direction { MOERT_TO_EXPERTS = 0, MOERT_FROM_EXPERTS = 1 } moert_direction;

/// Place of a value, as constant data of the plan.
///
/// With parts > 1, `parts` equal consecutive parts lie at that place, and the value is one of them. Rank r has part (r
/// / stride + shift) mod parts, which is never negative. `dims` are those of one part, and an argument has the elements
/// of all parts. With parts 0 or 1, shift and stride have no meaning.
///
/// A view of an argument, the same on all ranks, begins `begin` bytes from the argument's start, and all its parts end
/// in the argument. With parts 0 and begin 0 there is no view: the buffer must be the whole argument. A buffer in an
/// arena has begin 0: its offset says where it lies.
typedef struct moert_buffer {
  int32_t space;  ///< moert_space
  int32_t dtype;  ///< moert_dtype
  int64_t offset; ///< bytes from the start of the arena, or the argument's index
  int64_t rank;
  int64_t dims[4];
  int64_t parts;
  int64_t shift;
  int64_t stride; ///< at least 1 if parts > 1
  int64_t begin;  ///< bytes from the start of the argument; 0 in arenas
} moert_buffer;

/// Rank r is member (r / stride) mod size.
typedef struct moert_group {
  const char *name;
  int64_t size;
  int64_t stride;
} moert_group;

typedef struct moert_rank *moert_rank_t;
/// Index into the plan's stream table.
typedef int64_t moert_stream_t;

/// Text of the last error of this thread; never null.
const char *moert_last_error(void);

// --- Order between streams ---------------------------------------------------

int32_t moert_record(moert_rank_t rank, int64_t event, moert_stream_t stream);
int32_t moert_wait(moert_rank_t rank, int64_t event, moert_stream_t stream);

// --- Loops ---------------------------------------------------------------------

/// Sets `count` to the number of iterations of a loop that the program issues. The loop runs `times` times, but at most
/// `most` times. `times` is one i32, read when all earlier work on `stream` is done. A device that can read it at once
/// gives that number. Other devices give `most`, and skip the calls of further iterations. More than `most` iterations
/// are an error of the step.
int32_t moert_repeat(moert_rank_t rank, const moert_buffer *times, int64_t most, moert_stream_t stream, int64_t *count);
/// Begins iteration `iteration` of that loop, to which the next calls belong; -1 ends the loop.
int32_t moert_iteration(moert_rank_t rank, int64_t iteration);

#include "moert/kernels.h" // made from runtime/kernels/kernels.def, which says what each call computes

#ifdef __cplusplus
}
#endif

#endif // MOERT_MOERT_H
