//===- TokenData.cpp - a file of token ids as batches ---------------------===//

#include "run/TokenData.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <regex>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert::run {
namespace {

template <class T> int64_t readAs(const char *id) {
  T value;
  std::memcpy(&value, id, sizeof value);
  return static_cast<int64_t>(value);
}

constexpr TokenType kTypes[] = {{"bytes", "|u1", 1, readAs<uint8_t>},
                                {"uint16", "<u2", 2, readAs<uint16_t>},
                                {"int32", "<i4", 4, readAs<int32_t>},
                                {"uint32", "<u4", 4, readAs<uint32_t>},
                                {"int64", "<i8", 8, readAs<int64_t>}};

constexpr std::string_view kNpyMagic = "\x93NUMPY";

Status systemError(const std::string &path, const std::string &what) {
  return invalid("'" + path + "': " + what + ": " + std::strerror(errno));
}

} // namespace

std::string tokenTypeNames(const std::string &separator) {
  std::string names;
  for (const TokenType &type : kTypes)
    names += (names.empty() ? "" : separator) + std::string(type.name);
  return names;
}

MappedFile::~MappedFile() {
  if (address)
    ::munmap(const_cast<char *>(address), static_cast<size_t>(length));
  if (descriptor >= 0)
    ::close(descriptor);
}

Status MappedFile::open(const std::string &name) {
  path = name;
  struct stat facts = {};
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0)
    return systemError(path, "cannot be opened for reading");
  if (!S_ISREG(facts.st_mode))
    return invalid("'" + path + "': expected a regular file, which can be mapped into memory");
  length = facts.st_size;
  // An empty file cannot be mapped.
  if (length == 0)
    return {};
  void *mapped = ::mmap(nullptr, static_cast<size_t>(length), PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED)
    return systemError(path, "cannot be mapped into memory");
  address = static_cast<const char *>(mapped);
  ::madvise(mapped, static_cast<size_t>(length), MADV_RANDOM);
  return {};
}

Status MappedFile::checkSize() const {
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0)
    return systemError(path, "cannot be read");
  if (facts.st_size == length)
    return {};
  return invalid("'" + path + "': the file has " + std::to_string(facts.st_size) + " bytes now and had " +
                 std::to_string(length) + " when training began: keep it as it is while it is in use");
}

Status TokenData::error(const std::string &message) const { return invalid("'" + path + "': " + message); }

/// Parses the header, a Python dictionary: {'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }.
Status TokenData::parseNpy() {
  const std::string_view bytes(file.bytes(), static_cast<size_t>(file.size()));
  // The header's length has two bytes in version 1, and four in later versions.
  const size_t begin = bytes.size() > 6 && bytes[6] == 1 ? 10 : 12;
  if (bytes.size() < begin)
    return error("the header of the .npy file is cut off");
  const size_t length = static_cast<size_t>(begin == 10 ? readAs<uint16_t>(&bytes[8]) : readAs<uint32_t>(&bytes[8]));
  if (length > bytes.size() - begin)
    return error("the header of the .npy file is cut off");
  const std::string header(bytes.substr(begin, length));
  std::smatch descr, shape;
  if (!std::regex_search(header, descr, std::regex("'descr': *'([^']*)'")) ||
      !std::regex_search(header, shape, std::regex("'shape': *\\(([^)]*)\\)")))
    return error("expected a .npy file of one array of token ids but its header is " + header);
  auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto &t) { return descr[1] == t.descr; });
  if (found == std::end(kTypes))
    return error("expected token ids of type uint8, uint16, int32, uint32 or int64, little-endian, but the .npy file "
                 "has '" +
                 descr[1].str() + "': write ids.astype('<i4')");
  std::smatch rows;
  const std::string sizes = shape[1];
  if (!std::regex_match(sizes, rows, std::regex(" *([0-9]{1,18}) *, *")))
    return error("expected an array of one dimension but the .npy file has one of shape (" + sizes +
                 "): write ids.ravel()");
  const int64_t elements = std::stoll(rows[1]), rest = static_cast<int64_t>(bytes.size() - begin - length);
  if (rest % found->bytes != 0 || rest / found->bytes != elements)
    return error("expected " + std::to_string(elements) + " token ids of " + std::to_string(found->bytes) +
                 " bytes after the header but the file has " + std::to_string(rest) +
                 " bytes there: it was not written to its end, or something was added to it");
  type = found;
  first = &bytes[begin + length];
  count = elements;
  return {};
}

/// Checks that a text has no zero bytes, which arrays of ids are full of.
Status TokenData::checkText() const {
  constexpr int64_t kLooked = 65536;
  const int64_t looked = std::min(file.size(), kLooked);
  const void *zero = looked ? std::memchr(file.bytes(), 0, static_cast<size_t>(looked)) : nullptr;
  if (!zero)
    return {};
  return error("expected a text but byte " + std::to_string(static_cast<const char *>(zero) - file.bytes()) +
               " is 0: say what the file holds by --data-type (" + tokenTypeNames() + ")");
}

Status TokenData::findType(const std::string &name) {
  const bool isNpy = std::string_view(file.bytes(), static_cast<size_t>(file.size())).starts_with(kNpyMagic);
  if (isNpy) {
    MOERT_RETURN_IF_ERROR(parseNpy());
    if (!name.empty() && name != type->name)
      return error("expected ids of type " + name + ", as --data-type says, but the .npy file has " + type->name +
                   ": leave --data-type out");
    return {};
  }
  MOERT_RETURN_IF_ERROR(name.empty() ? checkText() : Status{});
  type = std::find_if(std::begin(kTypes), std::end(kTypes),
                      [&](auto &t) { return (name.empty() ? "bytes" : name) == t.name; });
  if (type == std::end(kTypes))
    return invalid("expected --data-type to be one of " + tokenTypeNames() + " but got '" + name + "'");
  if (file.size() % type->bytes != 0)
    return error("expected a multiple of the " + std::to_string(type->bytes) + " bytes of an id of type " + type->name +
                 " but the file has " + std::to_string(file.size()) +
                 " bytes: it was not written to its end, or --data-type is another one");
  first = file.bytes();
  count = file.size() / type->bytes;
  return {};
}

Status TokenData::open(const std::string &name, const std::string &typeName, const Request &requested) {
  path = name;
  request = requested;
  MOERT_RETURN_IF_ERROR(file.open(path));
  MOERT_RETURN_IF_ERROR(findType(typeName));
  if (count > request.step)
    return {};
  return error("expected at least " + std::to_string(request.step + 1) + " tokens (" +
               std::to_string(request.step / request.sequence) + " sequences of " + std::to_string(request.sequence) +
               " in a step, and the one that follows) but the file has " + std::to_string(count) +
               ": give more data, or compile the plan for fewer sequences");
}

Status TokenData::fill(int64_t step, Tensor &tokens, Tensor &labels) const {
  MOERT_RETURN_IF_ERROR(file.checkSize());
  const uint64_t starts = static_cast<uint64_t>(count - request.sequence);
  const uint64_t key = hashOf(hashOf(request.seed) ^ static_cast<uint64_t>(step));
  for (int64_t begin = 0; begin < request.step; begin += request.sequence) {
    const int64_t start = static_cast<int64_t>(hashOf(key ^ static_cast<uint64_t>(begin / request.sequence)) % starts);
    for (int64_t i = 0; i <= request.sequence; ++i) {
      const int64_t id = type->read(first + (start + i) * type->bytes);
      if (id < 0 || id >= request.vocabulary)
        return error("token " + std::to_string(id) + " at index " + std::to_string(start + i) +
                     " is not in the model's vocabulary of " + std::to_string(request.vocabulary) +
                     ": use the tokenizer of this model; the ids were read as " + type->name + ", see --data-type");
      if (i < request.sequence)
        tokens.as<int32_t>()[begin + i] = static_cast<int32_t>(id);
      if (i > 0)
        labels.as<int32_t>()[begin + i - 1] = static_cast<int32_t>(id);
    }
  }
  return {};
}

} // namespace moert::run
