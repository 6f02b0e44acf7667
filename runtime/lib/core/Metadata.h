//===- Metadata.h - what a plan says about itself -------------------------===//
//
// The parsed and validated form of `moeplan_metadata` (docs/Runtime.md). No part of the runtime reads the JSON itself.
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

/// Which tensors of a published checkpoint a parameter is made of, and how (docs/Runtime.md).
struct Source {
  std::vector<std::string> tensors; ///< one, or two whose columns alternate; of experts each has "{e}"
  bool transpose = false;           ///< the checkpoint's matrices are [out, in]
  int64_t begin = 0;                ///< the first column that is taken, and
  int64_t of = 0;                   ///< of how many; 0: as many as are taken
  int64_t blocks = 1;               ///< the tensor has so many blocks of `of` columns, of each as many are taken
  int64_t experts = 0;              ///< how many are stacked along dimension 0; 0: it is no stack
  int64_t stacked = 0;              ///< one tensor has all experts: 3: [E, rows, columns], 2: [E rows, columns]; 0: no
  bool halves = false;              ///< the one tensor has two halves of columns, which alternate
  bool isRow = false;               ///< the tensor has a dimension of 1 before the others
  std::string prefix = {};          ///< what the names begin with, but not in all checkpoints
};

/// Where a piece of a bucket lies. The bucket is 1-D.
struct PiecePlace {
  int64_t at = 0;      ///< the element at which the piece begins
  int64_t perRank = 0; ///< how many of the bucket's elements a rank has
  int64_t shards = -1; ///< over whose members the bucket is divided (index into Metadata::groups); -1: it is not
};

/// An argument or a result of a program.
struct Value {
  std::string name;
  std::string role;
  int32_t dtype = MOERT_F32;
  std::vector<int64_t> shape;      ///< global
  std::vector<int64_t> localShape; ///< of one rank
  /// For each dimension the groups (indices into Metadata::groups) over which it is sharded, outermost first.
  std::vector<std::vector<int64_t>> layout;
  /// Where the group "cp" divides a dimension: how many places are a sequence, and into how many chunks each is cut.
  /// Member r of the group's n has chunk r, and of 2 n chunks also chunk 2 n - 1 - r. 0: no sequences are cut.
  int64_t cutSequence = 0, cutChunks = 0;
  bool updated = false;            ///< of an argument: a step changes it, and what it is then is a result
  int64_t sequence = 0;            ///< of tokens: how many are a sequence; 0 where that is not said
  std::optional<double> fill = {}; ///< of a parameter: what a new model has everywhere; absent: random values
  int64_t below = 0; ///< of an i32 argument: its values are from 0 on and below this; 0 where that is not said
  std::optional<Source> source = {};    ///< of a parameter; absent: the plan does not say
  std::vector<Value> pieces = {};       ///< of a bucket: the values that lie in it; between them are zeros
  std::optional<PiecePlace> place = {}; ///< of a piece

  int64_t elements() const;
  int64_t localElements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtypeSize(dtype)); }
  int64_t localBytes() const { return localElements() * static_cast<int64_t>(dtypeSize(dtype)); }
};

/// One call of a program. Where `rows` is not 0 the figures are those of `rows` rows.
struct Op {
  std::string name;
  std::string label;
  int64_t stream = 0;
  int64_t group = -1; ///< index into Metadata::groups, or -1
  double flops = 0;
  double bytes = 0;
  double bytesSent = 0;
  int64_t rows = 0;
  /// How long a transfer, an exchange or a copy over the host's link, takes alone on Metadata::cluster; 0 where the
  /// plan does not say.
  double seconds = 0;
};

/// A program of a plan: the reference, or what the ranks from firstRank on run, numRanks of them.
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

  int64_t valueCount() const { return static_cast<int64_t>(arguments.size() + results.size()); }
  /// Arguments, then results: the numbering of MOERT_SPACE_ARGUMENT.
  const Value &value(int64_t index) const {
    auto k = static_cast<size_t>(index);
    return k < arguments.size() ? arguments[k] : results[k - arguments.size()];
  }
  /// The argument, or the result, called `name`, which may be a piece of the one with that number; null where there is
  /// none.
  struct Found {
    int64_t index = -1;
    const Value *value = nullptr;
  };
  Found findArgument(std::string_view name) const;
  Found findResult(std::string_view name) const;
};

/// The index of the program that `rank` runs, of programs that stand in the order of their ranks.
size_t programIndex(std::span<const Program> programs, int64_t rank);

/// What the programs take, and give: values of one name are one value, and for a bucket stand its pieces. In the order
/// in which they first occur.
std::vector<Value> argumentsOf(std::span<const Program> programs);
std::vector<Value> resultsOf(std::span<const Program> programs);

/// A plan of one shape, or one variant of a plan of several.
struct Metadata {
  /// Which half of a step a caller runs by itself: "forward" or "backward"; empty: the whole.
  std::string half;
  /// Sequences of a data-parallel rank, and tokens of a sequence. 0 in a plan of one shape, which does not say them.
  int64_t batch = 0, sequence = 0;
  int64_t world = 1;
  /// Into how many chunks the plan cuts the tokens to overlap them; 0 where that does not matter.
  int64_t chunks = 0;
  /// The profile of the cluster that the plan was compiled for; empty where it does not say.
  std::string cluster;
  std::string schedule;
  std::string mode;
  std::string dtype;
  std::vector<Group> groups;
  /// One for all ranks, or one for each stage of a pipeline: all ranks once, in order.
  std::vector<Program> programs;
  std::optional<Program> reference;

  const Program &programOf(int64_t rank) const { return programs[programIndex(programs, rank)]; }
};

/// Parses and checks `text` to the plan's variants; a plan of one shape is one. Every error names the key, e.g.
/// "variants[1].programs[0].arguments[2].layout[0]", and what was expected.
Status parseMetadata(std::string_view text, std::vector<Metadata> &variants);

/// Whether the plan holds variants, so that one of them must be chosen.
bool hasShapes(const std::vector<Metadata> &variants);
/// Whether the plan's variants are a forward and, behind it, a backward of each shape.
bool hasHalves(const std::vector<Metadata> &variants);

/// Batch times sequence of each shape once, "2 x 512, 4 x 512".
std::string shapesText(const std::vector<Metadata> &variants);

/// The moert_dtype called `name`, or -1.
int32_t dtypeFromName(std::string_view name);

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// Into how many parts `value` is cut along dimension `dim`.
int64_t shardsOf(const Value &value, size_t dim, const std::vector<Group> &groups);

/// Whether the part of a rank along dimension `dim` is made of chunks of sequences.
bool isCut(const Value &value, size_t dim, const std::vector<Group> &groups);

/// Where place `place` of the part along dimension `dim` that `rank` holds lies in the whole.
int64_t wholePlace(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank, int64_t place);

/// Which of the parts along dimension `dim` `rank` holds.
int64_t shardIndex(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank);

} // namespace moert

#endif // MOERT_CORE_METADATA_H
