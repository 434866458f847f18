package simulated

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// Verb is an operation of the runtime that Options.Behave can change.
type Verb string

// The verbs, one for each method that changes something or may be slow in a real runtime.
const (
	RunSandbox      Verb = "RunPodSandbox"
	StopSandbox     Verb = "StopPodSandbox"
	RemoveSandbox   Verb = "RemovePodSandbox"
	CreateContainer Verb = "CreateContainer"
	StartContainer  Verb = "StartContainer"
	StopContainer   Verb = "StopContainer"
	RemoveContainer Verb = "RemoveContainer"
	PullImage       Verb = "PullImage"
	Exec            Verb = "ExecSync" // with streams, too
	Attach          Verb = "Attach"
	PortForward     Verb = "PortForward"
	UpdateResources Verb = "UpdateContainerResources"
	// List covers every method that only reads: lists, statuses and the runtime's own status.
	List Verb = "List"
)

// Operation is a call that is about to happen. Fields that do not apply to the verb are empty.
type Operation struct {
	Verb Verb
	// Pod is the sandbox's metadata.
	Pod cri.SandboxMetadata
	// Container is the container's metadata.
	Container cri.ContainerMetadata // its own
	// Image is the image's name as passed by the caller.
	Image string
	// Command is what Exec runs.
	Command []string
}

// Outcome decides the outcome of an operation. The zero value is success at once.
type Outcome struct {
	// Delay is how long the operation takes, whether it succeeds or fails.
	Delay time.Duration
	// Err makes it fail; wrap the errors of package cri to be specific.
	Err error
	// Hang makes it take until the caller's context ends.
	Hang bool
}

// Program is how a container behaves once started. The zero value runs forever and exits with code 0 as soon as it is
// asked to.
type Program struct {
	// Exits makes the container end by itself, After it started, with ExitCode.
	Exits    bool
	After    time.Duration
	ExitCode int32
	// Reason replaces "Completed" and "Error", for an end such as "OOMKilled". Message is the
	// termination message.
	Reason  string
	Message string
	// StopAfter is how long it takes to end when asked to, and StopCode its exit code then.
	StopAfter time.Duration
	StopCode  int32
	// IgnoresStop makes it run until the grace period is over; like any killed container it then exits with code 137.
	IgnoresStop bool
	// ReadyAfter is how long after its start probes begin to succeed: until then, Ready is false and commands without
	// an Exec fail.
	ReadyAfter time.Duration
	// Exec answers commands; nil succeeds with no output once ReadyAfter has passed.
	Exec func(command []string) cri.ExecResult
	// Log returns line number n, from 0, of what the container writes, or false if it writes no more; nil writes nothing.
	// Lines and Text make such functions. It is called when somebody reads the log, so that logs nobody reads cost nothing,
	// and must return the same whenever it is called. Runtime.WriteLog adds other lines.
	Log func(n int) (LogLine, bool)
	// Streams is how it answers exec, attach and port-forward.
	Streams Streams
	// NanoCores, in billionths of a core, and Memory, in bytes, are its usage in statistics; 0 is a thousandth of a
	// core and 1 MiB.
	NanoCores, Memory uint64
	// Load, if set, returns the present usage instead: billionths of a core and bytes, which may be 0. It is called whenever
	// statistics are read; the CPU time between two readings is that of the later one. It must not call the Runtime.
	Load func() (nanoCores, memory uint64)
}

// LogLine is a line that a container writes.
type LogLine struct {
	// After is when it is written, counted from the container's start. It must not be before that of the preceding line, and
	// only finitely many lines may have the same.
	After  time.Duration
	Text   string // without a line end
	Stderr bool   // whether it is written to stderr, not to stdout
}

// Lines returns a Program.Log of the given lines.
func Lines(lines ...LogLine) func(n int) (LogLine, bool) {
	return func(n int) (LogLine, bool) {
		if n >= len(lines) {
			return LogLine{}, false
		}
		return lines[n], true
	}
}

// Text returns a Program.Log of lines that are written to stdout at the start.
func Text(lines ...string) func(n int) (LogLine, bool) {
	all := make([]LogLine, len(lines))
	for i, text := range lines {
		all[i].Text = text
	}
	return Lines(all...)
}

// Streams is how a container answers clients with streams. Contexts end with the container, and when the client is gone; reads
// from the client then fail. The functions must return soon after that.
type Streams struct {
	// Exec runs a command and returns its exit code; without a Program.Exec also those of probes and hooks, which have no
	// stdin. nil lets Program.Exec answer; without both, the client is told so.
	Exec func(ctx context.Context, command []string, s cri.StreamIO) (code int32, err error)
	// Attach serves a client that is attached to the container's own process. nil sends what the container writes to its
	// log from then on, until it ends.
	Attach func(ctx context.Context, s cri.StreamIO) error
	// Port serves a connection to one of the pod's ports, until the client closes it. HTTP makes one of a handler. nil
	// refuses; of a pod's containers, the first whose Port is set serves.
	Port func(ctx context.Context, port int32, conn io.ReadWriteCloser) error
}

// Process is a container about to start.
type Process struct {
	Pod       cri.SandboxMetadata   // of its sandbox
	Container cri.ContainerMetadata // its own
	Image     string                // its name
	// Command and Args are those of the container's configuration.
	Command, Args []string
}

// Options of a Runtime. The zero value is ready to use.
type Options struct {
	// Behave decides the outcome of an operation; nil lets all succeed at once. It is called without locks held,
	// possibly from many goroutines at once.
	Behave func(Operation) Outcome
	// Program decides how a container behaves, called once at every start; nil is the zero Program.
	Program func(Process) Program
	// Addresses is the pods' prefix; the zero value is 10.88.0.0/16. Network and broadcast address and the first
	// address are not used.
	Addresses netip.Prefix
	// Images exist from the start.
	Images []string
	// Handlers are the handlers of runtime classes that exist, besides the default; nil lets every one exist. Others fail
	// as in containerd.
	Handlers []string
	// ImageSize is the reported size of every image, in bytes; 0 is 50 MB.
	ImageSize uint64
	// EventBuffer is how many events a reader may lag behind; 0 is 4,096.
	EventBuffer int
}
