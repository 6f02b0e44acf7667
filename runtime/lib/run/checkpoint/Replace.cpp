//===- Replace.cpp - files that one job at a time replaces ----------------===//

#include "run/checkpoint/Replace.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

Status failed(const std::string &path, const std::string &what) { return invalid("'" + path + "': " + what); }

std::string reason() { return std::strerror(errno); }

std::string partialOf(const std::string &path) { return path + kPartial; }

/// Name of this process for others that find the lock taken, "process 17 on 'host'".
std::string ownName() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on '" + host + "'";
}

std::string holderOf(int file) {
  char text[512];
  ssize_t count = ::pread(file, text, sizeof text, 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "another process";
}

/// Whether `path` still names the open file. The process that had the lock before removes it.
bool isNamed(int file, const std::string &path) {
  struct stat open, named;
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

} // namespace

Status targetOf(const std::string &path, std::string &target) {
  std::error_code error;
  fs::path file = path;
  constexpr int kMostLinks = 40;
  for (int links = 0; fs::is_symlink(file, error); ++links) {
    fs::path next = fs::read_symlink(file, error);
    if (error || links == kMostLinks)
      return failed(path, "cannot be written: too many symbolic links");
    file = file.parent_path() / next;
  }
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    return failed(path, "cannot be written: expected a file but it is a folder or a device");
  target = file.string();
  return {};
}

Status writePartial(const std::string &path, const std::function<Status(OutputFile &)> &write) {
  OutputFile file;
  Status status = file.open(partialOf(path));
  if (!status.ok())
    return status;
  status = write(file);
  if (status.ok())
    status = file.sync();
  // A partial file would fill the disk.
  if (Status closed = file.close(); status.ok())
    status = closed;
  if (!status.ok())
    std::remove(partialOf(path).c_str());
  return status;
}

Status renamePartial(const std::string &path) {
  if (std::rename(partialOf(path).c_str(), path.c_str()) == 0)
    return {};
  return failed(path, "cannot be written: " + reason());
}

Status syncFolder(const std::string &path) {
  int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return failed(path, "cannot be opened: " + reason());
  // Some file systems cannot sync folders, and need not.
  bool isDone = ::fsync(folder) == 0 || errno == EINVAL;
  Status status = isDone ? Status{} : failed(path, "cannot be written: " + reason());
  ::close(folder);
  return status;
}

Status FileLocks::take(const std::string &path, std::ostream &log) {
  std::string name = path + ".lock";
  for (;;) {
    int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
      return failed(name, "cannot be written: " + reason());
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
      if (isNamed(file, name)) {
        locks.push_back({file, name});
        std::string text = ownName();
        bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) >= 0;
        return written ? Status{} : failed(name, "cannot be written: " + reason());
      }
    } else if (errno == EWOULDBLOCK) {
      Status status = failed(path, holderOf(file) + " writes this file; give each job a file of its own, or wait for "
                                                    "the other job to end");
      ::close(file);
      return status;
    } else if (errno != EINTR) {
      log << "moe-run: warning: '" << name << "' cannot be locked: " << reason() << "; no other job may write '" << path
          << "'\n";
      ::close(file);
      std::remove(name.c_str());
      return {};
    }
    ::close(file);
  }
}

FileLocks::~FileLocks() {
  for (const Lock &lock : locks) {
    // The file is removed before the lock is free, so that nobody takes it in between.
    ::unlink(lock.path.c_str());
    ::close(lock.file);
  }
}

} // namespace moert::run
