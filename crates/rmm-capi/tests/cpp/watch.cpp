// What `rmm watch` is told, from C++.

#include "check.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using rmm_rs::device_resource;
using rmm_rs::host_device_resource;

namespace {

/// A folder for the socket, which no other program of this user has.
std::string folder()
{
  static std::string const made = [] {
    char name[] = "/tmp/rmm-watch-XXXXXX";
    std::string const path{mkdtemp(name)};
    setenv("XDG_RUNTIME_DIR", path.c_str(), 1);
    return path;
  }();
  return made;
}

std::string socket_path() { return folder() + "/rmm/" + std::to_string(getpid()) + ".sock"; }

/// What this process answers to a watcher: nothing if it does not listen.
std::string figures()
{
  int const socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
  std::string answer;
  if (connect(socket, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0) {
    std::string const request{"figures\n"};
    CHECK(write(socket, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
    char part[4096];
    for (ssize_t length = 0; (length = read(socket, part, sizeof part)) > 0;) {
      answer.append(part, static_cast<std::size_t>(length));
    }
  }
  close(socket);
  return answer;
}

bool says(std::string const& answer, char const* part)
{
  return answer.find(part) != std::string::npos;
}

}  // namespace

TEST(a_program_is_watched_from_its_call_to_its_end)
{
  CHECK(figures().empty());
  auto const workers = device_resource::pool(device_resource::cuda_resource());
  void* const memory = workers.allocate(legacy, 1000);
  rmm_rs::watch_resource("workers", workers);
  CHECK(figures().empty());

  rmm_rs::watch();
  rmm_rs::watch();
  auto const answer = figures();
  CHECK(says(answer, "\"pool\":\"workers\"") && says(answer, "\"live_bytes\":1024"));

  // Of host memory, and under a name that is taken.
  auto const host = host_device_resource::pool(host_device_resource::pinned_resource());
  rmm_rs::watch_resource("workers", host);
  CHECK(says(figures(), "\"workers\"") && !says(figures(), "\"live_bytes\":1024"));
  workers.deallocate(legacy, memory, 1000);

  rmm_rs::end_watching();
  rmm_rs::end_watching();
  CHECK(figures().empty());
}

TEST(the_name_goes_with_the_pool)
{
  rmm_rs::watch();
  {
    auto const pool = device_resource::pool(device_resource::cuda_resource());
    rmm_rs::watch_resource("short", pool);
    CHECK(says(figures(), "\"short\""));
  }
  CHECK(!says(figures(), "\"short\""));
  rmm_rs::end_watching();
}

TEST(what_cannot_be_watched_is_refused)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  auto null = pool;
  auto const taken = std::move(null);
  THROWS(rmm_rs::invalid_argument, "", rmm_rs::watch_resource("moved from", null));

  // A folder that others can write to.
  auto const shared = folder() + "/shared";
  CHECK(mkdir(shared.c_str(), 0700) == 0 && mkdir((shared + "/rmm").c_str(), 0700) == 0);
  CHECK(chmod((shared + "/rmm").c_str(), 0777) == 0);
  setenv("XDG_RUNTIME_DIR", shared.c_str(), 1);
  THROWS(rmm_rs::logic_error, "rmm", rmm_rs::watch());
  setenv("XDG_RUNTIME_DIR", folder().c_str(), 1);
}

int main()
{
  (void)folder();
  auto const status = check::run_all();
  for (auto const* const path : {"/shared/rmm", "/shared", "/rmm", ""}) {
    rmdir((folder() + path).c_str());
  }
  return status;
}
