/* Holds the namespaces of a pod: waits for a signal to end, and reaps the processes that others leave to it. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int signal) {
	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

static void end(int signal) {
	(void)signal;
	_exit(0);
}

int main(void) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = end;
	if (sigaction(SIGINT, &a, NULL) < 0 || sigaction(SIGTERM, &a, NULL) < 0)
		return 1;
	a.sa_handler = reap;
	a.sa_flags = SA_NOCLDSTOP;
	if (sigaction(SIGCHLD, &a, NULL) < 0)
		return 1;
	for (;;)
		pause();
}
