package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// TestDefaults: unset options have upstream's defaults, and set ones are kept.
func TestDefaults(t *testing.T) {
	if _, err := (Options{}).complete(); err == nil || err.Error() != "a kubelet needs a node name" {
		t.Errorf("without a name: %v", err)
	}
	short := Options{NodeName: "n"}
	short.Periods.LeaseDuration = time.Second - 1
	if _, err := short.complete(); err == nil || err.Error() != "a node's lease lasts at least a second" {
		t.Errorf("a short lease: %v", err)
	}
	o, err := Options{NodeName: "n"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if want := (Periods{10 * time.Second, 5 * time.Minute, 40 * time.Second}); o.Periods != want {
		t.Errorf("periods %v", o.Periods)
	}
	if want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: "n"}}; !slices.Equal(o.Addresses, want) {
		t.Errorf("addresses %v", o.Addresses)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "8", "memory": "32Gi", "ephemeral-storage": "256Gi", "pods": "110"} {
		for _, list := range []corev1.ResourceList{o.Capacity, o.Allocatable} {
			if got := list[name]; got.String() != want || len(list) != 4 {
				t.Errorf("%s of %s in %v", got.String(), name, list)
			}
		}
	}
	if o.Info.OperatingSystem != runtime.GOOS || o.Info.Architecture != runtime.GOARCH || o.Info.KubeletVersion != "v1.37.1" || o.MaxRestartDelay != 5*time.Minute {
		t.Errorf("%+v, %s", o.Info, o.MaxRestartDelay)
	}
	said := Options{NodeName: "n", MaxRestartDelay: time.Minute}
	said.Periods = Periods{1 * time.Second, 2 * time.Second, time.Second}
	said.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	said.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "example.com/x": resource.MustParse("1")}
	said.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1")}
	said.Info = corev1.NodeSystemInfo{OperatingSystem: "os", Architecture: "arch", KubeletVersion: "v1"}
	o, err = said.complete()
	if err != nil {
		t.Fatal(err)
	}
	if o.Periods != said.Periods || o.MaxRestartDelay != time.Minute || o.Info != said.Info || !slices.Equal(o.Addresses, said.Addresses) {
		t.Errorf("%+v", o)
	}
	for list, want := range map[*corev1.ResourceList]map[corev1.ResourceName]string{
		&o.Capacity: {"cpu": "2", "example.com/x": "1", "pods": "110"}, &o.Allocatable: {"cpu": "1", "example.com/x": "1", "pods": "110"},
	} {
		for name, quantity := range want {
			if got := (*list)[name]; got.String() != quantity || len(*list) != 5 {
				t.Errorf("%s of %s", got.String(), name)
			}
		}
	}
}

// TestHostAddresses: pods get at most two of the node's addresses, the internal ones if it has any.
func TestHostAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "InternalIP=1": "1", "ExternalIP=2": "2", "ExternalIP=2 InternalIP=1": "1", "Hostname=h": "", "InternalDNS=d ExternalIP=2 ExternalIP=3": "2 3",
		"InternalIP=1 InternalIP=2 InternalIP=3": "1 2",
	} {
		var o Options
		for _, word := range strings.Fields(text) {
			kind, address, _ := strings.Cut(word, "=")
			o.Addresses = append(o.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
		}
		if got := strings.Join(o.hostIPs(), " "); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

// TestWhatIsSent: the first status of a pod is always sent; an equal one is not, until the pod has ended.
func TestWhatIsSent(t *testing.T) {
	s := newSender(nil, slog.New(slog.DiscardHandler))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
	changes := func(want bool, take func()) {
		t.Helper()
		before := 0
		if r := s.reports["u"]; r != nil {
			before = int(r.version)
		}
		take()
		if got := int(s.reports["u"].version) > before; got != want {
			t.Errorf("the report changed: %t", got)
		}
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	changes(true, func() { s.set(pod, corev1.PodStatus{}, provisional) })
	if s.reports["u"].due.IsZero() {
		t.Error("it is not sent")
	}
	changes(false, func() { s.set(pod, corev1.PodStatus{}, settled) })
	changes(true, func() { s.set(pod, running, settled) })
	changes(false, func() { s.set(pod, running, settled) })
	changes(true, func() { s.finish(pod, running) })
	changes(false, func() { s.finish(pod, running) })
	if got, known := s.status("u"); !known || !reflect.DeepEqual(got, running) {
		t.Errorf("%v, %t", got, known)
	}
	if _, known := s.status("unheard-of"); known {
		t.Error("the status of a pod of which nobody has heard")
	}
}

// TestTurns: a sidecar waits for the containers that must end before it, within its grace period; others do not wait.
func TestTurns(t *testing.T) {
	killOrder := newKillOrder([]decision.Kill{{Name: "main"}, {Name: "main"}, {Name: "side", Grace: 3600, After: []string{"gone", "main"}}, {Name: "hasty", After: []string{"main"}}})
	if got := killOrder.wait(t.Context(), 0); got != 0 {
		t.Errorf("a container waited %s", got)
	}
	if got := killOrder.wait(t.Context(), 3); got != 0 {
		t.Errorf("a sidecar without a grace waited %s", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := killOrder.wait(over, 2); got >= time.Hour {
		t.Errorf("a sidecar waited %s for nobody", got)
	}
	close(killOrder.ended[0])
	if got := killOrder.wait(over, 2); got >= time.Hour {
		t.Errorf("a sidecar waited %s for nobody", got)
	}
	close(killOrder.ended[1])
	if got := killOrder.wait(t.Context(), 2); got >= time.Hour {
		t.Errorf("a sidecar waited %s for what has ended", got)
	}
}

// TestHostnames: a name is cut to Linux's limit, and then does not end with an invalid character.
func TestHostnames(t *testing.T) {
	x := strings.Repeat("x", 60)
	for name, want := range map[string]string{
		"web": "web", x + "abc": x + "abc", x + "ab-": x + "ab-", x + "abcd": x + "abc", x + "ab-d": x + "ab", x + "a.-d": x + "a", strings.Repeat("-", 70): "",
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if got := hostname(pod); got != want {
			t.Errorf("%s: %s", name, got)
		}
		pod.Name, pod.Spec.Hostname = "other", name
		if got := hostname(pod); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestBareResources: the bare host passes requests and limits to the runtime, and leaves the rest unset.
func TestBareResources(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for name, c := range map[string]struct {
		requests, limits              corev1.ResourceList
		shares, quota, period, memory int64
	}{
		"nothing":     {},
		"no limit":    {requests: list("cpu", "0"), limits: list("cpu", "0", "memory", "0"), shares: 2},
		"the least":   {requests: list("cpu", "1m"), limits: list("cpu", "1m"), shares: 2, quota: 1000, period: 100000},
		"requests":    {requests: list("cpu", "2", "memory", "1Gi"), shares: 2048},
		"limits only": {limits: list("cpu", "2", "memory", "1Gi"), quota: 200000, period: 100000, memory: 1 << 30},
	} {
		got := bare{}.Resources(nil, &corev1.Container{Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}})
		if got.CPUShares != c.shares || got.CPUQuota != c.quota || got.CPUPeriod != c.period || got.MemoryLimit != c.memory {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNews: a change stays relevant until it is taken, and a pod that is gone stays gone.
func TestNews(t *testing.T) {
	pod := func(version string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: version, Labels: labels}}
	}
	n := &inbox{pod: pod("1", nil)}
	if !n.receive(pod("2", map[string]string{"a": "b"}), false) {
		t.Error("labels are of no concern")
	}
	if n.receive(pod("3", map[string]string{"a": "b"}), false) {
		t.Error("the version alone is of concern")
	}
	if got := n.take(); got.pod.ResourceVersion != "3" || got.gone || !got.changed {
		t.Errorf("took %s, %t, %t", got.pod.ResourceVersion, got.gone, got.changed)
	}
	if n.take().changed {
		t.Error("what was taken still counts as changed")
	}
	if !n.receive(pod("3", nil), true) || n.receive(pod("3", nil), false) || !n.isGone() {
		t.Error("a pod that is gone is back")
	}
}

// eager is a Client of which the first patch fails, and another status comes during the second.
type eager struct {
	Client
	patches int
	during  func()
	last    string // patch
}

func (e *eager) Patch(_ context.Context, _ client.Target, p client.Patch, _ metav1.PatchOptions) (apiruntime.Object, error) {
	e.last = string(p.Data)
	switch e.patches++; e.patches {
	case 1:
		return nil, errors.New("no answer")
	case 2:
		e.during()
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, nil
}

// TestStatusDuringARetry: a status that comes while an earlier one is sent again is sent after it.
func TestStatusDuringARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
		e := &eager{}
		s := newSender(e, slog.New(slog.DiscardHandler))
		e.during = func() { s.set(pod, corev1.PodStatus{Phase: corev1.PodRunning, Message: "news"}, settled) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.set(pod, corev1.PodStatus{Phase: corev1.PodRunning}, settled)
		s.run(ctx)
		if want := `{"metadata":{"uid":"u"},"status":{"message":"news"}}`; e.patches != 3 || e.last != want {
			t.Errorf("%d patches were sent, the last one is %s", e.patches, e.last)
		}
		// What is dropped meanwhile is forgotten.
		e.patches = 0
		e.during = func() { s.drop("u") }
		s.set(pod, corev1.PodStatus{Phase: corev1.PodPending}, settled)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.run(ctx)
		if _, known := s.status("u"); known || e.patches != 2 {
			t.Errorf("it is known: %t, after %d patches", known, e.patches)
		}
	})
}
