package resourcemetrics_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/resourcemetrics"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// traffic is what the pods of an app have to do together.
type traffic struct {
	mu    sync.Mutex
	began time.Time
	pods  uint64 // that share it
}

// An hour of it lasts long enough for an autoscaler to scale down.
const hour = 7 * time.Minute

// day is the traffic by the hour, in thousandths of a core.
func day() []uint64 { return []uint64{200, 600, 1600, 3000, 1600, 900, 200, 200} }

// load is that of one pod.
func (l *traffic) load() (nanoCores, memory uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hours := day()
	all := hours[min(int(time.Since(l.began)/hour), len(hours)-1)]
	return all * 1e6 / max(l.pods, 1), 64 << 20
}

func (l *traffic) share(pods int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = uint64(pods)
}

// options are those of a cluster that behaves the same in every run.
func options(l *traffic, o resourcemetrics.Options) cluster.Options {
	return cluster.Options{
		Seed: new(uint64(7)), Settle: 10 * time.Millisecond,
		Extensions: []cluster.Extension{resourcemetrics.Extension(o)},
		Nodes: cluster.Nodes{Count: 2, Runtime: func(string) simulated.Options {
			return simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Load: l.load} }}
		}},
	}
}

func start(t *testing.T, o cluster.Options) kubernetes.Interface {
	t.Helper()
	o.OnMutation = func(err error) { t.Error(err) }
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.WaitNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func web() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("128Mi")},
				}}}},
			},
		},
	}
}

// scaler keeps pods at 60 percent of half a core, in v1.
func scaler() *autoscalingv1.HorizontalPodAutoscaler {
	return &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    new(int32(2)), MaxReplicas: 8, TargetCPUUtilizationPercentage: new(int32(60)),
		},
	}
}

// live runs the app for its day, and returns the numbers of replicas and what became of it, with times.
func live(t *testing.T) (replicas []int32, out []string) {
	synctest.Test(t, func(t *testing.T) {
		l := &traffic{began: time.Now(), pods: 1}
		cs := start(t, options(l, resourcemetrics.Options{}))
		if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), web(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.AutoscalingV1().HorizontalPodAutoscalers("default").Create(t.Context(), scaler(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		last := int32(-1)
		// The traffic is shared anew between two evaluations, away from the times at which anything else happens.
		for time.Sleep(2345 * time.Millisecond); time.Since(l.began) < time.Duration(len(day()))*hour; time.Sleep(15 * time.Second) {
			d, err := cs.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l.share(int(d.Status.ReadyReplicas))
			if n := *d.Spec.Replicas; n != last {
				out = append(out, fmt.Sprintf("%s %d", time.Since(l.began), n))
				replicas, last = append(replicas, n), n
			}
		}
		out = append(out, reports(t, cs)...)
	})
	return replicas, out
}

// reports are the autoscaler's events and last conditions.
func reports(t *testing.T, cs kubernetes.Interface) (out []string) {
	a, err := cs.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	out = append(out, fmt.Sprintf("%d replicas at %d%%", a.Status.CurrentReplicas, *a.Status.CurrentMetrics[0].Resource.Current.AverageUtilization))
	events, err := cs.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HorizontalPodAutoscaler"})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range events.Items {
		list = append(list, fmt.Sprintf("event of %s: %s %s", e.Source.Component, e.Reason, e.Message))
	}
	slices.Sort(list)
	return append(out, list...)
}

// TestDay: as the load rises and falls, so does the number of replicas, under the controller's own user, and the same in
// every run.
func TestDay(t *testing.T) {
	replicas, first := live(t)
	if want := []int32{2, 4, 6, 8, 6, 3, 2}; !slices.Equal(replicas, want) {
		t.Errorf("replicas %v, want %v", replicas, want)
	}
	for _, want := range []string{
		"AbleToScale True ReadyForNewScale", "ScalingActive True ValidMetricFound", "ScalingLimited True TooFewReplicas", "2 replicas at 20%",
		"event of horizontal-pod-autoscaler: SuccessfulRescale New size: 8; reason: cpu resource utilization (percentage of request) above target",
		"event of horizontal-pod-autoscaler: SuccessfulRescale New size: 2; reason: All metrics below target",
	} {
		if !slices.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(first, "\n"))
		}
	}
	if _, again := live(t); !slices.Equal(first, again) {
		t.Errorf("two runs:\n%s\n\n%s", strings.Join(first, "\n"), strings.Join(again, "\n"))
	}
}
