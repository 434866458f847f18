// Operator is an ordinary controller-runtime program for any cluster: every Service with an image in its annotation
// gets a Deployment that runs the image, and a condition that says whether it is available. It does not depend on
// keelson.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	annotation = "example.com/image"
	finalizer  = "example.com/run"
	available  = "example.com/Available"
)

func main() {
	flag.Parse() // --kubeconfig is controller-runtime's
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig() // --kubeconfig, $KUBECONFIG or the pod's own
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:        metrics.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "run.example.com", LeaderElectionNamespace: "operator",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	r := &reconciler{Client: m.GetClient(), events: m.GetEventRecorder("run")}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.Service{}).Owns(&appsv1.Deployment{}).Complete(r); err != nil {
		return err
	}
	return m.Start(ctx)
}

type reconciler struct {
	client.Client
	events events.EventRecorder
}

// Reconcile updates one Service's Deployment, and the Service's status.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var service corev1.Service
	if err := r.Get(ctx, req.NamespacedName, &service); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	image := service.Annotations[annotation]
	switch {
	case !service.DeletionTimestamp.IsZero():
		if controllerutil.RemoveFinalizer(&service, finalizer) {
			r.events.Eventf(&service, nil, corev1.EventTypeNormal, "Ended", "End", "no more %s", image)
			return ctrl.Result{}, r.Update(ctx, &service)
		}
		return ctrl.Result{}, nil
	case image == "":
		return ctrl.Result{}, nil
	case controllerutil.AddFinalizer(&service, finalizer):
		return ctrl.Result{}, r.Update(ctx, &service) // the change triggers another reconciliation
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: service.Spec.Selector}
		deployment.Spec.Template.Labels = service.Spec.Selector
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "run"}}
		}
		deployment.Spec.Template.Spec.Containers[0].Image = image
		return controllerutil.SetControllerReference(&service, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != controllerutil.OperationResultNone {
		r.events.Eventf(&service, deployment, corev1.EventTypeNormal, "Applied", "Apply", "Deployment %s", done)
	}
	return ctrl.Result{}, r.report(ctx, &service, deployment)
}

// report records in the Service's status whether its Deployment is available.
func (r *reconciler) report(ctx context.Context, service *corev1.Service, deployment *appsv1.Deployment) error {
	before := service.DeepCopy()
	condition := metav1.Condition{Type: available, Status: metav1.ConditionFalse, Reason: "Waiting", ObservedGeneration: service.Generation}
	if deployment.Generation == deployment.Status.ObservedGeneration && deployment.Status.AvailableReplicas > 0 &&
		deployment.Status.UpdatedReplicas == deployment.Status.Replicas {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Running"
		condition.Message = deployment.Spec.Template.Spec.Containers[0].Image
	}
	meta.SetStatusCondition(&service.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(before.Status, service.Status) {
		return nil
	}
	return r.Status().Patch(ctx, service, client.MergeFrom(before))
}
