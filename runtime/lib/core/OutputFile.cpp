//===- OutputFile.cpp - a file to write, of which no error is lost --------===//

#include "core/OutputFile.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace moert {

OutputFile::Buffer::Buffer() : pending(1 << 16) { setp(pending.data(), pending.data() + pending.size()); }

OutputFile::Buffer::~Buffer() {
  sync();
  if (file > STDERR_FILENO)
    ::close(file);
}

/// Writes nothing more after an error: a file with a gap is worse than one that is cut.
bool OutputFile::Buffer::write(const char *bytes, size_t count) {
  while (count > 0 && !firstError) {
    ssize_t written = ::write(file, bytes, count);
    if (written < 0 && errno != EINTR)
      keep(errno);
    if (written > 0) {
      bytes += written;
      count -= static_cast<size_t>(written);
    }
  }
  return !firstError;
}

int OutputFile::Buffer::sync() {
  bool done = write(pbase(), static_cast<size_t>(pptr() - pbase()));
  setp(pending.data(), pending.data() + pending.size());
  return done ? 0 : -1;
}

int OutputFile::Buffer::overflow(int character) {
  if (sync() != 0)
    return traits_type::eof();
  if (character != traits_type::eof())
    sputc(static_cast<char>(character));
  return traits_type::not_eof(character);
}

std::streamsize OutputFile::Buffer::xsputn(const char *bytes, std::streamsize count) {
  if (count < epptr() - pptr())
    return std::streambuf::xsputn(bytes, count);
  return sync() == 0 && write(bytes, static_cast<size_t>(count)) ? count : 0;
}

OutputFile::OutputFile() : std::ostream(nullptr) { rdbuf(&buffer); }

OutputFile &OutputFile::standardOutput() {
  static OutputFile file;
  file.buffer.file = STDOUT_FILENO;
  file.name = "standard output";
  return file;
}

Status OutputFile::open(const std::string &path) {
  name = "'" + path + "'";
  buffer.firstError = 0;
  clear();
  buffer.file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (buffer.file < 0)
    buffer.keep(errno);
  return status();
}

Status OutputFile::status() const {
  return buffer.firstError ? invalid(name, ": cannot be written: ", std::strerror(buffer.firstError)) : Status{};
}

Status OutputFile::writeOut() {
  buffer.pubsync();
  return status();
}

Status OutputFile::sync() {
  if (buffer.pubsync() == 0 && ::fsync(buffer.file) != 0)
    buffer.keep(errno);
  return status();
}

Status OutputFile::close() {
  buffer.pubsync();
  // Some file systems report only now that there was no room.
  if (buffer.file >= 0 && ::close(buffer.file) != 0)
    buffer.keep(errno);
  buffer.file = -1;
  return status();
}

void keepStandardFiles() {
  // Opened with the opposite access, so that reading from or writing to it fails as before.
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file)
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF &&
        ::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY) != file)
      return;
}

} // namespace moert
