package core_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestAllKinds covers all kinds except pods, which have tests of their own.
func TestAllKinds(t *testing.T) {
	kinds := slices.DeleteFunc(core.Kinds(core.Options{}), func(k registry.Kind) bool { return k.Plural == "pods" || k.Plural == "podtemplates" })
	registrytest.Kinds(t, kinds)
	for _, k := range core.Kinds(core.Options{}) {
		if want := k.Plural != "componentstatuses" && k.Plural != "namespaces" && k.Plural != "nodes" && k.Plural != "persistentvolumes"; k.Namespaced != want {
			t.Errorf("%s: namespaced %t", k.Plural, k.Namespaced)
		}
	}
}

var printedAt = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(printedAt.Add(-d)) }

func cellsOf(t *testing.T, plural string, obj registry.Object) []any {
	t.Helper()
	return registrytest.Find(t, core.Kinds(core.Options{}), plural).Columns.Cells(obj, printedAt)
}

func TestCells(t *testing.T) {
	made := metav1.ObjectMeta{Name: "a", Namespace: "ns", CreationTimestamp: ago(time.Hour)}
	old := made
	old.DeletionTimestamp, old.Annotations = new(ago(time.Second)), map[string]string{corev1.BetaStorageClassAnnotation: "fast"}
	component := func(kind corev1.ComponentConditionType, status corev1.ConditionStatus) *corev1.ComponentStatus {
		return &corev1.ComponentStatus{ObjectMeta: made, Conditions: []corev1.ComponentCondition{{Type: kind, Status: status, Message: "m", Error: "e"}}}
	}
	at := func(ips ...string) []corev1.EndpointAddress {
		var out []corev1.EndpointAddress
		for _, ip := range ips {
			out = append(out, corev1.EndpointAddress{IP: ip})
		}
		return out
	}
	ports := func(numbers ...int32) []corev1.EndpointPort {
		var out []corev1.EndpointPort
		for _, n := range numbers {
			out = append(out, corev1.EndpointPort{Port: n})
		}
		return out
	}
	endpoints := func(subsets ...corev1.EndpointSubset) *corev1.Endpoints {
		return &corev1.Endpoints{ObjectMeta: made, Subsets: subsets}
	}
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   []any
	}{
		{"configmaps", &corev1.ConfigMap{ObjectMeta: made, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil, "c": nil}}, []any{"a", int64(3), "60m"}},
		{"secrets", &corev1.Secret{ObjectMeta: made, Type: "T", Data: map[string][]byte{"b": nil, "c": nil}}, []any{"a", "T", int64(2), "60m"}},
		{"serviceaccounts", &corev1.ServiceAccount{ObjectMeta: made}, []any{"a", "60m"}},
		{"namespaces", &corev1.Namespace{ObjectMeta: made, Status: corev1.NamespaceStatus{Phase: "Active"}}, []any{"a", "Active", "60m"}},
		{"endpoints", endpoints(), []any{"a", "<none>", "60m"}},
		{"endpoints", endpoints(corev1.EndpointSubset{Addresses: at("10.0.0.1", "fd00::1"), Ports: ports(80)}), []any{"a", "10.0.0.1:80,[fd00::1]:80", "60m"}},
		{"endpoints", endpoints(corev1.EndpointSubset{Addresses: at("10.0.0.1", "10.0.0.2", "10.0.0.3")}), []any{"a", "10.0.0.1,10.0.0.2,10.0.0.3", "60m"}},
		{"endpoints", endpoints(corev1.EndpointSubset{Addresses: at("10.0.0.1", "10.0.0.2"), Ports: ports(80, 81)}, corev1.EndpointSubset{Addresses: at("10.0.0.3")}),
			[]any{"a", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 2 more...", "60m"}},
		{"componentstatuses", component("Other", "True"), []any{"a", "Unknown", "", ""}},
		{"componentstatuses", component("Healthy", "True"), []any{"a", "Healthy", "m", "e"}},
		{"componentstatuses", component("Healthy", "Unknown"), []any{"a", "Unhealthy", "m", "e"}},
		{"persistentvolumes", &corev1.PersistentVolume{ObjectMeta: made}, []any{"a", "0", "", "", "", "", "", "<unset>", "", "60m", "<unset>"}},
		{"persistentvolumes", &corev1.PersistentVolume{ObjectMeta: old, Spec: corev1.PersistentVolumeSpec{
			Capacity: resources("storage", "1Gi"), StorageClassName: "slow", VolumeMode: new(corev1.PersistentVolumeBlock), VolumeAttributesClassName: new("gold"),
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: "Retain", ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c"},
		}, Status: corev1.PersistentVolumeStatus{Phase: "Bound", Reason: "because"}},
			[]any{"a", "1Gi", "RWO,ROX,RWX", "Retain", "Terminating", "ns/c", "fast", "gold", "because", "60m", "Block"}},
		{"persistentvolumeclaims", &corev1.PersistentVolumeClaim{ObjectMeta: made, Status: corev1.PersistentVolumeClaimStatus{
			Phase: "Pending", Capacity: resources("storage", "1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
		}}, []any{"a", "Pending", "", "", "", "", "<unset>", "60m", "<unset>"}},
		{"persistentvolumeclaims", &corev1.PersistentVolumeClaim{ObjectMeta: made, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "v", StorageClassName: new("slow"), VolumeMode: new(corev1.PersistentVolumeFilesystem), VolumeAttributesClassName: new("gold"),
		}, Status: corev1.PersistentVolumeClaimStatus{
			Phase: "Bound", Capacity: resources("storage", "1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
		}}, []any{"a", "Bound", "v", "1Gi", "RWOP", "slow", "gold", "60m", "Filesystem"}},
	} {
		if got := cellsOf(t, tt.plural, tt.obj); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.plural, got, tt.want)
		}
	}
}

func TestEventCells(t *testing.T) {
	for name, tt := range map[string]struct {
		event corev1.Event
		want  []any
	}{
		"nothing": {corev1.Event{}, []any{"<unknown>", "", "", "", "", "", "", "<unknown>", int64(1), "e"}},
		"of old": {corev1.Event{
			FirstTimestamp: ago(time.Hour), LastTimestamp: ago(time.Minute), Count: 4, Type: "Normal", Reason: "Made", Message: " hello\n",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", FieldPath: "spec"}, Source: corev1.EventSource{Component: "c", Host: "h"},
			ReportingController: "other", ReportingInstance: "another",
		}, []any{"60s", "Normal", "Made", "pod/p", "spec", "c, h", "hello", "60m", int64(4), "e"}},
		"of new": {corev1.Event{EventTime: metav1.NewMicroTime(printedAt.Add(-time.Hour)), InvolvedObject: corev1.ObjectReference{Kind: "Pod"}, ReportingController: "c", ReportingInstance: "h"},
			[]any{"60m", "", "", "pod", "", "c, h", "", "60m", int64(1), "e"}},
		"a series": {corev1.Event{EventTime: metav1.NewMicroTime(printedAt.Add(-time.Hour)), LastTimestamp: ago(time.Second), Count: 2,
			Series: &corev1.EventSeries{Count: 9, LastObservedTime: metav1.NewMicroTime(printedAt.Add(-time.Minute))}},
			[]any{"60s", "", "", "", "", "", "", "60m", int64(9), "e"}},
		"no time twice": {corev1.Event{FirstTimestamp: ago(time.Minute), EventTime: metav1.NewMicroTime(printedAt.Add(-time.Hour)), Count: 2}, []any{"60s", "", "", "", "", "", "", "60s", int64(2), "e"}},
	} {
		tt.event.Name = "e"
		if got := cellsOf(t, "events", &tt.event); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestServiceCells(t *testing.T) {
	made := metav1.ObjectMeta{Name: "a", Namespace: "ns", CreationTimestamp: ago(time.Hour)}
	balanced := func(points ...corev1.LoadBalancerIngress) corev1.ServiceStatus {
		return corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: points}}
	}
	for _, tt := range []struct {
		spec   corev1.ServiceSpec
		status corev1.ServiceStatus
		want   []any
	}{
		{corev1.ServiceSpec{Type: "ClusterIP"}, corev1.ServiceStatus{}, []any{"a", "ClusterIP", "<none>", "<none>", "<none>", "60m", "<none>"}},
		{corev1.ServiceSpec{Type: "ClusterIP", ClusterIPs: []string{"10.0.0.1", "fd00::1"}, ExternalIPs: []string{"192.0.2.1", "192.0.2.2"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP"}, {Port: 81, NodePort: 30081, Protocol: "UDP"}}, Selector: map[string]string{"b": "c", "a": "b"}}, corev1.ServiceStatus{},
			[]any{"a", "ClusterIP", "10.0.0.1", "192.0.2.1,192.0.2.2", "80/TCP,81:30081/UDP", "60m", "a=b,b=c"}},
		{corev1.ServiceSpec{Type: "NodePort"}, balanced(corev1.LoadBalancerIngress{IP: "192.0.2.1"}), []any{"a", "NodePort", "<none>", "<none>", "<none>", "60m", "<none>"}},
		{corev1.ServiceSpec{Type: "LoadBalancer"}, corev1.ServiceStatus{}, []any{"a", "LoadBalancer", "<none>", "<pending>", "<none>", "60m", "<none>"}},
		{corev1.ServiceSpec{Type: "LoadBalancer", ExternalIPs: []string{"192.0.2.0"}},
			balanced(corev1.LoadBalancerIngress{Hostname: "z"}, corev1.LoadBalancerIngress{}, corev1.LoadBalancerIngress{IP: "192.0.2.1", Hostname: "y"}, corev1.LoadBalancerIngress{Hostname: "z"}),
			[]any{"a", "LoadBalancer", "<none>", "192.0.2.1,z,192.0.2.0", "<none>", "60m", "<none>"}},
		{corev1.ServiceSpec{Type: "ExternalName", ExternalName: "example.com"}, corev1.ServiceStatus{}, []any{"a", "ExternalName", "<none>", "example.com", "<none>", "60m", "<none>"}},
		{corev1.ServiceSpec{Type: "Other"}, corev1.ServiceStatus{}, []any{"a", "Other", "<none>", "<unknown>", "<none>", "60m", "<none>"}},
	} {
		if got := cellsOf(t, "services", &corev1.Service{ObjectMeta: made, Spec: tt.spec, Status: tt.status}); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.spec.Type, got, tt.want)
		}
	}
}

func TestNodeCells(t *testing.T) {
	ready := func(status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: "True"}, {Type: corev1.NodeReady, Status: status}}
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		spec   corev1.NodeSpec
		status corev1.NodeStatus
		want   []any
	}{
		"nothing": {want: []any{"n", "Unknown", "<none>", "60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
		"all": {
			labels: map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker", "node-role.kubernetes.io/": "x", "a": "b"},
			status: corev1.NodeStatus{
				Conditions: ready("True"), Addresses: []corev1.NodeAddress{{Type: "Hostname", Address: "h"}, {Type: "ExternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "10.0.0.1"}, {Type: "InternalIP", Address: "10.0.0.2"}},
				NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1", OSImage: "os", KernelVersion: "6.1", Architecture: "amd64", ContainerRuntimeVersion: "cri://1"},
			},
			want: []any{"n", "Ready", "control-plane,worker", "60m", "v1", "10.0.0.1", "192.0.2.1", "os", "6.1 (amd64)", "cri://1"},
		},
		"cordoned, not ready": {labels: map[string]string{"kubernetes.io/role": ""}, spec: corev1.NodeSpec{Unschedulable: true}, status: corev1.NodeStatus{Conditions: ready("Unknown")},
			want: []any{"n", "NotReady,SchedulingDisabled", "<none>", "60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
		"deprecated role label": {labels: map[string]string{"kubernetes.io/role": "master"}, want: []any{"n", "Unknown", "master", "60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tt.labels, CreationTimestamp: ago(time.Hour)}, Spec: tt.spec, Status: tt.status}
		if got := cellsOf(t, "nodes", node); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// printedPod returns a pod with an init container i, a sidecar s and the containers a and b.
func printedPod(change func(p *corev1.Pod)) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", CreationTimestamp: ago(time.Hour)},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "a"}, {Name: "b"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	change(p)
	return p
}

func TestPodCells(t *testing.T) {
	type status = corev1.ContainerStatus
	ended := func(name, reason string, code, signal int32) status {
		return status{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal}}}
	}
	waiting := func(name, reason string) status {
		return status{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	running := func(name string, ready bool) status {
		return status{Name: name, Ready: ready, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	restarted := func(s status, n int32, last time.Duration) status {
		s.RestartCount = n
		if last > 0 {
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: ago(last)}
		}
		return s
	}
	is := func(of corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: of, Status: status}
	}
	done := ended("i", "Completed", 0, 0)
	unstarted := running("s", false)
	unstarted.Started = nil
	for name, tt := range map[string]struct {
		phase      corev1.PodPhase
		reason     string
		conditions []corev1.PodCondition
		init, main []status
		deleted    bool
		want       string // ready, state and restarts
	}{
		"new":                        {want: "0/3 Pending 0"},
		"by its reason":              {reason: "Evicted", phase: "Failed", want: "0/3 Evicted 0"},
		"gated":                      {conditions: []corev1.PodCondition{{Type: "PodScheduled", Reason: "SchedulingGated"}}, want: "0/3 SchedulingGated 0"},
		"gated otherwise":            {conditions: []corev1.PodCondition{{Type: "Ready", Reason: "SchedulingGated"}}, want: "0/3 Pending 0"},
		"first init container":       {init: []status{waiting("i", "PodInitializing")}, main: []status{waiting("a", "X")}, want: "0/3 Init:0/2 0"},
		"init container held up":     {init: []status{waiting("i", "ErrImagePull")}, want: "0/3 Init:ErrImagePull 0"},
		"init container waits":       {init: []status{waiting("i", "")}, want: "0/3 Init:0/2 0"},
		"init container runs":        {init: []status{restarted(running("i", false), 2, time.Minute)}, want: "0/3 Init:0/2 2 (60s ago)"},
		"init container failed":      {init: []status{ended("i", "Error", 1, 0)}, want: "0/3 Init:Error 0"},
		"init container was killed":  {init: []status{ended("i", "", 1, 9)}, want: "0/3 Init:Signal:9 0"},
		"init container ended badly": {init: []status{ended("i", "", 3, 0)}, want: "0/3 Init:ExitCode:3 0"},
		"unknown init container":     {init: []status{running("x", true)}, want: "0/3 Init:0/2 0"},
		"sidecar starts":             {init: []status{restarted(done, 5, time.Hour), restarted(unstarted, 1, 0)}, want: "0/3 Init:1/2 6 (60m ago)"},
		"sidecar runs, not ready":    {init: []status{restarted(done, 5, time.Hour), running("s", false)}, main: []status{waiting("a", "ContainerCreating")}, want: "0/3 ContainerCreating 0"},
		"sidecar ready":              {phase: "Running", init: []status{restarted(done, 5, time.Hour), restarted(running("s", true), 1, time.Minute)}, main: []status{running("a", true), running("b", false)}, want: "2/3 Running 1 (60s ago)"},
		"all ready": {phase: "Running", init: []status{done, running("s", true)},
			main: []status{restarted(running("a", true), 1, time.Minute), restarted(running("b", true), 2, time.Hour)}, want: "3/3 Running 3 (60s ago)"},
		"restarted, time unknown":       {phase: "Running", main: []status{restarted(running("a", true), 1, 0)}, want: "1/3 Running 1"},
		"the first one decides":         {phase: "Running", main: []status{waiting("a", "CrashLoopBackOff"), ended("b", "Error", 1, 0)}, want: "0/3 CrashLoopBackOff 0"},
		"waits without a reason":        {phase: "Running", main: []status{waiting("a", ""), ended("b", "Error", 1, 0)}, want: "0/3 Error 0"},
		"killed":                        {phase: "Failed", main: []status{ended("a", "", 1, 9)}, want: "0/3 Signal:9 0"},
		"ended badly":                   {phase: "Failed", main: []status{ended("a", "", 3, 0)}, want: "0/3 ExitCode:3 0"},
		"one completed, one runs":       {phase: "Running", conditions: []corev1.PodCondition{is("Ready", "True")}, main: []status{ended("a", "Completed", 0, 0), running("b", true)}, want: "1/3 Running 0"},
		"one completed, one not ready":  {phase: "Running", conditions: []corev1.PodCondition{is("Ready", "False")}, main: []status{ended("a", "Completed", 0, 0), running("b", true)}, want: "1/3 NotReady 0"},
		"one completed, none runs":      {phase: "Running", main: []status{ended("a", "Completed", 0, 0), running("b", false)}, want: "0/3 Completed 0"},
		"one completed, one failed":     {phase: "Failed", main: []status{ended("a", "Completed", 0, 0), ended("b", "Error", 1, 0)}, want: "0/3 Error 0"},
		"completed":                     {phase: "Succeeded", main: []status{ended("a", "Completed", 0, 0), ended("b", "Completed", 0, 0)}, want: "0/3 Completed 0"},
		"initialized, but init running": {conditions: []corev1.PodCondition{is("Initialized", "True")}, init: []status{restarted(running("i", false), 4, 0)}, main: []status{waiting("a", "X")}, want: "0/3 X 0"},
		"not initialized":               {conditions: []corev1.PodCondition{is("Initialized", "False")}, init: []status{restarted(running("i", false), 4, 0)}, main: []status{waiting("a", "X")}, want: "0/3 Init:0/2 4"},
		"terminating":                   {phase: "Running", deleted: true, main: []status{running("a", true)}, want: "1/3 Terminating 0"},
		"deleted, but ended":            {phase: "Succeeded", deleted: true, want: "0/3 Succeeded 0"},
		"deleted, but failed":           {phase: "Failed", deleted: true, want: "0/3 Failed 0"},
		"lost":                          {phase: "Running", reason: "NodeLost", deleted: true, want: "0/3 Unknown 0"},
	} {
		pod := printedPod(func(p *corev1.Pod) {
			if tt.phase != "" {
				p.Status.Phase = tt.phase
			}
			p.Status.Reason, p.Status.Conditions, p.Status.InitContainerStatuses, p.Status.ContainerStatuses = tt.reason, tt.conditions, tt.init, tt.main
			if tt.deleted {
				p.DeletionTimestamp = new(ago(time.Second))
			}
		})
		cells := cellsOf(t, "pods", pod)
		if got := fmt.Sprint(cells[1], " ", cells[2], " ", cells[3]); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestPodPlaceCells(t *testing.T) {
	bare := cellsOf(t, "pods", printedPod(func(*corev1.Pod) {}))
	if want := []any{"p", "0/3", "Pending", "0", "60m", "<none>", "<none>", "<none>", "<none>"}; !reflect.DeepEqual(bare, want) {
		t.Errorf("%q, want %q", bare, want)
	}
	placed := printedPod(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.NominatedNodeName = "n", "m"
		p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}, {ConditionType: "y"}, {ConditionType: "z"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: "x", Status: "True"}, {Type: "y", Status: "False"}, {Type: "y", Status: "True"}}
	})
	if got, want := cellsOf(t, "pods", placed)[5:], []any{"10.0.0.1", "n", "m", "1/3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	placed.Status.PodIP, placed.Status.PodIPs = "10.0.0.9", nil // the defaults prevent this
	if got := cellsOf(t, "pods", placed)[5]; got != "<none>" {
		t.Errorf("address %q", got)
	}
	conditions := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Columns.Conditions
	for phase, want := range map[corev1.PodPhase][]metav1.TableRowCondition{
		"Running":   nil,
		"Succeeded": {{Type: "Completed", Status: "True", Reason: "Succeeded", Message: "The pod has completed successfully."}},
		"Failed":    {{Type: "Completed", Status: "True", Reason: "Failed", Message: "The pod failed."}},
	} {
		if got := conditions(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", phase, got)
		}
	}
}
