// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/file.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <doctest/doctest.h>

#include <tessera/io/growing_file.hpp>
#include <tessera/io/mapped.hpp>

namespace file_test {

namespace {

using namespace tessera;
using namespace tessera::io;
using doctest::Contains;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}
std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Folder {
public:
    Folder() {
        char name[] = "/tmp/tessera file test \xC3\xBC XXXXXX";
        REQUIRE(::mkdtemp(name) != nullptr);
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        for (const auto& name : all()) ::unlink((path_ + "/" + name).c_str());
        ::rmdir(path_.c_str());
    }

    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }
    std::vector<std::string> all() const {  // hidden files too
        return io::detail::names_in(path_, [](std::string_view) { return true; });
    }

private:
    std::string path_;
};

// Runs `body` in a process of its own, where limits and signals harm nobody; its answer is the exit status.
int in_child(const std::function<int()>& body) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try {
            ::_exit(body());
        } catch (...) {
            ::_exit(99);
        }
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) REQUIRE(errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// 0 if writing fails with an IoError that says `sentence`.
int failing_write(const std::string& path, std::size_t size, const char* sentence) {
    try {
        write_file_atomically(path, std::vector<std::byte>(size));
    } catch (const IoError& error) {
        return std::string(error.what()).find(sentence) != std::string::npos && error.path == path ? 0 : 2;
    }
    return 1;
}

}  // namespace

TEST_CASE("file: what is written is read, whatever the size, and replaces what was there") {
    const Folder folder;
    const std::string path = folder / "model bin";
    for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 1'000'000u}) {
        std::vector<std::byte> bytes(size);
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
        write_file_atomically(path, bytes);
        REQUIRE(read_file(path) == bytes);
    }
    CHECK(folder.all() == std::vector<std::string>{"model bin"});
}

TEST_CASE("file: a path without directories is beside us") {
    const Folder folder;
    CHECK(in_child([&] {
              if (::chdir(folder.path().c_str()) != 0) return 1;
              write_file_atomically("here", bytes_of("x"));
              return text_of(read_file("here")) == "x" ? 0 : 2;
          }) == 0);
    CHECK(folder.all() == std::vector<std::string>{"here"});
}

TEST_CASE("file: reading") {
    const Folder folder;
    write_file_atomically(folder / "ten", bytes_of("0123456789"));
    CHECK(text_of(read_file(folder / "ten", 10)) == "0123456789");
    CHECK_THROWS_WITH_AS(read_file(folder / "ten", 9), Contains("larger than the 9 bytes allowed"), IoError);
    CHECK_THROWS_WITH_AS(read_file(folder / "ten", 0), Contains("larger than"), IoError);
    CHECK_THROWS_WITH_AS(read_file(folder / "none"), Contains("No such file"), IoError);
    CHECK_THROWS_WITH_AS(read_file(folder.path()), Contains("Is a directory"), IoError);
    CHECK(!read_file("/proc/self/status").empty());  // a file that announces no size
}

TEST_CASE("file: what has no end is refused, and not after it has filled memory") {
    const Folder folder;
    for (const char* device : {"/dev/zero", "/dev/urandom", "/dev/null"})
        CHECK_THROWS_WITH_AS(read_file(device), Contains("is a device, which may have no end"), IoError);
    // A pipe is read to its end, up to a bound.
    const auto through_pipe = [&](std::size_t size, std::size_t cap) {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        const std::string from = "/proc/self/fd/" + std::to_string(ends[0]);
        const std::string sent(size, 'x');
        REQUIRE(::write(ends[1], sent.data(), size) == static_cast<::ssize_t>(size));
        ::close(ends[1]);
        const io::detail::Descriptor reader(ends[0]);
        return text_of(read_file(from, cap)) == sent;
    };
    CHECK(through_pipe(10'000, 10'000));
    CHECK(through_pipe(0, 10'000));
    CHECK_THROWS_WITH_AS(through_pipe(10'001, 10'000), Contains("larger than the 10000 bytes allowed"), IoError);
    CHECK(pipe_cap < file_cap);  // what is asked for is held to it
    // A named one into which nobody writes is not waited for.
    const std::string lonely = folder / "lonely";
    REQUIRE(::mkfifo(lonely.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS(read_file(lonely), Contains("is a pipe into which nobody writes"), IoError);
    CHECK_THROWS_WITH_AS(io::MappedFile{lonely}, Contains("not a regular file"), IoError);
    // One with a writer is, whether it has written by then or not.
    CHECK(in_child([&] {
              const int end = ::open(lonely.c_str(), O_RDWR);
              if (::fork() == 0) {
                  const bool sent = ::write(end, "late", 4) == 4;
                  ::_exit(sent ? 0 : 1);
              }
              ::close(end);
              return text_of(read_file(lonely)) == "late" ? 0 : 1;
          }) == 0);
    // One into which somebody writes for ever.
    CHECK(in_child([&] {
              int ends[2];
              if (::pipe(ends) != 0) return 1;
              if (::fork() == 0) {
                  ::close(ends[0]);
                  ::signal(SIGPIPE, SIG_DFL);
                  const std::vector<char> endless(1 << 16);
                  for (;;)
                      if (::write(ends[1], endless.data(), endless.size()) < 0) ::_exit(0);
              }
              ::close(ends[1]);
              try {
                  read_file("/proc/self/fd/" + std::to_string(ends[0]), 1'000'000);
              } catch (const IoError& e) {
                  return std::string(e.what()).find("larger than the 1000000 bytes") != std::string::npos ? 0 : 2;
              }
              return 3;
          }) == 0);
}

TEST_CASE("file: a growing file shows whole pieces, and replaces what was there with the first") {
    const Folder folder;
    const std::string path = folder / "rounds";
    write_file_atomically(path, bytes_of("an earlier run\n"));
    {
        GrowingFile file(path);
        CHECK(text_of(read_file(path)) == "an earlier run\n");
        std::string expected;
        for (const char* piece : {"one\n", "two\nthree\n", "", "four\n"}) {
            file.append(piece);
            expected += piece;
            CHECK(text_of(read_file(path)) == expected);
        }
        file.sync();
    }
    CHECK(folder.all() == std::vector<std::string>{"rounds"});
    CHECK_THROWS_AS(GrowingFile(folder / "none/rounds").append("x"), IoError);
    CHECK_THROWS_WITH_AS(GrowingFile("/dev/null").append("x"), Contains("not a regular file"), IoError);
}

TEST_CASE("file: a piece for which there is no room leaves the pieces before it, and the next may fit") {
    const Folder folder;
    const std::string path = folder / "rounds";
    CHECK(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const ::rlimit limit{100, 100};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              GrowingFile file(path);
              file.append(std::string(79, 'a') + "\n");
              try {
                  file.append(std::string(79, 'b') + "\n");  // of which 20 bytes would fit
                  return 2;
              } catch (const IoError&) {
              }
              file.append(std::string(9, 'c') + "\n");
              return 0;
          }) == 0);
    CHECK(text_of(read_file(path)) == std::string(79, 'a') + "\n" + std::string(9, 'c') + "\n");
}

TEST_CASE("file: a kill leaves every piece that was written") {
    const Folder folder;
    const std::string path = folder / "rounds";
    CHECK(in_child([&] {
              GrowingFile file(path);
              file.append("one\n");
              file.append("two\n");
              ::raise(SIGKILL);
              return 0;
          }) == 100 + SIGKILL);
    CHECK(text_of(read_file(path)) == "one\ntwo\n");
}

TEST_CASE("file: a sweep takes what the dead left and nothing that a living writer holds") {
    const Folder folder;
    CHECK(in_child([&] {  // killed while it writes
              const io::detail::Temporary now(io::detail::place_of(folder / "model"), "model");
              ::raise(SIGKILL);
              return 0;
          }) == 100 + SIGKILL);
    REQUIRE(folder.all().size() == 1);
    const std::string left = folder.all()[0];
    const io::detail::Place place = io::detail::place_of(folder / "model");
    {
        io::detail::Temporary ours(place, "model");
        int ready[2], leave[2];
        REQUIRE((::pipe(ready) == 0 && ::pipe(leave) == 0));
        const ::pid_t writer = ::fork();
        if (writer == 0) {  // another process, at the same moment
            ::close(leave[1]);
            {
                io::detail::Temporary theirs(place, "model");
                theirs.file().close();  // written, and not yet renamed
                char word = 0;
                (void)!::write(ready[1], &word, 1);
                (void)!::read(leave[0], &word, 1);
            }
            ::_exit(0);
        }
        char word = 0;
        REQUIRE(::read(ready[0], &word, 1) == 1);
        CHECK(folder.all().size() == 3);
        sweep_beside(folder / "model");
        CHECK(folder.all().size() == 2);
        CHECK(std::ranges::count(folder.all(), left) == 0);
        ::close(leave[1]);
        REQUIRE(::waitpid(writer, nullptr, 0) == writer);
        for (const int end : {ready[0], ready[1], leave[0]}) ::close(end);
        CHECK(ours.rename_to("model"));
    }
    sweep_beside(folder / "model");
    CHECK(folder.all() == std::vector<std::string>{"model"});
    // A name that only looks like one of ours, and is no file, is left alone.
    REQUIRE(::mkdir((folder / ".tessera-1-1.tmp").c_str(), 0700) == 0);
    sweep_beside(folder / "model");
    REQUIRE(::rmdir((folder / ".tessera-1-1.tmp").c_str()) == 0);
}

TEST_CASE("file: a link is followed, permissions stay") {
    const Folder folder;
    write_file_atomically(folder / "target", bytes_of("old"));
    REQUIRE(::chmod((folder / "target").c_str(), 0600) == 0);
    REQUIRE(::symlink("target", (folder / "link").c_str()) == 0);
    write_file_atomically(folder / "link", bytes_of("new"));
    CHECK(text_of(read_file(folder / "target")) == "new");
    struct ::stat seen {};
    REQUIRE(::lstat((folder / "link").c_str(), &seen) == 0);
    CHECK(S_ISLNK(seen.st_mode));
    REQUIRE(::stat((folder / "target").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 0777) == 0600);

    REQUIRE(remove_file(folder / "target"));
    CHECK_THROWS_WITH_AS(write_file_atomically(folder / "link", {}), Contains("leads nowhere"), IoError);
    remove_file(folder / "link");
}

TEST_CASE("file: places where nothing can be written say so early") {
    const Folder folder;
    write_file_atomically(folder / "file", bytes_of("x"));
    const std::vector<std::pair<std::string, const char*>> places{
        {folder / "file/below", "Not a directory"},
        {folder / "none/below", "No such file"},
        {folder.path(), "not a regular file"},
        {folder.path() + "/", "does not name a file"},
        {folder / std::string(300, 'n'), "File name too long"},
        {"/dev/null", "not a regular file"},
        {"/dev/full", "not a regular file"},
        {"/proc/tessera", "/proc/tessera"},
        {"", "does not name a file"}};
    for (const auto& [path, sentence] : places) {
        CAPTURE(path);
        CHECK_THROWS_WITH_AS(check_writable(path), Contains(sentence), IoError);
        CHECK_THROWS_WITH_AS(write_file_atomically(path, bytes_of("y")), Contains(sentence), IoError);
    }
    CHECK_NOTHROW(check_writable(folder / "file"));
    CHECK_NOTHROW(check_writable(folder / "fresh"));
    CHECK(folder.all() == std::vector<std::string>{"file"});
    CHECK(text_of(read_file(folder / "file")) == "x");
    CHECK_THROWS_AS(write_file_atomically("/dev/null", {}), IoError);
    struct ::stat seen {};
    CHECK((::stat("/dev/null", &seen) == 0 && S_ISCHR(seen.st_mode)));
}

TEST_CASE("file: a full disk leaves the old file and no litter") {
    const Folder folder;
    write_file_atomically(folder / "model", bytes_of("old"));
    CHECK(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const ::rlimit limit{10'000, 10'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
              return failing_write(folder / "model", 10'001, "File too large");
          }) == 0);
    CHECK(text_of(read_file(folder / "model")) == "old");
    CHECK(folder.all() == std::vector<std::string>{"model"});

    const io::detail::Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    CHECK_THROWS_WITH_AS(io::detail::write_all(full.get(), bytes_of("x"), "disk"),
                         Contains("disk: cannot be written: No space left"), IoError);
}

TEST_CASE("file: interrupted and short writes go on") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const io::detail::Descriptor source(ends[0]);
    io::detail::Descriptor sink(ends[1]);
    std::vector<std::byte> bytes(1'000'000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);

    const ::pid_t writer = ::fork();
    REQUIRE(writer >= 0);
    if (writer == 0) {
        struct ::sigaction action {};
        action.sa_handler = [](int) {};
        const ::itimerval often{{0, 200}, {0, 200}};
        if (::sigaction(SIGALRM, &action, nullptr) != 0 || ::setitimer(ITIMER_REAL, &often, nullptr) != 0) ::_exit(3);
        try {
            io::detail::write_all(sink.get(), bytes, "pipe");
        } catch (const IoError&) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    sink.close();
    std::vector<std::byte> got;
    std::byte part[1500];
    for (;;) {
        const auto size = ::read(source.get(), part, sizeof part);
        if (size <= 0) break;
        got.insert(got.end(), part, part + size);
        ::usleep(50);  // so that the pipe fills and the writer has to wait
    }
    int status = 0;
    REQUIRE(::waitpid(writer, &status, 0) == writer);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK(got == bytes);
}

#ifdef __linux__
namespace {

// From here on in this process, system call `number` fails with `error`.
bool forbid(unsigned number, unsigned error) {
    ::sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(::seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const ::sock_fprog filter{4, program};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

TEST_CASE("file: each system call failing with each error leaves the old file and no litter") {
    const Folder folder;
    write_file_atomically(folder / "model", bytes_of("old"));
    struct Fault {
        unsigned call;
        const char* sentence;
    };
    const Fault faults[] = {{SYS_openat, "its directory cannot be opened"},
                            {SYS_write, "cannot be written"},
                            {SYS_fsync, "cannot be synced"},
                            {SYS_renameat, "cannot be replaced"}};
    for (const Fault& fault : faults)
        for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, EACCES}) {
            CAPTURE(fault.sentence);
            CAPTURE(error);
            const int answer = in_child([&] {
                if (!forbid(fault.call, static_cast<unsigned>(error))) return 77;
                return failing_write(folder / "model", 100, fault.sentence);
            });
            if (answer == 77) {
                MESSAGE("no seccomp here: faults are not injected");
                return;
            }
            CHECK(answer == 0);
            CHECK(text_of(read_file(folder / "model")) == "old");
            CHECK(folder.all() == std::vector<std::string>{"model"});
        }
}

TEST_CASE("file: a writer killed midway leaves the old file, and a sweep removes what it left") {
    const Folder folder;
    write_file_atomically(folder / "model", bytes_of("old"));
    CHECK(in_child([&] {
              ::signal(SIGXFSZ, SIG_DFL);  // kills at the first byte past the limit
              const ::rlimit none{0, 0}, limit{1000, 1000};
              if (::setrlimit(RLIMIT_CORE, &none) != 0 || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
              return failing_write(folder / "model", 5000, "");
          }) == 100 + SIGXFSZ);
    CHECK(text_of(read_file(folder / "model")) == "old");
    CHECK(folder.all().size() == 2);
    CHECK(list_files(folder.path()) == std::vector<std::string>{"model"});
    const DirectoryLock lock(folder.path());
    sweep_temporaries(folder.path());
    CHECK(folder.all() == std::vector<std::string>{".tessera-lock", "model"});
}
#endif

TEST_CASE("file: a temporary name that is taken is passed over") {
    const Folder folder;
    const io::detail::Place place = io::detail::place_of(folder / "model");
    std::string name;
    {
        const io::detail::Temporary now(place, "model");
        name = folder.all().at(0);
    }
    const std::size_t digits = name.rfind('-') + 1;
    const unsigned long count = std::stoul(name.substr(digits));
    for (unsigned long next = count + 1; next <= count + 3; ++next) {
        const std::string taken = folder / (name.substr(0, digits) + std::to_string(next) + ".tmp");
        const io::detail::Descriptor file(::creat(taken.c_str(), 0600));
    }
    REQUIRE(folder.all().size() == 3);
    write_file_atomically(folder / "model", bytes_of("x"));
    CHECK(folder.all().size() == 4);
    sweep_temporaries(folder.path());
    CHECK(folder.all() == std::vector<std::string>{"model"});
}

TEST_CASE("file: directories") {
    const Folder folder;
    make_directories(folder / "a/b//c/");
    make_directories(folder / "a/b");
    CHECK(exists(folder / "a/b/c"));
    CHECK(!exists(folder / "a/x"));
    CHECK(!exists(folder / "a/x/y"));
    CHECK_THROWS_AS(exists(folder / std::string(300, 'n')), IoError);
    write_file_atomically(folder / "a/b/2", {});
    write_file_atomically(folder / "a/b/10", {});
    write_file_atomically(folder / "a/b/.hidden", {});
    CHECK(list_files(folder / "a/b") == std::vector<std::string>{"10", "2"});
    CHECK(!exists(folder / "a/b/2/below"));
    CHECK_THROWS_WITH_AS(make_directories(folder / "a/b/2/below"), Contains("a/b/2: cannot be made"), IoError);
    CHECK_THROWS_WITH_AS(make_directories(folder / "a/b/2"), Contains("File exists"), IoError);
    CHECK_THROWS_WITH_AS(list_files(folder / "none"), Contains("cannot be listed"), IoError);
    CHECK(remove_file(folder / "a/b/2"));
    CHECK(!remove_file(folder / "a/b/2"));
    CHECK_THROWS_WITH_AS(remove_file(folder / "a/b"), Contains("cannot be removed"), IoError);
    remove_file(folder / "a/b/10");
    remove_file(folder / "a/b/.hidden");
    for (const char* name : {"a/b/c", "a/b", "a"}) CHECK(::rmdir((folder / name).c_str()) == 0);
}

TEST_CASE("file: one holder per directory") {
    const Folder folder;
    const std::string sentence =
        folder.path() + ": is in use by another run (process " + std::to_string(::getpid()) + ")";
    {
        DirectoryLock lock(folder.path());
        CHECK_THROWS_WITH_AS(DirectoryLock(folder.path()), sentence.c_str(), IoError);
        const DirectoryLock moved = std::move(lock);
        CHECK(in_child([&] {
                  try {
                      const DirectoryLock second(folder.path());
                  } catch (const IoError& error) {
                      return error.what() == sentence ? 0 : 2;
                  }
                  return 1;
              }) == 0);
    }
    CHECK_NOTHROW(DirectoryLock(folder.path()));
    // A holder that dies lets go.
    CHECK(in_child([&] {
              const DirectoryLock held(folder.path());
              ::_exit(0);
              return 1;
          }) == 0);
    CHECK_NOTHROW(DirectoryLock(folder.path()));
    CHECK(list_files(folder.path()).empty());
    CHECK_THROWS_WITH_AS(DirectoryLock(folder / "none"), Contains("cannot be locked"), IoError);
}

}  // namespace file_test
