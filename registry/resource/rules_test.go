package resource_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	kinds "github.com/keelson-dev/keelson/registry/resource"
)

// TestParts: a write of one part leaves the others as they were.
func TestParts(t *testing.T) {
	k := find(t, "resourceclaims")
	c := allocated()
	if k.Rules.PrepareUpdate(t.Context(), c, claim()); c.Status.Allocation != nil {
		t.Errorf("an update wrote the status %+v", c.Status)
	}
	c = allocated()
	c.Spec.Devices.Requests, c.Labels = nil, map[string]string{"a": "b"}
	if k.Sub.Views["status"].PrepareUpdate(t.Context(), c, claim()); len(c.Spec.Devices.Requests) != 2 || c.Labels != nil || c.Status.Allocation == nil {
		t.Errorf("an update of the status wrote %+v", c)
	}
	k = find(t, "devicetaintrules")
	r := taintRule()
	r.Spec.Taint.Value, r.Labels, r.Status.Conditions = "y", map[string]string{"a": "b"}, make([]metav1.Condition, 1)
	if k.Sub.Views["status"].PrepareUpdate(t.Context(), r, taintRule()); r.Spec.Taint.Value != "x" || r.Labels != nil || len(r.Status.Conditions) != 1 {
		t.Errorf("an update of the status wrote %+v", r)
	}
	s := slice()
	s.Generation = 7
	if find(t, "resourceslices").Rules.PrepareCreate(t.Context(), s); s.Generation != 1 {
		t.Errorf("generation %d of a new slice", s.Generation)
	}
}

// TestDerivedAnywhere: derived attributes stay if there were some in any request, and are dropped from templates, too.
func TestDerivedAnywhere(t *testing.T) {
	some := make([]resourcev1.DeviceDerivedAttribute, 1)
	k, templates := find(t, "resourceclaims"), find(t, "resourceclaimtemplates")
	for name, derive := range map[string]func(*resourcev1.ResourceClaim){
		"a request":      request(func(r *resourcev1.ExactDeviceRequest) { r.DerivedAttributes = some }),
		"an alternative": sub(func(s *resourcev1.DeviceSubRequest) { s.DerivedAttributes = some }),
	} {
		has := func(s *resourcev1.ResourceClaimSpec) bool {
			return s.Devices.Requests[0].Exactly.DerivedAttributes != nil || s.Devices.Requests[1].FirstAvailable[0].DerivedAttributes != nil
		}
		with := func() *resourcev1.ResourceClaim {
			c := claim()
			derive(c)
			return c
		}
		c := with()
		if k.Rules.PrepareUpdate(t.Context(), c, with()); !has(&c.Spec) {
			t.Errorf("%s: dropped where there were some", name)
		}
		made := template(with())
		if templates.Rules.PrepareCreate(t.Context(), made); has(&made.Spec.Spec) {
			t.Errorf("%s: in a new template", name)
		}
		made = template(with())
		if templates.Rules.PrepareUpdate(t.Context(), made, template(claim())); has(&made.Spec.Spec) {
			t.Errorf("%s: in a template that had none", name)
		}
		made = template(with())
		if templates.Rules.PrepareUpdate(t.Context(), made, template(with())); !has(&made.Spec.Spec) {
			t.Errorf("%s: dropped from a template that had some", name)
		}
	}
}

// TestTimeOfTaints: it has the resolution of the API, seconds.
func TestTimeOfTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1500 * time.Millisecond)
		r := &resourcev1.DeviceTaintRule{}
		find(t, "devicetaintrules").Rules.Default(r)
		if since := time.Since(r.Spec.Taint.TimeAdded.Time); since != 500*time.Millisecond {
			t.Errorf("added %s ago", since)
		}
	})
}

// TestNature: which kinds have a namespace, return what they delete and may be updated without a resource version.
func TestNature(t *testing.T) {
	got := ""
	for _, k := range kinds.Kinds(options()) {
		got += fmt.Sprintf("%s %t %t %t\n", k.Plural, k.Namespaced, k.Rules.Deletion.ReturnsObject, k.Rules.ConditionalUpdate)
	}
	if want := `deviceclasses false true false
devicetaintrules false false true
resourceclaims true true false
resourceclaimtemplates true true false
resourceslices false true false
`; got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestColumns(t *testing.T) {
	deleted := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		c.DeletionTimestamp = new(metav1.Unix(1, 0))
		return c
	}
	unreserved := allocated()
	unreserved.Status.ReservedFor = nil
	nowhere, untimed := slice(), taintRule()
	nowhere.Spec.NodeName, untimed.Spec.Taint.TimeAdded = nil, nil
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   string
	}{
		{"resourceclaims", claim(), "[c pending <unknown>]"},
		{"resourceclaims", allocated(), "[c allocated,reserved <unknown>]"},
		{"resourceclaims", unreserved, "[c allocated <unknown>]"},
		{"resourceclaims", deleted(claim()), "[c deleted <unknown>]"},
		{"resourceclaims", deleted(allocated()), "[c deleted,allocated,reserved <unknown>]"},
		{"resourceslices", slice(), "[s node-0 gpu.example.com pool/a <unknown>]"},
		{"resourceslices", nowhere, "[s  gpu.example.com pool/a <unknown>]"},
		{"devicetaintrules", taintRule(), "[r example.com/broken x NoExecute 60s <unknown>]"},
		{"devicetaintrules", untimed, "[r example.com/broken x NoExecute  <unknown>]"},
	} {
		if got := fmt.Sprint(find(t, tt.plural).Columns.Cells(tt.obj, time.Unix(61, 0))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.plural, got, tt.want)
		}
	}
}

// TestNoAdminAccess: what does not ask for administrative access, or is not given it, needs no label.
func TestNoAdminAccess(t *testing.T) {
	k := registrytest.Find(t, kinds.Kinds(kinds.Options{Namespace: namespaces}), "resourceclaims")
	if err := k.Rules.Guard(t.Context(), claim(), nil); err != nil {
		t.Error(err)
	}
	c := allocated()
	c.Status.Allocation.Devices.Results[0].AdminAccess = new(false)
	if err := k.Sub.Views["status"].Guard(t.Context(), c, claim()); err != nil {
		t.Error(err)
	}
}

// TestAssociatedNode: an agent may report on what its own node alone was allocated, and a user is no agent.
func TestAssociatedNode(t *testing.T) {
	authorizer := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.Verb == "associated-node:update" {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{Reason: "no"}, nil
	})
	guard := registrytest.Find(t, kinds.Kinds(kinds.Options{Authorizer: authorizer}), "resourceclaims").Sub.Views["status"].Guard
	const agent = "system:serviceaccount:ns:agent"
	on := func(change func(*corev1.NodeSelector)) func(*resourcev1.AllocationResult) {
		return func(a *resourcev1.AllocationResult) { change(a.NodeSelector) }
	}
	field := func(change func(*corev1.NodeSelectorRequirement)) func(*resourcev1.AllocationResult) {
		return on(func(s *corev1.NodeSelector) { change(&s.NodeSelectorTerms[0].MatchFields[0]) })
	}
	for name, tt := range map[string]struct {
		user  string
		nodes []string
		to    func(*resourcev1.AllocationResult)
		may   bool
	}{
		"its node":      {agent, []string{"node-0"}, func(*resourcev1.AllocationResult) {}, true},
		"a user":        {"ann", []string{"node-0"}, func(*resourcev1.AllocationResult) {}, false},
		"nowhere":       {agent, nil, func(*resourcev1.AllocationResult) {}, false},
		"two nodes":     {agent, []string{"node-0", "node-1"}, func(*resourcev1.AllocationResult) {}, false},
		"no selector":   {agent, []string{"node-0"}, func(a *resourcev1.AllocationResult) { a.NodeSelector = nil }, false},
		"no node":       {agent, nil, func(a *resourcev1.AllocationResult) { a.NodeSelector = nil }, false},
		"a bad name":    {agent, []string{"node-"}, field(func(r *corev1.NodeSelectorRequirement) { r.Values[0] = "node-" }), false},
		"a field":       {agent, []string{"node-0"}, field(func(r *corev1.NodeSelectorRequirement) { r.Key = "metadata.namespace" }), false},
		"not this node": {agent, []string{"node-0"}, field(func(r *corev1.NodeSelectorRequirement) { r.Operator = corev1.NodeSelectorOpNotIn }), false},
		"one of them":   {agent, []string{"node-0"}, field(func(r *corev1.NodeSelectorRequirement) { r.Values = append(r.Values, "node-1") }), false},
		"two terms": {agent, []string{"node-0"}, on(func(s *corev1.NodeSelector) {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, s.NodeSelectorTerms[0])
		}), false},
		"no terms": {agent, []string{"node-0"}, on(func(s *corev1.NodeSelector) { s.NodeSelectorTerms = nil }), false},
		"an expression": {agent, []string{"node-0"}, on(func(s *corev1.NodeSelector) {
			s.NodeSelectorTerms[0].MatchExpressions = s.NodeSelectorTerms[0].MatchFields
		}), false},
		"two fields": {agent, []string{"node-0"}, on(func(s *corev1.NodeSelector) {
			s.NodeSelectorTerms[0].MatchFields = append(s.NodeSelectorTerms[0].MatchFields, s.NodeSelectorTerms[0].MatchFields[0])
		}), false},
	} {
		now, old := allocated(), allocated()
		tt.to(now.Status.Allocation)
		tt.to(old.Status.Allocation)
		now.Status.Devices[0].Conditions = make([]metav1.Condition, 1)
		user := &authn.Identity{Name: tt.user, Extra: map[string][]string{"authentication.kubernetes.io/node-name": tt.nodes}}
		if err := guard(authn.NewContext(t.Context(), user), now, old); (err == nil) != tt.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStatusQuestions: what is asked, and what is said if the answer is no answer.
func TestStatusQuestions(t *testing.T) {
	var reason string
	authorizer := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
		return authz.Decision{Reason: reason}, errors.New("down")
	})
	guard := registrytest.Find(t, kinds.Kinds(kinds.Options{Authorizer: authorizer}), "resourceclaims").Sub.Views["status"].Guard
	ctx := authn.NewContext(t.Context(), &authn.Identity{Name: "ann"})
	alone := allocated()
	alone.Status.ReservedFor, alone.Status.Devices = nil, nil
	for reason = range map[string]bool{"": true, "no": true} {
		want := strings.TrimSuffix(`in API group "resource.k8s.io" at the cluster scope: down: `+reason, ": ")
		if got := refusals(guard(ctx, alone, claim())); !strings.HasSuffix(got, want) {
			t.Errorf("an allocation alone: %s", got)
		}
	}
	if got := refusals(guard(t.Context(), alone, claim())); got != "status.allocation: Internal error: cannot build authorizer attributes: no User found in the context" {
		t.Errorf("an allocation by nobody: %s", got)
	}
	if err := guard(t.Context(), allocated(), allocated()); err != nil {
		t.Errorf("nothing, by nobody: %v", err)
	}
	now, old := allocated(), allocated()
	old.Status.Devices = nil
	var want []string
	for _, name := range []string{"e", "b", "d", "a", "c", "f"} {
		now.Status.Devices = append(now.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: name, Pool: "pool", Device: "x"})
		want = append(want, name)
	}
	want = append(slices.Sorted(slices.Values(want)), driver)
	var asked []string
	for line := range strings.SplitSeq(refusals(guard(ctx, now, old)), "\n") {
		_, rest, _ := strings.Cut(line, `resourceclaims.resource.k8s.io "`)
		name, _, _ := strings.Cut(rest, `"`)
		asked = append(asked, name)
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}
