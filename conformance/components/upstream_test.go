package components_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/internal/upstream"
)

// TestUpstream: a Deployment goes through its whole life cycle with Kubernetes' scheduler and controller manager in
// place of keelson's, with kubeadm's flags and the credentials that examples/cluster wrote for them.
func TestUpstream(t *testing.T) {
	w := newWorld(t, "--disable", "scheduler,controllers", "--nodes", "2")
	startScheduler(t, w.dir)
	startControllerManager(t, w.dir)
	w.leaders(t)
	w.namespace(t, "shop")
	w.rollOut(t)
	w.update(t)
	w.scale(t, 5)
	w.scale(t, 1)
	w.unschedulable(t)
	w.cascade(t)
	w.foreground(t)
	w.endNamespace(t, "shop")
	w.rights(t, "system:kube-scheduler", "system:kube-controller-manager",
		"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:kube-system:generic-garbage-collector")
}

func startScheduler(t *testing.T, dir string) {
	t.Helper()
	credentials := filepath.Join(dir, "scheduler.conf")
	upstreams(t, upstream.Scheduler,
		"--kubeconfig="+credentials, "--authentication-kubeconfig="+credentials, "--authorization-kubeconfig="+credentials,
		"--bind-address=127.0.0.1", "--secure-port="+freePort(t), "--leader-elect=true")
}

func startControllerManager(t *testing.T, dir string) {
	t.Helper()
	credentials, pki := filepath.Join(dir, "controller-manager.conf"), filepath.Join(dir, "pki")
	upstreams(t, upstream.ControllerManager,
		"--kubeconfig="+credentials, "--authentication-kubeconfig="+credentials, "--authorization-kubeconfig="+credentials,
		"--bind-address=127.0.0.1", "--secure-port="+freePort(t), "--leader-elect=true", "--cluster-name=kubernetes",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller", "--use-service-account-credentials=true",
		"--client-ca-file="+filepath.Join(pki, "ca.crt"), "--root-ca-file="+filepath.Join(pki, "ca.crt"),
		"--cluster-signing-cert-file="+filepath.Join(pki, "ca.crt"), "--cluster-signing-key-file="+filepath.Join(pki, "ca.key"),
		"--service-account-private-key-file="+filepath.Join(pki, "sa.key"))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// leaders checks that both hold their lease and have recorded an event about it.
func (w *world) leaders(t *testing.T) {
	t.Helper()
	// The scheduler's events have the name of its profile.
	for name, component := range map[string]string{"kube-scheduler": "default-scheduler", "kube-controller-manager": "kube-controller-manager"} {
		eventually(t, "lease of "+name, func(ctx context.Context) (string, error) {
			lease, err := w.api.CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return "no holder", err
			}
			return "", nil
		})
		w.event(t, "kube-system", "Lease", "LeaderElection", component)
	}
}

// event waits for an event about an object of the kind, with the reason and from the component.
func (w *world) event(t *testing.T, namespace, kind, reason, component string) corev1.Event {
	t.Helper()
	var found corev1.Event
	eventually(t, "event "+reason+" about a "+kind+" from "+component, func(ctx context.Context) (string, error) {
		list, err := w.api.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return "", err
		}
		seen := ""
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == kind && (e.Source.Component == component || e.ReportingController == component) {
				found = e
				return "", nil
			}
			seen += fmt.Sprintln(e.InvolvedObject.Kind, e.Source.Component, e.ReportingController, e.Message)
		}
		return "only: " + seen, nil
	})
	return found
}

// namespace creates a namespace and waits for its default objects.
func (w *world) namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := w.api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "default service account", func(ctx context.Context) (string, error) {
		_, err := w.api.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
	authority, err := os.ReadFile(filepath.Join(w.dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "root certificate", func(ctx context.Context) (string, error) {
		m, err := w.api.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return differ(m.Data["ca.crt"], string(authority)), nil
	})
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
			},
		},
	}
}

// rolledOut waits until every replica is of the current template and available.
func (w *world) rolledOut(t *testing.T, name, revision, image string, replicas int32) {
	t.Helper()
	eventually(t, "rollout "+revision, func(ctx context.Context) (string, error) {
		d, err := w.api.AppsV1().Deployments("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		got := d.Status
		got.Conditions, got.CollisionCount, got.TerminatingReplicas = nil, nil, nil
		want := appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		}
		if missing := differ(got, want) + differ(d.Annotations["deployment.kubernetes.io/revision"], revision); missing != "" {
			return missing, nil
		}
		pods, err := w.pods(ctx, name)
		if err != nil || len(pods) != int(replicas) {
			return fmt.Sprintf("%d pods", len(pods)), err
		}
		for _, p := range pods {
			if p.Spec.Containers[0].Image != image || p.Spec.NodeName == "" || p.Status.PodIP == "" {
				return fmt.Sprintf("pod %s: image %s, node %q, IP %q", p.Name, p.Spec.Containers[0].Image, p.Spec.NodeName, p.Status.PodIP), nil
			}
		}
		return "", nil
	})
	w.addresses(t, name)
}

// pods returns those of a deployment.
func (w *world) pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list, err := w.api.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// addresses checks that the service's slices and Endpoints have exactly the addresses of the pods.
func (w *world) addresses(t *testing.T, name string) {
	t.Helper()
	eventually(t, "endpoints", func(ctx context.Context) (string, error) {
		pods, err := w.pods(ctx, name)
		if err != nil {
			return "", err
		}
		want := []string{}
		for _, p := range pods {
			want = append(want, p.Status.PodIP)
		}
		slices, err := w.api.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + name + "," + discoveryv1.LabelManagedBy + "=endpointslice-controller.k8s.io",
		})
		if err != nil {
			return "", err
		}
		got := []string{}
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					got = append(got, e.Addresses...)
				}
			}
		}
		old, err := w.api.CoreV1().Endpoints("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		gotOld := []string{}
		for _, s := range old.Subsets {
			for _, a := range s.Addresses {
				gotOld = append(gotOld, a.IP)
			}
		}
		return differ(sorted(got), sorted(want)) + differ(sorted(gotOld), sorted(want)), nil
	})
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func (w *world) rollOut(t *testing.T) {
	t.Helper()
	if _, err := w.api.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.api.AppsV1().Deployments("shop").Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.rolledOut(t, "web", "1", "web:1", 3)
	w.event(t, "shop", "Deployment", "ScalingReplicaSet", "deployment-controller")
	w.event(t, "shop", "ReplicaSet", "SuccessfulCreate", "replicaset-controller")
	w.event(t, "shop", "Pod", "Scheduled", "default-scheduler")
	w.event(t, "shop", "Pod", "Started", "kubelet")
}

// update checks that a second ReplicaSet replaces the first, which stays with no pods.
func (w *world) update(t *testing.T) {
	t.Helper()
	d, err := w.api.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.change(t, "web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
	w.rolledOut(t, "web", "2", "web:2", 3)
	sets, err := w.api.AppsV1().ReplicaSets("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int32{}
	for _, s := range sets.Items {
		got[s.Annotations["deployment.kubernetes.io/revision"]] = *s.Spec.Replicas
		if o := metav1.GetControllerOf(&s); o == nil || o.UID != d.UID {
			t.Errorf("ReplicaSet %s is owned by %v", s.Name, o)
		}
	}
	if missing := differ(got, map[string]int32{"1": 0, "2": 3}); missing != "" {
		t.Errorf("replicas by revision: %s", missing)
	}
}

// change retries a write until there is no conflict.
func (w *world) change(t *testing.T, name string, edit func(*appsv1.Deployment)) {
	t.Helper()
	eventually(t, "update of "+name, func(ctx context.Context) (string, error) {
		d, err := w.api.AppsV1().Deployments("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		edit(d)
		_, err = w.api.AppsV1().Deployments("shop").Update(ctx, d, metav1.UpdateOptions{})
		return "", err
	})
}

func (w *world) scale(t *testing.T, replicas int32) {
	t.Helper()
	eventually(t, "scale", func(ctx context.Context) (string, error) {
		_, err := w.api.AppsV1().Deployments("shop").UpdateScale(ctx, "web", &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
		}, metav1.UpdateOptions{})
		return "", err
	})
	w.rolledOut(t, "web", "2", "web:2", replicas)
}

// unschedulable checks that the scheduler says why a pod has no node.
func (w *world) unschedulable(t *testing.T) {
	t.Helper()
	d := deployment("huge", 1)
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
	if _, err := w.api.AppsV1().Deployments("shop").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "0/2 nodes are available: 2 Insufficient cpu."
	eventually(t, "condition of a pod without a node", func(ctx context.Context) (string, error) {
		pods, err := w.pods(ctx, "huge")
		if err != nil {
			return "", err
		}
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && len(c.Message) >= len(want) {
					return differ(c.Message[:len(want)], want), nil
				}
			}
		}
		return "no condition", nil
	})
	w.event(t, "shop", "Pod", "FailedScheduling", "default-scheduler")
}

// remains returns what is left of a deployment.
func (w *world) remains(ctx context.Context, name string) (string, error) {
	sets, err := w.api.AppsV1().ReplicaSets("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return "", err
	}
	pods, err := w.pods(ctx, name)
	if err != nil {
		return "", err
	}
	_, err = w.api.AppsV1().Deployments("shop").Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && len(sets.Items)+len(pods) == 0 {
		return "", nil
	}
	return fmt.Sprintf("deployment gone: %t, %d ReplicaSets, %d pods", apierrors.IsNotFound(err), len(sets.Items), len(pods)), nil
}

// cascade checks that the garbage collector removes what the deployment owned, and that the service has no addresses
// left.
func (w *world) cascade(t *testing.T) {
	t.Helper()
	if err := w.api.AppsV1().Deployments("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "cascade", func(ctx context.Context) (string, error) { return w.remains(ctx, "web") })
	w.addresses(t, "web")
}

// foreground checks that the owner is deleted last.
func (w *world) foreground(t *testing.T) {
	t.Helper()
	foreground := metav1.DeletePropagationForeground
	if err := w.api.AppsV1().Deployments("shop").Delete(t.Context(), "huge", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "foreground deletion", func(ctx context.Context) (string, error) { return w.remains(ctx, "huge") })
}

func (w *world) endNamespace(t *testing.T, name string) {
	t.Helper()
	began := time.Now()
	if err := w.api.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the namespace", func(ctx context.Context) (string, error) {
		n, err := w.api.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(n.Status), nil
	})
	t.Logf("the namespace was gone after %v", time.Since(began).Round(time.Millisecond))
}
