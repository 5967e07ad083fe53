/* Makes the k-th write of a process fail, to see what becomes of its files. Linux, LD_PRELOAD.
 *
 * Counted are the calls of write, pwrite, ftruncate, fsync, fdatasync and unlink on files whose path
 * contains FAULT_PATH. With FAULT_CALLS=locks the requests of exclusive file locks (fcntl) are
 * counted instead: those that fail while somebody else writes.
 *
 *   FAULT_PATH        a part of the path; without it nothing is counted
 *   FAULT_AT          the call that fails, from 1; 0 or unset: none
 *   FAULT_ERRNO       ENOSPC, EIO, EAGAIN, or KILL: the process is killed instead of the call
 *   FAULT_STICKY      1: every call from FAULT_AT on fails
 *   FAULT_COUNT_FILE  receives the number of calls so far, in digits
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;
static const char *part;
static long fault_at;
static int sticky, counts_locks, count_file = -1;
static const char *error_name = "";

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_ftruncate64)(int, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);
static int (*real_fcntl)(int, int, ...);

__attribute__((constructor)) static void begin(void)
{
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    real_ftruncate64 = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_fcntl = dlsym(RTLD_NEXT, "fcntl");
    const char *at = getenv("FAULT_AT"), *sticks = getenv("FAULT_STICKY");
    const char *kind = getenv("FAULT_CALLS"), *name = getenv("FAULT_ERRNO");
    const char *counter = getenv("FAULT_COUNT_FILE");
    fault_at = at ? atol(at) : 0;
    sticky = sticks && strcmp(sticks, "1") == 0;
    counts_locks = kind && strcmp(kind, "locks") == 0;
    if (name)
        error_name = name;
    if (counter)
        count_file = open(counter, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    part = getenv("FAULT_PATH");
}

static int concerns(int fd)
{
    char link[64], path[PATH_MAX];
    if (!part || fd < 0 || fd == count_file)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int saved = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, part) != NULL;
}

static int error_number(void)
{
    if (strcmp(error_name, "ENOSPC") == 0)
        return ENOSPC;
    if (strcmp(error_name, "EAGAIN") == 0)
        return EAGAIN;
    return EIO;
}

/* Counts a call on a file that matters; returns whether it fails, with errno set. */
static int strikes(void)
{
    long now = atomic_fetch_add(&calls, 1) + 1;
    if (count_file >= 0) {
        char digits[32];
        int length = snprintf(digits, sizeof digits, "%ld", now);
        if (real_pwrite(count_file, digits, (size_t)length, 0) < 0)
            abort();
    }
    if (fault_at == 0 || now < fault_at || (now > fault_at && !sticky))
        return 0;
    if (strcmp(error_name, "KILL") == 0)
        kill(getpid(), SIGKILL);
    errno = error_number();
    return 1;
}

static int fails(int fd, int is_lock)
{
    return is_lock == counts_locks && concerns(fd) && strikes();
}

int unlink(const char *path)
{
    int matters = !counts_locks && part && strstr(path, part) != NULL;
    return matters && strikes() ? -1 : real_unlink(path);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    return fails(fd, 0) ? -1 : real_write(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    return fails(fd, 0) ? -1 : real_pwrite(fd, bytes, count, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    return fails(fd, 0) ? -1 : real_pwrite64(fd, bytes, count, offset);
}

int ftruncate(int fd, off_t length)
{
    return fails(fd, 0) ? -1 : real_ftruncate(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return fails(fd, 0) ? -1 : real_ftruncate64(fd, length);
}

int fsync(int fd)
{
    return fails(fd, 0) ? -1 : real_fsync(fd);
}

int fdatasync(int fd)
{
    return fails(fd, 0) ? -1 : real_fdatasync(fd);
}

static int lock_or_pass(int fd, int command, void *argument)
{
    int is_lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                  command == F_OFD_SETLKW;
    if (is_lock && ((struct flock *)argument)->l_type == F_WRLCK && fails(fd, 1))
        return -1;
    return real_fcntl(fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return lock_or_pass(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return lock_or_pass(fd, command, argument);
}
