//===- Kernels.h - the compute of a device ---------------------------------===//
//
// What every device computes: one function per compute call of kernels.def, and the one dispatch from a call to it.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_KERNELS_H
#define MOERT_CORE_KERNELS_H

#include "core/Call.h"
#include "moert/shadows.h"

namespace moert {

/// The attributes of moert_route.
struct RouteOptions {
  int64_t score = MOERT_SOFTMAX; ///< moert_score_kind
  bool renormalize = false;
  int64_t expertGroups = 1;
  int64_t topGroups = 1;
  int64_t groupScore = MOERT_GROUP_MAX; ///< moert_group_score_kind
  int64_t capacity = 0;                 ///< rows for each expert and routing group; 0 is dropless
  int64_t groups = 1;                   ///< routing groups: blocks of S / groups consecutive tokens
  int64_t chunks = 1;                   ///< of the rows
  int64_t chunkRows = 0;                ///< rows of a chunk, of each expert with a capacity; 0: as many as needed
  int64_t leave = -1;                   ///< choices j of a routing group that may leave home; negative: all
  int64_t homes = 1;                    ///< blocks of experts; group g is at home with (rank / homeStride +
                                        ///< g / homeSpan) mod homes
  int64_t homeStride = 1;
  int64_t homeSpan = 1;
  int64_t rank = 0; ///< of the world
  double routingScale = 1.0;

  /// With a capacity: rows of each expert in a chunk, those that stay empty included.
  int64_t expertChunkRows() const { return chunkRows > 0 ? chunkRows : groups * capacity / chunks; }
};

/// As moert_local_slots says them; member `index` of `size`.
struct LocalOptions {
  int64_t capacity = 0, room = 0, copies = 1, index = 0, size = 1;
  /// Of `experts`, how many the member has, and its first one.
  int64_t ownExperts(int64_t experts) const { return experts * copies / size; }
  int64_t firstExpert(int64_t experts) const { return index / copies * ownExperts(experts); }
};

/// As moert_merge_choices says them; member `index` of `size`.
struct MergeOptions {
  int64_t experts = 1, copies = 1, index = 0, size = 1;
  int64_t ownExperts() const { return experts * copies / size; }
  int64_t firstExpert() const { return index / copies * ownExperts(); }
};

/// As moert_window says them; member `index` of `size`.
struct WindowOptions {
  int64_t workers = 1, rows = 1, chunkRows = 0, phases = 1, index = 0, size = 1;
};

/// A rank's part (rank / stride) mod parts of something cut into equal parts.
struct Part {
  int64_t parts = 1;
  int64_t stride = 1;
  int64_t rank = 0;
  /// Both counts must be 1 or more.
  int64_t index() const { return rank / stride % parts; }
};

/// Which rows of each sequence a rank has: part r of `parts` equal parts, or, with `zigzag`, the parts r and
/// 2 parts - 1 - r of 2 parts. So all have the same work where a row sees the rows before it.
struct SequenceCut {
  int64_t parts = 1;
  int64_t stride = 1;
  bool zigzag = false;
  int64_t rank = 0;
  int64_t index() const { return rank / stride % parts; }
};

/// Rows of several sequences that are cut so, of all parts: a part's `length` rows of each of `sequences` sequences,
/// then those of the next part; then the next so many sequences.
struct SequenceOrder {
  int64_t parts = 1;
  int64_t sequences = 1;
  int64_t length = 1;
  bool zigzag = false;
};

/// The attributes of moert_rotary.
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

/// The attributes of moert_attention.
struct AttentionOptions {
  int64_t qLength = 0;
  int64_t kLength = 0;
  int64_t heads = 1;  ///< of q
  int64_t kHeads = 1; ///< that q's key heads are chosen from
  Part part;          ///< of the model's query heads
  bool causal = false;
  int64_t window = 0; ///< keys that a query sees; 0: all
  int64_t seed = 0;
  Part rows;         ///< of the sequences
  int64_t block = 0; ///< a query sees keys of its block of so many positions alone; 0: of all
  SequenceCut cut;   ///< of the queries
  /// The keys are those of the member of the cut so many behind this one; negative: of whole sequences.
  int64_t keyShift = -1;
  double scale = 1.0;
  double dropout = 0.0;
};

/// What all attention kernels read: q [BL, H Dk], k [BLk, Hk Dk], v [BLk, Hk Dv], bias [H,L,Lk], L of whole sequences,
/// or absent, sinks [H] or absent, step [] i32, absent without dropout. k and v may also hold the key heads of q's part
/// alone.
struct AttentionInputs {
  View q, k, v, bias, sinks, step;
};

/// The attributes of moert_adam.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.0;
};

/// Which activation: a moert_activation_kind, of which MOERT_SWIGLU_CLAMPED takes alpha and limit.
struct ActivationForm {
  int64_t kind;
  double alpha, limit;
  ActivationForm(int64_t kind, double alpha = 1.702, double limit = 7.0) : kind(kind), alpha(alpha), limit(limit) {}
};

/// What elements are multiplied by at random: 0 or 1 / (1 - p), or with `jitter` a number from 1 - p to 1 + p.
struct Noise {
  double p;
  bool jitter;
  Noise(double p, bool jitter = false) : p(p), jitter(jitter) {}
};

/// What a kernel answers that a device does not have. Device::checkKernel says so before a plan starts.
struct NotSupported {
  Kind kind;
  template <class... Operands> Status operator()(const Operands &...) const {
    return Status::error(MOERT_ERROR_UNSUPPORTED,
                         std::string("expected a kernel that this device has but got '") + kindName(kind) + "'");
  }
};

/// A device's kernels, on resolved views: a function for each row of kernels.def that is no collective, which says what
/// it computes, on which shapes, and what may be in one place; arguments come in its order, and absent optional views
/// have no data. An implementation checks operands by core/Checks.h. A wrong shape or type, a slot, expert, id, label
/// or count outside its range is an error that says what was expected, never an access outside a view. NaN in gives NaN
/// out.
class Kernels {
public:
  virtual ~Kernels() = default;

#define MOERT_METHOD(kind, method, parameters, arguments)                                                              \
  virtual Status method parameters { return NotSupported{Kind::kind} arguments; }
#include "moert/kernels.inc"

  /// Sets `forced` to page.forced, of the shape of `experts`, where this device's kernels can read it.
  virtual Status forcedChoices(RoutingPage &page, View experts, View &forced) = 0;
  /// Sets page.chosen to the `experts` that the call of `route` just before chooses, at the latest when the step ends.
  virtual Status recordChoices(View experts, RoutingPage &page) = 0;
};

/// Runs the kernel of a call that is no collective.
Status launchKernel(Kernels &kernels, const Call &call);

} // namespace moert

#endif // MOERT_CORE_KERNELS_H
