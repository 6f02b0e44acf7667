//===- Collectives.cpp - one member's share of a collective ---------------===//

#include "host/Collectives.h"

#include <algorithm>
#include <cstring>

namespace moert::host {
namespace {

/// A value cut along `dim` into `parts`: `outer` runs of `run` bytes for each part.
struct Cut {
  int64_t outer = 1;
  int64_t run = 0;

  Cut(const View &whole, int64_t dim, int64_t parts) {
    for (int64_t i = 0; i < dim; ++i)
      outer *= whole.dims[static_cast<size_t>(i)];
    int64_t pieces = outer * parts;
    run = pieces ? whole.bytes() / pieces : 0;
  }
};

void copyBytes(char *to, const char *from, int64_t bytes) {
  if (to != from && bytes > 0)
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

/// Elements a member sums of `count`: the same cut on all members, so that each element is summed by one of them.
std::pair<int64_t, int64_t> segment(int64_t count, int64_t member, int64_t size) {
  return {count * member / size, count * (member + 1) / size};
}

char *advanced(const View &view, int64_t elements) {
  return view.as<char>() + elements * static_cast<int64_t>(dtypeSize(view.dtype));
}

std::vector<const void *> inputsFrom(Calls calls, int64_t element) {
  std::vector<const void *> inputs;
  for (const Call *call : calls)
    inputs.push_back(advanced(call->views[0], element));
  return inputs;
}

float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Sums block by block in a buffer of its own, because `out` may be one of the sources.
template <class T, class Sum, class Load, class Store>
void sumBlocks(std::span<const void *const> sources, void *out, int64_t count, Load load, Store store) {
  constexpr int64_t kBlock = 1024;
  Sum sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t length = std::min(kBlock, count - begin);
    for (size_t i = 0; i < sources.size(); ++i) {
      const T *source = static_cast<const T *>(sources[i]) + begin;
      for (int64_t k = 0; k < length; ++k)
        sum[k] = i ? sum[k] + load(source[k]) : load(source[k]);
    }
    T *to = static_cast<T *>(out) + begin;
    for (int64_t k = 0; k < length; ++k)
      to[k] = store(sum[k]);
  }
}

template <class T, class Sum = T> void sumPlain(std::span<const void *const> sources, void *out, int64_t count) {
  sumBlocks<T, Sum>(
      sources, out, count, [](T value) { return static_cast<Sum>(value); },
      [](Sum sum) { return static_cast<T>(sum); });
}

Status allGather(Calls calls, int64_t member) {
  const View &out = calls[static_cast<size_t>(member)]->views[1];
  auto size = static_cast<int64_t>(calls.size());
  Cut cut(out, calls[0]->ints[0], size);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t o = 0; o < cut.outer; ++o)
      copyBytes(out.as<char>() + (o * size + i) * cut.run,
                calls[static_cast<size_t>(i)]->views[0].as<char>() + o * cut.run, cut.run);
  return {};
}

Status reduceScatter(Calls calls, int64_t member) {
  const View &in = calls[0]->views[0], &out = calls[static_cast<size_t>(member)]->views[1];
  auto size = static_cast<int64_t>(calls.size());
  Cut cut(in, calls[0]->ints[0], size);
  int64_t run = cut.run / static_cast<int64_t>(dtypeSize(in.dtype));
  std::vector<const void *> inputs = inputsFrom(calls, member * run);
  for (int64_t o = 0; o < cut.outer; ++o) {
    if (Status status = sumInOrder(inputs, advanced(out, o * run), run, in.dtype); !status.ok())
      return status;
    for (const void *&input : inputs)
      input = static_cast<const char *>(input) + size * cut.run;
  }
  return {};
}

/// The elements that take part: all, or those of the used rows.
Status reducedElements(Calls calls, int64_t member, int64_t &elements) {
  const Call &call = *calls[static_cast<size_t>(member)];
  elements = call.views[0].elements();
  if (!call.views[1])
    return {};
  int64_t rows = usedRows(call), room = call.views[0].dims[0];
  if (rows < 0 || rows > room)
    return Status::error(MOERT_ERROR_OVERFLOW, "counts add up to " + std::to_string(rows) +
                                                   " rows, but there is room for " + std::to_string(room));
  if (int64_t first = usedRows(*calls[0]); first != rows)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "expected all members' counts to add up to the same number of rows, "
                         "but member 0 has " +
                             std::to_string(first) + " and member " + std::to_string(member) + " has " +
                             std::to_string(rows));
  elements = room ? elements / room * rows : 0;
  return {};
}

/// Each member sums one segment for all; then they take each other's.
Status allReduce(Calls calls, int64_t member, int phase) {
  int64_t count;
  if (Status status = reducedElements(calls, member, count); !status.ok())
    return status;
  auto size = static_cast<int64_t>(calls.size());
  const View &out = calls[static_cast<size_t>(member)]->views[2];
  if (phase == 0) {
    auto [begin, end] = segment(count, member, size);
    return sumInOrder(inputsFrom(calls, begin), advanced(out, begin), end - begin, out.dtype);
  }
  for (int64_t i = 0; i < size; ++i) {
    auto [begin, end] = segment(count, i, size);
    if (i != member)
      copyBytes(advanced(out, begin), advanced(calls[static_cast<size_t>(i)]->views[2], begin),
                (end - begin) * static_cast<int64_t>(dtypeSize(out.dtype)));
  }
  return {};
}

/// Each member sums one segment into the root's output; zeros go out only when all inputs have been read.
Status reduce(Calls calls, int64_t member, int phase) {
  int64_t root = calls[0]->ints[0];
  if (phase == 1) {
    const View &out = calls[static_cast<size_t>(member)]->views[1];
    if (member != root)
      std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
    return {};
  }
  const View &out = calls[static_cast<size_t>(root)]->views[1];
  auto [begin, end] = segment(out.elements(), member, static_cast<int64_t>(calls.size()));
  return sumInOrder(inputsFrom(calls, begin), advanced(out, begin), end - begin, out.dtype);
}

/// Copies `box` elements from one place of a value into another's, innermost dimension at once.
void copyBox(const View &in, std::array<int64_t, 4> from, const View &out, std::array<int64_t, 4> to,
             const std::array<int64_t, 4> &box, int64_t dim, int64_t inOffset, int64_t outOffset) {
  auto d = static_cast<size_t>(dim);
  inOffset = inOffset * in.dims[d] + from[d];
  outOffset = outOffset * out.dims[d] + to[d];
  auto width = static_cast<int64_t>(dtypeSize(in.dtype));
  if (dim + 1 == in.rank)
    return copyBytes(out.as<char>() + outOffset * width, in.as<char>() + inOffset * width, box[d] * width);
  // Where all of the inner dimensions is copied, the rest is one run.
  int64_t inner = 1;
  bool whole = true;
  for (size_t k = d + 1; k < static_cast<size_t>(in.rank); ++k) {
    whole &= box[k] == in.dims[k] && box[k] == out.dims[k];
    inner *= box[k];
  }
  if (whole)
    return copyBytes(out.as<char>() + outOffset * inner * width, in.as<char>() + inOffset * inner * width,
                     box[d] * inner * width);
  for (int64_t i = 0; i < box[d]; ++i)
    copyBox(in, from, out, to, box, dim + 1, inOffset + i, outOffset + i);
}

Status allToAll(Calls calls, int64_t member) {
  const Call &mine = *calls[static_cast<size_t>(member)];
  auto split = static_cast<size_t>(mine.ints[0]), concat = static_cast<size_t>(mine.ints[1]);
  std::array<int64_t, 4> box = mine.views[0].dims;
  box[split] /= static_cast<int64_t>(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    std::array<int64_t, 4> from{}, to{};
    from[split] = member * box[split];
    to[concat] = static_cast<int64_t>(i) * box[concat];
    copyBox(calls[i]->views[0], from, mine.views[1], to, box, 0, 0, 0);
  }
  return {};
}

Status broadcast(Calls calls, int64_t member) {
  const View &in = calls[static_cast<size_t>(calls[0]->ints[0])]->views[0];
  copyBytes(calls[static_cast<size_t>(member)]->views[1].as<char>(), in.as<char>(), in.bytes());
  return {};
}

} // namespace

Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    sumPlain<float>(sources, out, count);
    return {};
  case MOERT_F64:
    sumPlain<double>(sources, out, count);
    return {};
  case MOERT_I32:
    // Unsigned, because the overflow of a signed sum is undefined.
    sumPlain<uint32_t>(sources, out, count);
    return {};
  case MOERT_BF16:
    sumBlocks<uint16_t, float>(sources, out, count, fromBf16, toBf16);
    return {};
  default:
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "cannot sum values of dtype " + std::to_string(dtype));
  }
}

int collectivePhases(Kind kind) { return kind == Kind::AllReduce || kind == Kind::Reduce ? 2 : 1; }

Status pullCollective(Calls calls, int64_t member, int phase, const Group &group, int64_t instance) {
  switch (calls[0]->kind) {
  case Kind::AllGather:
    return allGather(calls, member);
  case Kind::ReduceScatter:
    return reduceScatter(calls, member);
  case Kind::AllReduce:
    return allReduce(calls, member, phase);
  case Kind::AllToAll:
    return allToAll(calls, member);
  case Kind::AllToAllV:
    return pullAllToAllV(calls, member);
  case Kind::Broadcast:
    return broadcast(calls, member);
  case Kind::Reduce:
    return reduce(calls, member, phase);
  case Kind::AssumeReplicated:
    return compareReplicas(calls, member, group, instance);
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a collective");
  }
}

} // namespace moert::host
