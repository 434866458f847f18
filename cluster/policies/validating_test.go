package policies_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
)

type (
	policy  = registrationv1.ValidatingAdmissionPolicy
	binding = registrationv1.ValidatingAdmissionPolicyBinding
)

const denied = `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: `

// TestValidations is about one policy and one binding, by their answer to the creation of the config map m with data x=y.
func TestValidations(t *testing.T) {
	variable := func(name, expression string) registrationv1.Variable {
		return registrationv1.Variable{Name: name, Expression: expression}
	}
	for name, tt := range map[string]struct {
		expressions []string
		change      func(p *policy, b *binding)
		want        string
	}{
		"allowed":          {[]string{"object.data.x == 'y'", "true"}, nil, ""},
		"the first counts": {[]string{"true", "1 > 2", "2 > 3"}, nil, denied + "failed expression: 1 > 2"},
		"trimmed":          {[]string{" false\n"}, nil, denied + "failed expression: false"},
		"message": {[]string{"false"}, func(p *policy, _ *binding) { p.Spec.Validations[0].Message = " no\t" },
			denied + "no"},
		"message expression": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.Validations[0].Message, p.Spec.Validations[0].MessageExpression = "no", "' x is ' + object.data.x"
		}, denied + "x is y"},
		"message expression fails": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.Validations[0].Message, p.Spec.Validations[0].MessageExpression = "no", "string(object.data.none)"
		}, denied + "no"},
		"message of several lines": {[]string{"false"}, func(p *policy, _ *binding) { p.Spec.Validations[0].MessageExpression = `"a\nb"` },
			denied + "failed expression: false"},
		"message too long": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.Validations[0].MessageExpression = "'" + strings.Repeat("a", 5<<10+1) + "'"
		}, denied + "failed expression: false"},
		"message as long as may be": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.Validations[0].MessageExpression = "'" + strings.Repeat("a", 5<<10) + "'"
		}, denied + strings.Repeat("a", 5<<10)},
		"fails": {[]string{"object.data.none == 'y'"}, nil,
			denied + "expression 'object.data.none == 'y'' resulted in error: no such key: none"},
		"fails, ignored": {[]string{"object.data.none == 'y'"}, func(p *policy, _ *binding) { p.Spec.FailurePolicy = new(registrationv1.Ignore) }, ""},
		"refused, though failures are ignored": {[]string{"object.data.none == 'y'", "false"},
			func(p *policy, _ *binding) { p.Spec.FailurePolicy = new(registrationv1.Ignore) }, denied + "failed expression: false"},
		"too expensive": {[]string{nested(7)}, nil,
			denied + "expression '" + nested(7) + "' resulted in error: operation cancelled: actual cost limit exceeded"},
		"too expensive in all": {slices.Repeat([]string{nested(5)}, 30), nil,
			denied + "validation failed due to running out of cost budget, no further validation rules will be run"},
		"request": {[]string{
			"request.operation == 'CREATE' && request.name == 'm' && request.namespace == 'default' && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
			"request.options.fieldManager == 'me' && !request.dryRun && 'system:masters' in request.userInfo.groups",
		}, nil, ""},
		"object":           {[]string{"object.kind == 'ConfigMap' && object.apiVersion == 'v1' && oldObject == null && object.metadata.name == 'm'"}, nil, ""},
		"namespace object": {[]string{"namespaceObject.metadata.name == 'default' && namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'"}, nil, ""},
		"authorizer":       {[]string{"authorizer.group('').resource('secrets').check('get').allowed() && authorizer.requestResource.check('delete').allowed()"}, nil, ""},
		"authorizer refuses": {[]string{"authorizer.serviceAccount('default', 'default').group('').resource('secrets').check('get').allowed()"}, nil,
			denied + "failed expression: authorizer.serviceAccount('default', 'default').group('').resource('secrets').check('get').allowed()"},
		"condition met": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.x == 'y'"}}
		}, denied + "failed expression: false"},
		"condition not met": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.none == 'y'"}, {Name: "b", Expression: "false"}}
		}, ""},
		"condition fails": {[]string{"true"}, func(p *policy, _ *binding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.none == 'y'"}}
		}, denied + "expression 'object.data.none == 'y'' resulted in error: no such key: none"},
		"condition fails, ignored": {[]string{"false"}, func(p *policy, _ *binding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.none == 'y'"}}
			p.Spec.FailurePolicy = new(registrationv1.Ignore)
		}, ""},
		"variables": {[]string{"variables.b"}, func(p *policy, _ *binding) {
			p.Spec.Variables = []registrationv1.Variable{variable("a", "object.data.x"), variable("b", "variables.a == 'y'")}
		}, ""},
		"an unused variable is not evaluated": {[]string{"true"}, func(p *policy, _ *binding) {
			p.Spec.Variables = []registrationv1.Variable{variable("a", "object.data.none")}
		}, ""},
		"a variable fails": {[]string{"variables.a == ''"}, func(p *policy, _ *binding) {
			p.Spec.Variables = []registrationv1.Variable{variable("a", "object.data.none")}
		}, denied + `expression 'variables.a == ''' resulted in error: composited variable "a" fails to evaluate: no such key: none`},
		"audited only": {[]string{"false"}, func(_ *policy, b *binding) {
			b.Spec.ValidationActions = []registrationv1.ValidationAction{registrationv1.Audit}
		}, ""},
		"warned only": {[]string{"false"}, func(_ *policy, b *binding) {
			b.Spec.ValidationActions = []registrationv1.ValidationAction{registrationv1.Warn}
		}, ""},
		"annotation fails": {[]string{"true"}, annotated("a", "string(object.data.none)"), denied + "expression 'string(object.data.none)' resulted in error: no such key: none"},
		"annotation fails, ignored": {[]string{"true"}, func(p *policy, b *binding) {
			annotated("a", "string(object.data.none)")(p, b)
			p.Spec.FailurePolicy = new(registrationv1.Ignore)
		}, ""},
		"another policy is bound": {[]string{"false"}, func(_ *policy, b *binding) { b.Spec.PolicyName = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := clientOf(t, start(t, nil).Config())
				p, b := validating("p", tt.expressions...), bound("p")
				if tt.change != nil {
					tt.change(p, b)
				}
				store(t, client, p, b)
				if got := attempt(t, client); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// nested is an expression that takes ten to that power of steps.
func nested(depth int) string {
	if depth == 0 {
		return "true"
	}
	return fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10].all(v%d, %s)", depth, nested(depth-1))
}

// annotated adds an audit annotation to a policy.
func annotated(key, expression string) func(*policy, *binding) {
	return func(p *policy, _ *binding) {
		p.Spec.AuditAnnotations = append(p.Spec.AuditAnnotations, registrationv1.AuditAnnotation{Key: key, ValueExpression: expression})
	}
}

// attempt creates the config map m with data x=y.
func attempt(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	m := configMap("m", map[string]string{"x": "y"})
	m.Labels = map[string]string{"of": "m"}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{FieldManager: "me"}); err != nil {
		return err.Error()
	}
	return ""
}

// The Status of a refusal has the policy's reason, and its code.
func TestReasons(t *testing.T) {
	client := clientOf(t, start(t, nil).Config())
	p := validating("p", "false")
	store(t, client, p, bound("p"))
	api := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for reason, code := range map[metav1.StatusReason]int32{
		"": 422, metav1.StatusReasonInvalid: 422, metav1.StatusReasonForbidden: 403, metav1.StatusReasonRequestEntityTooLarge: 413,
	} {
		current, err := api.Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := metav1.StatusReasonInvalid
		if current.Spec.Validations[0].Reason = nil; reason != "" {
			current.Spec.Validations[0].Reason, want = &reason, reason
		}
		if _, err := api.Update(t.Context(), current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("m", nil), metav1.CreateOptions{})
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			t.Fatalf("%s: %v", reason, err)
		}
		s := status.Status()
		if s.Reason != want || s.Code != code || s.Details == nil || s.Details.Name != "m" || s.Details.Kind != "configmaps" ||
			len(s.Details.Causes) != 1 || s.Details.Causes[0].Message != "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: false" {
			t.Errorf("%q: %+v", reason, s)
		}
	}
}

// warnings collects the warnings of a client.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

// What is not denied is told: by warnings, and in the audit log.
func TestWarnAndAudit(t *testing.T) {
	sink := &audit.Memory{}
	c := start(t, func(o *cluster.Options) {
		o.Server.Audit = audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{})
	})
	config := rest.CopyConfig(c.Config())
	var told warnings
	config.WarningHandler = &told
	client := clientOf(t, config)
	p := validating("p", "true", "1 > 2", "object.data.none == ''")
	annotated("who", "'it was ' + request.userInfo.username")(p, nil)
	annotated("none", "null")(p, nil)
	annotated("blank", "'  '")(p, nil)
	annotated("long", "'"+strings.Repeat("a", 2000)+"'.replace('a', 'aaaaaaaa')")(p, nil)
	other := bound("p", registrationv1.Audit)
	other.Name = "q"
	store(t, client, p, bound("p", registrationv1.Warn, registrationv1.Audit), other)
	if got := attempt(t, client); got != "" {
		t.Fatal(got)
	}
	const words = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': "
	if len(told) != 2 || told[0] != words+"failed expression: 1 > 2" || told[1] != words+"expression 'object.data.none == ''' resulted in error: no such key: none" {
		t.Errorf("warned %q", []string(told))
	}
	var got map[string]string
	for _, e := range sink.Events() {
		if e.ObjectRef != nil && e.ObjectRef.Resource == "configmaps" && e.ObjectRef.Name == "m" && e.Stage == auditv1.StageResponseComplete {
			got = e.Annotations
		}
	}
	failed := func(binding, message string, index int, actions string) string {
		return fmt.Sprintf(`{"message":%q,"policy":"p","binding":%q,"expressionIndex":%d,"validationActions":[%s]}`, message, binding, index, actions)
	}
	second := "expression 'object.data.none == ''' resulted in error: no such key: none"
	want := "[" + strings.Join([]string{
		failed("p", "failed expression: 1 > 2", 1, `"Warn","Audit"`), failed("p", second, 2, `"Warn","Audit"`),
		failed("q", "failed expression: 1 > 2", 1, `"Audit"`), failed("q", second, 2, `"Audit"`),
	}, ",") + "]"
	want = strings.ReplaceAll(want, ">", `\u003e`)
	if got["validation.policy.admission.k8s.io/validation_failure"] != want {
		t.Errorf("annotated %s\nwant      %s", got["validation.policy.admission.k8s.io/validation_failure"], want)
	}
	if got["p/who"] != "it was kubernetes-admin" || !strings.HasSuffix(got["p/long"], fmt.Sprintf("[%d bytes cut]", 10<<10-4<<10)) { // the log cuts at 4 KiB what the policy has cut at 10
		t.Errorf("annotated %q, %d bytes", got["p/who"], len(got["p/long"]))
	}
	for _, key := range []string{"p/none", "p/blank"} {
		if text, ok := got[key]; ok {
			t.Errorf("annotated %s=%s", key, text)
		}
	}
}

// TestMatching is about what a policy and its binding select, by whether they refuse the config map m, which has the label
// of=m, in the namespace default.
func TestMatching(t *testing.T) {
	in := func(op metav1.LabelSelectorOperator, key string, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	const name = "kubernetes.io/metadata.name"
	for text, tt := range map[string]struct {
		change  func(m *registrationv1.MatchResources)
		refused bool
	}{
		"all":              {func(*registrationv1.MatchResources) {}, true},
		"another resource": {func(m *registrationv1.MatchResources) { m.ResourceRules[0].Resources = []string{"secrets"} }, false},
		"another group":    {func(m *registrationv1.MatchResources) { m.ResourceRules[0].APIGroups = []string{"apps"} }, false},
		"another version":  {func(m *registrationv1.MatchResources) { m.ResourceRules[0].APIVersions = []string{"v2"} }, false},
		"another operation": {func(m *registrationv1.MatchResources) {
			m.ResourceRules[0].Operations = []registrationv1.OperationType{"DELETE"}
		}, false},
		"subresources only": {func(m *registrationv1.MatchResources) { m.ResourceRules[0].Resources = []string{"*/status"} }, false},
		"its name":          {func(m *registrationv1.MatchResources) { m.ResourceRules[0].ResourceNames = []string{"n", "m"} }, true},
		"another name":      {func(m *registrationv1.MatchResources) { m.ResourceRules[0].ResourceNames = []string{"n"} }, false},
		"namespaced":        {func(m *registrationv1.MatchResources) { m.ResourceRules[0].Scope = new(registrationv1.NamespacedScope) }, true},
		"cluster-scoped":    {func(m *registrationv1.MatchResources) { m.ResourceRules[0].Scope = new(registrationv1.ClusterScope) }, false},
		"its label":         {func(m *registrationv1.MatchResources) { m.ObjectSelector = in("In", "of", "m") }, true},
		"another label":     {func(m *registrationv1.MatchResources) { m.ObjectSelector = in("In", "of", "n") }, false},
		"its namespace":     {func(m *registrationv1.MatchResources) { m.NamespaceSelector = in("In", name, "default") }, true},
		"another namespace": {func(m *registrationv1.MatchResources) { m.NamespaceSelector = in("NotIn", name, "default") }, false},
		"excluded": {func(m *registrationv1.MatchResources) {
			m.ExcludeResourceRules = on("configmaps", "CREATE").ResourceRules
		}, false},
		"another is excluded": {func(m *registrationv1.MatchResources) { m.ExcludeResourceRules = on("secrets", "*").ResourceRules }, true},
		"another name is excluded": {func(m *registrationv1.MatchResources) {
			m.ExcludeResourceRules = on("configmaps", "CREATE").ResourceRules
			m.ExcludeResourceRules[0].ResourceNames = []string{"n"}
		}, true},
	} {
		t.Run(text, func(t *testing.T) {
			for _, ofBinding := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					client := clientOf(t, start(t, nil).Config())
					p, b := validating("p", "false"), bound("p")
					p.Spec.MatchConstraints = on("*", "*")
					at := p.Spec.MatchConstraints
					if ofBinding {
						at = on("*", "*")
						b.Spec.MatchResources = at
					}
					tt.change(at)
					store(t, client, p, b)
					if got := attempt(t, client); (got != "") != tt.refused {
						t.Errorf("of the binding %v: %q", ofBinding, got)
					}
				})
			}
		})
	}
}

// An event is sent as events.k8s.io/v1 or v1: under Equivalent, a policy sees it in the version that its rules name, and
// matches under Exact only what was sent.
func TestVersions(t *testing.T) {
	client := clientOf(t, start(t, nil).Config())
	p := validating("p", "object.note == 'x' && object.apiVersion == 'events.k8s.io/v1' && request.kind.group == 'events.k8s.io' && request.requestKind.group == ''")
	p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "requested", Expression: "request.resource.group == '' && request.kind.group == 'events.k8s.io'"}}
	p.Spec.MatchConstraints = on("events", registrationv1.Create)
	p.Spec.MatchConstraints.ResourceRules[0].APIGroups = []string{"events.k8s.io"}
	store(t, client, p, bound("p"))
	send := func(name, note string) error {
		_, err := client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}, Message: note,
		}, metav1.CreateOptions{})
		return err
	}
	if err := send("a", "x"); err != nil {
		t.Error(err)
	}
	if err := send("b", "y"); err == nil || !strings.HasPrefix(err.Error(), `events "b" is forbidden: ValidatingAdmissionPolicy 'p'`) {
		t.Error(err)
	}
	exact := p.DeepCopy()
	exact.Name, exact.Spec.MatchConstraints.MatchPolicy, exact.Spec.Validations[0].Expression = "exact", new(registrationv1.Exact), "false"
	store(t, client, exact, bound("exact"))
	if err := send("c", "x"); err != nil {
		t.Error(err)
	}
}

// TestExempt: no policy can lock a cluster out of its policies, nor hide who may do what.
func TestExempt(t *testing.T) {
	client := clientOf(t, start(t, nil).Config())
	p := validating("p", "false")
	p.Spec.MatchConstraints = on("*", "*")
	store(t, client, p, bound("p"), mutating("m", jsonPatch(added)), boundMutating("m"))
	if got := attempt(t, client); got == "" {
		t.Error("the policy does not match")
	}
	api := client.AdmissionregistrationV1()
	for name, err := range map[string]error{
		"policy":           api.ValidatingAdmissionPolicies().Delete(t.Context(), "p", metav1.DeleteOptions{DryRun: []string{"All"}}),
		"mutating policy":  api.MutatingAdmissionPolicies().Delete(t.Context(), "m", metav1.DeleteOptions{}),
		"mutating binding": api.MutatingAdmissionPolicyBindings().Delete(t.Context(), "m", metav1.DeleteOptions{}),
		"binding":          api.ValidatingAdmissionPolicyBindings().Delete(t.Context(), "p", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := attempt(t, client); got != "" {
		t.Errorf("after the binding was deleted: %s", got)
	}
}

// A policy that changes is compiled again, and its operations have their objects.
func TestOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientOf(t, start(t, nil).Config())
		ctx, maps := t.Context(), client.CoreV1().ConfigMaps("default")
		p := validating("p", "request.operation != 'UPDATE' || oldObject.data.x == object.data.x")
		p.Spec.MatchConstraints = on("configmaps", "*")
		store(t, client, p, bound("p"))
		if got := attempt(t, client); got != "" {
			t.Fatal(got)
		}
		if _, err := maps.Update(ctx, configMap("m", map[string]string{"x": "z"}), metav1.UpdateOptions{}); err == nil {
			t.Error("the update was allowed")
		}
		api := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
		current, err := api.Get(ctx, "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		current.Spec.Validations[0].Expression = "request.operation != 'DELETE' || object != null || oldObject.data.x == 'z'"
		if _, err := api.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = maps.Delete(ctx, "m", metav1.DeleteOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: request.operation`) {
			t.Errorf("delete: %v", err)
		}
		if _, err := maps.Update(ctx, configMap("m", map[string]string{"x": "z"}), metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		if err := maps.Delete(ctx, "m", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
