package policies_test

import (
	"testing"
	"testing/synctest"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/policies"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/registry"
)

// start runs a cluster with policies and without controllers.
func start(t testing.TB, change func(*cluster.Options), kinds ...registry.Kind) *cluster.Cluster {
	t.Helper()
	p := policies.New(policies.Options{})
	o := cluster.Options{
		Components: []component.Component{}, Disable: []string{"ServiceAccount"}, Kinds: append(p.Kinds(), kinds...),
		Admission: append(cluster.DefaultAdmission(), p.Admission()...),
	}
	if change != nil {
		change(&o)
	}
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func clientOf(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// on are rules for the resources of the core group, or of another.
func on(resource string, operations ...registrationv1.OperationType) *registrationv1.MatchResources {
	return &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{
		RuleWithOperations: registrationv1.RuleWithOperations{
			Operations: operations, Rule: registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}},
		},
	}}}
}

// validating returns a policy for creates of config maps.
func validating(name string, expressions ...string) *registrationv1.ValidatingAdmissionPolicy {
	p := &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       registrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: on("configmaps", registrationv1.Create, registrationv1.Update)},
	}
	for _, text := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, registrationv1.Validation{Expression: text})
	}
	return p
}

// bound returns a binding of a policy, of the same name, that denies.
func bound(policy string, actions ...registrationv1.ValidationAction) *registrationv1.ValidatingAdmissionPolicyBinding {
	if len(actions) == 0 {
		actions = []registrationv1.ValidationAction{registrationv1.Deny}
	}
	return &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec:       registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ValidationActions: actions},
	}
}

// store creates policies and bindings.
func store(t testing.TB, client kubernetes.Interface, objects ...any) {
	t.Helper()
	api, ctx := client.AdmissionregistrationV1(), t.Context()
	for _, o := range objects {
		var err error
		switch o := o.(type) {
		case *registrationv1.ValidatingAdmissionPolicy:
			_, err = api.ValidatingAdmissionPolicies().Create(ctx, o, metav1.CreateOptions{})
		case *registrationv1.ValidatingAdmissionPolicyBinding:
			_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, o, metav1.CreateOptions{})
		case *registrationv1.MutatingAdmissionPolicy:
			_, err = api.MutatingAdmissionPolicies().Create(ctx, o, metav1.CreateOptions{})
		case *registrationv1.MutatingAdmissionPolicyBinding:
			_, err = api.MutatingAdmissionPolicyBindings().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.ConfigMap:
			_, err = client.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Namespace:
			_, err = client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		default:
			t.Fatalf("%T", o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// create returns what a client is told of the creation of a config map.
func create(t testing.TB, client kubernetes.Interface, m *corev1.ConfigMap) (*corev1.ConfigMap, string) {
	t.Helper()
	got, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		return nil, err.Error()
	}
	return got, ""
}

// A policy takes effect with its binding, and stops with it.
func TestDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientOf(t, start(t, nil).Config())
		store(t, client, validating("p", "object.data.x == 'y'"))
		if _, err := create(t, client, configMap("a", nil)); err != "" {
			t.Errorf("without a binding: %s", err)
		}
		store(t, client, bound("p"))
		want := `configmaps "b" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.data.x == 'y'`
		if _, err := create(t, client, configMap("b", map[string]string{"x": "z"})); err != want {
			t.Errorf("got %s", err)
		}
		if _, err := create(t, client, configMap("b", map[string]string{"x": "y"})); err != "" {
			t.Errorf("got %s", err)
		}
	})
}
