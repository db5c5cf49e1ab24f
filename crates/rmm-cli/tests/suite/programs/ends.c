/* A process that ends in a certain way: ends HOW WHO WHAT
 *   HOW   return, exit, _exit, quick_exit, abort, segv, kill, exec (of this program), exec-other (of /bin/true),
 *         running (a child that still runs when its parent has ended, to the end of the pipe in standard input)
 *   WHO   alone: the process itself; child: a child that is forked before cuInit, beside this process, which is right
 *   WHAT  right, or wrong: it frees memory twice */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static void use(const char *what) {
    Handle context;
    Address memory;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemFree_v2(memory));
    if (strcmp(what, "wrong") == 0 && cuMemFree_v2(memory) == 0) exit(8);
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

static int end(const char *how, const char *what, char *self) {
    alarm(60);
    use(what);
    if (strcmp(how, "exit") == 0) exit(0);
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "quick_exit") == 0) quick_exit(0);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "segv") == 0) raise(SIGSEGV);
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "exec") == 0) execl(self, self, "return", "alone", "right", (char *)0);
    if (strcmp(how, "exec-other") == 0) execl("/bin/true", "true", (char *)0);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    const char *how = arguments[1], *what = arguments[3];
    if (strcmp(arguments[2], "alone") == 0) return end(how, what, arguments[0]);
    int used[2];
    char byte;
    if (pipe(used) != 0) return 7;
    pid_t child = fork();
    if (child == 0) {
        if (strcmp(how, "running") != 0) return end(how, what, arguments[0]);
        alarm(60);
        use(what);
        /* The reader of what this program prints waits for no one. */
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) return 7;
        if (write(used[1], "u", 1) != 1) return 7;
        return read(0, &byte, 1) == 0 ? 0 : 7;
    }
    alarm(60);
    if (strcmp(how, "running") == 0 ? read(used[0], &byte, 1) != 1 : waitpid(child, NULL, 0) != child) return 7;
    use("right");
    return 0;
}
