//===- Metadata.h - what a plan says about itself -------------------------===//
//
// The parsed and validated form of `moeplan_metadata` (docs/PlanFormat.md). No other part of the runtime reads the
// JSON.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_METADATA_H
#define MOERT_CORE_METADATA_H

#include "core/View.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A set of ranks that communicate. Rank r is member (r / stride) mod size; the ranks that differ only there form one
/// instance of the group.
struct Group {
  std::string name;
  int64_t size = 1;
  int64_t stride = 1;

  int64_t memberOf(int64_t rank) const { return rank / stride % size; }
  int64_t instanceOf(int64_t rank) const { return rank / (stride * size) * stride + rank % stride; }
  int64_t rankOf(int64_t instance, int64_t member) const {
    return instance / stride * stride * size + member * stride + instance % stride;
  }
};

/// Tensors of a published checkpoint that make up a parameter (docs/Checkpoints.md).
struct Source {
  std::vector<std::string> tensors; ///< one, or two whose columns alternate; "{e}" is an expert
  bool transpose = false;           ///< the checkpoint's matrices are [out, in]
  int64_t begin = 0;                ///< first column that is taken
  int64_t of = 0;                   ///< number of columns, of which some are taken; 0: all are taken
  int64_t blocks = 1;               ///< number of blocks of `of` columns, with the same columns taken from each
  int64_t experts = 0;              ///< number of experts stacked along dimension 0; 0: no stack
  int64_t stacked = 0;              ///< one tensor has all experts: 3: [E, rows, columns], 2: [E rows, columns]; 0: no
  bool halves = false;              ///< the tensor has two halves of columns, which alternate
  bool isRow = false;               ///< the tensor has a dimension of 1 before the others
  std::string prefix = {};          ///< prefix of the names, which some checkpoints leave out

  bool operator==(const Source &) const = default;
};

/// The place of a piece of a bucket. The bucket is 1-D.
struct PiecePlace {
  int64_t at = 0;      ///< first element of the piece
  int64_t perRank = 0; ///< number of the bucket's elements of a rank
  int64_t shards = -1; ///< group over which the bucket is divided (index into Metadata::groups); -1: not divided
};

/// An argument or a result of a program.
struct Value {
  std::string name;
  std::string role;
  int32_t dtype = MOERT_F32;
  std::vector<int64_t> shape;      ///< global
  std::vector<int64_t> localShape; ///< shape on one rank
  /// For each dimension the groups (indices into Metadata::groups) over which it is sharded, outermost first.
  std::vector<std::vector<int64_t>> layout;
  /// If the group "cp" divides a dimension: length of a sequence, and number of chunks into which each is cut. Member r
  /// of the group's n has chunk r, and of 2 n chunks also chunk 2 n - 1 - r. 0: no sequences are cut.
  int64_t cutSequence = 0, cutChunks = 0;
  bool updated = false;            ///< for an argument: a step changes it, and its new value is a result
  int64_t sequence = 0;            ///< for tokens: length of a sequence; 0 if the plan does not say it
  std::optional<double> fill = {}; ///< for a parameter: value of all elements of a new model; absent: random values
  int64_t below = 0; ///< for an i32 argument: its values are from 0 on and below this; 0 if the plan does not say it
  std::optional<Source> source = {};    ///< for a parameter; absent: the plan does not say it
  std::vector<Value> pieces = {};       ///< for a bucket: the values that lie in it; between them are zeros
  std::optional<PiecePlace> place = {}; ///< for a piece

  int64_t elements() const;
  int64_t localElements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtypeSize(dtype)); }
  int64_t localBytes() const { return localElements() * static_cast<int64_t>(dtypeSize(dtype)); }
};

/// Ends the labels of a layer's backward.
inline constexpr std::string_view kBackwardSuffix = ".grad";

/// One call of a program. If `rows` is not 0, the figures are those of `rows` rows.
struct Op {
  std::string name;
  std::string label; ///< layer that the op belongs to; may be empty
  int64_t stream = 0;
  int64_t group = -1; ///< index into Metadata::groups, or -1
  double flops = 0;
  double bytes = 0;
  double bytesSent = 0;
  int64_t rows = 0;
  /// Seconds of a transfer (an exchange, or a copy over the host's link) alone on Metadata::cluster; 0 if the plan does
  /// not say them.
  double seconds = 0;
};

/// A program of a plan: the reference, or the program of the numRanks ranks from firstRank on.
struct Program {
  int64_t firstRank = 0;
  int64_t numRanks = 1;
  std::string symbol;
  std::vector<Value> arguments;
  std::vector<Value> results;
  int64_t arenaBytes[2] = {0, 0}; ///< by moert_space
  std::vector<std::string> streams;
  int64_t events = 0;
  std::vector<Op> ops;

  int64_t valueCount() const { return std::ssize(arguments) + std::ssize(results); }
  /// Returns an argument or result by its number of MOERT_SPACE_ARGUMENT: arguments, then results.
  const Value &value(int64_t index) const {
    return index < std::ssize(arguments) ? arguments[index] : results[index - std::ssize(arguments)];
  }
  /// An argument or a result, or a piece of the one with number `index`; null if there is none.
  struct Found {
    int64_t index = -1;
    const Value *value = nullptr;
  };
  Found findArgument(std::string_view name) const;
  Found findResult(std::string_view name) const;
};

/// Returns the index of the program that `rank` runs. The programs are in the order of their ranks.
size_t programIndex(std::span<const Program> programs, int64_t rank);

/// Arguments and results of the programs, in the order in which they first occur. Values of one name are one value, and
/// a bucket is replaced by its pieces.
std::vector<Value> argumentsOf(std::span<const Program> programs);
std::vector<Value> resultsOf(std::span<const Program> programs);

/// A plan of one shape, or one variant of a plan of several.
struct Metadata {
  /// The half of a step that a caller runs by itself: "forward" or "backward"; empty: the whole step.
  std::string half;
  /// Sequences of a data-parallel rank, and tokens of a sequence; 0 in a plan of one shape.
  int64_t batch = 0, sequence = 0;
  int64_t world = 1;
  /// Number of chunks into which the plan cuts the tokens to overlap them; 0 if there is no choice.
  int64_t chunks = 0;
  /// Version of the compiler; empty if the plan does not say it.
  std::string compiler;
  /// Profile of the cluster that the plan was compiled for; empty if the plan does not say it.
  std::string cluster;
  std::string schedule;
  std::string mode;
  std::string dtype;
  std::vector<Group> groups;
  /// One for all ranks, or one for each stage of a pipeline, in the order of their ranks.
  std::vector<Program> programs;
  std::optional<Program> reference;

  const Program &programOf(int64_t rank) const { return programs[programIndex(programs, rank)]; }
};

/// Parses and checks `text`. A plan of one shape becomes one variant. Every error names the key, for example
/// "variants[1].programs[0].arguments[2].layout[0]", and the expected value.
Status parseMetadata(std::string_view text, std::vector<Metadata> &variants);

/// Whether the plan holds variants, so that one of them must be chosen.
bool hasShapes(const std::vector<Metadata> &variants);
/// Whether the plan's variants are, for each shape, a forward and then its backward.
bool hasHalves(const std::vector<Metadata> &variants);

/// Lists batch times sequence of each shape once, "2 x 512, 4 x 512".
std::string shapesText(const std::vector<Metadata> &variants);

/// Returns the moert_dtype called `name`, or -1.
int32_t dtypeFromName(std::string_view name);

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// Number of parts into which `value` is cut along dimension `dim`.
int64_t shardsOf(const Value &value, size_t dim, const std::vector<Group> &groups);

/// Whether a rank's part along dimension `dim` consists of chunks of sequences.
bool isCut(const Value &value, size_t dim, const std::vector<Group> &groups);

/// Returns the place in the whole value of place `place` of the part along dimension `dim` that `rank` holds.
int64_t wholePlace(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank, int64_t place);

/// Index of the part along dimension `dim` that `rank` holds.
int64_t shardIndex(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank);

} // namespace moert

#endif // MOERT_CORE_METADATA_H
