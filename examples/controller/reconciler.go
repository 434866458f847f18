// Controller is an ordinary controller-runtime reconciler, tested against a control plane inside the test process:
// there are no binaries to download and no API server to wait for, and with the built-in controllers and nodes, the
// Deployment it creates really rolls out.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Reconciler turns every ConfigMap labelled kind=site into a Deployment that serves its image.
type Reconciler struct{ client.Client }

// Reconcile updates one site's Deployment from its ConfigMap.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if site.Labels["kind"] != "site" {
		return ctrl.Result{}, nil
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "site", Image: site.Data["image"]}}
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme())
	})
	return ctrl.Result{}, err
}

// SetUp registers the reconciler with a manager.
func (r *Reconciler) SetUp(m ctrl.Manager) error {
	r.Client = m.GetClient()
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(r)
}
