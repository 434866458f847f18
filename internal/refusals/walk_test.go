package refusals_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/internal/refusals"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
)

// asker is a user of a cluster of one node, with everything that the cluster has reported about the pod p.
type asker struct {
	t     *testing.T
	cs    kubernetes.Interface
	shown []string
}

// HandleWarningHeader records the API server's warnings.
func (a *asker) HandleWarningHeader(_ int, _, text string) {
	a.shown = append(a.shown, "warning: "+text)
}

// runNode runs a kubelet that prepares real volumes, over a runtime that starts nothing.
func runNode(dir string) func(context.Context, node.Parts) error {
	return func(ctx context.Context, parts node.Parts) error {
		volumes, err := volume.New(dir, volume.Sources{}, volume.Options{Rootless: true})
		if err != nil {
			return err
		}
		runtime := simulated.New(simulated.Options{Addresses: parts.PodCIDRs[0]})
		defer runtime.Close()
		k, err := kubelet.New(kubelet.Sources{Pods: parts.Pods, Nodes: parts.Node}, parts.Client, runtime, parts.Recorder,
			kubelet.Options{NodeName: parts.Name, Host: kubelet.Host{Volumes: volumes}})
		if err != nil {
			return err
		}
		return lifecycle.Group(k).Run(ctx)
	}
}

// inCluster runs a test in virtual time.
func inCluster(t *testing.T, test func(a *asker)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.Start(t.Context(), cluster.Options{Nodes: cluster.Nodes{Count: 1, Run: runNode(dir)}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.WaitNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, config := &asker{t: t}, c.Config()
		config.WarningHandler = a
		if a.cs, err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
		test(a)
	})
}

func (a *asker) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// create creates a pod, and waits for its outcome.
func (a *asker) create(name string, change func(*corev1.Pod)) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "nginx"}}, AutomountServiceAccountToken: ptr.To(false),
	}}
	change(pod)
	if _, err := a.cs.CoreV1().Pods("default").Create(a.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		a.shown = append(a.shown, "error: "+err.Error())
	}
	time.Sleep(10 * time.Second)
}

// look adds the pod's status and its events.
func (a *asker) look(name string) {
	pod, err := a.cs.CoreV1().Pods("default").Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return // it was refused
	}
	a.shown = append(a.shown, fmt.Sprintf("phase %s %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message))
	for _, c := range pod.Status.Conditions {
		a.shown = append(a.shown, fmt.Sprintf("condition %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	list, err := a.cs.CoreV1().Events("default").List(a.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	a.check(err)
	for _, e := range list.Items {
		a.shown = append(a.shown, fmt.Sprintf("event %s: %s", e.Reason, e.Message))
	}
}

// asking creates a pod whose spec the function has changed.
func asking(change func(*corev1.PodSpec)) func(*asker) {
	return func(a *asker) { a.create("p", func(p *corev1.Pod) { change(&p.Spec) }) }
}

// there is asking for a pod that names its node.
func there(change func(*corev1.PodSpec)) func(*asker) {
	return asking(func(s *corev1.PodSpec) {
		s.NodeName = "node-0"
		change(s)
	})
}

func mounting(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

func claimingDevices(s *corev1.PodSpec) {
	s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
	s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}

func restartingAll(s *corev1.PodSpec) {
	s.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	s.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
}

// walks returns how to request each row.
func walks() map[string]func(*asker) {
	return map[string]func(*asker){
		"volumes of servers other than NFS": asking(mounting(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
			TargetPortal: "10.0.0.1", IQN: "iqn.2001-04.com.example:storage", Lun: 0,
		}})),
		"resource claims, unless the scheduler has an allocator":     asking(claimingDevices),
		"the restart of all containers by a rule":                    asking(restartingAll),
		"the restart of all containers in pods that name their node": there(restartingAll),
	}
}

// TestListIsWalked: the refusal in every row is visible when the row is requested, and only then.
func TestListIsWalked(t *testing.T) {
	walks := walks()
	for _, r := range refusals.List() {
		walk := walks[r.Asks]
		delete(walks, r.Asks)
		if walk == nil {
			t.Errorf("nobody walks %q", r.Asks)
			continue
		}
		t.Run(r.Asks, func(t *testing.T) {
			inCluster(t, func(a *asker) {
				walk(a)
				a.look("p")
				if !slices.Contains(a.shown, r.Shows) {
					t.Errorf("what shows is\n\t%s\nnot\n\t%s", strings.Join(a.shown, "\n\t"), r.Shows)
				}
			})
		})
	}
	for asks := range walks {
		t.Errorf("%q is walked and not in the list", asks)
	}
}

// TestPlainPodsRun: a pod that requests nothing in the list runs without a warning.
func TestPlainPodsRun(t *testing.T) {
	inCluster(t, func(a *asker) {
		asking(func(*corev1.PodSpec) {})(a)
		a.look("p")
		if !slices.Contains(a.shown, "phase Running : ") || slices.ContainsFunc(a.shown, func(s string) bool { return strings.HasPrefix(s, "warning") }) {
			t.Errorf("what shows is\n\t%s", strings.Join(a.shown, "\n\t"))
		}
	})
}

// TestNamespacesThatAskForSecurity: a namespace's pod security labels take effect: they refuse and warn.
func TestNamespacesThatAskForSecurity(t *testing.T) {
	const not = `violate PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`
	for mode, want := range map[string]string{
		"enforce": `error: pods "p" is forbidden: ` + strings.Replace(not, "violate", "violates", 1),
		"warn":    "warning: would " + not,
	} {
		t.Run(mode, func(t *testing.T) {
			inCluster(t, func(a *asker) {
				namespaces := a.cs.CoreV1().Namespaces()
				ns, err := namespaces.Get(a.t.Context(), "default", metav1.GetOptions{})
				a.check(err)
				ns.Labels = map[string]string{"pod-security.kubernetes.io/" + mode: "baseline"}
				_, err = namespaces.Update(a.t.Context(), ns, metav1.UpdateOptions{})
				a.check(err)
				asking(func(s *corev1.PodSpec) {
					s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
				})(a)
				if !slices.Contains(a.shown, want) {
					t.Errorf("what shows is\n\t%s\nnot\n\t%s", strings.Join(a.shown, "\n\t"), want)
				}
			})
		})
	}
}

// TestNewNodesAreKeptFree: a new node has the taint of those that are not ready.
func TestNewNodesAreKeptFree(t *testing.T) {
	inCluster(t, func(a *asker) {
		made, err := a.cs.CoreV1().Nodes().Create(a.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		a.check(err)
		if len(made.Spec.Taints) != 1 || made.Spec.Taints[0].ToString() != "node.kubernetes.io/not-ready:NoSchedule" {
			t.Errorf("its taints are %v", made.Spec.Taints)
		}
	})
}
