package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// bare is the host of containers that run in name only; it provides nothing.
type bare struct{}

var (
	_ Volumes      = bare{}
	_ ClaimDevices = bare{}
	_ Environment  = bare{}
	_ Cgroups      = bare{}
	_ Credentials  = bare{}
	_ Resolver     = bare{}
	_ Security     = bare{}
	_ Prober       = bare{}
	_ Messages     = bare{}
	_ Pressure     = bare{}
	_ LogRemover   = bare{}
	_ Observer     = bare{}
	_ Memory       = bare{}
)

func (bare) Prepare(context.Context, *corev1.Pod) error                   { return nil }
func (bare) Mounts(context.Context, MountRequest) ([]cri.Mount, error)    { return nil, nil }
func (bare) CDIDevices(*corev1.Pod, *corev1.Container) ([]string, error)  { return nil, nil }
func (bare) Release(context.Context, types.UID) error                     { return nil }
func (bare) Ensure(context.Context, *corev1.Pod) (string, error)          { return "", nil }
func (bare) Remove(context.Context, types.UID) error                      { return nil }
func (bare) For(context.Context, *corev1.Pod, string) ([]cri.Auth, error) { return nil, nil }
func (bare) Resolve(*corev1.Pod) (cri.DNS, []string, error)               { return cri.DNS{}, nil, nil }
func (bare) NextRefresh(types.UID) time.Time                              { return time.Time{} }
func (bare) Sandbox(*corev1.Pod) (cri.SandboxSecurity, error)             { return cri.SandboxSecurity{}, nil }
func (bare) Namespaces(pod *corev1.Pod, _ string) (cri.Namespaces, error) {
	return namespaces(pod), nil
}
func (bare) Orphans(func(types.UID) bool) ([]types.UID, error)       { return nil, nil }
func (bare) Admitted(types.UID) bool                                 { return false }
func (bare) Admit(...*corev1.Pod) error                              { return nil }
func (bare) Resize(*corev1.Pod) error                                { return nil }
func (bare) SetInForce(types.UID, *decision.Allocation) error        { return nil }
func (bare) Limit(context.Context, *corev1.Pod, cri.Resources) error { return nil }
func (bare) Limits(context.Context, *corev1.Pod) (now, want cri.Resources, err error) {
	return now, want, nil
}
func (bare) Allocation(types.UID) (given decision.Allocation, inForce *decision.Allocation, ok bool) {
	return given, nil, false
}
func (bare) Forget(...types.UID) error                   { return nil }
func (bare) PodStarted(created, seen, running time.Time) {}
func (bare) PodSynced(time.Duration)                     {}
func (bare) Rejected(string)                             {}
func (bare) RemoveLog(string) error                      { return nil }
func (bare) Waits(types.UID) map[string]Wait             { return nil }
func (bare) SetWait(types.UID, string, Wait) error       { return nil }
func (bare) Probe(context.Context, ProbeTarget) error    { return nil }
func (bare) Message(status cri.ContainerStatus) string   { return status.Message }

// Conditions are those of a node that lacks nothing.
func (bare) Conditions() []corev1.NodeCondition {
	return []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse,
			Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	}
}

// Names returns the pod's hostname for all of them.
func (bare) Names(pod *corev1.Pod) (Names, error) {
	return Names{Hostname: hostname(pod), Kernel: hostname(pod)}, nil
}

// Container leaves everything to the runtime and the image.
func (bare) Container(*corev1.Pod, *corev1.Container, cri.Image) (cri.Security, error) {
	return cri.Security{}, nil
}

// Environment returns the variables with literal values.
func (bare) Environment(_ context.Context, r EnvironmentRequest) (env []cri.EnvVar, warnings []string, err error) {
	return literal(r.Container), nil, nil
}

// Resources turns requests and limits into what cgroups take.
func (bare) Resources(_ *corev1.Pod, c *corev1.Container) cri.Resources {
	var out cri.Resources
	if cpu, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
		out.CPUShares = max(cpu.MilliValue()*sharesPerCPU/1000, 2)
	}
	if cpu, ok := c.Resources.Limits[corev1.ResourceCPU]; ok && !cpu.IsZero() {
		out.CPUPeriod = quotaPeriod
		out.CPUQuota = max(cpu.MilliValue()*quotaPeriod/1000, 1000)
	}
	if memory, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		out.MemoryLimit = memory.Value()
	}
	return out
}

// literal returns the variables whose values are in the spec itself.
func literal(c *corev1.Container) []cri.EnvVar {
	var env []cri.EnvVar
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env = append(env, cri.EnvVar{Name: e.Name, Value: e.Value})
		}
	}
	return env
}
