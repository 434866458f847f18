package kubelet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// recording is a runtime that records the configurations it is given.
type recording struct {
	*simulated.Runtime
	mu         sync.Mutex
	sandboxes  map[string]cri.SandboxConfig   // by the pods' names
	containers map[string]cri.ContainerConfig // by their names
}

func newRecording(o simulated.Options) *recording {
	return &recording{Runtime: simulated.New(o), sandboxes: map[string]cri.SandboxConfig{}, containers: map[string]cri.ContainerConfig{}}
}

func (r *recording) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	r.mu.Lock()
	r.sandboxes[config.Metadata.Name] = config
	r.mu.Unlock()
	return r.Runtime.RunPodSandbox(ctx, config)
}

func (r *recording) CreateContainer(ctx context.Context, id string, config cri.ContainerConfig, sandbox cri.SandboxConfig) (string, error) {
	r.mu.Lock()
	r.containers[config.Metadata.Name] = config
	same := reflect.DeepEqual(sandbox, r.sandboxes[sandbox.Metadata.Name])
	r.mu.Unlock()
	if !same {
		return "", errors.New("another configuration of the sandbox")
	}
	return r.Runtime.CreateContainer(ctx, id, config, sandbox)
}

// furniture is a host of which every part provides something.
type furniture struct {
	bareCgroups
	mu        sync.Mutex
	mounts    []kubelet.MountRequest
	variables []kubelet.EnvironmentRequest
	prepared  []string // when volumes were
	refresh   time.Time
	secured   []string // the images of containers
	handlers  []string
}

var (
	mapped  = &cri.UserNamespace{Mode: cri.NamespacePod, UIDs: []cri.IDMapping{{Host: 1, Length: 9}}, GIDs: []cri.IDMapping{{Host: 2, Length: 9}}}
	shown   = cri.Namespaces{PID: cri.NamespaceContainer, User: mapped}
	owner   = int64(1000)
	dns     = cri.DNS{Servers: []string{"10.96.0.10"}}
	limited = cri.Resources{CPUShares: 7}
)

func (f *furniture) Prepare(context.Context, *corev1.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prepared = append(f.prepared, time.Now().UTC().Format("05"))
	return nil
}

func (f *furniture) NextRefresh(types.UID) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.refresh.After(time.Now()) {
		return time.Time{}
	}
	return f.refresh
}

func (f *furniture) Mounts(_ context.Context, r kubelet.MountRequest) ([]cri.Mount, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mounts = append(f.mounts, r)
	return []cri.Mount{{ContainerPath: "/data", HostPath: "/host"}, {ContainerPath: "/image", Image: &cri.ImageSpec{Image: "files:1"}}}, nil
}

func (f *furniture) Environment(_ context.Context, r kubelet.EnvironmentRequest) ([]cri.EnvVar, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.variables = append(f.variables, r)
	return []cri.EnvVar{{Name: "WHO", Value: "me"}}, []string{"2bad is no name"}, nil
}

func (f *furniture) Namespaces(_ *corev1.Pod, handler string) (cri.Namespaces, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = append(f.handlers, handler)
	return shown, nil
}

func (*furniture) Sandbox(*corev1.Pod) (cri.SandboxSecurity, error) {
	return cri.SandboxSecurity{RunAsUser: &owner}, nil
}

func (f *furniture) Container(_ *corev1.Pod, c *corev1.Container, image cri.Image) (cri.Security, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secured = append(f.secured, c.Name+" "+strings.Join(image.Tags, ","))
	return cri.Security{RunAsGroup: &owner}, nil
}

func (*furniture) Resolve(*corev1.Pod) (cri.DNS, []string, error) {
	return dns, []string{"CheckLimits: too many: names"}, nil
}

func (*furniture) Names(*corev1.Pod) (kubelet.Names, error) {
	return kubelet.Names{Hostname: "host", Domain: "domain", Kernel: "kernel"}, nil
}

func (*furniture) Ensure(context.Context, *corev1.Pod) (string, error) { return "/kubepods/x", nil }

func (*furniture) Resources(*corev1.Pod, *corev1.Container) cri.Resources { return limited }

func (*furniture) Release(context.Context, types.UID) error                 { return nil }
func (*furniture) Remove(context.Context, types.UID) error                  { return nil }
func (*furniture) Orphans(func(types.UID) bool) (u []types.UID, none error) { return nil, nil }

func (f *furniture) host(logs string) kubelet.Host {
	return kubelet.Host{Volumes: f, Cgroups: f, Environment: f, Resolver: f, Security: f, Logs: kubelet.Logs{Dir: logs}}
}

// furnished runs a test with a kubelet on such a host, whose node has the address 10.9.9.9.
func furnished(t *testing.T, test func(n *node, f *furniture, r *recording, logs string)) {
	t.Helper()
	logs := filepath.Join(t.TempDir(), "logs")
	synctest.Test(t, func(t *testing.T) {
		f, r := &furniture{}, newRecording(simulated.Options{})
		n := newWorld(t).runOn(r, r.Runtime, kubelet.Options{Host: f.host(logs), Registration: kubelet.Registration{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.9.9"}}, Allocatable: quantities("cpu", "3"),
		}})
		n.after(time.Second)
		test(n, f, r, logs)
		n.stop()
		r.Close()
	})
}

// TestFurnished: what the host provides reaches the runtime.
func TestFurnished(t *testing.T) {
	furnished(t, func(n *node, f *furniture, r *recording, logs string) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.Command, c.Args, c.WorkingDir = []string{"say", "$(WHO)"}, []string{"$(WHO)", "$(NOBODY)"}, "/work"
			c.Stdin, c.TTY = true, true
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, HostIP: "10.9.9.9", Protocol: corev1.ProtocolUDP}}
			p.Annotations = map[string]string{"a": "b"}
		}))
		n.after(time.Second)
		n.pods.Put(newPod("other", func(p *corev1.Pod) {
			p.Spec.Containers[0].Name, p.Spec.Containers[0].TerminationMessagePath = "second", "/tmp/last"
		}))
		n.after(time.Second)
		const message = "io.kubernetes.container.terminationMessagePath"
		if a, b := r.containers["main"].Annotations[message], r.containers["second"].Annotations[message]; a != "/dev/termination-log" || b != "/tmp/last" {
			t.Errorf("termination messages are at %q and %q", a, b)
		}
		s, c := r.sandboxes["web"], r.containers["main"]
		dir := filepath.Join(logs, "default_web_uid-of-web")
		if s.CgroupParent != "/kubepods/x" || !reflect.DeepEqual(s.DNS, dns) || s.Hostname != "kernel" || !reflect.DeepEqual(s.Namespaces, shown) ||
			s.Security.RunAsUser != &owner || s.LogDirectory != dir || s.Annotations["a"] != "b" ||
			!slices.Equal(s.Ports, []cri.PortMapping{{Protocol: "UDP", ContainerPort: 80, HostPort: 8080, HostIP: "10.9.9.9"}}) {
			t.Errorf("the sandbox is %+v", s)
		}
		if !slices.Equal(c.Command, []string{"say", "me"}) || !slices.Equal(c.Args, []string{"me", "$(NOBODY)"}) || c.WorkingDir != "/work" ||
			!slices.Equal(c.Env, []cri.EnvVar{{Name: "WHO", Value: "me"}}) || c.Resources.CPUShares != limited.CPUShares || c.Security.RunAsGroup != &owner ||
			!reflect.DeepEqual(c.Namespaces, shown) || !c.Stdin || !c.TTY || c.StdinOnce {
			t.Errorf("the container is %+v", c)
		}
		if m := c.Mounts; len(m) != 2 || m[0].HostPath != "/host" || m[1].Image == nil || m[1].Image.UserSpecified != "files:1" || !strings.HasPrefix(m[1].Image.Image, "docker.io/library/files@sha256:") ||
			!reflect.DeepEqual(m[0].UIDMappings, mapped.UIDs) || !reflect.DeepEqual(m[1].GIDMappings, mapped.GIDs) {
			t.Errorf("the mounts are %+v", c.Mounts)
		}
		ips := n.podIPs("web")
		if m := f.mounts; len(m) != 2 || m[0].Pod.Name != "web" || m[0].Container.Name != "main" || m[0].Hostname != "host" || m[0].Domain != "domain" ||
			!slices.Equal(m[0].IPs, ips) || len(ips) != 1 || !slices.Equal(m[0].Env, c.Env) {
			t.Errorf("mounts are requested with %+v, the pod has %v", f.mounts, ips)
		}
		if v := f.variables; len(v) != 2 || v[0].Pod.Name != "web" || v[0].Container.Name != "main" || !slices.Equal(v[0].IPs, ips) ||
			!slices.Equal(v[0].HostIPs, []string{"10.9.9.9"}) || v[0].Allocatable.Cpu().String() != "3" {
			t.Errorf("variables are requested with %+v", f.variables)
		}
		if want := []string{"main docker.io/library/nginx:latest"}; !slices.Equal(f.secured[:1], want) {
			t.Errorf("secured are %q", f.secured)
		}
		if info, err := os.Stat(filepath.Join(dir, "main")); err != nil || !info.IsDir() {
			t.Errorf("there is no directory for the container's logs: %v", err)
		}
		n.expectEventsAbout(" web Warning", "1s web Warning CheckLimits: too many: names", "1s web Warning InvalidEnvironmentVariableNames: 2bad is no name")
	})
}

func (w *world) podIPs(name string) []string {
	var ips []string
	for _, ip := range w.pod(name).Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// TestFurnishedOnTheHostsNetwork: a pod on the host's network has the node's addresses and name, and publishes no ports.
func TestFurnishedOnTheHostsNetwork(t *testing.T) {
	furnished(t, func(n *node, f *furniture, r *recording, _ string) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}))
		n.after(time.Second)
		if s := r.sandboxes["web"]; s.Hostname != "" || len(s.Ports) > 0 {
			t.Errorf("the sandbox is %+v", s)
		}
		node := []string{"10.9.9.9"}
		if len(f.mounts) == 0 || !slices.Equal(f.mounts[0].IPs, node) || !slices.Equal(f.variables[0].IPs, node) {
			t.Errorf("mounts are requested with %+v, variables with %+v", f.mounts, f.variables)
		}
	})
}

// unmapped is a host whose pods have the users of the node, though mappings are known.
type unmapped struct{ *furniture }

func (unmapped) Namespaces(*corev1.Pod, string) (cri.Namespaces, error) {
	n := shown
	user := *mapped
	user.Mode = cri.NamespaceNode
	n.User = &user
	return n, nil
}

// TestMountsWithoutMappings: mounts are mapped only in pods with users of their own.
func TestMountsWithoutMappings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &furniture{}, newRecording(simulated.Options{})
		host := f.host("")
		host.Security = unmapped{f}
		n := newWorld(t).runOn(r, r.Runtime, kubelet.Options{Host: host})
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		m := r.containers["main"].Mounts
		if len(m) != 2 || len(m[0].UIDMappings)+len(m[0].GIDMappings) > 0 {
			t.Errorf("the mounts are %+v", m)
		}
		n.stop()
		r.Close()
	})
}

// TestTargetOfAnEphemeralContainer: an ephemeral container sees the processes of its target, and waits for it.
func TestTargetOfAnEphemeralContainer(t *testing.T) {
	furnished(t, func(n *node, _ *furniture, r *recording, _ string) {
		debugger := func(name, target string) {
			pod := n.pod("web").DeepCopy()
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"}, TargetContainerName: target,
			})
			pod.Generation++
			n.pods.Put(pod)
			n.after(time.Second)
		}
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		debugger("alone", "")
		debugger("near", "main")
		debugger("lost", "nobody")
		if got := r.containers["alone"].Namespaces; got.PID != cri.NamespaceContainer || got.Target != "" {
			t.Errorf("without a target: %+v", got)
		}
		if got := r.containers["near"].Namespaces; got.PID != cri.NamespaceTarget || got.Target != n.container("main").ID {
			t.Errorf("with a target: %+v", got)
		}
		n.expectEventsAbout("target", "4s web spec.ephemeralContainers{lost} Warning Failed: Error: unable to find target container nobody")
	})
}

// TestVolumesAreRefreshed: volumes are prepared again when they say so.
func TestVolumesAreRefreshed(t *testing.T) {
	furnished(t, func(n *node, f *furniture, _ *recording, _ string) {
		f.mu.Lock()
		f.refresh = time.Now().Add(30 * time.Second)
		f.mu.Unlock()
		n.pods.Put(newPod("web"))
		n.after(time.Minute)
		if got := strings.Join(slices.Compact(f.prepared), " "); got != "01 31" {
			t.Errorf("prepared in the seconds %s", got)
		}
	})
}

// TestProbesThatSayTheSame: as long as the results of a pod's probes stay the same, nothing is done with the pod.
func TestProbesThatSayTheSame(t *testing.T) {
	furnished(t, func(n *node, f *furniture, _ *recording, _ string) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = execProbe(1, 0), execProbe(1, 0)
		}))
		n.after(time.Minute)
		if got := strings.Join(slices.Compact(f.prepared), " "); got != "01" {
			t.Errorf("prepared in the seconds %s", got)
		}
	})
}

// restless are volumes that must always be prepared at once.
type restless struct{ *furniture }

func (restless) NextRefresh(types.UID) time.Time { return time.Now() }

// TestVolumesAreNotRefreshedWithoutEnd: volumes that ask for it at once do not keep their pod's worker busy.
func TestVolumesAreNotRefreshedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rt := &furniture{}, simulated.New(simulated.Options{})
		n := newWorld(t).run(rt, kubelet.Options{Host: kubelet.Host{Volumes: restless{f}}})
		n.after(time.Second)
		n.pods.Put(newPod("web"))
		n.after(10 * time.Second)
		if got := len(f.prepared); got < 19 || got > 25 {
			t.Errorf("prepared %d times in ten seconds", got)
		}
		n.stop()
		rt.Close()
	})
}

// full are volumes that the node cannot have.
type full struct {
	*furniture
	until time.Time
}

func (v full) Prepare(context.Context, *corev1.Pod) error {
	if time.Now().Before(v.until) {
		return errors.Join(hurried{errors.New("not attached")}, &kubelet.Refusal{Reason: "VolumeAttachmentLimitExceeded", Message: "the node is full"})
	}
	return nil
}

// TestVolumesThatTheNodeCannotHave: a pod whose volumes the node cannot have is rejected once that has lasted for as long as
// upstream's kubelet waits.
func TestVolumesThatTheNodeCannotHave(t *testing.T) {
	for name, c := range map[string]struct {
		until, look time.Duration
		phase       corev1.PodPhase
		message     string
	}{
		"for good":           {time.Hour, 123050 * time.Millisecond, corev1.PodFailed, "Pod was rejected: the node is full"},
		"in upstream's time": {time.Hour, 122950 * time.Millisecond, corev1.PodPending, ""},
		"there in the end":   {122 * time.Second, 10 * time.Minute, corev1.PodRunning, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, o := simulated.New(simulated.Options{}), &watcher{}
				n := newWorld(t).run(rt, kubelet.Options{Host: kubelet.Host{Volumes: full{&furniture{}, time.Now().Add(c.until)}}, Observer: o})
				n.pods.Put(newPod("web"))
				n.after(c.look)
				status := n.pod("web").Status
				if status.Phase != c.phase || status.Message != c.message || (status.Reason == "VolumeAttachmentLimitExceeded") != (c.phase == corev1.PodFailed) {
					t.Errorf("%s, %s: %s", status.Phase, status.Reason, status.Message)
				}
				if got := summary(n.pod("web")); status.Phase == corev1.PodFailed && got != "web Failed (VolumeAttachmentLimitExceeded)" {
					t.Errorf("of a pod that was rejected is said %s", got)
				}
				rejections := 0
				for _, line := range n.events {
					if strings.Contains(line, "web Warning VolumeAttachmentLimitExceeded: the node is full") {
						rejections++
					} else if strings.Contains(line, "node is full") {
						t.Errorf("event %s", line)
					}
				}
				if want := status.Phase == corev1.PodFailed; (rejections == 1) != want || (len(o.rejected) == 1) != want {
					t.Errorf("%d events, observed %v", rejections, o.rejected)
				}
				n.stop()
				rt.Close()
			})
		})
	}
}

// TestVolumesThatComeAndGo: how long volumes have been missing counts from when they were last there, and so do the pauses
// between attempts.
func TestVolumesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, v := simulated.New(simulated.Options{}), &ebbing{furniture: &furniture{}, start: time.Now()}
		n := newWorld(t).run(rt, kubelet.Options{Host: kubelet.Host{Volumes: v}})
		n.pods.Put(newPod("web"))
		n.after(110 * time.Second)
		n.touch("web")
		n.after(80 * time.Second)
		n.expectStatuses("0s web Pending main=ContainerCreating", "63.5s web Running Ready main=running")
		n.expectEventsAbout("FailedMount", "0s web Warning FailedMount: not there", "0.5s web Warning FailedMount: not there",
			"1.5s web Warning FailedMount: not there", "3.5s web Warning FailedMount: not there", "7.5s web Warning FailedMount: not there",
			"15.5s web Warning FailedMount: not there", "31.5s web Warning FailedMount: not there",
			"110s web Warning FailedMount: not there", "110.5s web Warning FailedMount: not there", "111.5s web Warning FailedMount: not there",
			"113.5s web Warning FailedMount: not there", "117.5s web Warning FailedMount: not there", "125.5s web Warning FailedMount: not there",
			"141.5s web Warning FailedMount: not there", "173.5s web Warning FailedMount: not there")
		n.stop()
		rt.Close()
	})
}

// ebbing are volumes that are missing for the first minute, and again after a hundred seconds.
type ebbing struct {
	*furniture
	start time.Time
}

func (v *ebbing) Prepare(context.Context, *corev1.Pod) error {
	if since := time.Since(v.start); since < time.Minute || since > 100*time.Second {
		return errors.Join(errors.New("not there"), &kubelet.Refusal{Reason: "VolumeAttachmentLimitExceeded", Message: "the node is full"})
	}
	return nil
}

// hurried says when to try again.
type hurried struct{ error }

func (hurried) RetryAfter() time.Duration { return 200 * time.Millisecond }

// late are volumes that are ready at last.
type late struct {
	*furniture
	until time.Time
	err   error
}

func (l *late) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if time.Now().Before(l.until) {
		_ = l.furniture.Prepare(ctx, pod)
		return l.err
	}
	return nil
}

// TestVolumesThatAreLate: a pod's volumes are tried again as soon as they may be ready, and what is missing is said in
// an event for each.
func TestVolumesThatAreLate(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		tries  int
		events []string
	}{
		"in a hurry": {hurried{errors.New("soon")}, 5, []string{"1s", "1.2s", "1.4s", "1.6s", "1.8s"}},
		"two":        {errors.Join(errors.New("soon"), errors.New("later")), 2, []string{"1s", "1s", "1.5s", "1.5s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &furniture{}
				l := &late{f, time.Now().Add(2 * time.Second), c.err}
				rt := simulated.New(simulated.Options{})
				n := newWorld(t).run(rt, kubelet.Options{Host: kubelet.Host{Volumes: l}})
				n.after(time.Second)
				n.pods.Put(newPod("web"))
				n.after(10 * time.Second)
				if n.pod("web").Status.Phase != corev1.PodRunning || len(f.prepared) != c.tries {
					t.Errorf("the pod is %s after %d tries", n.pod("web").Status.Phase, len(f.prepared))
				}
				var times []string
				for _, line := range n.events {
					if at, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, "web Warning FailedMount: soon") || strings.HasPrefix(rest, "web Warning FailedMount: later") {
						times = append(times, at)
					}
				}
				if !slices.Equal(times, c.events) {
					t.Errorf("events at %v", times)
				}
				n.stop()
				rt.Close()
			})
		})
	}
}

// TestLogDirectoryThatCannotBeMade: a pod waits until its logs have a place.
func TestLogDirectoryThatCannotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		blocked string // below the logs
		event   string
	}{
		"of the pod":       {"default_web_uid-of-web", "web Warning FailedCreatePodSandBox: Failed to create pod sandbox: "},
		"of the container": {"default_web_uid-of-web/main", "web spec.containers{main} Warning Failed: Error: create container log directory: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			blocked := filepath.Join(dir, filepath.FromSlash(c.blocked))
			if err := errors.Join(os.MkdirAll(filepath.Dir(blocked), 0o755), os.WriteFile(blocked, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Logs: kubelet.Logs{Dir: dir}}}, func(n *node) {
				n.pods.Put(newPod("web"))
				n.after(time.Second)
				if len(n.containers()) > 0 {
					t.Error("there is a container")
				}
				n.mu.Lock()
				told := slices.ContainsFunc(n.events, func(line string) bool { return strings.HasPrefix(line, "0s "+c.event) })
				n.mu.Unlock()
				if !told {
					t.Errorf("events: %q", n.events)
				}
				if err := os.Remove(blocked); err != nil {
					t.Fatal(err)
				}
				n.after(20 * time.Second)
				if phase := n.pod("web").Status.Phase; phase != corev1.PodRunning {
					t.Errorf("the pod is %s", phase)
				}
			})
		})
	}
}
