package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// access decides who may ask for, allocate and report what.
type access struct {
	authorizer authz.Authorizer
	namespace  func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// named is an object in an error.
type named struct{ resource, kind, name string }

func claimNamed(name string) named {
	return named{resource: "resourceclaims", kind: "ResourceClaim", name: name}
}

func (n named) invalid(errs ...*field.Error) error {
	if len(errs) == 0 {
		return nil
	}
	return &registry.Error{
		Err: registry.ErrInvalid, Resource: resourcev1.Resource(n.resource), Kind: n.kind, Name: n.name, Fields: errs,
	}
}

// requested returns where a claim asks for administrative access; nil if it does not.
func requested(s *resourcev1.ResourceClaimSpec) *field.Path {
	for i := range s.Devices.Requests {
		if e := s.Devices.Requests[i].Exactly; e != nil && e.AdminAccess != nil && *e.AdminAccess {
			return field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// granted returns where an allocation gives administrative access; nil if it does not.
func granted(a *resourcev1.AllocationResult) *field.Path {
	if a == nil {
		return nil
	}
	for i, r := range a.Devices.Results {
		if r.AdminAccess != nil && *r.AdminAccess {
			return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// administer refuses administrative access outside namespaces that are labelled for it.
func (a access) administer(ctx context.Context, n named, namespace string, at *field.Path) error {
	if at == nil {
		return nil
	}
	return n.invalid(a.labelled(ctx, namespace, at)...)
}

func (a access) labelled(ctx context.Context, namespace string, at *field.Path) field.ErrorList {
	if a.namespace != nil {
		ns, err := a.namespace(ctx, namespace)
		if err != nil {
			return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
		}
		if ns.Labels[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
			return nil
		}
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf(
		"admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
}

// guardStatus lets those write a status who may write what has changed in it.
func (a access) guardStatus(ctx context.Context, c, old claim) error {
	var errs field.ErrorList
	if at := granted(c.Status.Allocation); at != nil && granted(old.Status.Allocation) == nil {
		errs = append(errs, a.labelled(ctx, c.Namespace, at)...)
	}
	if a.authorizer != nil {
		errs = append(errs, a.binding(ctx, &c.Status, &old.Status)...)
		if c.Status.Allocation != nil {
			errs = append(errs, a.devices(ctx, c, old)...)
		}
	}
	return claimNamed(c.Name).invalid(errs...)
}

// binding requires permission to allocate and reserve claims, wherever they are.
func (a access) binding(ctx context.Context, s, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if equality.Semantic.DeepEqual(s.Allocation, old.Allocation) && equality.Semantic.DeepEqual(s.ReservedFor, old.ReservedFor) {
		return nil
	}
	at, verb := field.NewPath("status", "allocation"), registry.Verb(ctx)
	user := authn.FromContext(ctx)
	if user == nil {
		return field.ErrorList{field.InternalError(at, errNobody)}
	}
	if reason := a.refuse(ctx, ask(user, verb, resourcev1.SubresourceBinding)); reason != "" {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, verb, reason))}
	}
	return nil
}

var errNobody = errors.New("cannot build authorizer attributes: no User found in the context")

// devices requires permission for each driver of whose devices the state changes.
func (a access) devices(ctx context.Context, c, old claim) field.ErrorList {
	drivers := changedDrivers(c.Status.Devices, old.Status.Devices)
	if len(drivers) == 0 {
		return nil
	}
	at := field.NewPath("status", "devices")
	user := authn.FromContext(ctx)
	if user == nil {
		return field.ErrorList{field.InternalError(at, errNobody)}
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + registry.Verb(ctx)}
	if node := onNode(c.Status.Allocation); node != "" && node == accountsNode(user) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + registry.Verb(ctx), verbs[0]}
	}
	var errs field.ErrorList
	for _, driver := range drivers {
		first := ""
		for _, verb := range verbs {
			q := ask(user, verb, resourcev1.SubresourceDriver)
			q.Namespace, q.Name = c.Namespace, driver
			reason := a.refuse(ctx, q)
			if reason == "" {
				first = ""
				break
			}
			if first == "" {
				first = reason
			}
		}
		if first != "" {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf(
				`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, first)))
		}
	}
	return errs
}

func ask(user *authn.Identity, verb, subresource string) authz.Attributes {
	return authz.Attributes{
		User: user, Verb: verb, Group: resourcev1.GroupName, Version: resourcev1.SchemeGroupVersion.Version,
		Resource: "resourceclaims", Subresource: subresource, ResourceRequest: true,
	}
}

// refuse returns why something is not allowed, in the words of an API server, or nothing.
func (a access) refuse(ctx context.Context, q authz.Attributes) string {
	d, err := a.authorizer.Authorize(ctx, q)
	if d.Verdict == authz.Allow {
		return ""
	}
	reason := d.Reason
	if err != nil {
		reason = strings.TrimSuffix(err.Error()+": "+reason, ": ")
	}
	where := "at the cluster scope"
	if q.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", q.Namespace)
	}
	what := q.Resource + "." + q.Group
	if q.Name != "" {
		what += fmt.Sprintf(" %q", q.Name)
	}
	text := fmt.Sprintf("%s is forbidden: User %q cannot %s resource %q in API group %q %s", what, q.User.Name, q.Verb,
		q.Resource+"/"+q.Subresource, q.Group, where)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// changedDrivers returns the drivers of devices whose state differs, in order.
func changedDrivers(now, old []resourcev1.AllocatedDeviceStatus) []string {
	before := map[deviceID]*resourcev1.AllocatedDeviceStatus{}
	for i := range old {
		before[idOf(&old[i])] = &old[i]
	}
	drivers := map[string]bool{}
	for i := range now {
		id := idOf(&now[i])
		if was := before[id]; was == nil || !equality.Semantic.DeepEqual(*was, now[i]) {
			drivers[now[i].Driver] = true
		}
		delete(before, id)
	}
	for id := range before {
		drivers[id.Driver] = true
	}
	var out []string
	for driver := range drivers {
		out = append(out, driver)
	}
	slices.Sort(out)
	return out
}

// onNode returns the node that devices were allocated on, or nothing if it is not one.
func onNode(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// accountsNode returns the node of the pod that a service account acts for, or nothing.
func accountsNode(user *authn.Identity) string {
	nodes := user.Extra["authentication.kubernetes.io/node-name"]
	if !strings.HasPrefix(user.Name, "system:serviceaccount:") || len(nodes) != 1 || len(apivalidation.NameIsDNSSubdomain(nodes[0], false)) > 0 {
		return ""
	}
	return nodes[0]
}
