//===- Metadata.cpp - parsing and checking of plan metadata ---------------===//

#include "core/Metadata.h"
#include "core/Json.h"
#include "core/Positions.h"

#include <algorithm>
#include <map>
#include <set>

using nlohmann::json;

namespace moert {
namespace {

constexpr int64_t kMaxWorld = int64_t(1) << 20;
constexpr int64_t kMaxBytes = int64_t(1) << 50;
/// Limit that lets elements times shards fit 64 bits.
constexpr int64_t kMaxElements = int64_t(1) << 42;
/// One year, which fits the clock's nanoseconds.
constexpr int64_t kMaxSeconds = 366 * 24 * 3600;

template <class... Parts> [[noreturn]] void fail(const std::string &path, const Parts &...parts) {
  throw JsonError{path, joined(parts...)};
}

std::string quotedList(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "none" : text;
}

int64_t indexOf(const std::vector<std::string> &names, const JsonNode &node, const char *what) {
  std::string name = node.string();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return static_cast<int64_t>(i);
  node.fail("unknown ", what, " '", name, "', expected one of ", quotedList(names));
}

std::vector<std::string> namesOf(const std::vector<Group> &groups) {
  std::vector<std::string> names;
  for (const Group &group : groups)
    names.push_back(group.name);
  return names;
}

/// Checks the version `name` of the plan `top`, which `compiler` has made.
void checkVersion(const JsonNode &top, const char *name, int64_t expected, const std::string &compiler) {
  JsonNode node = top.at(name);
  if (!node.value.is_number_integer() || node.value != expected)
    node.fail("the plan", compiler.empty() ? "" : " of MoePlan ", compiler, " has version ", node.value.dump(),
              ", this runtime accepts ", expected, "; compile the plan again");
}

std::vector<Group> parseGroups(const JsonNode &node, int64_t world) {
  std::vector<Group> groups;
  std::set<std::string> seen;
  for (size_t i = 0; i < node.size(); ++i) {
    JsonNode item = node.at(i);
    Group group{item.at("name").string(), item.at("size").integer(1, kMaxWorld),
                item.at("stride").integer(1, kMaxWorld)};
    if (!seen.insert(group.name).second)
      item.fail("group '", group.name, "' is defined twice");
    if (world % (group.size * group.stride) != 0)
      item.fail("size * stride of group '", group.name, "' is ", group.size * group.stride,
                ", expected a divisor of the world size ", world);
    groups.push_back(group);
  }
  return groups;
}

std::vector<int64_t> parseShape(const JsonNode &node) {
  std::vector<int64_t> shape;
  if (node.size() > 4)
    node.fail("expected at most 4 dimensions but got ", node.size());
  int64_t elements = 1;
  for (size_t i = 0; i < node.size(); ++i) {
    shape.push_back(node.at(i).integer(0, kMaxElements));
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > kMaxElements)
      node.fail("the shape ", shapeText(shape), " has too many elements");
  }
  return shape;
}

/// Ranks of a program.
struct RankRange {
  int64_t first = 0;
  int64_t count = 1;
};

/// Checks that the ranks hold every part of the value: the same ranks may not cut two dimensions.
void checkCoverage(const Value &value, const std::vector<Group> &groups, RankRange ranks, const std::string &path) {
  int64_t tiles = 1;
  for (size_t dim = 0; dim < value.shape.size(); ++dim)
    if (__builtin_mul_overflow(tiles, shardsOf(value, dim, groups), &tiles) || tiles > ranks.count)
      fail(path, "the layout cuts '", value.name, "' into more parts than there are ranks (", ranks.count, ")");
  if (tiles == 1)
    return;
  std::vector<bool> held(tiles);
  for (int64_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    int64_t tile = 0;
    for (size_t dim = 0; dim < value.shape.size(); ++dim)
      tile = tile * shardsOf(value, dim, groups) + shardIndex(value, dim, groups, rank);
    held[tile] = true;
  }
  for (int64_t tile = 0; tile < tiles; ++tile)
    if (!held[tile])
      fail(path, "no rank holds part ", tile, " of the ", tiles, " of '", value.name,
           "': the groups of its layout overlap");
}

/// Parses how experts and names of tensors belong together.
void parseTensors(const JsonNode &node, const std::vector<int64_t> &shape, Source &source) {
  const JsonNode tensors = node.at("tensors");
  if (node.has("experts"))
    source.experts = node.at("experts").integer(1, kMaxElements);
  if (source.experts && (shape.empty() || shape[0] != source.experts))
    fail(node.path + ".experts", "expected dimension 0 of ", shapeText(shape), " but got ", source.experts);
  if (node.has("stacked"))
    source.stacked = node.at("stacked").integer(2, 3);
  if (source.stacked && !source.experts)
    fail(node.path + ".stacked", "expected 'stacked' together with 'experts'");
  for (size_t i = 0; i < tensors.size(); ++i) {
    source.tensors.push_back(tensors.at(i).string());
    bool isOfExperts = source.tensors.back().find("{e}") != std::string::npos;
    if (isOfExperts != (source.experts > 0 && !source.stacked))
      tensors.at(i).fail("expected a name ", isOfExperts ? "without" : "with", " '{e}' ",
                         isOfExperts ? "unless each expert has a tensor" : "since each expert has a tensor",
                         " but got '", source.tensors.back(), "'");
  }
  if (node.has("prefix"))
    source.prefix = node.at("prefix").string();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (source.tensors[i].compare(0, source.prefix.size(), source.prefix) != 0)
      tensors.at(i).fail("expected a name that begins with '", source.prefix, "' but got '", source.tensors[i], "'");
}

/// Parses which columns the source takes of each tensor; a row of it has `columns`.
void parseColumns(const JsonNode &node, int64_t columns, Source &source) {
  int64_t count = source.halves ? 2 : std::ssize(source.tensors);
  if (columns % count != 0)
    node.at("tensors").fail("expected one name", source.halves ? " without 'halves'" : "", " for ", columns,
                            " columns, which two cannot share, but got 2");
  if (node.has("begin") || node.has("of") || node.has("blocks")) {
    if (node.has("blocks"))
      source.blocks = node.at("blocks").integer(1, std::max<int64_t>(1, columns / count));
    int64_t taken = columns / count / source.blocks;
    if (taken * source.blocks * count != columns)
      fail(node.path + ".blocks", "expected a divisor of the ", columns / count, " columns but got ", source.blocks);
    source.of = node.at("of").integer(taken, kMaxElements / source.blocks);
    source.begin = node.at("begin").integer(0, source.of - taken);
  }
}

/// Parses the source of a value of shape `shape`, which its tensors have to make up.
Source parseSource(const JsonNode &node, const std::vector<int64_t> &shape) {
  Source source;
  JsonNode tensors = node.at("tensors");
  if (tensors.size() != 1 && tensors.size() != 2)
    tensors.fail("expected one or two names but got ", tensors.size());
  constexpr const char *kKeys[] = {"tensors", "prefix",  "transpose", "begin",  "of",
                                   "blocks",  "experts", "stacked",   "halves", "row"};
  for (const auto &[key, value] : node.value.items())
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
      node.fail("unknown key '", key,
                "', expected one of 'tensors', 'prefix', 'transpose', 'begin', 'of', 'blocks', 'experts', "
                "'stacked', 'halves', 'row'");
  parseTensors(node, shape, source);
  std::vector<int64_t> part(shape.begin() + (source.experts ? 1 : 0), shape.end());
  source.transpose = node.has("transpose") && node.at("transpose").boolean();
  if (source.transpose && part.size() > 2)
    fail(node.path + ".transpose", "expected 'transpose' of a matrix but the tensor is ", shapeText(part));
  source.isRow = node.has("row") && node.at("row").boolean();
  source.halves = node.has("halves") && node.at("halves").boolean();
  if (source.halves && (tensors.size() != 1 || node.has("of")))
    fail(node.path + ".halves", "expected one name and no 'of'");
  parseColumns(node, part.empty() ? 1 : part.back(), source);
  return source;
}

/// Parses how the sequences of `value`, whose shape and layout are known, are cut.
void parseCut(const JsonNode &node, const std::vector<Group> &groups, Value &value) {
  value.cutSequence = node.at("sequence").integer(1, INT32_MAX);
  value.cutChunks = node.at("chunks").integer(1, INT32_MAX);
  bool isUsed = false;
  for (size_t dim = 0; dim < value.layout.size(); ++dim) {
    if (!isCut(value, dim, groups))
      continue;
    isUsed = true;
    const int64_t members = groups[value.layout[dim].back()].size;
    if (value.cutChunks != members && value.cutChunks != 2 * members)
      node.fail("expected one chunk of a sequence, or two, for each of the ", members, " members of 'cp' but got ",
                value.cutChunks, " chunks");
    if (value.cutSequence % value.cutChunks != 0 || value.localShape[dim] * members % value.cutSequence != 0)
      node.fail("expected whole sequences, of a multiple of ", value.cutChunks, ", in dimension ", dim, " of '",
                value.name, "' but got sequences of ", value.cutSequence);
  }
  if (!isUsed)
    node.fail("expected a dimension of '", value.name, "' that 'cp' divides");
}

Value parseValue(const JsonNode &node, const std::vector<std::string> &roles, const std::vector<Group> &groups,
                 RankRange ranks) {
  Value value;
  value.name = node.at("name").string();
  value.role = roles[indexOf(roles, node.at("role"), "role")];
  JsonNode dtype = node.at("dtype");
  value.dtype = dtypeFromName(dtype.string());
  if (value.dtype < 0)
    dtype.fail("unknown dtype '", dtype.string(), "', expected one of 'f32', 'f64', 'bf16', 'i32', 'f16'");
  value.shape = parseShape(node.at("shape"));
  value.localShape = parseShape(node.at("local_shape"));
  value.updated = node.has("updated") && node.at("updated").boolean();
  if (node.has("sequence"))
    value.sequence = node.at("sequence").integer(1, INT32_MAX);
  if (node.has("fill"))
    value.fill = node.at("fill").amount();
  if (node.has("below"))
    value.below = node.at("below").integer(1, INT32_MAX);
  if (node.has("source"))
    value.source = parseSource(node.at("source"), value.shape);
  JsonNode layout = node.at("layout");
  if (layout.size() != value.shape.size() || value.localShape.size() != value.shape.size())
    node.fail("expected shape, local_shape and layout of '", value.name, "' to have equally many dimensions");
  for (size_t dim = 0; dim < layout.size(); ++dim) {
    value.layout.emplace_back();
    for (size_t i = 0; i < layout.at(dim).size(); ++i)
      value.layout.back().push_back(indexOf(namesOf(groups), layout.at(dim).at(i), "group"));
  }
  checkCoverage(value, groups, ranks, layout.path);
  if (node.has("cut"))
    parseCut(node.at("cut"), groups, value);
  for (size_t dim = 0; dim < layout.size(); ++dim) {
    int64_t shards = shardsOf(value, dim, groups);
    if (value.localShape[dim] * shards != value.shape[dim])
      node.fail("local_shape ", shapeText(value.localShape), " of '", value.name, "' does not fit shape ",
                shapeText(value.shape), ": dimension ", dim, " is cut into ", shards, " parts");
  }
  return value;
}

/// Parses the values that lie in a bucket, side by side.
void parsePieces(const JsonNode &node, const std::vector<std::string> &roles, const std::vector<Group> &groups,
                 RankRange ranks, Value &bucket) {
  PiecePlace place;
  place.perRank = bucket.localElements();
  int64_t shards = 1;
  if (node.has("shards")) {
    place.shards = indexOf(namesOf(groups), node.at("shards"), "group");
    shards = groups[place.shards].size;
  }
  int64_t end = 0;
  JsonNode pieces = node.at("pieces");
  for (size_t i = 0; i < pieces.size(); ++i) {
    JsonNode item = pieces.at(i);
    Value piece = parseValue(item, roles, groups, ranks);
    if (piece.role != bucket.role || piece.dtype != bucket.dtype)
      item.fail("expected the role and dtype of '", bucket.name, "', in which '", piece.name, "' lies");
    place.at = item.at("at").integer(end, kMaxElements);
    end = place.at + piece.localElements();
    if (end > place.perRank * shards)
      item.fail("expected '", piece.name, "' to end in the ", place.perRank * shards, " elements of '", bucket.name,
                "' but got ", end);
    piece.place = place;
    piece.updated = bucket.updated;
    bucket.pieces.push_back(std::move(piece));
  }
}

std::vector<Value> parseValues(const JsonNode &node, const std::vector<std::string> &roles,
                               const std::vector<Group> &groups, RankRange ranks) {
  std::vector<Value> values;
  std::set<std::string> seen;
  for (size_t i = 0; i < node.size(); ++i) {
    Value &value = values.emplace_back(parseValue(node.at(i), roles, groups, ranks));
    if (node.at(i).has("pieces"))
      parsePieces(node.at(i), roles, groups, ranks, value);
    auto checkNew = [&](const Value &one) {
      if (!seen.insert(one.name).second)
        node.at(i).fail("the name '", one.name, "' is used twice");
    };
    checkNew(value);
    std::for_each(value.pieces.begin(), value.pieces.end(), checkNew);
  }
  return values;
}

Op parseOp(const JsonNode &node, const std::vector<std::string> &streams, const std::vector<Group> &groups) {
  Op op;
  op.name = node.at("name").string();
  op.label = node.at("label").string();
  op.stream = indexOf(streams, node.at("stream"), "stream");
  if (!node.at("group").value.is_null())
    op.group = indexOf(namesOf(groups), node.at("group"), "group");
  op.flops = node.at("flops").amount();
  op.bytes = node.at("bytes").amount();
  op.bytesSent = node.at("bytes_sent").amount();
  op.rows = node.at("rows").integer(0, kMaxBytes);
  if (node.has("seconds"))
    op.seconds = node.at("seconds").amount();
  if (op.seconds > kMaxSeconds)
    fail(node.path + ".seconds", "expected at most ", kMaxSeconds, " but got ", node.at("seconds").value.dump());
  return op;
}

Program parseProgram(const JsonNode &node, const std::vector<Group> &groups, RankRange ranks) {
  Program program;
  program.firstRank = ranks.first;
  program.numRanks = ranks.count;
  program.symbol = node.at("symbol").string();
  // A backward alone takes residuals, and outputs, of its forward.
  program.arguments =
      parseValues(node.at("arguments"),
                  {"input", "parameter", "state", "rate", "step", "cotangent", "residual", "output"}, groups, ranks);
  program.results =
      parseValues(node.at("results"), {"output", "loss", "metric", "gradient", "residual"}, groups, ranks);
  program.arenaBytes[MOERT_SPACE_DEVICE] = node.at("arenas").at("device").integer(0, kMaxBytes);
  program.arenaBytes[MOERT_SPACE_HOST_PINNED] = node.at("arenas").at("host_pinned").integer(0, kMaxBytes);
  JsonNode streams = node.at("streams");
  for (size_t i = 0; i < streams.size(); ++i)
    program.streams.push_back(streams.at(i).string());
  if (std::set<std::string>(program.streams.begin(), program.streams.end()).size() != program.streams.size())
    streams.fail("a stream is named twice");
  program.events = node.at("events").integer(0, INT32_MAX);
  JsonNode ops = node.at("ops");
  for (size_t i = 0; i < ops.size(); ++i)
    if (JsonNode op = ops.at(i); !op.value.is_number())
      program.ops.push_back(parseOp(op, program.streams, groups));
    else if (i > 0)
      program.ops.push_back(program.ops[op.integer(0, static_cast<int64_t>(i) - 1)]);
    else
      op.fail("expected the number of an earlier op but got ", op.value.dump());
  return program;
}

/// Parses the ranks of a program, which follow those of the program before.
RankRange parseRanks(const JsonNode &node, int64_t begin, int64_t world) {
  JsonNode first = node.at("first_rank"), count = node.at("ranks");
  if (int64_t rank = first.integer(0, kMaxWorld); rank != begin)
    first.fail("expected ", begin, ", the first rank that no earlier program is for, but got ", rank);
  RankRange ranks{begin, count.integer(1, kMaxWorld)};
  if (ranks.count > world - begin)
    count.fail("expected at most ", world - begin, ", the ranks of the world from ", begin, " on, but got ",
               ranks.count);
  return ranks;
}

std::string layoutText(const Value &value, const std::vector<Group> &groups) {
  std::string text;
  for (const std::vector<int64_t> &dim : value.layout) {
    std::string names;
    for (int64_t group : dim)
      names += (names.empty() ? "" : ", ") + groups[group].name;
    text += (text.empty() ? "[" : ", [") + names + "]";
  }
  return "[" + text + "]";
}

/// Checks that values of one name are one global value. The programs are at `node`.
class SameValues {
public:
  SameValues(const JsonNode &node, const std::vector<Group> &groups) : node(node), groups(groups) {}

  /// Checks the values of program `index`, at its key `key`.
  void check(const std::vector<Value> &values, size_t index, const char *key) {
    for (size_t i = 0; i < values.size(); ++i) {
      auto [place, isNew] = first.try_emplace({key, values[i].name}, index, &values[i]);
      if (!isNew)
        compare(values[i], *place->second.second, place->second.first, node.at(index).at(key).at(i));
    }
  }

private:
  void compare(const Value &value, const Value &other, size_t program, const JsonNode &at) const {
    auto expect = [&](const char *key, const std::string &mine, const std::string &theirs) {
      if (mine != theirs)
        fail(at.path + "." + key, "expected ", theirs, ", as '", value.name, "' has in programs[", program,
             "], but got ", mine);
    };
    expect("role", value.role, other.role);
    expect("dtype", dtypeName(value.dtype), dtypeName(other.dtype));
    expect("shape", shapeText(value.shape), shapeText(other.shape));
    expect("layout", layoutText(value, groups), layoutText(other, groups));
    // Otherwise the programs would begin the next step with different values.
    expect("updated", value.updated ? "true" : "false", other.updated ? "true" : "false");
  }

  JsonNode node;
  const std::vector<Group> &groups;
  /// First program that has a value, by key and name.
  std::map<std::pair<std::string, std::string>, std::pair<size_t, const Value *>> first;
};

std::vector<Program> parsePrograms(const JsonNode &node, const std::vector<Group> &groups, int64_t world) {
  if (node.size() == 0)
    node.fail("expected at least one program but got none");
  std::vector<Program> programs;
  int64_t covered = 0;
  for (size_t i = 0; i < node.size(); ++i) {
    RankRange ranks = parseRanks(node.at(i), covered, world);
    programs.push_back(parseProgram(node.at(i), groups, ranks));
    covered += ranks.count;
  }
  if (covered != world)
    node.fail("expected programs for all ", world, " ranks of the world but they are for ", covered);
  SameValues same(node, groups);
  for (size_t i = 0; i < programs.size(); ++i) {
    same.check(programs[i].arguments, i, "arguments");
    same.check(programs[i].results, i, "results");
  }
  return programs;
}

Metadata parsePlan(const JsonNode &top) {
  Metadata metadata;
  metadata.world = top.at("world").integer(1, kMaxWorld);
  if (top.has("chunks"))
    metadata.chunks = top.at("chunks").integer(0, kMaxElements);
  if (top.has("cluster"))
    metadata.cluster = top.at("cluster").string();
  metadata.schedule = top.at("schedule").string();
  metadata.mode = top.at("mode").string();
  metadata.dtype = top.at("dtype").string();
  metadata.groups = parseGroups(top.at("groups"), metadata.world);
  metadata.programs = parsePrograms(top.at("programs"), metadata.groups, metadata.world);
  // A plan without a reference runs, but cannot be verified.
  if (top.has("reference") && !top.at("reference").value.empty())
    metadata.reference = parseProgram(top.at("reference"), {}, {});
  return metadata;
}

const std::vector<std::string> kHalves = {"forward", "backward"};

/// Checks that no variant is a half, or that its backward follows each forward.
void checkHalves(const JsonNode &node, const std::vector<Metadata> &variants) {
  if (!hasHalves(variants))
    return;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Metadata &variant = variants[i], &forward = variants[i - i % 2];
    bool isPaired = variant.batch == forward.batch && variant.sequence == forward.sequence;
    if (variant.half != kHalves[i % 2] || !isPaired || variants.size() % 2 != 0)
      node.at(i).fail("expected variants in pairs of one shape, half 'forward' and then 'backward'");
  }
}

std::vector<Metadata> parseVariants(const JsonNode &node, const std::string &cluster) {
  if (node.size() == 0)
    node.fail("expected at least one variant but got none");
  std::vector<Metadata> variants;
  for (size_t i = 0; i < node.size(); ++i) {
    JsonNode item = node.at(i);
    std::string half = item.has("half") ? kHalves[indexOf(kHalves, item.at("half"), "half")] : "";
    // A forward and a backward may have the plan's one shape.
    bool hasShape = half.empty() || item.has("batch");
    int64_t batch = hasShape ? item.at("batch").integer(1, kMaxElements) : 0;
    int64_t sequence = hasShape ? item.at("sequence").integer(1, kMaxElements) : 0;
    int64_t world = variants.empty() ? 0 : variants.front().world;
    if (int64_t ranks = item.at("world").integer(1, kMaxWorld); world && ranks != world)
      item.fail("expected a world of ", world, " ranks as in the first variant but got ", ranks);
    variants.push_back(parsePlan(item));
    Metadata &variant = variants.back();
    variant.half = half;
    variant.batch = batch;
    variant.sequence = sequence;
    if (!item.has("cluster"))
      variant.cluster = cluster;
  }
  checkHalves(node, variants);
  return variants;
}

std::vector<Metadata> parse(const json &root) {
  JsonNode top{root, ""};
  std::string compiler = top.has("compiler") ? top.at("compiler").string() : "";
  checkVersion(top, "moeplan", MOERT_METADATA_VERSION, compiler);
  checkVersion(top, "abi", MOERT_ABI_VERSION, compiler);
  std::vector<Metadata> variants;
  if (top.has("variants"))
    variants = parseVariants(top.at("variants"), top.has("cluster") ? top.at("cluster").string() : "");
  else
    variants = {parsePlan(top)};
  for (Metadata &variant : variants)
    variant.compiler = compiler;
  return variants;
}

} // namespace

static int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

int64_t Value::elements() const { return product(shape); }
int64_t Value::localElements() const { return product(localShape); }

static Program::Found findIn(const std::vector<Value> &values, std::string_view name) {
  auto find = [&](const std::vector<Value> &all) {
    auto it = std::find_if(all.begin(), all.end(), [&](const Value &value) { return value.name == name; });
    return it == all.end() ? nullptr : &*it;
  };
  for (size_t i = 0; i < values.size(); ++i)
    if (const Value *value = values[i].pieces.empty() && values[i].name == name ? &values[i] : find(values[i].pieces))
      return {static_cast<int64_t>(i), value};
  return {};
}

Program::Found Program::findArgument(std::string_view name) const { return findIn(arguments, name); }

Program::Found Program::findResult(std::string_view name) const {
  Found found = findIn(results, name);
  if (found.value)
    found.index += std::ssize(arguments);
  return found;
}

size_t programIndex(std::span<const Program> programs, int64_t rank) {
  auto begins = [](int64_t rank, const Program &program) { return rank < program.firstRank; };
  auto next = std::upper_bound(programs.begin() + 1, programs.end(), rank, begins);
  return static_cast<size_t>(next - programs.begin()) - 1;
}

static std::vector<Value> valuesOf(std::span<const Program> programs, std::vector<Value> Program::*member) {
  std::vector<Value> values;
  std::set<std::string_view> seen;
  auto add = [&](const Value &value) {
    if (seen.insert(value.name).second)
      values.push_back(value);
  };
  for (const Program &program : programs)
    for (const Value &value : program.*member)
      if (value.pieces.empty())
        add(value);
      else
        std::for_each(value.pieces.begin(), value.pieces.end(), add);
  return values;
}

std::vector<Value> argumentsOf(std::span<const Program> programs) { return valuesOf(programs, &Program::arguments); }
std::vector<Value> resultsOf(std::span<const Program> programs) { return valuesOf(programs, &Program::results); }

Status parseMetadata(std::string_view text, std::vector<Metadata> &variants) {
  try {
    variants = parse(json::parse(text));
  } catch (const JsonError &error) {
    return invalid("plan metadata: ", error.path.empty() ? "top level" : error.path, ": ", error.message);
  } catch (const json::exception &error) {
    return invalid("plan metadata is not JSON: ", error.what());
  }
  return {};
}

bool hasShapes(const std::vector<Metadata> &variants) { return variants.front().batch > 0; }

bool hasHalves(const std::vector<Metadata> &variants) {
  return std::any_of(variants.begin(), variants.end(), [](const Metadata &variant) { return !variant.half.empty(); });
}

std::string shapesText(const std::vector<Metadata> &variants) {
  std::string text;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Metadata &variant : variants)
    if (seen.insert({variant.batch, variant.sequence}).second)
      text += (text.empty() ? "" : ", ") + std::to_string(variant.batch) + " x " + std::to_string(variant.sequence);
  return text;
}

int32_t dtypeFromName(std::string_view name) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_I32, MOERT_F16})
    if (name == dtypeName(dtype))
      return dtype;
  return -1;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t dim : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

int64_t shardsOf(const Value &value, size_t dim, const std::vector<Group> &groups) {
  int64_t shards = 1;
  for (int64_t group : value.layout[dim])
    if (__builtin_mul_overflow(shards, groups[group].size, &shards))
      return INT64_MAX;
  return shards;
}

int64_t shardIndex(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank) {
  int64_t index = 0;
  for (int64_t k : value.layout[dim]) {
    const Group &group = groups[k];
    index = index * group.size + group.memberOf(rank);
  }
  return index;
}

bool isCut(const Value &value, size_t dim, const std::vector<Group> &groups) {
  const std::vector<int64_t> &names = value.layout[dim];
  return value.cutChunks > 0 && !names.empty() && groups[names.back()].name == "cp";
}

int64_t wholePlace(const Value &value, size_t dim, const std::vector<Group> &groups, int64_t rank, int64_t place) {
  const int64_t part = shardIndex(value, dim, groups, rank), own = value.localShape[dim];
  if (!isCut(value, dim, groups))
    return part * own + place;
  // A shard of whole sequences is divided among the group's members.
  const int64_t members = groups[value.layout[dim].back()].size, length = value.cutSequence / members;
  const RowPlaces places(length, members, part % members, value.cutChunks > members);
  return part / members * members * own + place / length * value.cutSequence + places.at(place % length);
}

} // namespace moert
