package resource_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	kinds "github.com/keelson-dev/keelson/registry/resource"
)

// namespaces are labelled by their names.
func namespaces(_ context.Context, name string) (*corev1.Namespace, error) {
	if name == "gone" {
		return nil, errors.New("not there")
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"resource.kubernetes.io/admin-access": name}}}, nil
}

const adminLabel = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"

func refusals(err error) string {
	var e *registry.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	var all []string
	for _, f := range e.Fields {
		all = append(all, f.Error())
	}
	return strings.Join(all, "\n")
}

func TestAdminAccess(t *testing.T) {
	all := kinds.Kinds(kinds.Options{Namespace: namespaces})
	claims, templates := registrytest.Find(t, all, "resourceclaims"), registrytest.Find(t, all, "resourceclaimtemplates")
	const internal = "adminAccess: Internal error: could not retrieve namespace to verify admin access: not there"
	for namespace, want := range map[string]string{"true": "", "false": "adminAccess: Forbidden: " + adminLabel, "gone": internal} {
		c := claim()
		c.Namespace = namespace
		c.Spec.Devices.Requests[0].Exactly.AdminAccess = new(false)
		if err := claims.Rules.Guard(t.Context(), c, nil); err != nil {
			t.Errorf("no access: %v", err)
		}
		c.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: c.Spec}}
		at := "<nil>"
		if want != "" {
			at = "spec.devices.requests[0]." + want
		}
		if got := refusals(claims.Rules.Guard(t.Context(), c, nil)); got != at {
			t.Errorf("claim in %s: %s", namespace, got)
		}
		if got := refusals(templates.Rules.Guard(t.Context(), template, nil)); got != at {
			t.Errorf("template in %s: %s", namespace, got)
		}
		if err := errors.Join(claims.Rules.Guard(t.Context(), c, c), templates.Rules.Guard(t.Context(), template, template)); err != nil {
			t.Errorf("updated in %s: %v", namespace, err)
		}
		now, old := allocated(), claim()
		now.Namespace = namespace
		now.Status.Allocation.Devices.Results[1].AdminAccess = new(true)
		if want != "" {
			at = "status.allocation.devices.results[1]." + want
		}
		status := claims.Sub.Views["status"].Guard
		if got := refusals(status(t.Context(), now, old)); got != at {
			t.Errorf("allocated in %s: %s", namespace, got)
		}
		if err := status(t.Context(), now, now); err != nil {
			t.Errorf("allocated before: %v", err)
		}
	}
	c := claim()
	c.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
	if got := refusals(registrytest.Find(t, kinds.Kinds(kinds.Options{}), "resourceclaims").Rules.Guard(t.Context(), c, nil)); !strings.Contains(got, adminLabel) {
		t.Errorf("without namespaces: %s", got)
	}
}

func TestStatusAccess(t *testing.T) {
	var allowed string
	authorizer := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.Group != "resource.k8s.io" || a.Resource != "resourceclaims" || !a.ResourceRequest || a.User == nil {
			t.Errorf("asked %+v", a)
		}
		if strings.Contains(allowed, fmt.Sprintf("[%s %s %s/%s]", a.Verb, a.Subresource, a.Namespace, a.Name)) {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{Reason: "no"}, nil
	})
	guard := registrytest.Find(t, kinds.Kinds(kinds.Options{Authorizer: authorizer}), "resourceclaims").Sub.Views["status"].Guard
	deallocated, unreserved, unreported := claim(), allocated(), allocated()
	unreserved.Status.ReservedFor, unreported.Status.Devices = nil, nil
	changed := allocated()
	changed.Status.Devices[0].Conditions = make([]metav1.Condition, 1)
	const binding = `status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: ` +
		`resourceclaims.resource.k8s.io is forbidden: User "ann" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: no`
	const reporting = `status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: ` +
		`resourceclaims.resource.k8s.io "gpu.example.com" is forbidden: User "ann" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns": no`
	ann := &authn.Identity{Name: "ann"}
	agent := &authn.Identity{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node-0"}}}
	stranger := &authn.Identity{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"node-1"}}}
	for name, tt := range map[string]struct {
		now, old *resourcev1.ResourceClaim
		user     *authn.Identity
		allowed  string
		want     string
	}{
		"nothing":           {allocated(), allocated(), ann, "", ""},
		"allocated":         {unreported, deallocated, ann, "", binding},
		"reserved":          {allocated(), unreserved, ann, "", binding},
		"may bind":          {allocated(), unreserved, ann, "[update binding /]", ""},
		"reported":          {changed, allocated(), ann, "[update binding /][associated-node:update driver ns/gpu.example.com]", reporting},
		"not reported":      {unreported, allocated(), ann, "", reporting},
		"may report":        {changed, allocated(), ann, "[arbitrary-node:update driver ns/gpu.example.com]", ""},
		"on its node":       {changed, allocated(), agent, "[associated-node:update driver ns/gpu.example.com]", ""},
		"on any node":       {changed, allocated(), agent, "[arbitrary-node:update driver ns/gpu.example.com]", ""},
		"of another driver": {changed, allocated(), agent, "[associated-node:update driver ns/x]", `verb="[associated-node:update arbitrary-node:update]" permission: `},
		"of another node":   {changed, allocated(), stranger, "[associated-node:update driver ns/gpu.example.com]", `verb="[arbitrary-node:update]" permission: `},
		"deallocated":       {deallocated, allocated(), ann, "[update binding /]", ""},
		"nobody":            {changed, allocated(), nil, "", "status.devices: Internal error: cannot build authorizer attributes"},
	} {
		allowed = tt.allowed
		ctx := t.Context()
		if tt.user != nil {
			ctx = authn.NewContext(ctx, tt.user)
		}
		err := guard(ctx, tt.now, tt.old)
		if got := refusals(err); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	allowed = "[patch binding /]"
	if err := guard(registry.WithVerb(authn.NewContext(t.Context(), ann), "patch"), unreported, deallocated); err != nil {
		t.Errorf("by a patch: %v", err)
	}
}
