package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestUnsupported: a pod that needs something unsupported fails, and its status names it.
func TestUnsupported(t *testing.T) {
	rules := func(action corev1.ContainerRestartRuleAction) corev1.Container {
		return corev1.Container{Name: "c", RestartPolicyRules: []corev1.ContainerRestartRule{{Action: action}}}
	}
	mount := []corev1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}}
	const restart = "RestartAllContainersOnContainerExits"
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		lacks  string
	}{
		"nothing":                     {func(*corev1.PodSpec) {}, ""},
		"users of its own":            {func(s *corev1.PodSpec) { s.HostUsers = ptr.To(false) }, ""},
		"the host's users":            {func(s *corev1.PodSpec) { s.HostUsers, s.HostNetwork = ptr.To(true), true }, ""},
		"users on the host's network": {func(s *corev1.PodSpec) { s.HostUsers, s.HostNetwork = ptr.To(false), true }, "UserNamespacesHostNetworkSupport"},
		"the restart of one container": {func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicyRules = rules(corev1.ContainerRestartRuleActionRestart).RestartPolicyRules
		}, ""},
		"the restart of all": {func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicyRules = rules("RestartAllContainers").RestartPolicyRules
		}, restart},
		"the restart of all, at first": {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{rules("RestartAllContainers")} }, restart},
		"options of mounts":            {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = mount }, "VolumeBindMountOptions"},
		"options of mounts, at first":  {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: mount}} }, "VolumeBindMountOptions"},
		"a plain mount":                {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v"}} }, ""},
		"a runtime class":              {func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("gvisor") }, `RuntimeClass "gvisor"`},
		"resource claims":              {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}, {Name: "nic"}} }, `resourceClaim "gpu", resourceClaim "nic"`},
		"an emptyDir":                  {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }, ""},
		"options of an ephemeral container's mount": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", VolumeMounts: mount}}}
		}, "VolumeBindMountOptions"},
		"a claim, and one made for it": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.pods.Put(newPod("web", func(p *corev1.Pod) { tt.change(&p.Spec) }))
				n.after(time.Second)
				status := n.pod("web").Status
				if tt.lacks == "" {
					if status.Reason != "" || status.Phase == corev1.PodFailed {
						t.Errorf("the pod is %s, %s: %s", status.Phase, status.Reason, status.Message)
					}
					return
				}
				want := "Pod was rejected: Pod requires node features that are not available: " + tt.lacks
				if status.Phase != corev1.PodFailed || status.Reason != "PodFeatureUnsupported" || status.Message != want {
					t.Errorf("the pod is %s, %s: %s, want %s", status.Phase, status.Reason, status.Message, want)
				}
				n.expectEventsAbout("PodFeature", "0s web Warning PodFeatureUnsupported: Pod requires node features that are not available: "+tt.lacks)
			})
		})
	}
}

// TestHookOfTheOldKind: a tcpSocket hook, which was never implemented, fails.
func TestHookOfTheOldKind(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}}
		}))
		n.after(time.Second)
		n.expectEventsAbout("Hook",
			"0s web spec.containers{main} Warning FailedPostStartHook: PostStartHook failed",
			"0s web spec.containers{main} Normal Killing: FailedPostStartHook")
	})
}

func resizable(name string, cpu string) *corev1.Pod {
	return newPod(name, func(p *corev1.Pod) {
		p.Generation = 1
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	})
}

// resize requests other resources for the pod and its containers.
func (n *node) resize(name string, change func(*corev1.PodSpec)) {
	pod := n.pod(name).DeepCopy()
	change(&pod.Spec)
	pod.Generation++
	n.pods.Put(pod)
	n.after(5 * time.Second)
}

func cpuOf(cpu string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu) }
}

// expectResize compares the condition and the container's reported resources.
func (n *node) expectResize(name, pending string, generation int64, cpu string) {
	n.t.Helper()
	status, got := n.pod(name).Status, ""
	for _, c := range status.Conditions {
		if c.Type != corev1.PodResizePending {
			continue
		}
		got = string(c.Status) + " " + c.Reason + ": " + c.Message
		if c.ObservedGeneration != generation || c.LastTransitionTime.IsZero() {
			n.t.Errorf("the condition is of generation %d and since %v", c.ObservedGeneration, c.LastTransitionTime)
		}
	}
	if got != pending {
		n.t.Errorf("PodResizePending is %q, want %q", got, pending)
	}
	if allocated := status.ContainerStatuses[0].AllocatedResources.Cpu(); allocated.String() != cpu || status.AllocatedResources.Cpu().String() != cpu {
		n.t.Errorf("the container has %v CPUs, its pod %v, want %v", allocated, status.AllocatedResources.Cpu(), cpu)
	}
	if status.ObservedGeneration != generation {
		n.t.Errorf("generation %d was observed, want %d", status.ObservedGeneration, generation)
	}
}

const infeasible = "True Infeasible: In-place pod resize is not supported on this node"

// TestResizeIsRefused: a pod that requests other resources keeps those that it has, and its status says so.
func TestResizeIsRefused(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.expectResize("web", "", 1, "1")
		n.resize("web", cpuOf("2"))
		n.expectResize("web", infeasible, 2, "1")
		n.expectEventsAbout("Resize", "1s web Warning ResizeInfeasible: "+
			`Pod resize Infeasible: {"initContainers":[{"name":"first","resources":{}}],"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}],`+
			`"generation":2,"error":"In-place pod resize is not supported on this node"}`)
		n.resize("web", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1000) })
		n.expectResize("web", infeasible, 3, "1")
		n.resize("web", cpuOf("1"))
		n.expectResize("web", "", 4, "1")
		if len(n.containers()) != 2 {
			t.Errorf("there are %d containers", len(n.containers()))
		}
	})
}

// TestResizeOfAnything: resizes of the pod as a whole and of init containers are refused too.
func TestResizeOfAnything(t *testing.T) {
	for name, change := range map[string]func(*corev1.PodSpec){
		"the pod": func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
		},
		"an init container": func(s *corev1.PodSpec) {
			s.InitContainers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("500m")}
		},
		"a limit": func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("5")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.pods.Put(resizable("web", "1"))
				n.after(time.Second)
				n.resize("web", change)
				n.expectResize("web", infeasible, 2, "1")
			})
		})
	}
}

// TestRefusedResizeOutlivesTheKubelet: the next kubelet takes the pod's resources from its status.
func TestRefusedResizeOutlivesTheKubelet(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.stop()
		next := n.run(n.runtime, kubelet.Options{})
		next.after(5 * time.Second)
		next.expectResize("web", infeasible, 2, "1")
		next.resize("web", cpuOf("1"))
		next.expectResize("web", "", 3, "1")
		next.stop()
	})
}

// TestResizeMakesRoomForNobody: admission of other pods counts the resources that the pod has, not those it requests.
func TestResizeMakesRoomForNobody(t *testing.T) {
	capacity := kubelet.Registration{Capacity: corev1.ResourceList{"cpu": resource.MustParse("2")}}
	simulate(t, simulated.Options{}, kubelet.Options{Registration: capacity}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.pods.Put(resizable("other", "1"))
		n.after(5 * time.Second)
		if status := n.pod("other").Status; status.Phase != corev1.PodRunning {
			t.Errorf("the other is %s, %s", status.Phase, status.Message)
		}
	})
}
