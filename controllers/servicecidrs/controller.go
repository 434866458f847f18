package servicecidrs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// name is upstream's, and the owner of the condition.
const name = "service-cidr-controller"

// Sources is what the controller reads.
type Sources struct {
	// CIDRs are what the controller protects.
	CIDRs *informer.Informer[*networkingv1.ServiceCIDR]
	// Addresses are those of services, and others, which do not matter.
	Addresses *informer.Informer[*networkingv1.IPAddress]
}

// Controller is the service-cidr-controller. Make one with New.
type Controller struct {
	in       Sources
	client   client.Patcher
	recorder events.Recorder
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. The client acts as the service account service-cidrs-controller, and patches ServiceCIDRs.
func New(in Sources, c client.Patcher, r events.Recorder) *Controller {
	return &Controller{in, c, r}
}

// Name is "service-cidr-controller".
func (*Controller) Name() string { return name }

// Watch enqueues ServiceCIDRs that change, those that overlap with a new one, and those of addresses that come or go.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	add := func(names []string) {
		for _, n := range names {
			q.Add(controllers.Key{Name: n})
		}
	}
	c.in.CIDRs.AddHandler(informer.Handler[*networkingv1.ServiceCIDR]{
		Added:   func(cidr *networkingv1.ServiceCIDR) { add(overlapping(cidr, c.in.CIDRs.List(""))) },
		Updated: func(_, cidr *networkingv1.ServiceCIDR) { q.Add(controllers.KeyOf(cidr)) },
	})
	address := func(a *networkingv1.IPAddress) { add(containing(a, c.in.CIDRs.List(""))) }
	c.in.Addresses.AddHandler(informer.Handler[*networkingv1.IPAddress]{Added: address, Deleted: address})
	return []controllers.Synced{c.in.CIDRs, c.in.Addresses}
}

// Reconcile gives a ServiceCIDR its finalizer and condition, or takes the finalizer from one that may go.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	cidr, ok := c.in.CIDRs.Get("", key.Name)
	switch {
	case !ok:
		return controllers.Result{}, nil
	case cidr.DeletionTimestamp == nil:
		return controllers.Result{}, c.protect(ctx, cidr)
	case !slices.Contains(cidr.Finalizers, Finalizer):
		return controllers.Result{}, nil // others keep it
	case !Removable(cidr, c.in.CIDRs.List(""), c.in.Addresses.List("")):
		return controllers.Result{}, c.declare(ctx, cidr, terminating())
	}
	if wait := Grace - time.Since(cidr.DeletionTimestamp.Time); wait > 0 {
		return controllers.Result{RequeueAfter: wait}, nil
	}
	return controllers.Result{}, c.patch(ctx, cidr.Name, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+Finalizer+`"]}}`)
}

// protect gives a ServiceCIDR the finalizer and declares it ready.
func (c *Controller) protect(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if !slices.Contains(cidr.Finalizers, Finalizer) {
		if err := c.patch(ctx, cidr.Name, `{"metadata":{"finalizers":["`+Finalizer+`"]}}`); err != nil {
			return err
		}
	}
	err := c.declare(ctx, cidr, ready())
	if err != nil {
		c.recorder.Record(events.Event{
			Regarding: events.About(networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), cidr), Type: corev1.EventTypeWarning,
			Reason: "KubernetesServiceCIDRError", Message: "The ServiceCIDR Status can not be set to Ready=True",
		})
	}
	return err
}

// patch changes the finalizers of a ServiceCIDR, unless it is gone.
func (c *Controller) patch(ctx context.Context, name, data string) error {
	_, err := c.client.Patch(ctx, at(name, ""), client.Patch{Type: types.StrategicMergePatchType, Data: []byte(data)}, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("changing the finalizers: %w", err)
	}
	return nil
}

// configuration is what the controller applies.
type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status networkingv1.ServiceCIDRStatus `json:"status"`
}

// declare sets a ServiceCIDR's condition, unless it has it.
func (c *Controller) declare(ctx context.Context, cidr *networkingv1.ServiceCIDR, want metav1.Condition) error {
	have := meta.FindStatusCondition(cidr.Status.Conditions, want.Type)
	if have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return nil
	}
	want.LastTransitionTime = metav1.Now()
	apply := configuration{TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "ServiceCIDR"}}
	apply.Metadata.Name, apply.Status.Conditions = cidr.Name, []metav1.Condition{want}
	data, err := json.Marshal(apply)
	if err != nil {
		return err
	}
	_, err = c.client.Patch(ctx, at(cidr.Name, "status"), client.Patch{Type: types.ApplyPatchType, Data: data},
		metav1.PatchOptions{FieldManager: name, Force: new(true)})
	if err != nil {
		return fmt.Errorf("setting the condition: %w", err)
	}
	return nil
}

func at(name, subresource string) client.Target {
	return client.Target{Resource: networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), Name: name, Subresource: subresource}
}
