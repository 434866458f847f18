package runtimetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// Runtime is the implementation under test.
type Runtime interface {
	cri.RuntimeService
	cri.ImageService
}

// Program is a container with known behavior.
type Program struct {
	Image         string   // its name
	Command, Args []string // as in cri.Process
	// Ready is a command that fails in it until it behaves as expected; nil means at once.
	Ready []string
}

// Options configure the tests.
type Options struct {
	// Sleeper runs until it is asked to stop, and then exits with code 0 at once.
	Sleeper Program
	// Stubborn keeps running when it is asked to stop.
	Stubborn Program
	// Failure exits with code 3 by itself, soon after its start.
	Failure Program
	// Success exits with code 0 by itself, soon after its start.
	Success Program
	// MissingImage is an image that cannot be pulled; empty skips only that check.
	MissingImage string
	// Exec is a command that succeeds in Sleeper and prints ExecOutput; nil skips checks of its output.
	Exec       []string
	ExecOutput string
	// Shell is an image with a shell and the usual tools, such as busybox. Without it the suite assumes that the
	// runtime runs no processes, and skips the checks inside them.
	Shell string
	// Imitation is, for a runtime without a Shell, an image whose containers answer to the scripts of the tests of streams
	// and of logs that the runtime keeps itself; empty skips those tests.
	Imitation string
	// Pullable and Private are images that can be pulled and that nothing else uses, the second only with Auth; empty
	// skips those tests.
	Pullable, Private string
	Auth              *cri.Auth
	// Connect connects to URLs of a cri.Streamer; nil skips those tests.
	Connect Connector
	// Restart kills the runtime, calls away, and starts it again, while containers keep running; nil skips those tests.
	Restart func(t *testing.T, away func())
	// Prepare changes the configuration of every sandbox before it is used, such as its cgroup
	// parent; nil does nothing.
	Prepare func(*cri.SandboxConfig)
	// Patience is how long to wait for something to happen; 0 is 10 s.
	Patience time.Duration
}

// suite is one run of the tests.
type suite struct {
	Options
	runtime Runtime
	pods    map[string]*cri.SandboxConfig // by sandbox id
}

// Run runs the whole suite. open returns the runtime for one test, and is called for each.
func Run(t *testing.T, open func(t *testing.T) Runtime, o Options) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	tests := contract()
	if o.Shell != "" {
		tests = append(tests, processes()...)
	}
	for _, test := range streamed() {
		imitated := o
		imitated.Shell = cmp.Or(o.Shell, o.Imitation)
		if imitated.Shell != "" {
			t.Run(test.name, func(t *testing.T) { test.run(suite{imitated, open(t), map[string]*cri.SandboxConfig{}}, t) })
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(suite{o, open(t), map[string]*cri.SandboxConfig{}}, t) })
	}
}

type test struct {
	name string
	run  func(suite, *testing.T)
}

// contract returns the tests for every runtime.
func contract() []test {
	return []test{
		{"Status", suite.status},
		{"SandboxLife", suite.sandboxLife},
		{"SandboxUnknown", suite.sandboxUnknown},
		{"SandboxNamesAreUnique", suite.sandboxNames},
		{"SandboxListFilters", suite.sandboxFilters},
		{"SandboxAddresses", suite.sandboxAddresses},
		{"StoppedSandboxTakesNoContainer", suite.stoppedSandbox},
		{"ContainerLife", suite.containerLife},
		{"ContainerUnknown", suite.containerUnknown},
		{"ContainerNeedsItsImage", suite.containerImage},
		{"ContainerListFilters", suite.containerFilters},
		{"ContainerExitCodes", suite.exitCodes},
		{"StopIsIdempotent", suite.stopTwice},
		{"StopByForce", suite.stopByForce},
		{"StopGivenUpGoesOn", suite.stopGivenUp},
		{"RemoveRunning", suite.removeRunning},
		{"RemoveSandboxWithContainers", suite.removeSandbox},
		{"Exec", suite.exec},
		{"Images", suite.images},
		{"Events", suite.events},
		{"ValuesAreCopies", suite.copies},
		{"ConcurrentPods", suite.concurrent},
		{"ContainerNamesAreUnique", suite.containerNames},
		{"SandboxEvents", suite.sandboxEvents},
		{"Stats", suite.stats},
		{"StatsFilters", suite.statsFilters},
		{"ImageFilesystem", suite.filesystem},
		{"ReopenLog", suite.reopenLog},
		{"OpenLog", suite.openLog},
		{"Resize", suite.resize},
		{"Configured", suite.configured},
		{"StreamURLs", suite.streamURLs},
		{"PullAndRemove", suite.pullAndRemove},
		{"PullWithAuth", suite.pullPrivate},
		{"Restart", suite.restart},
	}
}

// processes returns the tests for runtimes that run real processes.
func processes() []test {
	return []test{
		{"Environment", suite.environment},
		{"WorkingDir", suite.workingDir},
		{"ImageDefaults", suite.imageDefaults},
		{"ExitBySignal", suite.exitBySignal},
		{"StartFails", suite.startFails},
		{"StopSignal", suite.stopSignal},
		{"OutOfMemory", suite.outOfMemory},
		{"ExecOutput", suite.execOutput},
		{"ExecTimeout", suite.execTimeout},
		{"Terminal", suite.terminal},
		{"UsersAndGroups", suite.users},
		{"Username", suite.username},
		{"StrictGroups", suite.strictGroups},
		{"Capabilities", suite.capabilities},
		{"Privileged", suite.privileged},
		{"ReadOnlyRootfs", suite.readOnlyRootfs},
		{"NoNewPrivileges", suite.noNewPrivileges},
		{"HiddenPaths", suite.hiddenPaths},
		{"Seccomp", suite.seccomp},
		{"Mounts", suite.mounts},
		{"MountPropagation", suite.propagation},
		{"RecursiveReadOnly", suite.recursiveReadOnly},
		{"ImageMount", suite.imageMount},
		{"Devices", suite.devices},
		{"LogFormat", suite.logFormat},
		{"LogRotation", suite.logRotation},
		{"ResourcesInForce", suite.resources},
		{"CPUGrows", suite.cpuGrows},
		{"CgroupParent", suite.cgroupParent},
		{"HostNamespaces", suite.hostNamespaces},
		{"SharedPIDs", suite.sharedPIDs},
		{"TargetPIDs", suite.targetPIDs},
		{"UserNamespace", suite.userNamespace},
		{"Sysctls", suite.sysctls},
		{"HostnameAndDNS", suite.hostnameAndDNS},
		{"PodNetwork", suite.podNetwork},
		{"PortMappings", suite.portMappings},
		{"FailedSandboxLeavesNothing", suite.failedSandbox},
		{"RestartWithProcesses", suite.restartProcesses},
	}
}

// streamed returns the tests for runtimes that run real processes, or imitate them.
func streamed() []test {
	return []test{
		{"ExecStream", suite.execStream},
		{"ExecTerminal", suite.execTerminal},
		{"AttachStream", suite.attachStream},
		{"PortForward", suite.portForward},
		{"KeptLog", suite.keptLog},
	}
}

// context limits the duration of a test.
func (s suite) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 6*s.Patience)
	t.Cleanup(cancel)
	return ctx
}

// pod returns the configuration of a pod of this test.
func pod(t *testing.T, name string) cri.SandboxConfig {
	uid := fmt.Sprintf("%s-%s-%d", t.Name(), name, time.Now().UnixNano())
	return cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Name: name, Namespace: "runtimetest", UID: uid},
		Hostname: name,
		Labels: map[string]string{
			cri.LabelPodName: name, cri.LabelPodNamespace: "runtimetest", cri.LabelPodUID: uid,
		},
		Annotations: map[string]string{"runtimetest": "yes"},
	}
}

// sandbox runs a sandbox that is removed after the test.
func (s suite) sandbox(t *testing.T, config cri.SandboxConfig) string {
	t.Helper()
	if s.Shell != "" && config.LogDirectory == "" {
		config.LogDirectory = t.TempDir()
	}
	if s.Prepare != nil {
		s.Prepare(&config)
	}
	id, err := s.runtime.RunPodSandbox(s.context(t), config)
	if err != nil {
		t.Fatalf("RunPodSandbox: %v", err)
	}
	s.pods[id] = &config
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
		defer cancel()
		if err := s.runtime.RemovePodSandbox(ctx, id); err != nil && !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("RemovePodSandbox: %v", err)
		}
	})
	return id
}

// config returns the configuration of a container.
func config(pod cri.SandboxConfig, name string, p Program, ref string) cri.ContainerConfig {
	return cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: name},
		Image:    cri.ImageSpec{Image: ref, UserSpecified: p.Image},
		Process:  cri.Process{Command: p.Command, Args: p.Args},
		Labels: map[string]string{
			cri.LabelPodUID: pod.Metadata.UID, cri.LabelContainerName: name,
		},
		Annotations: map[string]string{"runtimetest": name},
		LogPath:     name + "/0.log",
	}
}

// pull makes sure that the program's image is there.
func (s suite) pull(t *testing.T, p Program) string {
	t.Helper()
	ctx := s.context(t)
	if image, err := s.runtime.ImageStatus(ctx, cri.ImageSpec{Image: p.Image}); err == nil {
		if len(image.Digests) > 0 {
			return image.Digests[0]
		}
		return image.ID
	}
	ref, err := s.runtime.PullImage(ctx, cri.ImageSpec{Image: p.Image}, nil)
	if err != nil {
		t.Fatalf("PullImage %s: %v", p.Image, err)
	}
	return ref
}

// container creates a container, and optionally starts it.
func (s suite) container(t *testing.T, sandbox string, c cri.ContainerConfig, start bool) string {
	t.Helper()
	id, err := s.runtime.CreateContainer(s.context(t), sandbox, c, *s.pods[sandbox])
	if err != nil {
		t.Fatalf("CreateContainer: %v", err)
	}
	if start {
		if err := s.runtime.StartContainer(s.context(t), id); err != nil {
			t.Fatalf("StartContainer: %v", err)
		}
	}
	return id
}

// running runs a pod with one container.
func (s suite) running(t *testing.T, p Program) (sandbox, container string) {
	t.Helper()
	config0 := pod(t, "pod")
	sandbox = s.sandbox(t, config0)
	container = s.container(t, sandbox, config(config0, "main", p, s.pull(t, p)), true)
	s.settle(t, container, p)
	return sandbox, container
}

// settle waits until a program behaves as expected.
func (s suite) settle(t *testing.T, id string, p Program) {
	t.Helper()
	if p.Ready == nil {
		return
	}
	s.eventually(t, "the program is ready", func() bool {
		result, err := s.runtime.ExecSync(s.context(t), id, p.Ready, s.Patience)
		return err == nil && result.ExitCode == 0
	})
}

// state returns a container's status.
func (s suite) state(t *testing.T, id string) cri.ContainerStatus {
	t.Helper()
	status, err := s.runtime.ContainerStatus(s.context(t), id)
	if err != nil {
		t.Fatalf("ContainerStatus: %v", err)
	}
	return status
}

// exited waits until a container has exited.
func (s suite) exited(t *testing.T, id string) cri.ContainerStatus {
	t.Helper()
	deadline := time.Now().Add(s.Patience)
	for {
		status := s.state(t, id)
		if status.State == cri.ContainerExited {
			return status
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %s is still %s", id, status.State)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// is fails the test unless the error is the one wanted.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}
