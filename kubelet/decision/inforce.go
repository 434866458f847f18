package decision

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Resize is the state of a pod's resize.
type Resize struct {
	// Pending is the condition of a request that was not granted, Progress that of a granted one that is not in force
	// everywhere yet; nil if there is none.
	Pending, Progress *corev1.PodCondition
	// InForce are the resources last set in the runtime, as far as they differ from what the pod was given: containers
	// that are missing, or all if it is nil, have those of the pod's spec.
	InForce *Allocation
}

// Amounts are the resources of a container that may change while it runs; 0 is none.
type Amounts struct {
	CPURequest, CPULimit       int64 // thousandths of a CPU
	MemoryRequest, MemoryLimit int64 // bytes
}

// amountsOf are the amounts of a container of a pod with these resources; the pod's limits are those of containers
// without their own.
func amountsOf(whole *corev1.ResourceRequirements, r corev1.ResourceRequirements) Amounts {
	limits := effectiveLimits(whole, r.Limits)
	return Amounts{
		CPURequest: r.Requests.Cpu().MilliValue(), CPULimit: limits.Cpu().MilliValue(),
		MemoryRequest: r.Requests.Memory().Value(), MemoryLimit: limits.Memory().Value(),
	}
}

func effectiveLimits(whole *corev1.ResourceRequirements, own corev1.ResourceList) corev1.ResourceList {
	if whole == nil || len(whole.Limits) == 0 {
		return own
	}
	limits := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, set := own[name]; set {
			limits[name] = q
		} else if q, set := whole.Limits[name]; set {
			limits[name] = q
		}
	}
	return limits
}

// inForce returns the resources last set for a container.
func (r Resize) inForce(c *corev1.Container) corev1.ResourceRequirements {
	if r.InForce != nil {
		if set, known := r.InForce.Containers[c.Name]; known {
			return set
		}
	}
	return c.Resources
}

// whole returns the resources last set for the pod as a whole.
func (r Resize) whole(pod *corev1.Pod) *corev1.ResourceRequirements {
	if r.InForce != nil {
		return r.InForce.Pod
	}
	return pod.Spec.Resources
}

// change returns the amounts last set for a container, and those that it was given.
func (in *Situation) change(c *corev1.Container) (now, want Amounts) {
	return amountsOf(in.Resize.whole(in.Pod), in.Resize.inForce(c)), amountsOf(in.Pod.Spec.Resources, c.Resources)
}

// wholeChanges reports whether the resources of the pod as a whole are to change.
func (in *Situation) wholeChanges() bool {
	of := func(r *corev1.ResourceRequirements) Amounts {
		if r == nil {
			return Amounts{}
		}
		return amountsOf(nil, *r)
	}
	return of(in.Resize.whole(in.Pod)) != of(in.Pod.Spec.Resources)
}

// Resizing reports whether resources that the pod was given are not in force yet. Those of containers that do not run
// will be when they start. As upstream, an init container that is not a sidecar does not count.
func Resizing(s Situation) bool {
	in := &s
	if in.wholeChanges() {
		return true
	}
	for _, list := range [][]corev1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if _, k, _ := Container(in.Pod, c.Name); k == Initial && !restart.Sidecar(c) {
				continue
			}
			latest := in.Observed.Latest(c.Name)
			if latest == nil || latest.State != cri.ContainerRunning {
				continue
			}
			if now, want := in.change(c); now != want {
				return true
			}
		}
	}
	return false
}

// Settled reports whether what is in force is what the pod was given, for containers that do not run, too.
func (r Resize) Settled(pod *corev1.Pod) bool {
	in := &Situation{Pod: pod, Resize: r}
	if in.wholeChanges() {
		return false
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if now, want := in.change(&list[i]); now != want {
				return false
			}
		}
	}
	return true
}

// Started records that a container of a pod was started with the resources of its spec.
func (a *Allocation) Started(pod *corev1.Pod, c *corev1.Container) {
	r := *c.Resources.DeepCopy()
	r.Limits = effectiveLimits(pod.Spec.Resources, r.Limits)
	a.Containers[c.Name] = r
}

// ResizeActions are the steps that put the resources in force that a pod was given.
type ResizeActions struct {
	// Memory and CPU are the running containers whose resources change, those that give some up first.
	Memory, CPU []Update
	// Pod is set if the limits of the pod as a whole may change for another reason.
	Pod bool
}

// Update changes the resources of a running container.
type Update struct {
	ID, Name  string  // of the container, in the runtime and in the pod
	Now, Want Amounts // those last set, and those to set
}

// None reports whether there is nothing to do.
func (r ResizeActions) None() bool { return !r.Pod && len(r.Memory)+len(r.CPU) == 0 }

// resize adds what a running container's resources require, and reports whether it has to be restarted for them.
func (in *Situation) resize(c *corev1.Container, latest *cri.ContainerStatus, a *Actions) (again bool) {
	now, want := in.change(c)
	if now == want {
		return false
	}
	cpu := cmp.Or(cmp.Compare(want.CPULimit, now.CPULimit), cmp.Compare(want.CPURequest, now.CPURequest))
	memory := cmp.Or(cmp.Compare(want.MemoryLimit, now.MemoryLimit), cmp.Compare(want.MemoryRequest, now.MemoryRequest))
	for _, p := range c.ResizePolicy {
		changes := p.ResourceName == corev1.ResourceCPU && cpu != 0 || p.ResourceName == corev1.ResourceMemory && memory != 0
		if changes && p.RestartPolicy == corev1.RestartContainer {
			a.Kill = append(a.Kill, in.kill(c, latest, "", fmt.Sprintf("Container %s resize requires restart", c.Name)))
			a.Resize.Pod = true
			return true
		}
	}
	u := Update{ID: latest.ID, Name: c.Name, Now: now, Want: want}
	add := func(list []Update, direction int) []Update {
		switch {
		case direction < 0:
			return slices.Insert(list, 0, u)
		case direction > 0:
			return append(list, u)
		}
		return list
	}
	a.Resize.Memory, a.Resize.CPU = add(a.Resize.Memory, memory), add(a.Resize.CPU, cpu)
	return false
}

// resizePod decides whether the limits of the pod as a whole change: because its own resources do, or those of a
// container that is about to start.
func (in *Situation) resizePod(a *Actions) {
	if in.wholeChanges() {
		a.Resize.Pod = true
	}
	for _, st := range a.Start {
		if st.Kind != Regular {
			continue
		}
		if now, want := in.change(&in.Pod.Spec.Containers[st.Index]); now != want {
			a.Resize.Pod = true
		}
	}
}

// ResizeStep is one step of a resize.
type ResizeStep struct {
	// Pod are the limits to set for the pod as a whole; or else Container is what to update.
	Pod       cri.Resources
	Container *Update
	Resource  corev1.ResourceName // CPU or memory
}

// Steps returns the steps of a resize in order: memory before CPU; the pod's limits rise before those of its
// containers and fall after them, and of its CPU the limit rises before the request and falls after it. Now are the
// limits in force for the pod, want those of its spec; fields that are 0 are unknown, and left alone.
func (r ResizeActions) Steps(now, want cri.Resources) []ResizeStep {
	var steps []ResizeStep
	pod := func(set cri.Resources, moves bool, name corev1.ResourceName) {
		if moves {
			steps = append(steps, ResizeStep{Pod: set, Resource: name})
		}
	}
	containers := func(list []Update, name corev1.ResourceName) {
		for i := range list {
			steps = append(steps, ResizeStep{Container: &list[i], Resource: name})
		}
	}
	if len(r.Memory) > 0 || r.Pod {
		direction := compareLimits(now.MemoryLimit, want.MemoryLimit)
		limit := cri.Resources{MemoryLimit: want.MemoryLimit}
		pod(limit, direction > 0, corev1.ResourceMemory)
		containers(r.Memory, corev1.ResourceMemory)
		pod(limit, direction < 0, corev1.ResourceMemory)
	}
	if len(r.CPU) > 0 || r.Pod {
		quota, shares := compareLimits(now.CPUQuota, want.CPUQuota), compareLimits(now.CPUShares, want.CPUShares)
		limit, request := cri.Resources{CPUQuota: want.CPUQuota, CPUPeriod: want.CPUPeriod}, cri.Resources{CPUShares: want.CPUShares}
		pod(limit, quota > 0, corev1.ResourceCPU)
		pod(request, shares > 0, corev1.ResourceCPU)
		containers(r.CPU, corev1.ResourceCPU)
		pod(request, shares < 0, corev1.ResourceCPU)
		pod(limit, quota < 0, corev1.ResourceCPU)
	}
	return steps
}

// compareLimits returns 1 if a limit is to rise, -1 if it is to fall, and 0 if it stays or is unknown; a limit of -1 is
// none.
func compareLimits(now, want int64) int {
	if now == 0 || want == 0 {
		return 0
	}
	value := func(n int64) int64 {
		if n < 0 {
			return math.MaxInt64
		}
		return n
	}
	return cmp.Compare(value(want), value(now))
}

// Usage is the memory that a pod uses, in bytes.
type Usage struct {
	Pod        uint64            // of all its processes
	Containers map[string]uint64 // by name; those that are missing are unknown
}

// ShrinksMemory reports whether a memory limit falls or is added, so that the use of memory has to be checked.
func (r ResizeActions) ShrinksMemory(now, want cri.Resources) bool {
	return r.podMemoryFalls(now, want) || slices.ContainsFunc(r.Memory, Update.memoryFalls)
}

func (r ResizeActions) podMemoryFalls(now, want cri.Resources) bool {
	return (len(r.Memory) > 0 || r.Pod) && compareLimits(now.MemoryLimit, want.MemoryLimit) < 0
}

func (u Update) memoryFalls() bool {
	return u.Want.MemoryLimit != 0 && (u.Now.MemoryLimit == 0 || u.Want.MemoryLimit < u.Now.MemoryLimit)
}

// CheckMemory fails if a limit would fall below what is used already.
func (r ResizeActions) CheckMemory(now, want cri.Resources, use Usage) error {
	var errs []error
	if r.podMemoryFalls(now, want) && use.Pod >= uint64(want.MemoryLimit) {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", want.MemoryLimit, use.Pod))
	}
	for _, u := range r.Memory {
		if used, known := use.Containers[u.Name]; known && u.memoryFalls() && used >= uint64(u.Want.MemoryLimit) {
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", u.Name, u.Want.MemoryLimit, used))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: %w", aggregate(errs))
}

// aggregate formats several errors like upstream's aggregates.
func aggregate(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	text := "["
	for i, err := range errs {
		if i > 0 {
			text += ", "
		}
		text += err.Error()
	}
	return errors.New(text + "]")
}

// Set returns the requirements of a container after the step for a resource. Memory comes first.
func (u Update) Set(name corev1.ResourceName) corev1.ResourceRequirements {
	set := u.Want
	if name == corev1.ResourceMemory {
		set.CPURequest, set.CPULimit = u.Now.CPURequest, u.Now.CPULimit
	}
	list := func(cpu, memory int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		}
	}
	return corev1.ResourceRequirements{Requests: list(set.CPURequest, set.MemoryRequest), Limits: list(set.CPULimit, set.MemoryLimit)}
}
