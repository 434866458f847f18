package kubernetesservice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/networking"
)

// keepCIDR creates a missing ServiceCIDR, adds a network of the second family, and sets the condition Ready if
// nobody has set it. A ServiceCIDR of other networks stays unchanged.
func (s *Service) keepCIDR(ctx context.Context) error {
	cidrs, ok := s.registry.Resource(schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"})
	if !ok {
		return errors.New("not served")
	}
	want := networking.Default(s.options.Networks)
	_, err := cidrs.Get(ctx, "", want.Name, "0")
	if errors.Is(err, registry.ErrNotFound) {
		_, err = s.registry.Access().Create(ctx, cidrs.GroupResource(), want.DeepCopy())
	}
	if err != nil && !errors.Is(err, registry.ErrExists) {
		return err
	}
	item, err := cidrs.Get(ctx, "", want.Name, "")
	if err != nil {
		return err
	}
	have := item.Object.(*networkingv1.ServiceCIDR)
	second := len(want.Spec.CIDRs) == 2 && slices.Equal(have.Spec.CIDRs, want.Spec.CIDRs[:1])
	switch {
	case second:
		return s.changeCIDR(ctx, cidrs, "", func(c *networkingv1.ServiceCIDR) { c.Spec.CIDRs = want.Spec.CIDRs })
	case have.DeletionTimestamp != nil:
		return nil
	case !slices.Equal(have.Spec.CIDRs, want.Spec.CIDRs):
		s.tell(have, "KubernetesDefaultServiceCIDRInconsistent",
			fmt.Sprintf("The default ServiceCIDR %v does not match the controller flag configurations %s", have.Spec.CIDRs, want.Spec.CIDRs))
		return nil
	}
	for _, c := range have.Status.Conditions {
		if c.Type != networkingv1.ServiceCIDRConditionReady || c.Status == metav1.ConditionUnknown {
			continue
		}
		if c.Status == metav1.ConditionFalse {
			s.tell(have, c.Reason, "Configuration matches, but "+c.Message)
		}
		return nil
	}
	return s.changeCIDR(ctx, cidrs, "status", func(c *networkingv1.ServiceCIDR) {
		c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == networkingv1.ServiceCIDRConditionReady
		})
		c.Status.Conditions = append(c.Status.Conditions, networking.Ready())
	})
}

func (s *Service) changeCIDR(ctx context.Context, cidrs *registry.Resource, view string, change func(*networkingv1.ServiceCIDR)) error {
	_, _, err := cidrs.Update(ctx, "", networking.DefaultServiceCIDR, func(_ context.Context, current registry.Object) (registry.Object, error) {
		c := current.DeepCopyObject().(*networkingv1.ServiceCIDR)
		change(c)
		return c, nil
	}, registry.UpdateOptions{View: view})
	return err
}

// tell reports a problem once.
func (s *Service) tell(about registry.Object, reason, message string) {
	if !s.told[reason] {
		s.told[reason] = true
		s.options.Report(about, reason, message)
		s.log.Warn(message, "reason", reason)
	}
}
