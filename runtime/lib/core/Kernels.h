//===- Kernels.h - the compute of a device ---------------------------------===//
//
// Declares the computations of every device: one function per compute call of kernels.def, and the dispatch from a call
// to its function.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_KERNELS_H
#define MOERT_CORE_KERNELS_H

#include "core/Call.h"
#include "moert/shadows.h"

namespace moert {

/// Attributes of moert_route.
struct RouteOptions {
  int64_t score = MOERT_SOFTMAX; ///< moert_score_kind
  bool renormalize = false;
  int64_t expertGroups = 1;
  int64_t topGroups = 1;
  int64_t groupScore = MOERT_GROUP_MAX; ///< moert_group_score_kind
  int64_t capacity = 0;                 ///< rows for each expert and routing group; 0 is dropless
  int64_t groups = 1;                   ///< routing groups: blocks of S / groups consecutive tokens
  int64_t chunks = 1;                   ///< chunks of the rows
  int64_t chunkRows = 0;                ///< rows of a chunk; with a capacity, of each expert; 0: as many as needed
  int64_t leave = -1;                   ///< choices of a routing group that may leave home; negative: all
  int64_t homes = 1;                    ///< blocks of experts; group g is at home with (rank / homeStride +
                                        ///< g / homeSpan) mod homes
  int64_t homeStride = 1;
  int64_t homeSpan = 1;
  int64_t rank = 0; ///< rank in the world
  double routingScale = 1.0;

  /// Rows of each expert in a chunk, with empty ones, if there is a capacity.
  int64_t expertChunkRows() const { return chunkRows > 0 ? chunkRows : groups * capacity / chunks; }
};

/// Attributes of moert_local_slots; the rank is member `index` of `size`.
struct LocalOptions {
  int64_t capacity = 0, room = 0, copies = 1, index = 0, size = 1;
  /// Number of the member's experts of `experts`.
  int64_t ownExperts(int64_t experts) const { return experts * copies / size; }
  int64_t firstExpert(int64_t experts) const { return index / copies * ownExperts(experts); }
};

/// Attributes of moert_merge_choices; the rank is member `index` of `size`.
struct MergeOptions {
  int64_t experts = 1, copies = 1, index = 0, size = 1;
  int64_t ownExperts() const { return experts * copies / size; }
  int64_t firstExpert() const { return index / copies * ownExperts(); }
};

/// Attributes of moert_window; the rank is member `index` of `size`.
struct WindowOptions {
  int64_t workers = 1, rows = 1, chunkRows = 0, phases = 1, index = 0, size = 1;
};

/// A rank's part of a value that is cut into equal parts: (rank / stride) mod parts.
struct Part {
  int64_t parts = 1;
  int64_t stride = 1;
  int64_t rank = 0;
  /// Both counts must be 1 or more.
  int64_t index() const { return rank / stride % parts; }
};

/// Rows of each sequence that a rank has: part r of `parts` equal parts. With `zigzag` they are parts r and 2 parts - 1
/// - r of 2 parts, so that all ranks have the same work if a row sees the rows before it.
struct SequenceCut {
  int64_t parts = 1;
  int64_t stride = 1;
  bool zigzag = false;
  int64_t rank = 0;
  int64_t index() const { return rank / stride % parts; }
};

/// Order of the rows of sequences that are cut this way, of all parts: a part's `length` rows of each of `sequences`
/// sequences, then those of the next part, and then the next `sequences` sequences.
struct SequenceOrder {
  int64_t parts = 1;
  int64_t sequences = 1;
  int64_t length = 1;
  bool zigzag = false;
};

/// Attributes of moert_rotary.
struct RotaryOptions {
  int64_t period = 1;
  int64_t headDim = 0;
  int64_t begin = 0;
  int64_t rotaryDim = 0;
  bool interleaved = false;
  int64_t direction = 1; ///< 1, -1 for the adjoint, or 0 for no rotation
  double base = 10000.0;
  double factor = 1.0;
  double low = 0.0;
  double high = 1.0;
  double scale = 1.0;
  double reach = 0.0;
  double temperature = 0.0;
  double span = 1.0;
  SequenceCut cut = {};
};

/// Attributes of moert_attention.
struct AttentionOptions {
  int64_t qLength = 0;
  int64_t kLength = 0;
  int64_t heads = 1;  ///< heads of q
  int64_t kHeads = 1; ///< key heads from which those of q are chosen
  Part part;          ///< part of the model's query heads
  bool causal = false;
  int64_t window = 0; ///< number of keys that a query sees; 0: all
  int64_t seed = 0;
  Part rows;         ///< part of the sequences
  int64_t block = 0; ///< positions of a block, outside which a query sees no keys; 0: no blocks
  SequenceCut cut;   ///< cut of the queries
  /// The keys belong to the member of the cut that is this number of places behind; negative: whole sequences.
  int64_t keyShift = -1;
  double scale = 1.0;
  double dropout = 0.0;
};

/// Inputs of all attention kernels: q [BL, H Dk], k [BLk, Hk Dk], v [BLk, Hk Dv], bias [H,L,Lk], L of whole sequences,
/// or absent, sinks [H] or absent, step [] i32, absent without dropout. k and v may also hold only the key heads of q's
/// part.
struct AttentionInputs {
  View q, k, v, bias, sinks, step;
};

/// Attributes of moert_adam.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.0;
};

/// A moert_activation_kind; MOERT_SWIGLU_CLAMPED also takes alpha and limit.
struct ActivationForm {
  int64_t kind;
  double alpha, limit;
  ActivationForm(int64_t kind, double alpha = 1.702, double limit = 7.0) : kind(kind), alpha(alpha), limit(limit) {}
};

/// Random factors of elements: 0 or 1 / (1 - p), or with `jitter` a number from 1 - p to 1 + p.
struct Noise {
  double p;
  bool jitter;
  Noise(double p, bool jitter = false) : p(p), jitter(jitter) {}
};

/// Result of a kernel that a device does not have. Device::checkKernel reports it before a plan starts.
struct NotSupported {
  Kind kind;
  template <class... Operands> Status operator()(const Operands &...) const {
    return Status::error(MOERT_ERROR_UNSUPPORTED, "expected a kernel that this device has but got '", kindName(kind),
                         "'");
  }
};

/// A device's kernels, on resolved views: a function for each row of kernels.def that is no collective. The row says
/// what the function computes, on which shapes, and which operands may share memory. Arguments are in its order, and
/// absent optional views have no data. An implementation checks operands by core/Checks.h. A wrong shape or type, or a
/// slot, expert, id, label or count outside its range is an error, never an access outside a view. NaN in gives NaN
/// out.
class Kernels {
public:
  virtual ~Kernels() = default;

#define MOERT_METHOD(kind, method, parameters, arguments)                                                              \
  virtual Status method parameters { return NotSupported{Kind::kind} arguments; }
#include "moert/kernels.inc"

  /// Sets `forced` to page.forced, in the shape of `experts`, in memory that this device's kernels can read.
  virtual Status forcedChoices(RoutingPage &page, View experts, View &forced) = 0;
  /// Sets page.chosen to the `experts` that the last call of `route` chooses, at the latest when the step ends.
  virtual Status recordChoices(View experts, RoutingPage &page) = 0;
};

/// Runs the kernel of a call that is not a collective.
Status launchKernel(Kernels &kernels, const Call &call);

} // namespace moert

#endif // MOERT_CORE_KERNELS_H
