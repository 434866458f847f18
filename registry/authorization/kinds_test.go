package authorization_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/authorization"
)

// mirror allows ann to get, denies her to delete, and records what it was asked.
type mirror struct{ asked authz.Attributes }

func (m *mirror) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	m.asked = a
	switch {
	case a.User.Name == "ann" && a.Verb == "get":
		return authz.Decision{Verdict: authz.Allow, Reason: "she may"}, nil
	case a.User.Name == "ann" && a.Verb == "delete":
		return authz.Decision{Verdict: authz.Deny, Reason: "never"}, nil
	default:
		return authz.Decision{Reason: "hm"}, errors.New("half blind")
	}
}

// question is a review as it is received.
type question struct {
	z         authz.Authorizer
	rules     authz.RuleResolver
	namespace string
	obj       runtime.Object
}

func answer(ctx context.Context, t *testing.T, q question) (runtime.Object, error) {
	t.Helper()
	for _, k := range authorization.Kinds(q.z, q.rules) {
		if reflect.TypeOf(k.NewRequest()) == reflect.TypeOf(q.obj) {
			return k.Answer(ctx, nil, q.namespace, q.obj)
		}
	}
	t.Fatalf("no kind of %T", q.obj)
	return nil, nil
}

func TestSubjectAccessReview(t *testing.T) {
	pods := &authorizationv1.ResourceAttributes{Verb: "get", Group: "g", Resource: "pods", Subresource: "log", Namespace: "dev", Name: "p"}
	deleting := pods.DeepCopy()
	deleting.Verb, deleting.Version = "delete", "v1"
	for name, c := range map[string]struct {
		spec  authorizationv1.SubjectAccessReviewSpec
		want  authorizationv1.SubjectAccessReviewStatus
		asked authz.Attributes
	}{
		"allowed": {
			authorizationv1.SubjectAccessReviewSpec{User: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}, ResourceAttributes: pods},
			authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "she may"},
			authz.Attributes{User: &authn.Identity{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}, Verb: "get", Group: "g", Version: "*", Resource: "pods", Subresource: "log", Namespace: "dev", Name: "p", ResourceRequest: true},
		},
		"denied": {
			authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: deleting},
			authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "never"},
			authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "delete", Group: "g", Version: "v1", Resource: "pods", Subresource: "log", Namespace: "dev", Name: "p", ResourceRequest: true},
		},
		"path": {
			authorizationv1.SubjectAccessReviewSpec{Groups: []string{"dev"}, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/x"}},
			authorizationv1.SubjectAccessReviewStatus{Reason: "hm", EvaluationError: "half blind"},
			authz.Attributes{User: &authn.Identity{Groups: []string{"dev"}}, Verb: "get", Path: "/x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m mirror
			got, err := answer(t.Context(), t, question{z: &m, obj: &authorizationv1.SubjectAccessReview{Spec: c.spec}})
			if err != nil || !reflect.DeepEqual(got.(*authorizationv1.SubjectAccessReview).Status, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
			if !reflect.DeepEqual(m.asked, c.asked) {
				t.Errorf("asked %+v, want %+v", m.asked, c.asked)
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	fields := func(raw string, rs ...metav1.FieldSelectorRequirement) *authorizationv1.FieldSelectorAttributes {
		return &authorizationv1.FieldSelectorAttributes{RawSelector: raw, Requirements: rs}
	}
	labels := func(raw string, rs ...metav1.LabelSelectorRequirement) *authorizationv1.LabelSelectorAttributes {
		return &authorizationv1.LabelSelectorAttributes{RawSelector: raw, Requirements: rs}
	}
	for name, c := range map[string]struct {
		fields *authorizationv1.FieldSelectorAttributes
		labels *authorizationv1.LabelSelectorAttributes
		want   string
	}{
		"raw":          {fields("a=b"), labels("x in (y)"), "[{a = [b]}] [{x in [y]}] "},
		"unreadable":   {fields("?"), labels("("), "[] [] spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"},
		"requirements": {fields("", metav1.FieldSelectorRequirement{Key: "a", Operator: "NotIn", Values: []string{"b"}}), labels("", metav1.LabelSelectorRequirement{Key: "x", Operator: "DoesNotExist"}), "[{a != [b]}] [{x ! []}] "},
		"every operator": {
			fields("", metav1.FieldSelectorRequirement{Key: "a", Operator: "In", Values: []string{"b"}}),
			labels("", metav1.LabelSelectorRequirement{Key: "x", Operator: "In", Values: []string{"y"}}, metav1.LabelSelectorRequirement{Key: "x", Operator: "NotIn", Values: []string{"z"}},
				metav1.LabelSelectorRequirement{Key: "v", Operator: "Exists"}, metav1.LabelSelectorRequirement{Key: "w", Operator: "DoesNotExist"}),
			"[{a = [b]}] [{x in [y]} {x notin [z]} {v exists []} {w ! []}] ",
		},
		"too many values": {
			fields("", metav1.FieldSelectorRequirement{Key: "a", Operator: "In", Values: []string{"b", "c"}}, metav1.FieldSelectorRequirement{Key: "d", Operator: "DoesNotExist"}),
			nil, "[] [] spec.resourceAttributes.fieldSelector ignored due to parse error",
		},
		"an unknown operator": {
			fields("", metav1.FieldSelectorRequirement{Key: "a", Operator: "Like", Values: []string{"b"}}), nil, "[] [] spec.resourceAttributes.fieldSelector ignored due to parse error",
		},
		"labels in part": {
			nil, labels("", metav1.LabelSelectorRequirement{Key: "x", Operator: "Like"}, metav1.LabelSelectorRequirement{Key: "v", Operator: "Exists"}),
			"[] [{v exists []}] spec.resourceAttributes.labelSelector partially ignored due to parse error",
		},
		"in part": {
			fields("", metav1.FieldSelectorRequirement{Key: "a", Operator: "In", Values: []string{"b"}}, metav1.FieldSelectorRequirement{Key: "c", Operator: "Exists"}),
			labels("", metav1.LabelSelectorRequirement{Key: "x", Operator: "Like", Values: []string{"y"}}),
			"[{a = [b]}] [] spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m mirror
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", FieldSelector: c.fields, LabelSelector: c.labels}}}
			got, err := answer(authn.NewContext(t.Context(), &authn.Identity{Name: "ann"}), t, question{z: &m, obj: review})
			if err != nil {
				t.Fatal(err)
			}
			if s := fmt.Sprint(m.asked.FieldSelector, m.asked.LabelSelector, " ", got.(*authorizationv1.SelfSubjectAccessReview).Status.EvaluationError); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

// The messages come from upstream v1.37.1's own code, run on the same objects.
func TestValidation(t *testing.T) {
	res := &authorizationv1.ResourceAttributes{Verb: "get"}
	path := &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/x"}
	const (
		one  = "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
		both = `spec: Invalid value: {"Path":"/x","Verb":"get"}: exactly one of nonResourceAttributes or resourceAttributes must be specified`
	)
	named := metav1.ObjectMeta{Name: "x"}
	ann := authn.NewContext(t.Context(), &authn.Identity{Name: "ann"})
	for name, c := range map[string]struct {
		ctx       context.Context
		namespace string
		obj       runtime.Object
		want      string
	}{
		"nothing": {ann, "", &authorizationv1.SubjectAccessReview{ObjectMeta: named}, one + `
spec.user: Invalid value: "": at least one of user or group must be specified
metadata: Invalid value: {"name":"x"}: must be empty`},
		"both":         {ann, "", &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: res, NonResourceAttributes: path}}, both},
		"self nothing": {ann, "", &authorizationv1.SelfSubjectAccessReview{ObjectMeta: named}, one + "\n" + `metadata: Invalid value: {"name":"x"}: must be empty`},
		"self both":    {ann, "", &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: res, NonResourceAttributes: path}}, both},
		"self nobody":  {t.Context(), "", &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: res}}, "no user present on request"},
		"local path": {ann, "x", &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "x"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", NonResourceAttributes: path}},
			`spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request`},
		"local selectors": {ann, "x", &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "x"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "y", FieldSelector: &authorizationv1.FieldSelectorAttributes{},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "x", Requirements: []metav1.LabelSelectorRequirement{{Key: "a b", Operator: "?"}}},
		}}}, `spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required
spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "x": may not specified at the same time as requirements
spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
spec.resourceAttributes.namespace: Invalid value: "y": must match metadata.namespace`},
		"local nowhere": {ann, "", &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: res}},
			"namespace is required on this type: "},
		"fields": {ann, "", &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Operator: "In"}, {Key: "a", Operator: "Exists", Values: []string{"b"}}, {Key: "a", Operator: "?"}}},
		}}}, `spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified
spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when ` + "`operator` is 'In' or 'NotIn'" + `
spec.resourceAttributes.fieldSelector.requirements[1].values: Forbidden: may not be specified when ` + "`operator` is 'Exists' or 'DoesNotExist'"},
		"local named": {ann, "x", &authorizationv1.LocalSubjectAccessReview{ObjectMeta: named, Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "x"}}},
			`metadata: Invalid value: {"name":"x","namespace":"x"}: must be empty except for namespace`},
		"local elsewhere": {ann, "x", &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "y"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "x", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "y"}}},
			"spec.resourceAttributes.namespace must match namespace: x"},
		"rules of nobody":  {t.Context(), "", &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "x"}}, "no user present on request"},
		"rules of nowhere": {ann, "", &authorizationv1.SelfSubjectRulesReview{}, "no namespace on request"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answer(c.ctx, t, question{z: &mirror{}, namespace: c.namespace, obj: c.obj})
			var refusal *registry.Error
			if !errors.As(err, &refusal) {
				t.Fatalf("got %v", err)
			}
			lines := []string{refusal.Message}
			if errors.Is(err, registry.ErrInvalid) {
				lines = nil
				for _, e := range refusal.Fields {
					lines = append(lines, e.Error())
				}
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestLocalSubjectAccessReview(t *testing.T) {
	review := &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "dev", Verb: "get"}}}
	got, err := answer(t.Context(), t, question{z: &mirror{}, namespace: "dev", obj: review})
	if err != nil || !got.(*authorizationv1.LocalSubjectAccessReview).Status.Allowed {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestManagedFieldsAreIgnored: managed fields do not make a review's metadata non-empty.
func TestManagedFieldsAreIgnored(t *testing.T) {
	review := &authorizationv1.SubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec:       authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get"}},
	}
	if got, err := answer(t.Context(), t, question{z: &mirror{}, obj: review}); err != nil || !got.(*authorizationv1.SubjectAccessReview).Status.Allowed {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, k := range authorization.Kinds(&mirror{}, nil) {
		if k.Namespaced != (k.Plural == "localsubjectaccessreviews") {
			t.Errorf("%s: namespaced %t", k.Plural, k.Namespaced)
		}
	}
}

func TestSelfSubjectRulesReview(t *testing.T) {
	rules := authz.RulesFunc(func(_ context.Context, user *authn.Identity, namespace string) (authz.Rules, error) {
		return authz.Rules{
			Resources: []authz.ResourceRule{{Verbs: []string{"get"}, Groups: []string{""}, Resources: []string{user.Name}, ResourceNames: []string{namespace}}},
			Paths:     []authz.PathRule{{Verbs: []string{"get"}, Paths: []string{"/x"}}},
		}, errors.New("half blind")
	})
	ann := authn.NewContext(t.Context(), &authn.Identity{Name: "ann"})
	ask := func() *authorizationv1.SelfSubjectRulesReview {
		return &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "dev"}}
	}
	got, err := answer(ann, t, question{z: &mirror{}, rules: rules, obj: ask()})
	want := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"ann"}, ResourceNames: []string{"dev"}}},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}},
		EvaluationError:  "half blind",
	}
	if err != nil || !reflect.DeepEqual(got.(*authorizationv1.SelfSubjectRulesReview).Status, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, err = answer(ann, t, question{z: &mirror{}, obj: ask()})
	if s := got.(*authorizationv1.SelfSubjectRulesReview).Status; err != nil || !s.Incomplete || s.ResourceRules == nil || s.NonResourceRules == nil {
		t.Errorf("without a resolver: %+v, %v", s, err)
	}
}
