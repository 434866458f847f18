package horizontalpodautoscaler_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/horizontalpodautoscaler"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// queue is a metric of how much there is to do; there are no others.
type queue struct {
	horizontalpodautoscaler.Metrics
	length int64
}

func (q queue) External(context.Context, string, horizontalpodautoscaler.Metric) ([]int64, error) {
	return []int64{q.length * 1000}, nil // in thousandths
}

// The controller reads from informers and writes through a client; here both are an API in memory, and the length of a queue
// asks for three replicas. It ends when it has scaled.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	labels := map[string]string{"app": "worker"}
	worker := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "worker"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "worker"}}},
			},
		},
	}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "worker"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "worker"},
			MaxReplicas:    10,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(30, resource.DecimalSI)},
				},
			}},
		},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{worker, scaler}, Before: func(r faults.Request) error {
		if scale, ok := r.Object.(*autoscalingv1.Scale); ok {
			fmt.Println(r, "to", scale.Spec.Replicas)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := horizontalpodautoscaler.Sources{
		Autoscalers: informer.New(controllerstest.Source[*autoscalingv2.HorizontalPodAutoscaler](api, autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")), informer.Options{}),
		Pods:        informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	c := horizontalpodautoscaler.New(in, api, queue{length: 85}, events.Discard(), horizontalpodautoscaler.Options{
		Served: func(context.Context, schema.GroupKind) []schema.GroupVersionResource {
			return []schema.GroupVersionResource{appsv1.SchemeGroupVersion.WithResource("deployments")}
		},
	})
	if err := lifecycle.Group(api, in.Autoscalers, in.Pods, controllers.NewLoop(c, controllers.Options{})).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// update deployments/scale ns/worker to 3
}
