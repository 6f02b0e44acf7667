//===- Departure.cpp - where a plan departs from its reference -------------===//

#include "run/Departure.h"

#include "core/Exchange.h"

#include <algorithm>
#include <utility>

namespace moert::run {
namespace {

/// Number of elements kept of a call, to find out what is wrong with them.
constexpr size_t kSample = 64;
/// Number of makers remembered for a value, the first ones. A thousand ranks have a million values. If a value has more
/// makers, a later one may be reported.
constexpr size_t kMostMakers = 256;

/// Part of a value, in bytes.
struct Bytes {
  int64_t begin, end;
};

/// Whether the element can identify the value that it comes from.
bool isTelling(Field x) { return x != Field(0) && !x.isInfinite(); }

std::span<const Field> fieldsOf(const moert_operand &operand) {
  return {static_cast<const Field *>(operand.data),
          operand.dtype == kFieldType ? static_cast<size_t>(operand.bytes) / sizeof(Field) : 0};
}

/// Elements that a run computed, in a hash table that is at most half full. A large model has tens of millions, and
/// each value that its plan computes is looked up.
class ComputedElements {
public:
  void add(std::span<const Field> fields) {
    for (Field x : fields)
      if (isTelling(x) && insert(x.index()) && 2 * ++count > slots.size())
        grow();
  }
  bool has(Field x) const { return !isTelling(x) || slots[find(x.index())] != 0; }
  /// Whether all elements are there, and at least one of them is telling.
  bool has(std::span<const Field> fields) const {
    return std::any_of(fields.begin(), fields.end(), isTelling) &&
           std::all_of(fields.begin(), fields.end(), [this](Field x) { return has(x); });
  }

private:
  /// Slot of the key, or the free slot for it.
  size_t find(uint64_t key) const {
    size_t slot = (key * 0x9e3779b97f4a7c15) >> (64 - bits);
    while (slots[slot] != 0 && slots[slot] != key)
      slot = (slot + 1) % slots.size();
    return slot;
  }
  bool insert(uint64_t key) {
    uint64_t &slot = slots[find(key)];
    return std::exchange(slot, key) == 0;
  }
  void grow() {
    std::vector<uint64_t> old = std::exchange(slots, std::vector<uint64_t>(2 * slots.size()));
    ++bits;
    for (uint64_t key : old)
      if (key != 0)
        insert(key);
  }

  int bits = 16;
  std::vector<uint64_t> slots = std::vector<uint64_t>(size_t(1) << bits); ///< 0: none
  size_t count = 0;
};

/// Calls that values in memory come from.
struct Origin {
  std::vector<int32_t> makers; ///< numbers of the calls that made elements the reference lacks; sorted
  int64_t exchange = -1;       ///< op of the last exchange before; -1: none

  void merge(const Origin &other) {
    if (other.makers.empty() || makers == other.makers) {
      exchange = std::max(exchange, other.exchange);
      return;
    }
    std::vector<int32_t> both;
    std::set_union(makers.begin(), makers.end(), other.makers.begin(), other.makers.end(), std::back_inserter(both));
    both.resize(std::min(both.size(), kMostMakers));
    makers = std::move(both);
    exchange = std::max(exchange, other.exchange);
  }
};

/// Origins of all written memory, by address.
class Origins {
public:
  using Address = uintptr_t;

  Origin of(Address begin, Address end) const {
    Origin origin;
    for (auto it = from(begin); it != parts.end() && it->first < end; ++it)
      origin.merge(it->second.origin);
    return origin;
  }
  /// Adds the places in [begin, end) where parts begin, relative to `begin`.
  void addBounds(Address begin, Address end, std::vector<int64_t> &bounds) const {
    for (auto it = from(begin); it != parts.end() && it->first < end; ++it) {
      bounds.push_back(static_cast<int64_t>(std::max(it->first, begin) - begin));
      bounds.push_back(static_cast<int64_t>(std::min(it->second.end, end) - begin));
    }
  }
  void set(Address begin, Address end, Origin origin) {
    split(begin);
    split(end);
    parts.erase(parts.lower_bound(begin), parts.lower_bound(end));
    parts[begin] = {end, std::move(origin)};
  }

private:
  struct Part {
    Address end;
    Origin origin;
  };
  using Parts = std::map<Address, Part>;

  /// First part that ends after `begin`.
  Parts::const_iterator from(Address begin) const {
    auto it = parts.upper_bound(begin);
    return it != parts.begin() && std::prev(it)->second.end > begin ? std::prev(it) : it;
  }
  void split(Address at) {
    auto it = parts.lower_bound(at);
    if (it == parts.begin() || (--it)->second.end <= at)
      return;
    parts[at] = it->second;
    it->second.end = at;
  }

  Parts parts;
};

/// Call of one rank that made elements which the reference lacks.
struct Maker {
  int64_t rank, op;
  int64_t before;                ///< op of the exchange that its inputs come from; -1: none
  std::vector<Field> sample;     ///< elements that it made first
  Origin taken = {};             ///< origin of all its inputs
  std::vector<Field> wrong = {}; ///< elements of its last output that the reference lacks
  /// First call and first exchange that take its output, as ops of these ranks; -1: none.
  struct Taker {
    int64_t rank = -1, op = -1;
  } next = {}, after = {};
  bool isPart = false; ///< whether elements of the reference were computed from its output
};

/// Follows a run of a plan.
class Tracker {
public:
  Tracker(const Plan &plan, const ComputedElements &right) : plan(plan), right(right) {}

  /// Follows a call that ran, or the calls of all members of an exchange.
  void follow(std::span<const moert_ran> calls);
  /// Finds the departure. `results` are the elements of the plan's results.
  std::optional<Departure> find(const ComputedElements &results) const;

private:
  struct Summed {
    Bytes bytes;
    Origin origin;
  };
  struct Written {
    const moert_ran *call;
    const moert_operand *out;
    Bytes bytes;
    const Origin &origin; ///< origin of its inputs
  };

  const Program &programOf(int64_t rank) const {
    return plan.metadata.programs[programIndex(plan.metadata.programs, rank)];
  }
  const Op &opOf(int64_t rank, int64_t number) const { return programOf(rank).ops[static_cast<size_t>(number)]; }
  std::string nameOf(int64_t rank, int64_t number) const;
  std::vector<Summed> sumOf(std::span<const moert_ran> calls, int64_t first, int64_t size) const;
  void noteTaker(std::span<const moert_ran> calls, const Origin &origin, bool meets);
  void write(const Written &written, int64_t exchange, bool moves);
  std::vector<Bytes> wrongOf(std::span<const Field> all, Bytes bytes) const;
  int32_t makerOf(const Written &written, std::span<const Field> made, std::span<const Bytes> wrong);
  std::vector<bool> findUsed(const ComputedElements &results) const;
  std::vector<std::string> groupsOf(const Maker &maker) const;
  std::string relationOf(const Maker &maker) const;
  bool isCompleted(const Maker &maker) const;
  std::string causeOf(const Maker &maker) const;
  std::string takerOf(const Maker::Taker &taker) const { return taker.op < 0 ? "" : nameOf(taker.rank, taker.op); }

  const Plan &plan;
  const ComputedElements &right;
  Origins origins;
  std::map<std::pair<int64_t, int64_t>, int32_t> numbers; ///< numbers of makers, by rank and op
  std::vector<Maker> makers;                              ///< ordered as they ran
};

/// Kind of an op. Only a copy has another name in the metadata than its call.
Kind kindOf(const Op &op) {
  const KernelInfo *info = findKernel(op.name);
  return info ? static_cast<Kind>(info - kKernels) : Kind::Copy;
}

uintptr_t addressOf(const moert_operand &operand) { return reinterpret_cast<uintptr_t>(operand.data); }

std::vector<Field> sampleOf(std::span<const Field> fields) {
  const std::span<const Field> first = fields.first(std::min(fields.size(), kSample));
  return {first.begin(), first.end()};
}

std::span<const moert_operand> operandsOf(const moert_ran &call) {
  return {call.operands, static_cast<size_t>(call.operand_count)};
}

std::string Tracker::nameOf(int64_t rank, int64_t number) const {
  const Op &op = opOf(rank, number);
  return "op " + std::to_string(number) + " " + op.name + (op.label.empty() ? "" : " '" + op.label + "'") +
         (op.group < 0 ? "" : " over group '" + plan.metadata.groups[static_cast<size_t>(op.group)].name + "'");
}

/// Origin of all inputs, or of these bytes of each.
Origin originOf(const Origins &origins, std::span<const moert_ran> calls, std::optional<Bytes> at) {
  Origin origin;
  for (const moert_ran &call : calls)
    for (const moert_operand &in : operandsOf(call))
      if (!in.is_output) {
        const uintptr_t begin = addressOf(in);
        const auto end = begin + static_cast<uintptr_t>(in.bytes);
        origin.merge(at ? origins.of(begin + static_cast<uintptr_t>(at->begin), begin + static_cast<uintptr_t>(at->end))
                        : origins.of(begin, end));
      }
  return origin;
}

/// Origins of `size` bytes of a sum, which begin at byte `first` of its inputs. They are in pieces, so that an error in
/// one value of a bucket is not reported for all of them.
std::vector<Tracker::Summed> Tracker::sumOf(std::span<const moert_ran> calls, int64_t first, int64_t size) const {
  std::vector<int64_t> bounds{0, size};
  for (const moert_ran &call : calls)
    for (const moert_operand &in : operandsOf(call))
      if (!in.is_output && in.bytes >= first + size) {
        const uintptr_t begin = addressOf(in) + static_cast<uintptr_t>(first);
        origins.addBounds(begin, begin + static_cast<uintptr_t>(size), bounds);
      }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<Summed> pieces;
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    pieces.push_back(
        {{bounds[i], bounds[i + 1]}, originOf(origins, calls, Bytes{first + bounds[i], first + bounds[i + 1]})});
  return pieces;
}

void Tracker::follow(std::span<const moert_ran> calls) {
  const Kind kind = kindOf(opOf(calls[0].rank, calls[0].op));
  const bool meets = isCollective(kind), isScattered = kind == Kind::ReduceScatter;
  const Origin all = originOf(origins, calls, std::nullopt);
  noteTaker(calls, all, meets);
  // Reads all inputs before it writes, because outputs may lie where other members have inputs.
  std::vector<std::vector<Summed>> pieces;
  for (size_t member = 0; member < calls.size(); ++member)
    for (const moert_operand &out : operandsOf(calls[member])) {
      if (!out.is_output || (!isScattered && !pieces.empty()))
        continue;
      const int64_t first = isScattered ? static_cast<int64_t>(member) * out.bytes : 0;
      pieces.push_back(isScattered || kind == Kind::AllReduce ? sumOf(calls, first, out.bytes) : std::vector<Summed>());
    }
  for (size_t member = 0; member < calls.size(); ++member)
    for (const moert_operand &out : operandsOf(calls[member])) {
      if (!out.is_output)
        continue;
      const std::vector<Summed> &own = pieces[isScattered ? member : 0];
      const int64_t exchange = meets ? calls[member].op : all.exchange;
      for (const Summed &piece : own)
        write({&calls[member], &out, piece.bytes, piece.origin}, exchange, isExchange(kind));
      if (own.empty())
        write({&calls[member], &out, {0, out.bytes}, all}, exchange, isExchange(kind));
    }
}

void Tracker::noteTaker(std::span<const moert_ran> calls, const Origin &origin, bool meets) {
  for (int32_t number : origin.makers) {
    Maker &maker = makers[static_cast<size_t>(number)];
    auto own = std::find_if(calls.begin(), calls.end(), [&](const moert_ran &call) { return call.rank == maker.rank; });
    const moert_ran &call = own == calls.end() ? calls[0] : *own;
    if (maker.next.op < 0)
      maker.next = {call.rank, call.op};
    if (meets && maker.after.op < 0)
      maker.after = {call.rank, call.op};
  }
}

void Tracker::write(const Written &written, int64_t exchange, bool moves) {
  const auto &[call, out, bytes, origin] = written;
  Origin marked{origin.makers, exchange};
  const uintptr_t begin = addressOf(*out) + static_cast<uintptr_t>(bytes.begin);
  const uintptr_t end = addressOf(*out) + static_cast<uintptr_t>(bytes.end);
  const std::span<const Field> all = fieldsOf(*out);
  const std::vector<Bytes> wrong = all.empty() ? std::vector<Bytes>{} : wrongOf(all, bytes);
  constexpr auto kSize = static_cast<int64_t>(sizeof(Field));
  const auto isTold = [&] {
    return std::any_of(all.begin() + bytes.begin / kSize, all.begin() + bytes.end / kSize, isTelling);
  };
  if (all.empty() || !isTold())
    return origins.set(begin, end, marked);
  if (wrong.empty() && !moves)
    for (int32_t number : origin.makers)
      makers[static_cast<size_t>(number)].isPart = true;
  origins.set(begin, end, {{}, exchange});
  if (wrong.empty())
    return;
  if (!moves)
    marked.merge({{makerOf(written, all, wrong)}, -1});
  for (const Bytes &part : wrong)
    origins.set(addressOf(*out) + static_cast<uintptr_t>(part.begin),
                addressOf(*out) + static_cast<uintptr_t>(part.end), marked);
}

/// Runs of elements that the reference lacks, at most kMost.
std::vector<Bytes> Tracker::wrongOf(std::span<const Field> all, Bytes bytes) const {
  constexpr int64_t kSize = sizeof(Field), kGap = 16 * kSize;
  constexpr size_t kMost = 64;
  std::vector<Bytes> wrong;
  for (int64_t at = bytes.begin; at < bytes.end; at += kSize) {
    if (right.has(all[static_cast<size_t>(at / kSize)]))
      continue;
    if (!wrong.empty() && (at - wrong.back().end < kGap || wrong.size() == kMost))
      wrong.back().end = at + kSize;
    else
      wrong.push_back({at, at + kSize});
  }
  return wrong;
}

int32_t Tracker::makerOf(const Written &written, std::span<const Field> made, std::span<const Bytes> wrong) {
  const auto &[call, out, bytes, origin] = written;
  const auto [it, isNew] = numbers.try_emplace({call->rank, call->op}, static_cast<int32_t>(makers.size()));
  if (isNew)
    makers.push_back({call->rank, call->op, origin.exchange, sampleOf(made)});
  Maker &maker = makers[static_cast<size_t>(it->second)];
  maker.taken.merge(origin);
  maker.wrong.clear();
  for (size_t i = 0; i < std::min(wrong.size(), kSample); ++i)
    maker.wrong.push_back(made[static_cast<size_t>(wrong[i].begin) / sizeof(Field)]);
  return it->second;
}

/// Groups over which the sum of the output is a value of the reference.
std::vector<std::string> Tracker::groupsOf(const Maker &maker) const {
  std::vector<std::string> names;
  for (const Group &group : plan.metadata.groups) {
    std::vector<Field> sum(maker.sample.size(), Field(0));
    bool isWhole = group.size > 1;
    for (int64_t member = 0; isWhole && member < group.size; ++member) {
      auto number = numbers.find({group.rankOf(group.instanceOf(maker.rank), member), maker.op});
      isWhole = number != numbers.end() && makers[static_cast<size_t>(number->second)].sample.size() == sum.size();
      for (size_t i = 0; isWhole && i < sum.size(); ++i)
        sum[i] += makers[static_cast<size_t>(number->second)].sample[i];
    }
    if (isWhole && right.has(std::span<const Field>(sum)))
      names.push_back(group.name);
  }
  return names;
}

/// Relation of the output to the reference, such as "is 2 times a value of the reference".
std::string Tracker::relationOf(const Maker &maker) const {
  if (std::vector<std::string> names = groupsOf(maker); !names.empty())
    return "is the reference's, summed over " + groupText(names);
  constexpr int64_t kMost = 256, kMostBoth = 8;
  for (int64_t top = 1; top <= kMost; ++top)
    for (int64_t bottom = 1; bottom <= kMost && std::min(top, bottom) <= kMostBoth; ++bottom)
      for (int sign : {1, -1}) {
        const Field factor = Field(sign * top) / Field(bottom);
        std::vector<Field> other = maker.sample;
        for (Field &x : other)
          x = x / factor;
        if (factor != Field(1) && right.has(std::span<const Field>(other)))
          return "is " + fractionText(factor) + " times a value of the reference";
      }
  return "";
}

std::string Tracker::causeOf(const Maker &maker) const {
  if (std::string relation = relationOf(maker); !relation.empty())
    return "what it makes " + relation;
  const std::vector<int32_t> &taken = maker.taken.makers;
  for (auto number = taken.rbegin(); number != taken.rend(); ++number)
    if (const Maker &its = makers[static_cast<size_t>(*number)]; &its != &maker)
      if (std::string relation = relationOf(its); !relation.empty())
        return "what it takes of " + nameOf(its.rank, its.op) + " " + relation;
  return "";
}

/// Whether the next exchange completes the sum. Then the plan goes wrong later.
bool Tracker::isCompleted(const Maker &maker) const {
  if (maker.after.op < 0)
    return false;
  const Op &op = opOf(maker.after.rank, maker.after.op);
  const std::vector<std::string> names = groupsOf(maker);
  return op.group >= 0 && !isExchange(kindOf(op)) &&
         std::count(names.begin(), names.end(), plan.metadata.groups[static_cast<size_t>(op.group)].name);
}

/// Marks the makers of results, and those that they took values from. Other makers do not matter.
std::vector<bool> Tracker::findUsed(const ComputedElements &results) const {
  std::vector<bool> isUsed(makers.size());
  for (size_t i = makers.size(); i-- > 0;) {
    const Maker &maker = makers[i];
    auto isIn = [&](Field x) { return results.has(x); };
    if (!isUsed[i] && std::none_of(maker.wrong.begin(), maker.wrong.end(), isIn))
      continue;
    isUsed[i] = true;
    for (int32_t taken : maker.taken.makers)
      isUsed[static_cast<size_t>(taken)] = true;
  }
  return isUsed;
}

std::optional<Departure> Tracker::find(const ComputedElements &results) const {
  const std::vector<bool> isUsed = findUsed(results);
  auto isWrong = [&](const Maker &maker) {
    return !maker.isPart && isUsed[static_cast<size_t>(&maker - makers.data())];
  };
  auto isFirst = [&](const Maker &maker) { return isWrong(maker) && !isCompleted(maker); };
  auto first = std::find_if(makers.begin(), makers.end(), isFirst);
  if (first == makers.end())
    return std::nullopt;
  // Ranks run at once, so which of them comes first is chance: the answer names the lowest.
  const Program &program = programOf(first->rank);
  const int64_t op = first->op;
  int64_t ranks = 0;
  for (auto maker = makers.begin(); maker != makers.end(); ++maker) {
    if (!isWrong(*maker) || maker->op != op || &programOf(maker->rank) != &program)
      continue;
    ++ranks;
    if (isFirst(*maker) && maker->rank < first->rank)
      first = maker;
  }
  return Departure{nameOf(first->rank, first->op),
                   first->rank,
                   ranks,
                   first->before < 0 ? "" : nameOf(first->rank, first->before),
                   takerOf(first->next),
                   takerOf(first->after),
                   causeOf(*first)};
}

} // namespace

std::string Departure::text() const {
  return "values depart from the reference's at " + op + " on rank " + std::to_string(rank) +
         (ranks > 1 ? " and " + std::to_string(ranks - 1) + (ranks > 2 ? " others" : " other") : "") +
         (before.empty() ? "" : ", after " + before) + (cause.empty() ? "" : ": " + cause) +
         (next.empty() ? "; no call takes it" : "; it goes to " + next) +
         (after.empty() || after == next ? "" : " and to " + after);
}

Status findDeparture(const Plan &plan, const Options &options, const Tensors &inputs, const Routing &routing,
                     std::optional<Departure> &departure) {
  ComputedElements right;
  RunResult reference, again;
  Routing its = routing.repeated(), own = routing.repeated();
  RunExtras collect;
  collect.observe = [&](std::span<const moert_ran> calls) {
    for (const moert_ran &call : calls)
      for (const moert_operand &operand : operandsOf(call))
        right.add(fieldsOf(operand));
  };
  MOERT_RETURN_IF_ERROR(runPrograms(plan, true, options, inputs, &its, nullptr, reference, collect));
  Tracker tracker(plan, right);
  RunExtras follow;
  follow.observe = [&](std::span<const moert_ran> calls) { tracker.follow(calls); };
  MOERT_RETURN_IF_ERROR(runPrograms(plan, false, options, inputs, &own, nullptr, again, follow));
  ComputedElements results;
  for (const auto &[name, tensor] : again.results)
    results.add(fieldsOf({tensor.as<char>(), tensor.bytes(), tensor.dtype, 0}));
  for (const auto &[name, parts] : again.unlike)
    for (const auto &[rank, part] : parts)
      results.add(fieldsOf({part.data(), static_cast<int64_t>(part.size()), kFieldType, 0}));
  departure = tracker.find(results);
  return {};
}

} // namespace moert::run
