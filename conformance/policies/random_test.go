package policies_test

import (
	"math/rand/v2"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions are expressions that are true, false, or fail, for some objects or all.
func conditions() []string {
	return []string{
		"true", "false", " object.metadata.labels.app == 'a' ", "object.data.x == 'y'", "object.spec.replicas > 1", "has(object.spec) && has(object.spec.containers)",
		"object.spec.containers.all(c, c.image.startsWith('example.com/'))", "object.spec.template.spec.containers.exists(c, c.name == 'side')",
		"!has(object.spec.hostNetwork) || !object.spec.hostNetwork", "oldObject == null || oldObject.metadata.labels.app == object.metadata.labels.app",
		"request.operation in ['CREATE', 'UPDATE']", "request.dryRun", "request.userInfo.username == 'ann' && 'devs' in request.userInfo.groups && request.userInfo.extra['k'] == ['v']",
		"request.name.startsWith('case-')", "request.resource.resource == 'pods'", "request.kind == request.requestKind", "request.options.fieldManager == 'me'",
		"request.options.kind == 'CreateOptions'", "request.namespace == 'default'", "namespaceObject.metadata.labels.name == 'default'", "namespaceObject.metadata.name != request.namespace",
		"authorizer.group('').resource('pods').namespace('default').check('get').allowed()", "authorizer.requestResource.check('delete').allowed()",
		"authorizer.path('/healthz').check('get').reason() == 'reads'", "object.kind == 'Pod' && object.apiVersion == 'v1'", "variables.app == 'a'", "variables.never",
		"variables.app != 'b' && variables.twice == 'aa'", "object.metadata.?annotations[?'note'].orValue('') == 'n'", "int(object.data.n) < 4", "1 / 0 == 1", "no.such.variable",
		"'a' + 1", "1", "object.metadata.name.matches('^case-[0-9]*[05]$')", "object.spec.template.spec.containers.map(c, c.name).join(',') == 'main'",
		"quantity('1Mi').isGreaterThan(quantity('1Ki'))", "dyn(object).metadata.creationTimestamp == null", "has(object.status)", "type(object.metadata.labels) == map",
		"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, a + b + c + d > 0))))",
		"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, true))))))",
	}
}

func withParams() []string {
	return []string{"params == null", "params.data.app == object.metadata.labels.app", "int(params.data.max) > 2", "params.kind == 'ConfigMap' && params.apiVersion == 'v1'", "params.metadata.namespace == 'params'"}
}

func texts() []string {
	return []string{
		"'name is ' + object.metadata.name", "string(object.spec.replicas)", "''", "'  spaces '", "'a\\nb'", "object.data.x", "variables.app", "1", "string(variables.never)",
		"request.userInfo.username", "namespaceObject.metadata.name", "authorizer.requestResource.check('get').reason()", "'" + strings.Repeat("x", 6000) + "'",
		"string(request.dryRun)", "'long ' + ['a','b','c'].join('-')", "null", "string(params.data.max)",
	}
}

func randomVariables(r *rand.Rand) []registrationv1.Variable {
	return []registrationv1.Variable{
		{Name: "app", Expression: "object.metadata.labels.app"}, {Name: "twice", Expression: "variables.app + variables.app"},
		{Name: "never", Expression: pick(r, "1/0 == 1", "object.none.none == 1", "syntax error")},
	}[:r.IntN(4)]
}

func randomMatchConditions(r *rand.Rand, from []string) (out []registrationv1.MatchCondition) {
	if r.IntN(3) > 0 {
		return nil
	}
	for range 1 + r.IntN(2) {
		out = append(out, registrationv1.MatchCondition{Name: pick(r, "a", "b"), Expression: pick(r, from...)})
	}
	return out
}

func failurePolicy(r *rand.Rand) *registrationv1.FailurePolicyType {
	return new(pick(r, registrationv1.Fail, registrationv1.Fail, registrationv1.Ignore))
}

func randomSelector(r *rand.Rand, key, value string) *metav1.LabelSelector {
	switch r.IntN(12) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: "other"}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: "Bad"}}}
	}
	return &metav1.LabelSelector{}
}

// randomMatch selects the object of one admission, by its name, if at all.
func randomMatch(r *rand.Rand, name string) *registrationv1.MatchResources {
	rule := func() registrationv1.NamedRuleWithOperations {
		resources := []string{"*"}
		if r.IntN(8) == 0 {
			resources = pick(r, []string{"pods"}, []string{"configmaps", "deployments"}, []string{"*/*"}, []string{"pods/status"})
		}
		operations := []registrationv1.OperationType{"*"}
		if r.IntN(8) == 0 {
			operations = pick(r, []registrationv1.OperationType{"CREATE"}, []registrationv1.OperationType{"UPDATE", "DELETE"})
		}
		return registrationv1.NamedRuleWithOperations{ResourceNames: []string{name}, RuleWithOperations: registrationv1.RuleWithOperations{
			Operations: operations, Rule: registrationv1.Rule{
				APIGroups: pick(r, []string{"*"}, []string{"*"}, []string{"", "apps"}), APIVersions: []string{"v1"}, Resources: resources,
				Scope: new(pick(r, registrationv1.AllScopes, registrationv1.AllScopes, registrationv1.NamespacedScope)),
			},
		}}
	}
	m := &registrationv1.MatchResources{
		ResourceRules: []registrationv1.NamedRuleWithOperations{rule()}, MatchPolicy: new(pick(r, registrationv1.Equivalent, registrationv1.Exact)),
		NamespaceSelector: randomSelector(r, "name", "default"), ObjectSelector: randomSelector(r, "app", "a"),
	}
	if r.IntN(10) == 0 {
		m.ExcludeResourceRules = []registrationv1.NamedRuleWithOperations{rule()}
		m.ExcludeResourceRules[0].Resources = []string{"pods"}
	}
	return m
}

func randomParams(r *rand.Rand) (*registrationv1.ParamKind, *registrationv1.ParamRef) {
	var kind *registrationv1.ParamKind
	switch r.IntN(8) {
	case 0, 1, 2:
		kind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	case 3:
		if r.IntN(4) == 0 {
			kind = &registrationv1.ParamKind{APIVersion: "example.com/v1", Kind: "Unknown"}
		}
	}
	ref := &registrationv1.ParamRef{Namespace: pick(r, "", "params", "none"), ParameterNotFoundAction: new(pick(r, registrationv1.AllowAction, registrationv1.DenyAction))}
	switch r.IntN(6) {
	case 0:
		return kind, nil
	case 1, 2:
		ref.Selector = pick(r, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "limits"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "none"}})
	default:
		ref.Name = pick(r, "limits", "limits", "none")
	}
	return kind, ref
}

func randomValidating(r *rand.Rand, name string) (*registrationv1.ValidatingAdmissionPolicy, *registrationv1.ValidatingAdmissionPolicyBinding) {
	kind, ref := randomParams(r)
	from, say := conditions(), texts()
	if kind != nil || r.IntN(10) == 0 {
		from = append(from, withParams()...)
	}
	p := &registrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: registrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: kind, MatchConstraints: randomMatch(r, name), FailurePolicy: failurePolicy(r), MatchConditions: randomMatchConditions(r, from), Variables: randomVariables(r),
	}}
	for range 1 + r.IntN(3) {
		v := registrationv1.Validation{Expression: pick(r, from...)}
		if r.IntN(2) == 0 {
			v.Message = pick(r, "no", " padded ")
		}
		if r.IntN(2) == 0 {
			v.MessageExpression = pick(r, say...)
		}
		if r.IntN(2) == 0 {
			v.Reason = new(pick(r, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonUnauthorized, metav1.StatusReasonRequestEntityTooLarge))
		}
		p.Spec.Validations = append(p.Spec.Validations, v)
	}
	for range r.IntN(3) {
		p.Spec.AuditAnnotations = append(p.Spec.AuditAnnotations, registrationv1.AuditAnnotation{Key: pick(r, "one", "two"), ValueExpression: pick(r, say...)})
	}
	b := &registrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name, ResourceVersion: "1"}, Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ParamRef: ref,
		ValidationActions: pick(r, []registrationv1.ValidationAction{"Deny"}, []registrationv1.ValidationAction{"Deny", "Audit"}, []registrationv1.ValidationAction{"Warn"}, []registrationv1.ValidationAction{"Audit", "Warn"}),
	}}
	if r.IntN(4) == 0 {
		b.Spec.MatchResources = randomMatch(r, name)
	}
	return p, b
}

func randomMutating(r *rand.Rand, name string) (*registrationv1.MutatingAdmissionPolicy, *registrationv1.MutatingAdmissionPolicyBinding) {
	kind, ref := randomParams(r)
	from, patches, configurations := conditions(), []string{
		`[]`, `[JSONPatch{op: "add", path: "/metadata/labels/added", value: "yes"}]`, `[JSONPatch{op: "remove", path: "/metadata/annotations"}]`,
		`[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 1}]`, `[JSONPatch{op: "test", path: "/metadata/labels/app", value: "a"}, JSONPatch{op: "add", path: "/metadata/labels/was", value: "a"}]`,
		`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/key"), value: request.userInfo.username}]`,
		`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "added", image: "added:1"}}]`,
		`[JSONPatch{op: "add", path: "/spec/containers/-", value: object.spec.containers[0]}, JSONPatch{op: "replace", path: "/spec/containers/1/name", value: "copy"}]`,
		`[JSONPatch{op: "copy", from: "/metadata/labels/app", path: "/metadata/labels/copy"}]`, `[JSONPatch{op: "move", from: "/data/x", path: "/data/moved"}]`,
		`[JSONPatch{op: "add", path: "/data/a", value: variables.app}]`, `[JSONPatch{op: "add", path: "/data/a", value: 1}]`, `[JSONPatch{op: "add", path: "/unknown", value: {"a": 1}}]`,
		`[JSONPatch{op: "bad", path: "/data/a"}]`, `[JSONPatch{op: "add", path: "/metadata", value: Object.metadata{name: object.metadata.name, namespace: "default", labels: {"app": "b"}}}]`,
		`[JSONPatch{op: "add", path: "/metadata/labels/a", value: string(authorizer.requestResource.check("get").allowed())}]`, `[1]`, `[JSONPatch{op: "add"}]`,
		`object.metadata.labels.app == "a" ? [JSONPatch{op: "replace", path: "/metadata/labels/app", value: "b"}] : []`, `[JSONPatch{op: "add", path: "/metadata/labels/x", value: object.metadata.labels.app + "x"}]`,
		`[JSONPatch{op: "add", path: "/spec/nodeSelector", value: object.spec.nodeSelector}]`, `[JSONPatch{op: "add", path: "/metadata/annotations", value: object.metadata.labels}]`,
		`[JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "a", operator: "Exists", tolerationSeconds: 30}]}]`,
		`[JSONPatch{op: "replace", path: "/kind", value: "Other"}]`, `[JSONPatch{op: "replace", path: "/metadata/labels", value: null}]`,
	}, []string{
		`Object{}`, `Object{metadata: Object.metadata{labels: {"added": "yes", "app": "c"}}}`, `Object{metadata: Object.metadata{annotations: {"note": object.metadata.labels.app}}}`,
		`Object{spec: Object.spec{replicas: 5}}`, `Object{spec: Object.spec{replicas: object.spec.replicas * 2}}`, `Object{data: {"added": "yes"}}`, `Object{data: {"n": object.data.n + "0"}}`,
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", image: "changed:2"}]}}`,
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", env: [Object.spec.containers.env{name: "A", value: "2"}, Object.spec.containers.env{name: "B", value: "3"}]}]}}`,
		`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}`,
		`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "init", image: "init", imagePullPolicy: "Never"}]}}`,
		`Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: {"more": "yes"}}, spec: Object.spec.template.spec{hostNetwork: true, dnsPolicy: "Default"}}}}`,
		`Object{spec: Object.spec{nodeSelector: {"zone": "b"}}}`, `Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: "a"}]}}`, `Object{spec: Object.spec.wrong{}}`, `Object{unknown: "x"}`,
		`Object{spec: Object.spec{replicas: "many"}}`, `Object{metadata: Object.metadata{name: "other"}}`, `Object{spec: Object.spec{containers: [Object.spec.containers{image: "unnamed"}]}}`,
		`Object{spec: Object.spec{volumes: [Object.spec.volumes{name: "v", emptyDir: Object.spec.volumes.emptyDir{}}]}}`, `{"a": 1}`, `Object{metadata: Object.metadata{labels: {"v": variables.app}}}`,
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", command: ["x"]}]}}`, `Object{metadata: Object.metadata{finalizers: ["example.com/f"]}}`,
		`Object{spec: Object.spec{?hostNetwork: optional.of(true)}}`, `Object{metadata: Object.metadata{?labels: optional.none()}}`,
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", resources: Object.spec.containers.resources{limits: {"cpu": "1000m", "memory": 1024}}}]}}`,
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", ports: [Object.spec.containers.ports{containerPort: 80}, Object.spec.containers.ports{containerPort: 81, protocol: "UDP"}]}]}}`,
	}
	if kind != nil {
		from = append(from, withParams()...)
		patches = append(patches, `[JSONPatch{op: "add", path: "/metadata/labels/max", value: params.data.max}]`)
		configurations = append(configurations, `Object{metadata: Object.metadata{labels: {"of": params.metadata.namespace}}}`)
	}
	p := &registrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: registrationv1.MutatingAdmissionPolicySpec{
		ParamKind: kind, MatchConstraints: randomMatch(r, name), FailurePolicy: failurePolicy(r), MatchConditions: randomMatchConditions(r, from), Variables: randomVariables(r),
		ReinvocationPolicy: pick(r, registrationv1.NeverReinvocationPolicy, registrationv1.IfNeededReinvocationPolicy),
	}}
	for range 1 + r.IntN(3) {
		m := registrationv1.Mutation{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{Expression: pick(r, patches...)}}
		if r.IntN(2) == 0 {
			m = registrationv1.Mutation{PatchType: registrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &registrationv1.ApplyConfiguration{Expression: pick(r, configurations...)}}
		}
		p.Spec.Mutations = append(p.Spec.Mutations, m)
	}
	b := &registrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name, ResourceVersion: "1"}, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: ref}}
	if r.IntN(4) == 0 {
		b.Spec.MatchResources = randomMatch(r, name)
	}
	return p, b
}
