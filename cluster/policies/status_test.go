package policies_test

import (
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/policies"
)

// TestStatus: the controller says which expressions do not fit the types of built-in and custom kinds.
func TestStatus(t *testing.T) {
	p := policies.New(policies.Options{})
	c, err := cluster.Start(t.Context(), cluster.Options{
		Components: p.Components(), Disable: []string{"ServiceAccount"}, Kinds: append(p.Kinds(), widgets(t)),
		Admission: append(cluster.DefaultAdmission(), p.Admission()...),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := clientOf(t, c.Config())
	w, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	made := validating("p", "object.data.size() > 0", "object.dta.size() > 0")
	made.Spec.MatchConstraints.ResourceRules[0].APIGroups, made.Spec.MatchConstraints.ResourceRules[0].APIVersions = []string{""}, []string{"v1"}
	custom := validating("q", "object.spec.sise > 0")
	custom.Spec.MatchConstraints = on("widgets", registrationv1.Create)
	custom.Spec.MatchConstraints.ResourceRules[0].APIGroups, custom.Spec.MatchConstraints.ResourceRules[0].APIVersions = []string{"example.com"}, []string{"v1"}
	store(t, client, made, custom)
	want := map[string][2]string{
		"p": {"spec.validations[1].expression", "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'dta'"},
		"q": {"spec.validations[0].expression", "example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'sise'"},
	}
	for e := range w.ResultChan() {
		got, ok := e.Object.(*registrationv1.ValidatingAdmissionPolicy)
		if !ok {
			t.Fatalf("watched %+v", e.Object)
		}
		if got.Status.TypeChecking == nil {
			continue
		}
		all := got.Status.TypeChecking.ExpressionWarnings
		if at := want[got.Name]; len(all) != 1 || all[0].FieldRef != at[0] || !strings.HasPrefix(all[0].Warning, at[1]) {
			t.Errorf("%s: %+v", got.Name, all)
		}
		if !slices.ContainsFunc(got.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "validatingadmissionpolicy-status" && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
		}) {
			t.Errorf("managed fields %+v", got.ManagedFields)
		}
		if delete(want, got.Name); len(want) == 0 {
			return
		}
	}
	t.Error("the watch ended")
}

// TestAccess: those who write policies may read the parameters that they name.
func TestAccess(t *testing.T) {
	c := start(t, nil)
	admin := clientOf(t, c.Config())
	store(t, admin, configMap("params", nil))
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "author"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "author"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "author"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	jane := clientOf(t, config).AdmissionregistrationV1()
	p := validating("p", "true")
	p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "Secret"}
	_, err := jane.ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{})
	const refused = `ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.paramKind: Forbidden: ` +
		`user &{jane  [system:authenticated] map[]} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`
	if err == nil || err.Error() != refused {
		t.Errorf("got  %v\nwant %s", err, refused)
	}
	store(t, admin, p) // system:masters may
	b := bound("p")
	b.Spec.ParamRef = &registrationv1.ParamRef{Name: "params", Namespace: "default", ParameterNotFoundAction: new(registrationv1.DenyAction)}
	_, err = jane.ValidatingAdmissionPolicyBindings().Create(t.Context(), b, metav1.CreateOptions{})
	const unbound = `spec.paramRef: Forbidden: user &{jane  [system:authenticated] map[]} does not have "get" permission on the object referenced by paramRef`
	if err == nil || !strings.HasSuffix(err.Error(), unbound) {
		t.Errorf("got  %v\nwant %s", err, unbound)
	}
	if _, err := jane.ValidatingAdmissionPolicies().Create(t.Context(), validating("q", "true"), metav1.CreateOptions{}); err != nil {
		t.Errorf("without parameters: %v", err)
	}
}
