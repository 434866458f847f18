package policies_test

import (
	"context"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/policies"
)

// A cluster whose config maps have an owner.
func Example() {
	p := policies.New(policies.Options{})
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Kinds: p.Kinds(), Admission: append(cluster.DefaultAdmission(), p.Admission()...)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	api := client.AdmissionregistrationV1()
	_, err = api.ValidatingAdmissionPolicies().Create(ctx, &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "owners"},
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{
				RuleWithOperations: registrationv1.RuleWithOperations{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []registrationv1.Validation{{Expression: "has(object.metadata.labels) && 'owner' in object.metadata.labels", Message: "who owns it?"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "owners"},
		Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "owners", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
			MatchResources: &registrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
	fmt.Println(err)
	// Output: configmaps "settings" is forbidden: ValidatingAdmissionPolicy 'owners' with binding 'owners' denied request: who owns it?
}
